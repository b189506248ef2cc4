"""Inference engines as tables: canonical column → the names an engine gives it, first present wins.

An engine is an `EngineKind` with its tables filled in; nothing else is needed for most of them. The rules
that all engines share stand here: aliases are never added up, several series of one name (one per HTTP
handler, per cache source …) are; KV use takes the largest; a histogram needs its +Inf bucket.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

from collectors.engines.layout import EngineLayout
from collectors.engines.series import EnginePlace, Part
from collectors.exposition import Nowhere
from collectors.reading import EngineSample
from collectors.source import ExpositionKind, plain


@dataclass(frozen=True)
class Named:
    """One name of a concept, where a bare string does not say enough."""

    name: str
    """As exposed, after the kind's prefix; a histogram's without `_bucket`."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Label → pattern (`4*`) a series must match; keys and values compare without case."""
    scale: float = 1.0
    """The unit belongs to the name: 1e-6 for microseconds, 0.01 for percent."""
    in_label: str | None = None
    """The value is this label's text; the sample's own value says nothing (`*_info`)."""
    absent_is_zero: bool = False
    """A family that is there without a matching series counts 0: a series is born at its first increment."""


Names = Sequence[str | Named]

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


@dataclass(frozen=True, kw_only=True)
class EngineKind(ExpositionKind[EnginePlace]):
    """An engine that answers with an exposition."""

    prefixes: tuple[str, ...]
    """Put before each name of `columns` and `histograms`; compared as `source.plain`."""
    columns: Mapping[str, Names]
    histograms: Mapping[str, Names] = field(default_factory=dict)
    endpoint: Mapping[str, Names] = field(default_factory=dict)
    """Columns whose names have no prefix and no replica: HTTP_ERRORS, PROCESS."""
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that are the sum of others; unknown when one of them is."""
    replica_labels: tuple[str, ...] = ()
    """First present wins; a series without one belongs to replica "0"."""
    model_labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What anyone who reads the rows must know."""

    @property
    def yields(self) -> tuple[str, ...]:
        """Canonical columns and histogram metrics that some version of the engine can give."""
        named = {*self.columns, *self.endpoint, *self.added}
        return (*(column for column in EngineSample._fields if column in named), *self.histograms)

    @cached_property
    def _targets(self) -> Mapping[str, list[_Target]]:
        found: dict[str, list[_Target]] = {}

        def add(column: str, names: Names, prefix: str, parts: Mapping[str, Part], of_endpoint: bool) -> None:
            for rank, name in enumerate(names):
                named = Named(name) if isinstance(name, str) else name
                for suffix, part in parts.items():
                    target = _Target(column, rank, part, named, of_endpoint)
                    found.setdefault(plain(f"{prefix}{named.name}{suffix}"), []).append(target)

        for prefix in self.prefixes:
            for column, names in self.columns.items():
                add(column, names, prefix, {"": "value"}, False)
            for metric, names in self.histograms.items():
                add(metric, names, prefix, {"_bucket": "bucket", "_sum": "sum", "_count": "count"}, False)
        for column, names in self.endpoint.items():
            add(column, names, "", {"": "value"}, True)
        return found

    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """Where a series goes: the first target whose conditions on labels hold."""
        targets = self._targets.get(plain(name))
        if targets is None:
            return Nowhere.UNWANTED
        labels = {key.lower(): value for key, value in labels.items()}
        zeroes = tuple(target.column for target in targets if target.named.absent_is_zero)
        for target in targets:
            if all(_matches(labels.get(key.lower()), want) for key, want in target.named.where.items()):
                return self._placed(target, target.part, labels, zeroes)
        return self._placed(targets[0], "family", labels, zeroes) if zeroes else Nowhere.UNWANTED

    def _placed(
        self, target: _Target, part: Part, labels: dict[str, str], zeroes: tuple[str, ...]
    ) -> EnginePlace | Nowhere:
        edge = math.inf
        if part == "bucket":
            edge = _number(labels.pop("le", ""))
            if math.isnan(edge) or edge == -math.inf:
                return Nowhere.UNOWNED
        constant = None
        if target.named.in_label is not None:
            constant = _number(labels.get(target.named.in_label.lower(), ""))
            if not math.isfinite(constant):
                return Nowhere.UNWANTED
        return EnginePlace(
            target.column, target.rank, part,
            _first(labels, self.replica_labels), _first(labels, self.model_labels), target.of_endpoint,
            edge, target.named.scale, constant, zeroes, tuple(sorted(labels.items())),
        )  # fmt: skip

    def layout(self, places: tuple[EnginePlace, ...]) -> EngineLayout:
        """How values aligned with `places` become engine rows and histograms."""
        return EngineLayout(
            places, engine=self.name, role=self.role, yields=self.yields,
            metrics=tuple(self.histograms), added=self.added, notes=self.notes,
        )  # fmt: skip


def _matches(value: str | None, pattern: str) -> bool:
    return value is not None and fnmatchcase(value.lower(), pattern.lower())


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((labels[key] for key in keys if labels.get(key)), None)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
