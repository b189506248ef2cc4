"""What lists of targets say in Prometheus' words (groups of addresses with labels), as targets.

Of the labels, `__scheme__`, `__metrics_path__` and `__param_NAME` make the URL, `project`, `environment`,
`model` and `kind` (or `infermeter_kind`) set those, other names that begin with `__` are dropped, and the
rest is shown.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml
from pydantic import ValidationError

from collectors.probe.settings import PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS
from collectors.target import NVML, PROBE, PROMETHEUS, Target, TargetSettings, kind_names
from collectors.urls import default_name

MOST_TARGETS = 100_000
"""In one list; more is a mistake (or YAML aliases of aliases)."""

MOST_PROBLEMS = 20
"""Told of one list; the rest is counted."""

_TEXT_ONLY: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Builds lists, mappings and text, nothing else (no tags, no numbers, no dates)."""

_HOST_PORT = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_SHOWABLE = re.compile(r"[\w.:/\[\]-]{1,120}")
_GROUP_KEYS = ("targets", "labels")
_ONLY_MEANT = (NVML, PROBE, PROMETHEUS)
"""Kinds that a label `kind` does not set: Prometheus itself, or a blackbox prober, may have such a one."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PARAMETER = "__param_"


class ListError(Exception):
    """A list that cannot be had or is no list of targets; the message says why, without naming the list."""


class Listed(NamedTuple):
    """One target as a list has it."""

    where: str
    """What a message calls its place in the list; may be empty."""
    address: str
    """host:port."""
    labels: Mapping[str, str]
    name: str = ""
    """Left empty, host:port of the URL and the path where it is not /metrics."""
    url: str = ""
    """Where the list has the whole of it, instead of what address and labels say."""


def targets_of(found: Iterable[Listed], settings: TargetSettings) -> tuple[list[Target], list[str]]:
    """The targets, each with the list's settings, and what is wrong with single ones (these are left out).

    Raises ListError when there are more than any list has.
    """
    targets: dict[str, Target] = {}
    problems: list[str] = []
    common = {name: getattr(settings, name) for name in TargetSettings.model_fields}
    for count, listed in enumerate(found, 1):
        if count > MOST_TARGETS:
            raise ListError(f"it lists more than {MOST_TARGETS} targets")
        place = ", ".join(filter(None, (listed.where, shown(listed.name or listed.address))))
        try:
            target = _target(listed, common)
        except ValidationError as error:
            problems.append(f"{place}: {_first_words(error)}")
            continue
        except ValueError as error:
            problems.append(f"{place}: {error}")
            continue
        if target.name not in targets:
            targets[target.name] = target
        elif targets[target.name] != target:
            where = f"{listed.where}: " if listed.where else ""
            problems.append(f"{where}{target.name} is listed before with other labels; those are used")
    return list(targets.values()), capped(problems)


def capped(problems: list[str]) -> list[str]:
    """The first `MOST_PROBLEMS`, and how many more there are."""
    if len(problems) <= MOST_PROBLEMS:
        return problems
    return [*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS} more like these"]


def _target(listed: Listed, common: dict[str, Any]) -> Target:
    """One target. Raises ValueError (pydantic's ValidationError among them) with what is wrong."""
    url = listed.url or url_of(listed.address, listed.labels)
    labels = {name: value for name, value in listed.labels.items() if not name.startswith("__")}
    if any(_SURROGATE.search(text) for pair in labels.items() for text in pair):
        raise ValueError("a label holds an escape (\\u…) that is no character")
    settings = dict(common)
    kind = labels.pop("infermeter_kind", None)
    if kind is None and labels.get("kind") in kind_names() and labels["kind"] not in _ONLY_MEANT:
        kind = labels.pop("kind")  # another `kind` is a label like any other
    found = {"kind": kind, **{name: labels.pop(name, None) for name in ("project", "environment", "model")}}
    settings.update({name: value for name, value in found.items() if value})
    settings["labels"] = {**settings["labels"], **labels}
    if found["kind"] == PROBE != common["kind"]:
        # Paid requests, which the list's owner may not have thought of: at the pace of a probe, no faster.
        settings["interval_seconds"] = max(common["interval_seconds"], PROBE_INTERVAL_SECONDS)
        settings["timeout_seconds"] = max(common["timeout_seconds"], PROBE_TIMEOUT_SECONDS)
    return Target.model_validate({**settings, "name": listed.name or default_name(url), "url": url})


def url_of(address: str, labels: Mapping[str, str]) -> str:
    """The URL that an address and its labels mean. Raises ValueError for what is no host:port.

    Without `__metrics_path__` it has no path, so that the kind's own is taken.
    """
    if not _HOST_PORT.fullmatch(address):
        raise ValueError("this is not host:port (a path goes into the label __metrics_path__)")
    path = labels.get("__metrics_path__", "")
    query = urlencode(
        {
            name.removeprefix(_PARAMETER): value
            for name, value in labels.items()
            if name.startswith(_PARAMETER)
        }
    )
    url = f"{labels.get('__scheme__') or 'http'}://{address}/{path.removeprefix('/')}"
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def groups(content: Any) -> Iterator[Listed]:
    """The targets of a list of `{"targets": […], "labels": {…}}`. Raises ListError where it is none."""
    if not isinstance(content, list):
        raise ListError('it must hold a list of {"targets": […], "labels": {…}}')
    for number, group in enumerate(content, 1):
        where = f"group {number}"
        addresses, labels = _checked_group(group, where)
        yield from (Listed(where, address, labels) for address in addresses)


def _checked_group(group: Any, where: str) -> tuple[list[str], dict[str, str]]:
    if not isinstance(group, dict):
        raise ListError(f'{where} is no {{"targets": […], "labels": {{…}}}}')
    for key in group:
        if key not in _GROUP_KEYS:
            near = difflib.get_close_matches(str(key), _GROUP_KEYS, n=1)
            cure = f"did you mean `{near[0]}`?" if near else "a group has `targets` and `labels`"
            raise ListError(f"{where}: {shown(key)} is not known; {cure}")
    addresses = group.get("targets") or []
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise ListError(f'{where}: `targets` must be a list of texts like "gpu-node-1:9400"')
    labels = group.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ListError(f"{where}: `labels` must be names with texts")
    return addresses, labels


def content_of(data: bytes, *, as_json: bool) -> Any:
    """What a JSON or YAML text says; of YAML, all values as text. Raises ListError with line and reason."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ListError("it is not UTF-8 text") from None
    try:
        return json.loads(text) if as_json else yaml.load(text, _TEXT_ONLY)  # noqa: S506
    except json.JSONDecodeError as error:
        raise ListError(f"line {error.lineno}: this is not valid JSON ({error.msg})") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise ListError(f"{line}this is not valid YAML ({error.problem})") from None
    except (yaml.YAMLError, ValueError, OverflowError):  # also PyYAML's "\UFFFFFFFF", numbers of 5000 digits
        raise ListError("this is not valid JSON or YAML") from None
    except RecursionError:
        raise ListError("it is nested too deeply") from None


def shown(text: object) -> str:
    """An address or a key as it may stand in a message: only when it looks like one."""
    return text if isinstance(text, str) and _SHOWABLE.fullmatch(text) else "one entry"


def _first_words(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    reason = context.get("error", first["msg"])
    if first["type"] == "string_too_long":
        reason = f"longer than {context['max_length']} characters"
    return f"{'.'.join(str(step) for step in first['loc'])}: {reason}"
