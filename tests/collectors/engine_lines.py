"""Lines of an engine's exposition, and what a kind reads of some."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.reading import EngineSample, Reading
from collectors.source import Kind, TargetReader


def read_lines(kind: Kind, *lines: str) -> Reading:
    """The reading of an exposition of these lines."""
    return TargetReader(kind).read("\n".join(lines).encode())


def read_row(kind: Kind, *lines: str) -> EngineSample:
    """The one row that an exposition of these lines gives."""
    (row,) = read_lines(kind, *lines).engines
    return row


def histogram_lines(name: str, buckets: Mapping[str, float], seconds: float, labels: str) -> list[str]:
    """A histogram with these labels: text of an upper edge → cumulative count, and the sum."""
    return [
        *(f'{name}_bucket{{{labels},le="{edge}"}} {count}' for edge, count in buckets.items()),
        f"{name}_sum{{{labels}}} {seconds}",
        f"{name}_count{{{labels}}} {max(buckets.values())}",
    ]
