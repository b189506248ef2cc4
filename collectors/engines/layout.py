"""From the values of one set of engine series to rows: worked out once, then index look-ups per scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Literal, NamedTuple

from collectors.reading import EngineSample, Histogram
from collectors.source import Rows

Part = Literal["value", "bucket", "sum", "count", "family"]
Cells = list[float | None]

_MEASURES = EngineSample._fields[4:]
_ADDITIVE_ON_FIRST_ROW = frozenset({"http_4xx_total", "http_5xx_total"})
"""Counts of the whole endpoint: on every row they would be added up once per replica."""
_LARGEST = frozenset({"kv_cache_used_ratio", "memory_reservation_ratio", "process_start_time_seconds"})
"""Several series of one row: the largest. Adding up ratios or times means nothing."""


class EnginePlace(NamedTuple):
    """Where the value of one series goes."""

    column: str
    """Canonical column, or histogram metric for bucket, sum and count."""
    rank: int
    """Position of the name among the column's aliases."""
    part: Part
    """`family`: a series without a column of its own, of a family that makes `zeroes` known."""
    replica: str | None
    """None: the series names none."""
    model: str | None
    of_endpoint: bool
    """It says something of the process that answers, not of one replica."""
    edge: float
    """Upper edge of a bucket in the name's own unit."""
    scale: float
    """From the name's unit to the column's."""
    constant: float | None
    """The value, where a label carries it."""
    zeroes: tuple[str, ...]
    """Columns that are 0 while this series is there and none of theirs is."""
    series: tuple[tuple[str, str], ...]
    """All labels but a bucket's `le`: the same one twice is one series, shown twice."""


class _Row(NamedTuple):
    replica: str
    model: str | None


class _Sum(NamedTuple):
    """A cell made of several."""

    cells: tuple[int, ...]
    largest: bool


class _Buckets(NamedTuple):
    row: _Row
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
        for position, row in enumerate(_rows(places)):
            own = [(number, place) for number, place in enumerate(places) if _belongs(place, row)]
            columns = self._columns(own, first_row=position == 0, added=added)
            present |= columns.keys()
            getter = itemgetter(*(columns.get(column, self._unknown) for column in _MEASURES))
            self._rows.append(((engine, role, row.replica, row.model), getter))
            for metric in metrics:
                if found := self._buckets(row, metric, own):
                    self._histograms.append(found)
                    present.add(metric)
        self.missing = tuple(name for name in yields if name not in present)
        self.notes = (*notes, *dict.fromkeys(self._notes)) if self._rows else ()

    def rows(self, values: list[float]) -> Rows:
        """The rows of one scrape. A value that is no number (NaN, ±Inf) is not known."""
        cells: Cells = [*values, *self._constants]
        clean = math.isfinite(sum(values))  # one pass in C; a NaN or an infinity shows in the sum
        if not clean:
            cells[: self._count] = [value if math.isfinite(value) else None for value in values]
        for number, scale in self._scaled:
            value = cells[number]
            cells[number] = None if value is None else value * scale
        for made in self._sums:
            cells.append(_made(cells, made))
        engines = [EngineSample(*key, *getter(cells)) for key, getter in self._rows]
        histograms: list[Histogram] = []
        notes: tuple[str, ...] = ()
        for row, metric, edges, getter, sum_cell, count_cell in self._histograms:
            buckets = getter(cells)
            if not clean and None in buckets:
                notes = (*notes, f"{metric}: a bucket count is no number, the histogram is left out")
                continue
            count = cells[count_cell]
            histograms.append(
                Histogram(
                    row.replica, row.model, metric, edges, buckets,  # type: ignore[arg-type]
                    cells[sum_cell], buckets[-1] if count is None else count,
                )
            )  # fmt: skip
        return Rows([], engines, histograms, notes)

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
        self, own: list[tuple[int, EnginePlace]], *, first_row: bool, added: Mapping[str, tuple[str, ...]]
    ) -> dict[str, int]:
        """Canonical column → cell, for one row."""
        found: dict[str, dict[int, dict[tuple[tuple[str, str], ...], int]]] = {}
        zeroes: set[str] = set()
        for number, place in own:
            if place.part == "value":
                ranks = found.setdefault(place.column, {})
                ranks.setdefault(place.rank, {})[place.series] = self._cell_of[number]
            zeroes.update(place.zeroes)
        columns = {
            column: self._make(ranks[min(ranks)].values(), largest=column in _LARGEST)
            for column, ranks in found.items()
            if first_row or column not in _ADDITIVE_ON_FIRST_ROW
        }
        for column in sorted(zeroes - columns.keys()):
            if first_row or column not in _ADDITIVE_ON_FIRST_ROW:
                columns[column] = self._make((), largest=False)
        for column, parts in added.items():
            if all(part in columns for part in parts):
                columns[column] = self._make(columns[part] for part in parts)
        return columns

    def _buckets(self, row: _Row, metric: str, own: list[tuple[int, EnginePlace]]) -> _Buckets | None:
        """One histogram of one row; several series of it (streamed or not …) are added up."""
        ranks = [place.rank for _, place in own if place.column == metric and place.part == "bucket"]
        if not ranks:
            return None
        series: dict[tuple[tuple[str, str], ...], dict[float, int]] = {}
        rest: dict[str, dict[tuple[tuple[str, str], ...], int]] = {"sum": {}, "count": {}}
        scale = 1.0
        for number, place in own:
            if place.column != metric or place.rank != min(ranks):
                continue
            if place.part == "bucket":
                scale = place.scale
                series.setdefault(place.series, {})[place.edge] = number
            elif place.part in rest:
                rest[place.part][place.series] = number
        ladders = {tuple(sorted(buckets)) for buckets in series.values()}
        if len(ladders) > 1:
            self._notes.append(f"{metric}: series with different bucket edges cannot be added up, left out")
            return None
        edges = ladders.pop()
        if edges[-1] != math.inf:
            self._notes.append(f"{metric}: there is no +Inf bucket, the histogram is left out")
            return None
        cells = [self._make(buckets[edge] for buckets in series.values()) for edge in edges]
        getter = itemgetter(*cells) if len(cells) > 1 else lambda every, only=cells[0]: (every[only],)
        both = {part: self._make(found.values()) if found else self._unknown for part, found in rest.items()}
        scaled = tuple(edge * scale for edge in edges)
        return _Buckets(row, metric, scaled, getter, both["sum"], both["count"])


def _rows(places: tuple[EnginePlace, ...]) -> list[_Row]:
    """Replica and model of each row, replicas in number order. A series that names a model makes a row;
    where none does, a series of a replica. What belongs to the endpoint alone makes none."""
    of_replicas = [place for place in places if not place.of_endpoint]
    named = [place for place in of_replicas if place.model is not None] or of_replicas
    found = {_Row(place.replica or "0", place.model) for place in named}
    return sorted(found, key=lambda row: (len(row.replica), row.replica, row.model or ""))


def _belongs(place: EnginePlace, row: _Row) -> bool:
    if place.model is not None:
        return (place.replica or "0", place.model) == row
    return place.replica is None or place.replica == row.replica


def _made(cells: Cells, made: _Sum) -> float | None:
    parts = [cells[cell] for cell in made.cells]
    known = [part for part in parts if part is not None]
    if made.largest:
        return max(known, default=None)
    total = sum(known, 0.0)
    return total if len(known) == len(parts) and math.isfinite(total) else None
