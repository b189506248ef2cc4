"""Reads metrics expositions: Prometheus text 0.0.4 and 1.0.0, and OpenMetrics, plain or gzipped.

`parse` is the complete reader, for one-off use. `SeriesMemory` is for scraping the same target again and
again: it reads each series text once. Both take a bad line as one bad line: it is counted, the rest stays.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.exposition_line import (
    BLANKS,
    LABEL_CAP,
    LINE_CAP,
    BadLineError,
    carries_sample,
    find_series,
    read_series,
    read_tail,
    read_type,
    split_lines,
)
from collectors.series_memory import Nowhere, Place, Scan, SeriesMemory

__all__ = [
    "LABEL_CAP",
    "LINE_CAP",
    "BodyError",
    "BodyTooLargeError",
    "Exposition",
    "Nowhere",
    "Place",
    "Rejected",
    "Sample",
    "Scan",
    "SeriesMemory",
    "decompress",
    "parse",
]

_SHOWN_CHARACTERS = 200
# One gzip stream is the rule; a few in a row are legal. Each costs a copy of what follows it.
_GZIP_MEMBERS_CAP = 16
_OPENMETRICS_END = re.compile(rb"^# EOF[ \t\r]*$", re.MULTILINE)


class Sample(NamedTuple):
    """One series at one moment, named as the exporter named it."""

    name: str
    labels: dict[str, str]
    value: float
    timestamp: float | None
    """Unix seconds, where the exporter gave one."""


class Rejected(NamedTuple):
    """A line that could not be read."""

    line_number: int
    """Counted from 1."""
    text: str
    """Its first 200 characters."""
    why: str


@dataclass(slots=True)
class Exposition:
    """Everything an exposition says, in its order."""

    samples: list[Sample] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    """Metric family → type, from its `# TYPE` line (the last one, where a family stands twice)."""
    lines: int = 0
    """Lines that should carry a sample: all but comments and blank lines. Samples + rejected."""
    cut_labels: int = 0
    """Label values longer than `LABEL_CAP`, of which only the start was kept."""


class BodyError(ValueError):
    """The body cannot be used as a whole; the text says why."""


class BodyTooLargeError(BodyError):
    """The body is larger than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is larger than {limit} bytes")
        self.limit = limit


def parse(body: bytes) -> Exposition:
    """Read a whole exposition. Never raises for what stands in it.

    Timestamps are milliseconds in the text format and seconds in OpenMetrics, which is told by its `# EOF`.
    """
    result = Exposition()
    timestamps_per_second = 1 if _OPENMETRICS_END.search(body) else 1000
    for line_number, raw in enumerate(split_lines(body), start=1):
        if not carries_sample(raw):
            typed = read_type(raw)
            if typed is not None:
                result.types[typed[0]] = typed[1]
            continue
        result.lines += 1
        line = raw.strip(BLANKS)
        try:
            end = find_series(line)
            name, labels, cut = read_series(line[:end])
            tail = read_tail(line[end:])
        except BadLineError as error:
            text = line[: 4 * _SHOWN_CHARACTERS].decode(errors="replace")[:_SHOWN_CHARACTERS]
            result.rejected.append(Rejected(line_number, text, str(error)))
            continue
        timestamp = None if tail.timestamp is None else tail.timestamp / timestamps_per_second
        result.samples.append(Sample(name, labels, tail.value, timestamp))
        result.cut_labels += cut
    return result


def decompress(body: bytes, limit: int) -> bytes:
    """Unpack a gzipped body of at most `limit` bytes, using little more memory than that.

    Raises `BodyTooLargeError`, and `BodyError` when the body is cut short or not gzip.
    """
    parts: list[bytes] = []
    size = 0
    rest = body
    for _ in range(_GZIP_MEMBERS_CAP):
        unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            part = unpack.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise BodyError(f"the body says it is gzip and cannot be unpacked: {error}") from error
        parts.append(part)
        size += len(part)
        if size > limit:
            raise BodyTooLargeError(limit)
        if not unpack.eof:
            raise BodyError("the gzipped body is cut short")
        rest = unpack.unused_data.lstrip(b"\0")
        if not rest:
            return b"".join(parts)
    raise BodyError(f"the body has more than {_GZIP_MEMBERS_CAP} gzip streams in a row")
