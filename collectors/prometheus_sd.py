"""The targets that a Prometheus scrapes already, from its own list (`/api/v1/targets`), scraped directly.

To read their series from Prometheus instead is what a target of `kind: prometheus` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, model_validator

from collectors.known_targets import KnownTargets, refuse_secrets
from collectors.served_list import ServedList, ServedSource, get
from collectors.target import Target
from collectors.target_groups import Listed, ListError, content_of, targets_of
from collectors.urls import reachable_url

FROM_DISCOVERY = {
    "pod": "__meta_kubernetes_pod_name",
    "namespace": "__meta_kubernetes_namespace",
    "node": "__meta_kubernetes_pod_node_name",
}
"""Label → where it is taken from when relabelling dropped it: engines are matched to GPUs by their pod."""


class PrometheusList(ServedList):
    """A Prometheus whose targets are scraped by infermeter too, and what holds for all of them."""

    jobs: list[str] = Field(default_factory=list)
    """The jobs to take, `*` and `?` match many (their `job` label, or their name in Prometheus' own
    configuration). Left out, each target is asked what it is, and those are taken that turn out to be of a
    known kind (or of `kind`, where that is set)."""

    @model_validator(mode="after")
    def _no_secrets_for_strangers(self) -> PrometheusList:
        if not self.jobs:
            refuse_secrets(self, "jobs", "; the credentials for the list itself go under `access`")
        return self


class PrometheusSd(ServedSource):
    """The targets of one `prometheus_sd` entry."""

    origin = "prometheus_sd"
    settings: PrometheusList

    def __init__(self, settings: PrometheusList, known: KnownTargets | None = None) -> None:
        super().__init__(settings)
        self._known = known or KnownTargets()

    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        """Fetch the list, and without `jobs` find out which targets are ours."""
        del part, now
        parts = urlsplit(self.settings.url)
        path = f"{parts.path.rstrip('/')}/api/v1/targets"
        url = urlunsplit(
            parts._replace(path=path, query="&".join(filter(None, (parts.query, "state=active"))))
        )
        found, problems = active_targets(get(self.settings, url), self.settings)
        targets, wrong = targets_of(found, self.settings)
        if self.settings.jobs:
            return targets, problems + wrong
        ours, waiting = self._known.among(targets)
        if waiting:
            problems.append(f"{waiting} of its {len(targets)} targets are still to be asked what they are")
        elif targets and not ours:
            problems.append(
                f"none of its {len(targets)} targets is of a known kind or can be reached from here; to have"
                " some scraped all the same, name their `jobs`"
            )
        return ours, problems


def active_targets(data: bytes, settings: PrometheusList) -> tuple[list[Listed], list[str]]:
    """The wanted ones of an answer of `/api/v1/targets`, each URL once, and which jobs have none.

    Raises ListError for what is no such answer.
    """
    found: dict[str, Listed] = {}
    unmatched = dict.fromkeys(settings.jobs)
    for entry in _entries(content_of(data, as_json=True)):
        labels, discovered = _texts(entry.get("labels")), _texts(entry.get("discoveredLabels"))
        names = (labels.get("job", ""), str(entry.get("scrapePool", "")))
        jobs = [job for job in settings.jobs if any(fnmatchcase(name, job) for name in names)]
        for job in jobs:
            unmatched.pop(job, None)
        url = entry.get("scrapeUrl")
        if not isinstance(url, str) or (settings.jobs and not jobs):
            continue
        for label, meta in FROM_DISCOVERY.items():
            if discovered.get(meta):
                labels.setdefault(label, discovered[meta])
        url = reachable_url(url, settings.url)
        found.setdefault(url, Listed("", labels.get("instance", ""), labels, url=url))
    return list(found.values()), [f"it has no active target of job {job}" for job in unmatched]


def _entries(content: Any) -> Iterator[dict[str, Any]]:
    data = content.get("data") if isinstance(content, dict) else None
    entries = data.get("activeTargets") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise ListError(
            "the answer is no list of Prometheus' targets; `url` is what Prometheus' pages begin with"
        )
    yield from (entry for entry in entries if isinstance(entry, dict))


def _texts(labels: Any) -> dict[str, str]:
    found = labels.items() if isinstance(labels, dict) else ()
    return {name: value for name, value in found if isinstance(value, str)}
