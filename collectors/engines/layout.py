"""From the values of one set of engine series to rows: worked out once, then index look-ups per scrape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple

from collectors.engines.cells import (
    LIMITS,
    MEASURES,
    NARROW,
    Cells,
    Getter,
    How,
    Made,
    bucket_fault,
    countable,
    made_of,
    odd_values,
    taking,
    what_can_be,
)
from collectors.engines.series import (
    LARGEST,
    ROWS_CAP,
    EnginePlace,
    Group,
    Part,
    Row,
    find_rows,
    keep_apart,
)
from collectors.plausible import COUNT, OddValues
from collectors.reading import EngineSample, Histogram
from collectors.source import Rows

_ADDITIVE_ON_FIRST_ROW = frozenset({"http_4xx_total", "http_5xx_total"})
"""Counts of the whole endpoint: on every row they would be added up once per replica."""
BUCKETS_CAP = 250_000
"""Buckets of all histograms of one target. 1000 rows of vLLM's 7 histograms of 23 buckets have 161 000."""

_SCALED: frozenset[Part] = frozenset({"value", "sum", "mean_sum", "mean_count"})
"""Parts whose values are of the name's unit; of a bucket it is the edge that is."""

SUMS_AND_COUNTS: tuple[tuple[Part, Part], ...] = (("sum", "count"), ("mean_sum", "mean_count"))
"""Where a mean is had from: a histogram whose buckets are not there (dropped on the way, or a summary), then
what a kind declares as a mean."""

_NEVER_ZERO = frozenset({"ttft", "e2e"})
"""Latencies that take time; a request that did not queue, or made one token, has others that are 0. vLLM
0.5.1 with chunked prefill counted all its first tokens at 0 s (vllm #6337)."""


class Combined(NamedTuple):
    """Columns made of others, as `table.EngineKind` declares them."""

    added: Mapping[str, tuple[str, ...]]
    plus: Mapping[str, tuple[str, ...]]
    ratios: Mapping[str, tuple[str, str]]


