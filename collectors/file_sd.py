"""Lists of targets in files, in Prometheus' file_sd format, read again when they change.

A file holds a JSON or YAML list of `{targets: ["host:9400", …], labels: {…}}`; what the labels mean stands
in `collectors/target_groups.py`.
"""

from __future__ import annotations

import glob
import os
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, field_validator

from collectors.fetch import BODY_LIMIT
from collectors.plain_files import read_plain_file
from collectors.target import Target
from collectors.target_groups import ListError, content_of, groups, targets_of
from collectors.target_source import ListSettings, PartGoneError, TargetSource


class FileList(ListSettings):
    """Files that list targets, and what holds for all targets in them."""

    files: list[str] = Field(min_length=1)
    """Paths; `*` and `?` match many, `**` folders too. JSON where the name ends in .json, else YAML."""

    @field_validator("files")
    @classmethod
    def _names(cls, value: list[str]) -> list[str]:
        if not all(value):
            raise ValueError("a name is empty; write the path of a file, like nodes/*.json")
        return value


class FileSd(TargetSource):
    """The targets of one `file_sd` entry."""

    origin = "file_sd"
    part = "file"

    def __init__(self, settings: FileList) -> None:
        super().__init__()
        self.settings = settings
        self._read: dict[str, _Read] = {}

    @property
    def title(self) -> str:
        """The paths as configured."""
        return ", ".join(self.settings.files)

    def parts(self) -> tuple[list[str], list[str]]:
        """The paths of the files there are, and which patterns match none."""
        matches = {pattern: _matching(pattern) for pattern in self.settings.files}
        paths = sorted({path for paths in matches.values() for path in paths})
        self._read = {path: self._read[path] for path in paths if path in self._read}
        return paths, [f"no file matches {pattern}" for pattern, found in matches.items() if not found]

    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        """The targets of one file, which is read again only where it changed."""
        del now
        last = self._read.get(part)
        try:
            status = Path(part).stat()
            identity = (status.st_mtime_ns, status.st_size, status.st_ino)
            if last is None or last.identity != identity:
                last = self._read[part] = _read(part, identity, self.settings)
        except FileNotFoundError:
            raise PartGoneError from None
        except OSError as error:
            raise ListError(f"cannot be read: {error.strerror}") from None
        if last.error is not None:
            raise ListError(last.error)
        return last.targets, last.problems


class _Read(NamedTuple):
    """What the last reading of a file gave."""

    identity: tuple[int, int, int]
    """Modification time, size, inode."""
    targets: list[Target]
    problems: list[str]
    error: str | None = None


def _read(path: str, identity: tuple[int, int, int], settings: FileList) -> _Read:
    try:
        return _Read(identity, *read_targets(read_plain_file(path, BODY_LIMIT), path, settings))
    except ListError as error:
        return _Read(identity, [], [], str(error))


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

    Raises ListError when the content is no list of targets.
    """
    content = content_of(data, as_json=path.endswith(".json"))
    if content in (None, "", "null", "~"):
        # A file caught half-written must not take every target off the list.
        raise ListError("it is empty; write [] where there are no targets")
    return targets_of(groups(content), settings)
