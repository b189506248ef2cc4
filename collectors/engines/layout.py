"""From the values of one set of engine series to rows: worked out once, then index look-ups per scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

from collectors.engines.series import LARGEST, ROWS_CAP, EnginePlace, Group, Row, find_rows, keep_apart
from collectors.plausible import COUNT, ENGINE, OddValues, cannot_be
from collectors.reading import EngineSample, Histogram
from collectors.source import Rows

Cells = list[float | None]

_MEASURES = EngineSample._fields[4:]
_ADDITIVE_ON_FIRST_ROW = frozenset({"http_4xx_total", "http_5xx_total"})
"""Counts of the whole endpoint: on every row they would be added up once per replica."""
BUCKETS_CAP = 250_000
"""Buckets of all histograms of one target. 1000 rows of vLLM's 7 histograms of 23 buckets have 161 000."""

_LIMITS = tuple((position, *ENGINE[column]) for position, column in enumerate(_MEASURES))
_NARROW = tuple(limits for limits in _LIMITS if limits[1:] != COUNT)
"""Position, least and largest; of the columns that can hold less than any count can."""


class _Sum(NamedTuple):
    """A cell made of several."""

    cells: tuple[int, ...]
    largest: bool


class _Buckets(NamedTuple):
    row: Row
    metric: str
    edges_seconds: tuple[float, ...]
    buckets: Callable[[Cells], tuple[float | None, ...]]
    sum_cell: int
    count_cell: int


class EngineLayout:
    """How values aligned with `places` become engine samples and histograms.

    Cells are the values followed by what is derived: the unknown, constants of labels, sums of series.
    Each row is then one `itemgetter` over the cells.
    """

    def __init__(
        self,
        places: tuple[EnginePlace, ...],
        *,
        engine: str,
        role: str,
        yields: tuple[str, ...],
        metrics: tuple[str, ...],
        added: Mapping[str, tuple[str, ...]],
        notes: tuple[str, ...],
    ) -> None:
        self._count = len(places)
        self._constants: Cells = [None]
        self._unknown = self._count
        self._scaled: list[tuple[int, float]] = []
        self._sums: list[_Sum] = []
        self._notes: list[str] = []
        self._odd = OddValues()
        self._rows: list[
            tuple[tuple[str, str, str, str | None], Callable[[Cells], tuple[float | None, ...]]]
        ] = []
        self._histograms: list[_Buckets] = []

        for number, place in enumerate(places):
            if place.constant is not None:
                self._constants.append(place.constant)
            if place.scale != 1.0 and place.part in ("value", "sum"):
                self._scaled.append((number, place.scale))
        self._next_sum = self._count + len(self._constants)
        self._cell_of = self._cells_of(places)

        present: set[str] = set()
        rows, left_out = find_rows(places)
        if left_out:
            self._notes.append(f"{left_out} replicas and models past the first {ROWS_CAP} are left out")
        groups: dict[Row | str | None, Group] = {}
        for number, place in enumerate(places):
            key = place.replica if place.model is None else Row(place.replica or "0", place.model)
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group(self._make)
            group.add(number, self._cell_of[number], place)
        if nobodys := keep_apart(groups):
            self._notes.append(f"{nobodys} series without a replica or model beside those with one, left out")
        buckets = without = 0
        for position, row in enumerate(rows):
            # What names no model is of all models of its replica; what names no replica either, of all rows.
            keys = dict.fromkeys((row, row.replica, None))
            own = [groups[key] for key in keys if key in groups]
            columns = self._columns(own, first_row=position == 0, added=added)
            present |= columns.keys()
            getter = itemgetter(*(columns.get(column, self._unknown) for column in _MEASURES))
            self._rows.append(((engine, role, row.replica, row.model), getter))
            for metric in metrics:
                if found := self._buckets(row, metric, own):
                    present.add(metric)
                    if buckets + len(found.edges_seconds) > BUCKETS_CAP:
                        without += 1
                        continue
                    buckets += len(found.edges_seconds)
                    self._histograms.append(found)
        if without:
            self._notes.append(f"{without} histograms past the first {BUCKETS_CAP} buckets are left out")
        self.missing = tuple(name for name in yields if name not in present)
        self.found_names: tuple[tuple[str, str], ...] = ()
        self.notes = (*notes, *dict.fromkeys(self._notes)) if self._rows else ()

    def rows(self, values: list[float]) -> Rows:
        """The rows of one scrape. A value that is no number (NaN, ±Inf) or cannot be is not known."""
        cells: Cells = [*values, *self._constants]
        # Two passes in C: a NaN or an infinity shows in the sum, and so does what is too large; of what an
        # engine counts and measures nothing is negative.
        clean = min(values, default=0.0) >= COUNT.low and sum(values) <= COUNT.high
        if not clean:
            cells[: self._count] = [value if math.isfinite(value) else None for value in values]
        for number, scale in self._scaled:
            value = cells[number]
            cells[number] = None if value is None else value * scale
        for made in self._sums:
            cells.append(_made(cells, made))
        engines: list[EngineSample] = []
        odd: list[tuple[str, str]] = []
        limits = _NARROW if clean else _LIMITS
        for key, getter in self._rows:
            measured = getter(cells)
            for position, low, high in limits:
                if (value := measured[position]) is not None and not low <= value <= high:
                    odd.extend(_cannot_be(key, measured))
                    measured = _what_can_be(measured)
                    break
            engines.append(EngineSample(*key, *measured))
        histograms: list[Histogram] = []
        for row, metric, edges, getter, sum_cell, count_cell in self._histograms:
            buckets = getter(cells)
            total, count = cells[sum_cell], cells[count_cell]
            if not clean:
                if fault := _bucket_fault(buckets):
                    odd.append((metric, f"{metric}: {fault}, the histogram is left out"))
                    continue
                total, count = _countable(total), _countable(count)
            histograms.append(
                Histogram(
                    row.replica, row.model, metric, edges, buckets,  # type: ignore[arg-type]
                    total, buckets[-1] if count is None else count,
                )
            )  # fmt: skip
        return Rows([], engines, histograms, tuple(self._odd.notes(odd)))

    def _cells_of(self, places: tuple[EnginePlace, ...]) -> dict[int, int]:
        """Number of a place → the cell that holds its value."""
        cells = {}
        constant = self._count
        for number, place in enumerate(places):
            if place.constant is None:
                cells[number] = number
            else:
                constant += 1
                cells[number] = constant
        return cells

    def _make(self, cells: Iterable[int], *, largest: bool = False) -> int:
        """The cell that adds up `cells` (or takes the largest)."""
        several = tuple(cells)
        if len(several) == 1:
            return several[0]
        self._sums.append(_Sum(several, largest))
        self._next_sum += 1
        return self._next_sum - 1

    def _columns(
        self, own: list[Group], *, first_row: bool, added: Mapping[str, tuple[str, ...]]
    ) -> dict[str, int]:
        """Canonical column → cell, for one row."""
        names = dict.fromkeys(column for group in own for column in group.values)
        columns = {}
        for column in names:
            if first_row or column not in _ADDITIVE_ON_FIRST_ROW:
                rank = min(min(group.values[column]) for group in own if column in group.values)
                cells = [group.value(column, rank) for group in own if rank in group.values.get(column, ())]
                columns[column] = self._make(cells, largest=column in LARGEST)
        for column in sorted({zero for group in own for zero in group.zeroes} - columns.keys()):
            if first_row or column not in _ADDITIVE_ON_FIRST_ROW:
                columns[column] = self._make((), largest=False)
        for column, parts in added.items():
            if all(part in columns for part in parts):
                columns[column] = self._make(columns[part] for part in parts)
        return columns

    def _buckets(self, row: Row, metric: str, own: list[Group]) -> _Buckets | None:
        """One histogram of one row; several series of it (streamed or not …) are added up."""
        ranks = [rank for group in own for rank in group.ladders.get(metric, ())]
        if not ranks:
            return None
        rank = min(ranks)
        ladders = [group.ladder(metric, rank) for group in own if rank in group.ladders.get(metric, ())]
        if any(ladder is None for ladder in ladders) or len({one.edges for one in ladders if one}) > 1:
            self._notes.append(f"{metric}: series with different bucket edges cannot be added up, left out")
            return None
        same = [ladder for ladder in ladders if ladder is not None]
        edges, scale = same[0].edges, same[0].scale
        if edges[-1] != math.inf:
            self._notes.append(f"{metric}: there is no +Inf bucket, the histogram is left out")
            return None
        cells = [self._make(every) for every in zip(*(ladder.cells for ladder in same), strict=True)]
        getter = itemgetter(*cells) if len(cells) > 1 else lambda every, only=cells[0]: (every[only],)
        sums, counts = (
            [cell for group in own if (cell := group.rest(metric, rank, part)) is not None]
            for part in ("sum", "count")
        )
        return _Buckets(
            row, metric, tuple(edge * scale for edge in edges), getter,
            self._make(sums) if sums else self._unknown, self._make(counts) if counts else self._unknown,
        )  # fmt: skip


