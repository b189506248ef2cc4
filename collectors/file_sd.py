"""Lists of targets in files, in Prometheus' file_sd format, read again when they change.

A file holds a JSON or YAML list of `{targets: ["host:9400", …], labels: {…}}`. Of the labels,
`__scheme__` and `__metrics_path__` make the URL, `project`, `environment` and `kind` (or
`infermeter_kind`) set those, other names that begin with `__` are dropped, and the rest is shown.
"""

from __future__ import annotations

import difflib
import glob
import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import Field, ValidationError

from collectors.target import Target, TargetSettings, kind_names
from collectors.urls import default_name

MOST_TARGETS = 100_000
"""In one file; more is a mistake (or YAML aliases of aliases)."""

MOST_PROBLEMS = 20
"""Told of one file; the rest is counted."""

_TEXT_ONLY: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Builds lists, mappings and text, nothing else (no tags, no numbers, no dates)."""

_HOST_PORT = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_SHOWABLE = re.compile(r"[\w.:/\[\]-]{1,120}")
_GROUP_KEYS = ("targets", "labels")


class FileList(TargetSettings):
    """Files that list targets, and what holds for all targets in them."""

    files: list[str] = Field(min_length=1)
    """Paths; `*` and `?` match many, `**` folders too. JSON where the name ends in .json, else YAML."""


class Changes(NamedTuple):
    """How a list differs from what it was at the refresh before."""

    added: list[Target]
    removed: list[Target]
    changed: list[Target]
    """Same name, other settings: as they are now."""

    def any(self) -> bool:
        """Whether there is any difference."""
        return bool(self.added or self.removed or self.changed)


class FileListError(Exception):
    """A file that is no list of targets; the message says why, without naming the file."""


class _File(NamedTuple):
    """One file as last seen."""

    identity: tuple[int, int, int] | None
    """Modification time, size, inode; None to read it again the next time."""
    targets: list[Target]
    """The last good list."""
    problems: list[str]
    broken_since: datetime | None


class FileSd:
    """The targets of one `file_sd` entry."""

    def __init__(self, settings: FileList) -> None:
        self.settings = settings
        self.targets: list[Target] = []
        self.problems: list[str] = []
        """What is wrong at the moment, in words, each naming its file."""
        self._files: dict[str, _File] = {}

    def refresh(self, now: datetime) -> Changes:
        """Read the files again that changed since the last time. Never raises for what is in them.

        A file that is broken keeps its last good list and says so in `problems`; the targets of a file
        that is gone are removed.
        """
        matches = {pattern: _matching(pattern) for pattern in self.settings.files}
        paths = sorted({path for paths in matches.values() for path in paths})
        files = {path: self._looked_at(path, now) for path in paths}
        self._files = {path: file for path, file in files.items() if file is not None}
        before = {target.name: target for target in self.targets}
        after: dict[str, Target] = {}
        problems = [f"no file matches {pattern}" for pattern, found in matches.items() if not found]
        for path, file in self._files.items():
            problems += file.problems
            for target in file.targets:
                if after.setdefault(target.name, target) is not target:
                    problems.append(f"{path}: {target.name} stands in another file too; that one is used")
        self.targets = list(after.values())
        self.problems = problems
        return Changes(
            added=[target for name, target in after.items() if name not in before],
            removed=[target for name, target in before.items() if name not in after],
            changed=[target for name, target in after.items() if name in before and before[name] != target],
        )

    def _looked_at(self, path: str, now: datetime) -> _File | None:
        """The file as it is now; None when it is gone."""
        last = self._files.get(path)
        try:
            status = Path(path).stat()
            identity = (status.st_mtime_ns, status.st_size, status.st_ino)
            if last is not None and last.identity == identity:
                return last
            data = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            return _broken(path, f"cannot be read: {error.strerror}", None, last, now)
        try:
            targets, problems = read_targets(data, path, self.settings)
        except FileListError as error:
            return _broken(path, str(error), identity, last, now)
        return _File(identity, targets, [f"{path}: {problem}" for problem in problems], None)


def _broken(
    path: str, reason: str, identity: tuple[int, int, int] | None, last: _File | None, now: datetime
) -> _File:
    since = last.broken_since if last is not None and last.broken_since is not None else now
    targets = last.targets if last is not None else []
    kept = f"its last good list ({len(targets)} targets) stays in use" if targets else "it gives no targets"
    return _File(identity, targets, [f"{path}: {reason}; {kept} (since {since:%Y-%m-%d %H:%M} UTC)"], since)


def _matching(pattern: str) -> list[str]:
    if glob.has_magic(pattern):
        # os.path: where Path's methods raise for a folder that may not be entered, it is taken as not there.
        return [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]  # noqa: PTH113, PTH207
    try:
        Path(pattern).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        return []
    except OSError:
        pass  # it is there, and reading it will say what is wrong with it
    return [pattern]


def read_targets(data: bytes, path: str, settings: FileList) -> tuple[list[Target], list[str]]:
    """The targets of one file's content, and what is wrong with single ones of them (these are left out).

    Raises FileListError when the content is no list of targets.
    """
    targets: dict[str, Target] = {}
    problems: list[str] = []
    common = {name: getattr(settings, name) for name in TargetSettings.model_fields}
    count = 0
    for number, group in enumerate(_groups(data, path), 1):
        where = f"group {number}"
        addresses, labels = _checked_group(group, where)
        count += len(addresses)
        if count > MOST_TARGETS:
            raise FileListError(f"it lists more than {MOST_TARGETS} targets")
        for address in addresses:
            try:
                target = _target(address, labels, common)
            except ValidationError as error:
                problems.append(f"{where}, {_shown(address)}: {_first_words(error)}")
                continue
            except ValueError as error:
                problems.append(f"{where}, {_shown(address)}: {error}")
                continue
            if target.name not in targets:
                targets[target.name] = target
            elif targets[target.name] != target:
                problems.append(f"{where}: {target.name} is listed before with other labels; those are used")
    if len(problems) > MOST_PROBLEMS:
        more = len(problems) - MOST_PROBLEMS
        problems = [*problems[:MOST_PROBLEMS], f"and {more} more like these"]
    return list(targets.values()), problems


def _target(address: str, labels: dict[str, str], common: dict[str, Any]) -> Target:
    """One target. Raises ValueError (pydantic's ValidationError among them) with what is wrong."""
    if not _HOST_PORT.fullmatch(address):
        raise ValueError("this is not host:port (a path goes into the label __metrics_path__)")
    scheme = labels.get("__scheme__", "http")
    path = labels.get("__metrics_path__", "/metrics")
    url = f"{scheme}://{address}/{path.removeprefix('/')}"
    shown = {name: value for name, value in labels.items() if not name.startswith("__")}
    settings = dict(common)
    kind = shown.pop("infermeter_kind", None)
    if kind is None and shown.get("kind") in kind_names():
        kind = shown.pop("kind")  # another `kind` is a label like any other
    found = {
        "kind": kind,
        "project": shown.pop("project", None),
        "environment": shown.pop("environment", None),
    }
    settings.update({name: value for name, value in found.items() if value})
    settings["labels"] = {**settings["labels"], **shown}
    return Target.model_validate({**settings, "name": default_name(url), "url": url})


def _checked_group(group: Any, where: str) -> tuple[list[str], dict[str, str]]:
    if not isinstance(group, dict):
        raise FileListError(f'{where} is no {{"targets": […], "labels": {{…}}}}')
    for key in group:
        if key not in _GROUP_KEYS:
            near = difflib.get_close_matches(str(key), _GROUP_KEYS, n=1)
            cure = f"did you mean `{near[0]}`?" if near else "a group has `targets` and `labels`"
            raise FileListError(f"{where}: {_shown(key)} is not known; {cure}")
    addresses = group.get("targets") or []
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise FileListError(f'{where}: `targets` must be a list of texts like "gpu-node-1:9400"')
    labels = group.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise FileListError(f"{where}: `labels` must be names with texts")
    return addresses, labels


def _shown(text: object) -> str:
    """An address or a key as it may stand in a message: only when it looks like one."""
    return text if isinstance(text, str) and _SHOWABLE.fullmatch(text) else "one entry"


def _first_words(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    reason = first.get("ctx", {}).get("error", first["msg"])
    return f"{'.'.join(str(step) for step in first['loc'])}: {reason}"


def _groups(data: bytes, path: str) -> list[Any]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileListError("it is not UTF-8 text") from None
    try:
        content = json.loads(text) if path.endswith(".json") else yaml.load(text, _TEXT_ONLY)  # noqa: S506
    except json.JSONDecodeError as error:
        raise FileListError(f"line {error.lineno}: this is not valid JSON ({error.msg})") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise FileListError(f"{line}this is not valid YAML ({error.problem})") from None
    except (yaml.YAMLError, ValueError, OverflowError):  # also PyYAML's "\UFFFFFFFF", numbers of 5000 digits
        raise FileListError("this is not valid JSON or YAML") from None
    except RecursionError:
        raise FileListError("it is nested too deeply") from None
    if content in (None, "", "null", "~"):
        # A file caught half-written must not take every target off the list.
        raise FileListError("it is empty; write [] where there are no targets")
    if not isinstance(content, list):
        raise FileListError('it must hold a list of {"targets": […], "labels": {…}}')
    return content
