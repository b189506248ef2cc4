"""Recordings: what targets answered, one JSON line each, gzipped.

`{"t": unix seconds, "target": {"name", "kind", "labels"}, "status": 200, "body": "…"}`
A scrape that failed has `"status": null` (or the HTTP status) and `"error"`, in words.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from collectors.fetch import Fetched
from collectors.target import Target


class RecordingError(Exception):
    """A recording cannot be read; the message names the file, the line and what is wrong."""


class Answer(NamedTuple):
    """One line of a recording."""

    t: float
    name: str
    kind: str
    labels: dict[str, str]
    fetched: Fetched


def line(t: float, target: Target, fetched: Fetched) -> dict[str, Any]:
    """One answer as the dictionary that goes into the file."""
    entry: dict[str, Any] = {
        "t": round(t, 3),
        "target": {"name": target.name, "kind": target.kind, "labels": dict(target.labels)},
        "status": fetched.status,
        "body": fetched.body.decode("utf-8", "surrogateescape"),
    }
    if fetched.error is not None:
        entry["error"] = fetched.error
    return entry


@contextmanager
def writer(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that appends one line at a time. Plain text when the name does not end in `.gz`."""
    with _open(path, "wt") as stream:

        def write(entry: dict[str, Any]) -> None:
            # JSON's ASCII form keeps bytes that were not UTF-8 (held as surrogates) writable.
            stream.write(json.dumps(entry, separators=(",", ":")) + "\n")

        yield write


def read(path: Path) -> Iterator[Answer]:
    """The lines of a recording in file order. Raises RecordingError; OSError when it cannot be opened."""
    number = 0
    try:
        with _open(path, "rt") as stream:
            for text in stream:
                number += 1
                if text.strip():
                    yield _answer(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"{path} line {number}: not a line of a recording ({_words(error)}); each line is"
            ' {"t": …, "target": {"name": …, "kind": …, "labels": {…}}, "status": …, "body": "…"}'
        ) from error
    except (EOFError, gzip.BadGzipFile) as error:
        message = f"{path} after line {number}: the gzip stream is cut or broken ({error})"
        raise RecordingError(message) from error


def _answer(entry: dict[str, Any]) -> Answer:
    target = entry["target"]
    labels = {str(key): str(value) for key, value in target.get("labels", {}).items()}
    status = entry.get("status")
    error = entry.get("error")
    if error is None and status != 200:
        error = f"HTTP {status}"
    body = str(entry.get("body", "")).encode("utf-8", "surrogateescape")
    if error is None and not body.strip():
        error = "the answer is empty (200 with no metrics)"
    fetched = Fetched(status, body, 0.0, error)
    return Answer(float(entry["t"]), str(target["name"]), str(target.get("kind", "auto")), labels, fetched)


def _words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _open(path: Path, mode: str) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, mode, encoding="utf-8")
    return path.open(mode.removesuffix("t"), encoding="utf-8")