def _made(cells: Cells, made: _Sum) -> float | None:
    """The sum or the largest; a part that is less than nothing stands for the whole, which cannot be then."""
    parts = [cells[cell] for cell in made.cells]
    known = [part for part in parts if part is not None]
    if known and (least := min(known)) < 0:
        return least
    if made.largest:
        return max(known, default=None)
    total = sum(known, 0.0)
    return total if len(known) == len(parts) and math.isfinite(total) else None


def _cannot_be(
    key: tuple[str, str, str, str | None], measured: tuple[float | None, ...]
) -> Iterator[tuple[str, str]]:
    _, _, replica, model = key
    for column, value in zip(_MEASURES, measured, strict=True):
        low, high = ENGINE[column]
        if value is not None and not low <= value <= high:
            whose = f"replica {replica}" + (f" of {model[:40]}" if model else "")
            yield column, cannot_be(column, value, ENGINE[column], whose)


def _what_can_be(measured: tuple[float | None, ...]) -> tuple[float | None, ...]:
    return tuple(
        value if (value := measured[position]) is not None and low <= value <= high else None
        for position, low, high in _LIMITS
    )


def _bucket_fault(buckets: tuple[float | None, ...]) -> str | None:
    if None in buckets:
        return "a bucket count is no number"
    odd = next((count for count in buckets if _countable(count) is None), None)
    return None if odd is None else f"a bucket count of {odd:g} cannot be"


def _countable(value: float | None) -> float | None:
    return value if value is not None and COUNT.low <= value <= COUNT.high else None
