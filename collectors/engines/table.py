"""Inference engines as tables: canonical column → the names an engine gives it, first present wins.

An engine is an `EngineKind` with its tables filled in; nothing else is needed for most of them. The rules
that all engines share stand here: aliases are never added up, several series of one name (one per HTTP
handler, per cache source …) are; KV use takes the largest; a histogram needs its +Inf bucket, and is else
the mean that its sum and its count give; of gauges that each worker process shows (label `pid`) the largest
counts; a counter may lack its `_total` or have one that the engine does not write (Ray and OpenTelemetry's
collectors leave it out or add it, by their settings).

A name in `columns` that is no column of `EngineSample` is a helper: `added`, `plus` and `ratios` use it. A
metric that is not one of `METRICS` is one too: the kind must have a reader of its own that takes it away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

from collectors.engines.layout import Combined, EngineLayout
from collectors.engines.series import EnginePlace, Part
from collectors.exposition import Nowhere
from collectors.reading import EngineSample
from collectors.source import ExpositionKind, Families, plain

METRICS = ("ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode")
"""What a latency can be of: `Histogram.metric`."""


@dataclass(frozen=True)
class Named:
    """One name of a concept, where a bare string does not say enough."""

    name: str
    """As exposed, after the kind's prefix; a histogram's without `_bucket`."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Label → pattern (`4*`, or several: `stop|eos*`) a series must match; compared without case."""
    scale: float = 1.0
    """The unit belongs to the name: 1e-6 for microseconds, 0.01 for percent."""
    in_label: str | None = None
    """The value is this label's text; the sample's own value says nothing (`*_info`)."""
    absent_is_zero: bool = False
    """A family that is there without a matching series counts 0: a series is born at its first increment."""
    versions: str = ""
    """Which versions show it, for the documentation; "" where all do, or where that is not known."""

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels (keys in lower case) matches `where`."""
        return all(
            (value := labels.get(key.lower())) is not None
            and any(fnmatchcase(value.lower(), one) for one in pattern.lower().split("|"))
            for key, pattern in self.where.items()
        )


Names = Sequence[str | Named]


@dataclass(frozen=True)
class Mean:
    """A latency known as a sum and a count alone: a mean and no percentile."""

    sum: str | Named
    """Its `scale` says the unit: 1e-3 for milliseconds."""
    count: str | Named


HTTP_ERRORS: Mapping[str, Names] = {
    "http_4xx_total": (Named("http_requests_total", {"status": "4*"}, absent_is_zero=True),),
    "http_5xx_total": (Named("http_requests_total", {"status": "5*"}, absent_is_zero=True),),
}
"""prometheus-fastapi-instrumentator (engines.md 1). Of the endpoint: they stand on its first row."""

PROCESS: Mapping[str, Names] = {
    "process_start_time_seconds": ("process_start_time_seconds",),
    "process_resident_bytes": ("process_resident_memory_bytes",),
}
"""prometheus_client's own; they vanish in multiprocess mode (engines.md, fact 9)."""


class _Target(NamedTuple):
    column: str
    rank: int
    part: Part
    named: Named
    of_endpoint: bool

    @property
    def use(self) -> tuple[str, Part, int]:
        """Of several targets of one use the first that fits counts."""
        return self.column, self.part, self.rank if self.part in ("mean_sum", "mean_count") else 0