class _Buckets(NamedTuple):
    row: Row
    metric: str
    edges_seconds: tuple[float, ...]
    buckets: Getter
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
        combined: Combined,
        copies: frozenset[str],
        totals: Mapping[str, str],
        notes: tuple[str, ...],
    ) -> None:
        self._count = len(places)
        self._unknown = self._count
        self._constants: Cells = [None]
        self._scaled: list[tuple[int, float]] = []
        self._sums: list[Made] = []
        self._notes: list[str] = []
        self._found: dict[str, str] = {}
        self._combined: dict[str, str] = {}
        self._odd = OddValues()
        self._rows: list[tuple[tuple[str, str, str, str | None], Getter]] = []
        self._histograms: list[_Buckets] = []
        uses = [(number, use) for number, place in enumerate(places) for use in (place, *place.also)]
        cells = self._cells_of(uses)
        self._next_sum = self._count + len(self._constants) + len(self._scaled)

        rows, left_out = find_rows(places)
        if left_out:
            self._notes.append(f"{left_out} replicas and models past the first {ROWS_CAP} are left out")
        groups: dict[Row | str | None, Group] = {}
        for cell, (_, place) in zip(cells, uses, strict=True):
            key = place.replica if place.model is None else Row(place.replica or "0", place.model)
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group(self._make, copies, totals)
            group.add(cell, place)
        if nobodys := keep_apart(groups):
            self._notes.append(f"{nobodys} series without a replica or model beside those with one, left out")
        buckets = without = 0
        for position, row in enumerate(rows):
            # What names no model is of all models of its replica; what names no replica either, of all rows.
            keys = dict.fromkeys((row, row.replica, None))
            own = [groups[key] for key in keys if key in groups]
            columns = self._columns(own, first_row=position == 0, combined=combined)
            getter = itemgetter(*(columns.get(column, self._unknown) for column in MEASURES))
            self._rows.append(((engine, role, row.replica, row.model), getter))
            for metric in metrics:
                if found := self._buckets(row, metric, own) or self._mean(row, metric, own):
                    if buckets + len(found.edges_seconds) > BUCKETS_CAP:
                        without += 1
                        continue
                    buckets += len(found.edges_seconds)
                    self._histograms.append(found)
        if without:
            self._notes.append(f"{without} histograms past the first {BUCKETS_CAP} buckets are left out")
        names = self._found | self._combined
        self.missing = tuple(name for name in yields if name not in names)
        self.found_names = tuple((name, names[name]) for name in yields if name in names)
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
            cells.append(None if value is None else value * scale)
        for made in self._sums:
            cells.append(made_of(cells, made))
        engines: list[EngineSample] = []
        odd: list[tuple[str, str]] = []
        limits = NARROW if clean else LIMITS
        for key, getter in self._rows:
            measured = getter(cells)
            for position, low, high in limits:
                if (value := measured[position]) is not None and not low <= value <= high:
                    odd.extend(odd_values(key, measured))
                    measured = what_can_be(measured)
                    break
            engines.append(EngineSample(*key, *measured))
        histograms: list[Histogram] = []
        for row, metric, edges, getter, sum_cell, count_cell in self._histograms:
            buckets = getter(cells)
            total, count = cells[sum_cell], cells[count_cell]
            if not clean:
                if fault := bucket_fault(buckets):
                    odd.append((metric, f"{metric}: {fault}, the histogram is left out"))
                    continue
                total, count = countable(total), countable(count)
            if total == 0.0 and buckets[-1] and metric in _NEVER_ZERO:
                odd.append(
                    (metric, f"{metric}: requests are counted and their time is 0 in all, do not trust it")
                )
            histograms.append(
                Histogram(
                    row.replica, row.model, metric, edges, buckets,  # type: ignore[arg-type]
                    total, buckets[-1] if count is None else count,
                )
            )  # fmt: skip
        return Rows([], engines, histograms, tuple(self._odd.notes(odd)))

    def _cells_of(self, uses: list[tuple[int, EnginePlace]]) -> list[int]:
        """The cell that holds what each use of a series says: its value, a constant, or the value scaled."""
        self._constants += [use.constant for _, use in uses if use.constant is not None]
        constant, scaled = self._count, self._count + len(self._constants) - 1
        cells = []
        for number, use in uses:
            if use.constant is not None:
                constant += 1
                cells.append(constant)
            elif use.scale != 1.0 and use.part in _SCALED:
                self._scaled.append((number, use.scale))
                cells.append(scaled + len(self._scaled))
            else:
                cells.append(number)
        return cells

    def _make(self, cells: Iterable[int], *, largest: bool = False) -> int:
        """The cell that adds up `cells` (or takes the largest)."""
        several = tuple(cells)
        return several[0] if len(several) == 1 else self._derive(several, "largest" if largest else "sum")

    def _derive(self, cells: tuple[int, ...], how: How) -> int:
        self._sums.append(Made(cells, how))
        self._next_sum += 1
        return self._next_sum - 1

    def _columns(self, own: list[Group], *, first_row: bool, combined: Combined) -> dict[str, int]:
        """Canonical column → cell, for one row."""
        columns: dict[str, int] = {}
        for column in dict.fromkeys(column for group in own for column in group.values):
            if first_row or column not in _ADDITIVE_ON_FIRST_ROW:
                rank = min(min(group.values[column]) for group in own if column in group.values)
                of = [group for group in own if rank in group.values.get(column, ())]
                cells = [group.value(column, rank) for group in of]
                columns[column] = self._make(cells, largest=column in LARGEST)
                self._found.setdefault(column, of[0].names[column, rank, "value"])
        zeroes = {zero: exposed for group in own for zero, exposed in group.zeroes.items()}
        for column in sorted(zeroes.keys() - columns.keys()):
            if first_row or column not in _ADDITIVE_ON_FIRST_ROW:
                columns[column] = self._make(())
                self._found.setdefault(column, zeroes[column])
        for column, parts in combined.added.items():
            if all(part in columns for part in parts):
                self._combine(columns, column, parts, "sum")
        for column, parts in combined.plus.items():
            there = tuple(part for part in parts if part in columns)
            if column in columns and there:
                self._combine(columns, column, (column, *there), "sum")
        for column, (part, whole) in combined.ratios.items():
            if column not in columns and part in columns and whole in columns:
                self._combine(columns, column, (part, whole), "quotient")
        return columns

    def _combine(self, columns: dict[str, int], column: str, parts: tuple[str, ...], how: How) -> None:
        columns[column] = self._derive(tuple(columns[part] for part in parts), how)
        sign = " + " if how == "sum" else " / "
        names = [self._found.get(part) or self._combined[part] for part in parts]
        self._combined.setdefault(column, sign.join(names))

    def _buckets(self, row: Row, metric: str, own: list[Group]) -> _Buckets | None:
        """One histogram of one row; several series of it (streamed or not …) are added up."""
        ranks = [rank for group in own for rank in group.ladders.get(metric, ())]
        if not ranks:
            return None
        rank = min(ranks)
        of = [group for group in own if rank in group.ladders.get(metric, ())]
        ladders = [group.ladder(metric, rank) for group in of]
        if any(ladder is None for ladder in ladders) or len({one.edges for one in ladders if one}) > 1:
            self._notes.append(
                f"{metric}: series with different bucket edges cannot be added up, the buckets are left out"
            )
            return None
        same = [ladder for ladder in ladders if ladder is not None]
        edges, scale = same[0].edges, same[0].scale
        if edges[-1] != math.inf:
            self._notes.append(f"{metric}: there is no +Inf bucket, the buckets are left out")
            return None
        cells = [self._make(every) for every in zip(*(ladder.cells for ladder in same), strict=True)]
        self._found.setdefault(metric, of[0].names[metric, rank, "bucket"])
        return _Buckets(
            row, metric, tuple(edge * scale for edge in edges), taking(cells),
            self._rest(own, metric, rank, "sum"), self._rest(own, metric, rank, "count"),
        )  # fmt: skip

    def _mean(self, row: Row, metric: str, own: list[Group]) -> _Buckets | None:
        """A sum and a count of one row, of a mean or of a histogram without buckets that can be used: a
        histogram of the +Inf bucket alone."""
        parts = {key for group in own for key in group.rests.get(metric, ())}
        for sum_part, count_part in SUMS_AND_COUNTS:
            for rank in sorted(rank for rank, part in parts if part == sum_part):
                total, count = (self._rest(own, metric, rank, part) for part in (sum_part, count_part))
                if self._unknown not in (total, count):
                    names = [
                        next(group.names[key] for group in own if key in group.names)
                        for key in ((metric, rank, sum_part), (metric, rank, count_part))
                    ]
                    self._found.setdefault(metric, " / ".join(names))
                    return _Buckets(row, metric, (math.inf,), taking([count]), total, count)
        return None

    def _rest(self, own: list[Group], metric: str, rank: int, part: Part) -> int:
        cells = [cell for group in own if (cell := group.rest(metric, rank, part)) is not None]
        return self._make(cells) if cells else self._unknown
