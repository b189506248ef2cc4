"""Values of one scrape as cells: those of series, constants, and what is made of them; and which can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Literal, NamedTuple

from collectors.plausible import COUNT, ENGINE, cannot_be
from collectors.reading import EngineSample

Cells = list[float | None]
Getter = Callable[[Cells], tuple[float | None, ...]]
How = Literal["sum", "largest", "quotient"]

MEASURES = EngineSample._fields[4:]
"""The columns that hold values, in the order of a row's getter."""

LIMITS = tuple((position, *ENGINE[column]) for position, column in enumerate(MEASURES))
"""Of each column: position, least and largest."""
NARROW = tuple(limits for limits in LIMITS if limits[1:] != COUNT)
"""Of the columns that can hold less than any count can."""


class Made(NamedTuple):
    """A cell made of several."""

    cells: tuple[int, ...]
    how: How


def taking(cells: list[int]) -> Getter:
    """Takes these cells out of all, as a tuple."""
    if len(cells) > 1:
        return itemgetter(*cells)
    only = cells[0]
    return lambda every: (every[only],)


def made_of(cells: Cells, made: Made) -> float | None:
    """The value; a part that is less than nothing stands for the whole, which cannot be then."""
    parts = [cells[cell] for cell in made.cells]
    known = [part for part in parts if part is not None]
    if known and (least := min(known)) < 0:
        return least
    if made.how == "largest":
        return max(known, default=None)
    if len(known) < len(parts):
        return None
    if made.how == "quotient":
        return known[0] / known[1] if known[1] else None
    total = sum(known, 0.0)
    return total if math.isfinite(total) else None


def odd_values(
    key: tuple[str, str, str, str | None], measured: tuple[float | None, ...]
) -> Iterator[tuple[str, str]]:
    """Column and note, of each value of a row (engine, role, replica, model) that cannot be."""
    _, _, replica, model = key
    for column, value in zip(MEASURES, measured, strict=True):
        low, high = ENGINE[column]
        if value is not None and not low <= value <= high:
            whose = f"replica {replica}" + (f" of {model[:40]}" if model else "")
            yield column, cannot_be(column, value, ENGINE[column], whose)


def what_can_be(measured: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """The values of a row; None for those that cannot be."""
    return tuple(
        value if (value := measured[position]) is not None and low <= value <= high else None
        for position, low, high in LIMITS
    )


def bucket_fault(buckets: tuple[float | None, ...]) -> str | None:
    """Why these are no bucket counts, or None when they are."""
    if None in buckets:
        return "a bucket count is no number"
    odd = next((count for count in buckets if countable(count) is None), None)
    return None if odd is None else f"a bucket count of {odd:g} cannot be"


def countable(value: float | None) -> float | None:
    """A count or a sum of seconds; None when it cannot be one."""
    return value if value is not None and COUNT.low <= value <= COUNT.high else None