@dataclass(frozen=True, kw_only=True)
class EngineKind(ExpositionKind[EnginePlace]):
    """An engine that answers with an exposition."""

    prefixes: tuple[str, ...]
    """Put before each name of `columns`, `histograms` and `means`; compared as `source.plain`."""
    columns: Mapping[str, Names]
    histograms: Mapping[str, Names] = field(default_factory=dict)
    means: Mapping[str, Sequence[Mean]] = field(default_factory=dict)
    """Used where no histogram of that metric with buckets is found: first present wins. Several series of a
    sum, or of a count, are added up."""
    endpoint: Mapping[str, Names] = field(default_factory=dict)
    """Columns whose names have no prefix and no replica: HTTP_ERRORS, PROCESS."""
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that are the sum of others; unknown when one of them is."""
    plus: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns to which others are added where these are there; unknown when the column itself is."""
    ratios: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Columns that are one other divided by another, where they are not there themselves."""
    made: Mapping[str, str] = field(default_factory=dict)
    """Columns and metrics that a reader of the kind's own makes → of what, in words."""
    replica_labels: tuple[str, ...] = ()
    """First present wins; a series without one belongs to replica "0"."""
    model_labels: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    """Labels whose several values are copies of one fact (each tensor-parallel rank shows the same queue): of
    each column the series with the lowest values are taken."""
    totals: Mapping[str, str] = field(default_factory=dict)
    """Column → label whose values share out what the series without a value has in all: that one alone
    counts, where it is there."""
    only_with: frozenset[str] = frozenset()
    """Names (as `source.plain`) one of which must stand there, where the marks are not this kind's alone."""
    not_with: frozenset[str] = frozenset()
    """Names (as `source.plain`) that only another kind with the same marks shows."""
    impossible: Mapping[str, str] = field(default_factory=dict)
    """Canonical column or metric → why no version of the engine can give it, for the documentation."""
    notes: tuple[str, ...] = ()
    """What anyone who reads the rows must know."""

    def score(self, body: bytes, families: Families) -> int:
        """The number of families that carry one of the kind's marks; 0 against `only_with` or `not_with`."""
        if self.only_with or self.not_with:
            names = {plain(name) for name in families}
            if (self.only_with and not self.only_with & names) or self.not_with & names:
                return 0
        return super().score(body, families)

    @property
    def yields(self) -> tuple[str, ...]:
        """Canonical columns and histogram metrics that some version of the engine can give."""
        tables = (
            self.columns,
            self.endpoint,
            self.added,
            self.ratios,
            self.histograms,
            self.means,
            self.made,
        )
        named = {name for table in tables for name in table}
        return tuple(name for name in (*EngineSample._fields, *METRICS) if name in named)

    @cached_property
    def _targets(self) -> Mapping[str, list[_Target]]:
        found: dict[str, list[_Target]] = {}

        def add(column: str, rank: int, name: str | Named, prefix: str, parts: Mapping[str, Part]) -> None:
            named = Named(name) if isinstance(name, str) else name
            for suffix, part in parts.items():
                target = _Target(column, rank, part, named, column in self.endpoint)
                found.setdefault(plain(f"{prefix}{named.name}{suffix}"), []).append(target)

        def add_all(table: Mapping[str, Names], prefix: str, parts: Mapping[str, Part]) -> None:
            for column, names in table.items():
                others = respelled(names) if column.endswith("_total") else ()
                for rank, name in enumerate((*names, *others)):
                    add(column, rank, name, prefix, parts)

        for prefix in self.prefixes:
            add_all(self.columns, prefix, {"": "value"})
            add_all(self.histograms, prefix, {"_bucket": "bucket", "_sum": "sum", "_count": "count"})
            for metric, means in self.means.items():
                others = (Mean(*both) for mean in means if (both := respelled((mean.sum, mean.count)))[1:])
                for rank, mean in enumerate((*means, *others)):
                    add(metric, rank, mean.sum, prefix, {"": "mean_sum"})
                    add(metric, rank, mean.count, prefix, {"": "mean_count"})
        add_all(self.endpoint, "", {"": "value"})
        return found

    def wants(self, name: str) -> bool:
        """Whether the tables have the name, or it decides between kinds with the same marks."""
        key = plain(name)
        return key in self._targets or key in self.only_with or key in self.not_with

    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """Where a series goes: for each use of its name the first target whose conditions on labels hold."""
        targets = self._targets.get(plain(name))
        if targets is None:
            return Nowhere.UNWANTED
        labels = {key.lower(): value for key, value in labels.items()}
        if len(targets) == 1 and not targets[0].named.where:
            return self._placed(targets[0], targets[0].part, name, labels, ())
        zeroes = tuple(target.column for target in targets if target.named.absent_is_zero)
        fitting: dict[tuple[str, Part, int], _Target] = {}
        for target in targets:
            if target.named.fits(labels):
                fitting.setdefault(target.use, target)
        if not fitting:
            return self._placed(targets[0], "family", name, labels, zeroes) if zeroes else Nowhere.UNWANTED
        placed = [self._placed(target, target.part, name, labels, zeroes) for target in fitting.values()]
        places = [place for place in placed if not isinstance(place, Nowhere)]
        return places[0]._replace(also=tuple(places[1:])) if places else placed[0]

    def _placed(
        self, target: _Target, part: Part, name: str, labels: dict[str, str], zeroes: tuple[str, ...]
    ) -> EnginePlace | Nowhere:
        edge = math.inf
        series = tuple(sorted(labels.items()))
        if part == "bucket":
            edge = _number(labels.get("le", ""))
            if math.isnan(edge) or edge == -math.inf:
                return Nowhere.UNOWNED
            series = tuple([pair for pair in series if pair[0] != "le"])
            name = name[: -len("_bucket")]
        constant = None
        if target.named.in_label is not None:
            constant = _number(labels.get(target.named.in_label.lower(), ""))
            if not math.isfinite(constant):
                return Nowhere.UNWANTED
        return EnginePlace(
            target.column, target.rank, part,
            first_of(labels, self.replica_labels), first_of(labels, self.model_labels), target.of_endpoint,
            edge, target.named.scale, constant, zeroes, series, name,
        )  # fmt: skip

    def layout(self, places: tuple[EnginePlace, ...]) -> EngineLayout:
        """How values aligned with `places` become engine rows and histograms."""
        return EngineLayout(
            places, engine=self.name, role=self.role, yields=self.yields,
            metrics=tuple(dict.fromkeys((*self.histograms, *self.means))),
            combined=Combined(self.added, self.plus, self.ratios),
            copies=frozenset(label.lower() for label in self.copies), totals=self.totals, notes=self.notes,
        )  # fmt: skip


def respelled(names: Names) -> Names:
    """Names of counters with `_total` where they lack it, and without where they have it; those of parts of
    histograms are left out."""
    found: list[str | Named] = []
    for name in names:
        text = name if isinstance(name, str) else name.name
        if text.endswith(("_sum", "_count")):
            continue
        other = text.removesuffix("_total") if text.endswith("_total") else f"{text}_total"
        found.append(other if isinstance(name, str) else replace(name, name=other))
    return found


def first_of(labels: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    """The value of the first of the labels that has one; `labels` with keys in lower case."""
    return next((value for key in keys if (value := labels.get(key.lower()))), None)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
