"""Recordings: what targets answered, one JSON line each, gzipped.

`{"t": unix seconds, "target": {"name", "kind", "labels"}, "status": 200, "body": "…"}`
A scrape that failed has `"status": null` (or the HTTP status) and `"error"`, in words. `t` is when the
request was sent; a line is written when its answer is there, so lines are in order but for a timeout.
"""

from __future__ import annotations

import gzip
import heapq
import json
import math
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from pydantic import ValidationError

from collectors.durations import format_duration
from collectors.fetch import Fetched
from collectors.target import PROBE, Target

FLUSH_SECONDS = 1.0
"""What is written is in the operating system's hands after this: all that a `kill -9` can cost."""

EARLIEST = 946_684_800
"""2000-01-01 in unix seconds."""

LATEST = 4_102_444_800
"""2100-01-01. A `t` outside of the two is a mistake (milliseconds, a clock never set)."""

_GZIP = b"\x1f\x8b"


class RecordingError(Exception):
    """A recording cannot be read; the message names the file, the line and what is wrong."""


class Answer(NamedTuple):
    """One line of a recording."""

    t: float
    name: str
    kind: str
    labels: dict[str, str]
    fetched: Fetched
    line: int = 0
    """Its number in the file, from 1; 0 where there is no file."""


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


class Writer:
    """Appends lines, and hands them to the operating system at most `FLUSH_SECONDS` after one came."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._flushed = time.monotonic()
        self._waiting = False

    def __call__(self, entry: dict[str, Any]) -> None:
        """Append one line. Raises OSError, at the latest when the file is closed."""
        # JSON's ASCII form keeps bytes that were not UTF-8 (held as surrogates) writable.
        self._stream.write(json.dumps(entry, separators=(",", ":")) + "\n")
        self._waiting = True
        self.flush_when_due()

    def flush_when_due(self) -> None:
        """To be called now and then while nothing is written. gzip ends a block there (Z_SYNC_FLUSH)."""
        now = time.monotonic()
        if self._waiting and now - self._flushed >= FLUSH_SECONDS:
            self._stream.flush()
            self._flushed, self._waiting = now, False


@contextmanager
def writer(path: Path, *, overwrite: bool = False) -> Iterator[Writer]:
    """A `Writer` of a new file. Plain text when the name does not end in `.gz`.

    Raises OSError; FileExistsError for a file that is there, unless `overwrite`. What is no regular file
    (/dev/null, a pipe) can always be written to.
    """
    mode = "wt" if overwrite or (path.exists() and not path.is_file()) else "xt"
    stream: Any = (
        gzip.open(path, mode, encoding="utf-8")  # noqa: SIM115 (closed below, whatever happens)
        if path.suffix == ".gz"
        else path.open(mode, encoding="utf-8")
    )
    try:
        yield Writer(stream)
    finally:
        stream.close()


def read(path: Path) -> Iterator[Answer]:
    """The lines of a recording in file order, gzipped or plain, whatever it is called.

    Of a file that is cut or broken, the whole lines before that are given first. Raises RecordingError.
    """
    known: set[tuple[str, ...]] = set()
    for number, text in _lines(path):
        if not text.strip():
            continue
        try:
            answer = _answer(json.loads(text.decode()), number)
            described = (answer.name, *answer.labels, *answer.labels.values())
            if described not in known:
                # A name that no target can have would be found out much later, far from its line.
                Target(name=answer.name, url="http://recording.invalid/metrics", labels=answer.labels)
                known.add(described)
        except (ValueError, RecursionError) as error:
            if isinstance(error, json.JSONDecodeError) and text.startswith(b"{") and not text.endswith(b"\n"):
                message = f"{path} line {number}: the recording is cut off within this line"
                raise RecordingError(message) from error
            raise RecordingError(
                f"{path} line {number}: not a line of a recording ({_words(error)}); each line is"
                ' {"t": …, "target": {"name": …, "kind": …, "labels": {…}}, "status": …, "body": "…"}'
            ) from error
        yield answer


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP
            for text in gzip.GzipFile(fileobj=raw) if packed else raw:
                number += 1
                yield number, text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        message = f"{path} after line {number}: the gzip stream is cut or broken ({error})"
        raise RecordingError(message) from error
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from error


def _answer(entry: Any, number: int) -> Answer:
    """Raises ValueError, in words."""
    if not isinstance(entry, dict):
        raise ValueError("it is no JSON object")
    for key in ("t", "target"):
        if key not in entry:
            raise ValueError(f"'{key}' is missing")
    t, target, status = entry["t"], entry["target"], entry.get("status")
    body, error = entry.get("body", ""), entry.get("error")
    if not _is_number(t) or not EARLIEST <= t <= LATEST:  # no NaN either
        raise ValueError("'t' must be unix seconds between the years 2000 and 2100")
    if not isinstance(target, dict) or not isinstance(target.get("name"), str) or not target["name"].strip():
        raise ValueError("'target' must be an object with a 'name'")
    labels = target.get("labels", {})
    if not isinstance(labels, dict):
        raise ValueError("'labels' must be an object of names with texts")
    if status is not None and (not isinstance(status, int) or not 100 <= status <= 999):
        raise ValueError("'status' must be an HTTP status, a whole number of three digits, or null")
    if not isinstance(body, str):
        raise ValueError("'body' must be a text")
    if error is not None and not isinstance(error, str):
        raise ValueError("'error' must be a text, or null")
    texts = {key: str(value) for key, value in labels.items()}
    "".join((target["name"], error or "", *texts, *texts.values())).encode()  # the store takes no surrogates
    packed = body.encode("utf-8", "surrogateescape")
    unasked = status is None and target.get("kind") == PROBE and packed  # its spend cap was reached
    if error is None and status != 200 and not unasked:
        error = f"HTTP {status}" if status is not None else "there was no answer"
    if error is None and not packed.strip():
        error = "the answer is empty (200 with no metrics)"
    return Answer(
        float(t),
        target["name"],
        str(target.get("kind", "auto")),
        texts,
        Fetched(status, packed, 0.0, error),
        number,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _words(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "this is not UTF-8 text"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}"
    if isinstance(error, UnicodeEncodeError):
        return "it holds an escape (\\ud800 to \\udfff) that is no character"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


@dataclass
class Faults:
    """What was found wrong with a recording while its answers were put in order."""

    skipped: int = 0
    """Answers left out, since they stand too far behind newer ones."""
    first_line: int = 0
    first_behind_seconds: float = 0.0
    broken: RecordingError | None = None
    """Why it ended before its end."""

    def skipped_words(self) -> str | None:
        """What to tell a person; None when nothing was skipped."""
        if not self.skipped:
            return None
        behind = format_duration(self.first_behind_seconds)
        answers = "1 answer" if self.skipped == 1 else f"{self.skipped} answers"
        return (
            f"line {self.first_line} is {behind} older than a line before it;"
            f" {answers} skipped: sort the recording by t"
        )


def in_order(answers: Iterable[Answer], window_seconds: float, faults: Faults) -> Iterator[Answer]:
    """The answers by their time, where none stands more than `window_seconds` behind a newer one.

    Those that do are left out and counted in `faults`, where an error of `answers` is kept as well: what
    came before it is still to be dealt with. Holds the answers of one window in memory.
    """
    waiting: list[tuple[float, int, Answer]] = []
    newest = -math.inf
    try:
        # The number keeps answers of one moment in the order of the file.
        for number, answer in enumerate(answers):
            newest = max(newest, answer.t)
            if answer.t < newest - window_seconds:
                if not faults.skipped:
                    faults.first_line, faults.first_behind_seconds = answer.line, newest - answer.t
                faults.skipped += 1
                continue
            heapq.heappush(waiting, (answer.t, number, answer))
            while waiting[0][0] < newest - window_seconds:
                yield heapq.heappop(waiting)[2]
    except RecordingError as error:
        faults.broken = error
    while waiting:
        yield heapq.heappop(waiting)[2]
