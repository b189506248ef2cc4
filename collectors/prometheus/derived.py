"""The targets that a source shows, as targets of ours: their names, labels and pace."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from collectors.prometheus.settings import PrometheusSettings
from collectors.prometheus.upstream import FEDERATED, Identity
from collectors.target import Target

NAME_CAP = 180

USUAL_SCRAPE_SECONDS = 60.0
"""Prometheus' default `scrape_interval`. A target is not stale while its own is not known."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Names:
    """One name per upstream target, kept as long as it is there; no two sources give the same one.

    `job/instance` as a rule. Where that is taken, the labels that the first one does not have are added, then
    the source's name is put before it.
    """

    def __init__(self, is_taken: Callable[[str], bool] = lambda _: False) -> None:
        self._is_taken = is_taken
        """By a target that is no source's."""
        self._owners: dict[str, tuple[str, Identity]] = {}
        self._names: dict[tuple[str, Identity], str] = {}

    def restore(self, source: str, identity: Identity, name: str) -> bool:
        """The name that an earlier process, or puller of that source, gave; False when another target has it
        now."""
        if self._owners.get(name) != (source, identity) and not self._is_free(name):
            return False
        self._owners[name] = (source, identity)
        self._names[source, identity] = name
        return True

    def of(self, source: str, identity: Identity) -> str:
        """The target's name."""
        name = self._names.get((source, identity))
        if name is None:
            labels = dict(identity)
            by = FEDERATED if all(key in labels for key in FEDERATED) else ("job", "instance")
            plain = "/".join(labels.pop(key, "") or "-" for key in by)
            more = ",".join(f"{key}={value}" for key, value in labels.items())
            choices = [plain, *([f"{plain} ({more})"] if more else []), f"{source}/{plain}"]
            choices.append(f"{source}/{plain} ({more})")
            name = next((fit for one in choices if self._is_free(fit := _fit(one))), None)
            if name is None:
                name = _fit(f"{choices[-1]} {_hash(repr(identity))}")
            self.restore(source, identity, name)
        return name

    def forget(self, name: str) -> None:
        """The target is gone."""
        self._names.pop(self._owners.pop(name), None)

    def _is_free(self, name: str) -> bool:
        return name not in self._owners and not self._is_taken(name)


def derived(source: Target, identity: Identity, name: str, scrape_seconds: float | None) -> Target:
    """The target as the list, the store and the pages have it. Its URL is the source's: that is where it is
    read. Its interval is how old its newest row may be when all is well: a scrape, a pull and the lag.
    `scrape_seconds`: None until it was seen twice."""
    if scrape_seconds is None:
        scrape_seconds = USUAL_SCRAPE_SECONDS
    labels = dict(identity)
    project = labels.pop("project", None) or source.project
    environment = labels.pop("environment", None) or source.environment
    lag = (source.prometheus or PrometheusSettings()).lag
    return source.model_copy(
        update={
            "name": name, "kind": "auto", "prometheus": None, "labels": {**source.labels, **labels},
            "project": project, "environment": environment,
            "interval_seconds": round(max(source.interval_seconds, scrape_seconds) + lag, 3),
            "basic_auth": None, "bearer_token": None, "bearer_token_file": None,
        }
    )  # fmt: skip


def _fit(name: str) -> str:
    name = _CONTROL.sub(" ", name).strip()
    return name if len(name) <= NAME_CAP else f"{name[: NAME_CAP - 9]} {_hash(name)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
