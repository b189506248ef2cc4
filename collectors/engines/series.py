"""Which row of an engine each series belongs to: replica and model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeVar

Part = Literal["value", "bucket", "sum", "count", "mean_sum", "mean_count", "family"]
Series = tuple[tuple[str, str], ...]
T = TypeVar("T")

LARGEST = frozenset({"kv_cache_used_ratio", "memory_reservation_ratio", "process_start_time_seconds"})
"""Several series of one row: the largest. Adding up ratios or times means nothing."""

PID = "pid"
"""Label of gauges that each worker process shows for itself (prometheus_client's multiprocess mode "all").
Processes that died stay (client_python #495, #985): adding up counts them, so the largest is taken."""

ROWS_CAP = 1000
"""Replicas times models of one target, in order of appearance: a label without end (litellm #39136 shows one
per requested model name) must not become rows without end."""


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
    series: Series
    """All labels but a bucket's `le`: the same one twice is one series, shown twice."""
    exposed: str = ""
    """The name as the target spells it; a histogram's without `_bucket`."""
    also: tuple[EnginePlace, ...] = ()
    """What else the same series says: a count of tokens is the count of a mean as well."""


class Row(NamedTuple):
    """What one engine sample is about."""

    replica: str
    model: str | None


class Ladder(NamedTuple):
    """The buckets of one histogram: upper edges in the name's own unit, and the cell of each."""

    edges: tuple[float, ...]
    scale: float
    cells: tuple[int, ...]


class Group:
    """Series that belong to the same rows. What several rows share is added up once, for all of them."""

    def __init__(
        self,
        make: Callable[..., int],
        copies: frozenset[str] = frozenset(),
        totals: Mapping[str, str] | None = None,
    ) -> None:
        self._make = make
        self._copies = copies
        self._totals = totals or {}
        self.names: dict[tuple[str, int, Part], str] = {}
        """Column, rank, part → the name as exposed."""
        self.values: dict[str, dict[int, dict[Series, int]]] = {}
        """Column → rank → series → cell. The same series shown twice: the last counts."""
        self.zeroes: dict[str, str] = {}
        """Columns that are 0 where nothing else is said → the name as exposed."""
        self.ladders: dict[str, dict[int, dict[Series, dict[float, int]]]] = {}
        """Metric → rank → series → edge → cell."""
        self.rests: dict[str, dict[tuple[int, Part], dict[Series, int]]] = {}
        """Metric → rank and part → series → cell: sums and counts, of histograms and of means."""
        self._scales: dict[tuple[str, int], float] = {}
        self._made: dict[tuple[str, int, str], int] = {}
        self._made_ladders: dict[tuple[str, int], Ladder | None] = {}

    def add(self, cell: int, place: EnginePlace) -> None:
        """One series, and the cell of its value."""
        column, rank, part, series = place.column, place.rank, place.part, place.series
        for zero in place.zeroes:
            self.zeroes[zero] = place.exposed
        self.names.setdefault((column, rank, part), place.exposed)
        if part == "value":
            self.values.setdefault(column, {}).setdefault(rank, {})[series] = cell
        elif part == "bucket":
            ladders = self.ladders.setdefault(column, {}).setdefault(rank, {})
            ladders.setdefault(series, {})[place.edge] = cell
            self._scales[column, rank] = place.scale
        elif part != "family":
            self.rests.setdefault(column, {}).setdefault((rank, part), {})[series] = cell

    def value(self, column: str, rank: int) -> int:
        """The cell of the column."""
        key = (column, rank, "value")
        if key not in self._made:
            of_processes: dict[Series, list[int]] = {}
            kept = self._total(self._first_copies(self.values[column][rank]), self._totals.get(column))
            for series, cell in kept.items():
                of_processes.setdefault(tuple(pair for pair in series if pair[0] != PID), []).append(cell)
            cells = [self._make(every, largest=True) for every in of_processes.values()]
            self._made[key] = self._make(cells, largest=column in LARGEST)
        return self._made[key]

    def ladder(self, metric: str, rank: int) -> Ladder | None:
        """The buckets of a histogram; None when the edges of its series differ."""
        key = (metric, rank)
        if key not in self._made_ladders:
            series = self._first_copies(self.ladders[metric][rank])
            ladders = {tuple(sorted(buckets)) for buckets in series.values()}
            self._made_ladders[key] = None
            if len(ladders) == 1:
                edges = ladders.pop()
                cells = tuple(self._make(buckets[edge] for buckets in series.values()) for edge in edges)
                self._made_ladders[key] = Ladder(edges, self._scales[key], cells)
        return self._made_ladders[key]

    def rest(self, metric: str, rank: int, part: Part) -> int | None:
        """The cell of a sum or a count; None where a histogram shows it of some of its series and not of all:
        the sum of one and the count of two (a line that could not be read) are no mean."""
        key = (metric, rank, part)
        series = self.rests.get(metric, {}).get((rank, part))
        if series is None or not self._of_all(metric, rank, part):
            return None
        if key not in self._made:
            self._made[key] = self._make(self._first_copies(series).values())
        return self._made[key]

    def _of_all(self, metric: str, rank: int, part: Part) -> bool:
        if part not in ("sum", "count"):
            return True
        rests = self.rests[metric]
        shown = [self.ladders.get(metric, {}).get(rank), rests.get((rank, "sum")), rests.get((rank, "count"))]
        return all(of is None or of.keys() <= rests[rank, part].keys() for of in shown)

    def _total(self, of: Mapping[Series, int], label: str | None) -> Mapping[Series, int]:
        """The series that have no value of `label`, beside others that share their sum out by it."""
        if label is None or len(of) < 2:
            return of
        whole = {series: cell for series, cell in of.items() if not dict(series).get(label)}
        return whole or of

    def _first_copies(self, of: Mapping[Series, T]) -> Mapping[Series, T]:
        """The series with the lowest values of the labels that tell copies of one fact apart."""
        if len(of) < 2 or not self._copies:
            return of
        # By length first, so that 2 comes before 10.
        ranks = {
            series: tuple((len(value), value) for key, value in series if key in self._copies)
            for series in of
        }
        lowest = min(ranks.values())
        return {series: value for series, value in of.items() if ranks[series] == lowest}


def find_rows(places: tuple[EnginePlace, ...]) -> tuple[list[Row], int]:
    """Replica and model of each row, replicas in number order, and how many are past the cap. A series that
    names a model makes a row; where none does, a series of a replica. What belongs to the endpoint alone
    makes none."""
    of_replicas = [place for place in places if not place.of_endpoint]
    named = [place for place in of_replicas if place.model is not None] or of_replicas
    found = list(dict.fromkeys(Row(place.replica or "0", place.model) for place in named))
    kept = sorted(found[:ROWS_CAP], key=lambda row: (len(row.replica), row.replica, row.model or ""))
    return kept, len(found) - len(kept)


def keep_apart(groups: Mapping[Row | str | None, Group]) -> int:
    """Take from shared groups what their rows' own series say too: a series without a name beside named ones
    is nobody's, and adding it to each of them would make up load. How many series are left out."""
    left_out = 0
    own: dict[str, set[str]] = {}  # replica → what its rows that name a model say
    for key, group in groups.items():
        if isinstance(key, Row):
            own.setdefault(key.replica, set()).update(group.values, group.ladders, group.rests)
    of_all = {
        column
        for key, group in groups.items()
        if key is not None
        for column in (*group.values, *group.ladders, *group.rests)
    }
    for shared, group in groups.items():
        if isinstance(shared, Row):
            continue
        named = of_all if shared is None else own.get(shared, set())
        for kept in (group.values, group.ladders):
            for column in named & kept.keys():
                left_out += sum(len(series) for series in kept[column].values())
                del kept[column]
        for metric in named & group.rests.keys():
            del group.rests[metric]
    return left_out
