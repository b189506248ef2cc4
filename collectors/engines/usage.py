"""Token and spend counters by project: what gateways, and engines with a project label, say of who used what.

A `MeteredKind` is an engine kind and a `UsageTable` over one exposition: a series can belong to both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from collectors.engines.around import AroundEngine
from collectors.engines.series import ROWS_CAP, EnginePlace, Series
from collectors.engines.table import EngineKind, Named, Names, first_of, respelled
from collectors.exposition import Nowhere
from collectors.plausible import COUNT
from collectors.reading import UsageCounter, UsageKey
from collectors.source import Layout, Rows, plain
from collectors.support import Alias, alias_of

_SHOWN_MODELS = 5


class UsagePlace(NamedTuple):
    """Where the value of one series goes, as far as it says who used what."""

    counter: str
    """Field of `UsageCounter`."""
    rank: int
    """Position of the name among the counter's aliases."""
    key: UsageKey
    series: Series
    """All labels. They tell series apart that are added up, and go nowhere else: some name persons."""
    exposed: str
    """The name as the target spells it."""


class MeteredPlace(NamedTuple):
    """Where the value of one series goes; at least one of the two."""

    engine: EnginePlace | None
    usage: tuple[UsagePlace, ...]


@dataclass(frozen=True, kw_only=True)
class UsageTable:
    """Which series count what, and which labels say for whom."""

    source: str
    """`UsageKey.source`: litellm, otel."""
    counters: Mapping[str, Names]
    """Field of `UsageCounter` → names as exposed, first present wins."""
    project_labels: tuple[str, ...]
    """First with a value wins; so with the others."""
    environment_labels: tuple[str, ...] = ()
    model_labels: tuple[str, ...] = ()
    key_labels: tuple[str, ...] = ()
    """The alias of the key that was used. Never the key itself or a hash of it."""
    needs_project: bool = False
    """Series without a project are left out."""

    @cached_property
    def _targets(self) -> Mapping[str, list[tuple[str, int, Named]]]:
        found: dict[str, list[tuple[str, int, Named]]] = {}
        for counter, names in self.counters.items():
            for rank, name in enumerate((*names, *respelled(names))):
                named = Named(name) if isinstance(name, str) else name
                found.setdefault(plain(named.name), []).append((counter, rank, named))
        return found

    @property
    def aliases(self) -> dict[str, tuple[Alias, ...]]:
        """Field of `UsageCounter` → its names; the first project label stands for all."""
        project = {self.project_labels[0]: "?*"} if self.needs_project else {}
        named = {
            counter: [Named(name) if isinstance(name, str) else name for name in names]
            for counter, names in self.counters.items()
        }
        return {
            counter: tuple(alias_of(replace(one, where={**one.where, **project})) for one in names)
            for counter, names in named.items()
        }

    def wants(self, name: str) -> bool:
        """Whether a series of that name can count something."""
        return plain(name) in self._targets

    def place(self, name: str, labels: Mapping[str, str], series: Series) -> tuple[UsagePlace, ...]:
        """Where a series goes. `labels`: keys in lower case, without those whose value means "none"."""
        targets = self._targets.get(plain(name), ())
        if not targets:
            return ()
        key = UsageKey(
            first_of(labels, self.project_labels), first_of(labels, self.environment_labels),
            first_of(labels, self.model_labels), first_of(labels, self.key_labels), self.source,
        )  # fmt: skip
        if self.needs_project and key.project is None:
            return ()
        return tuple(
            UsagePlace(counter, rank, key, series, name)
            for counter, rank, named in targets
            if named.fits(labels)
        )


class MeteredLayout:
    """Engine rows by the engine kind's own layout, and the sums of the usage counters."""

    def __init__(self, engine: EngineKind, usage: UsageTable, places: tuple[MeteredPlace, ...]) -> None:
        self._numbers = [number for number, place in enumerate(places) if place.engine is not None]
        self._engine = engine.layout(tuple(place.engine for place in places if place.engine is not None))
        cells: dict[UsageKey, dict[str, dict[int, dict[Series, int]]]] = {}
        exposed: dict[tuple[str, int], str] = {}
        for number, place in enumerate(places):
            for use in place.usage:
                counters = cells.setdefault(use.key, {})
                counters.setdefault(use.counter, {}).setdefault(use.rank, {})[use.series] = number
                exposed.setdefault((use.counter, use.rank), use.exposed)
        self._usage = [
            (key, {counter: tuple(ranks[min(ranks)].values()) for counter, ranks in counters.items()})
            for key, counters in list(cells.items())[:ROWS_CAP]
        ]
        self._source = usage.source
        self.missing = self._engine.missing
        found = dict(self._engine.found_names)
        for counter, rank in sorted(exposed):
            found.setdefault(counter, exposed[counter, rank])
        self.found_names = tuple(found.items())
        notes = list(self._engine.notes)
        if len(cells) > ROWS_CAP:
            left_out = len(cells) - ROWS_CAP
            notes.append(f"{left_out} projects, keys and models past the first {ROWS_CAP} are left out")
        self.notes = tuple(notes)

    def rows(self, values: list[float]) -> Rows:
        """The rows of one scrape. A counter with a part that is no count is not known."""
        rows = self._engine.rows([values[number] for number in self._numbers])
        usage = [
            UsageCounter(key, **{counter: _total(values, numbers) for counter, numbers in counters.items()})
            for key, counters in self._usage
        ]
        return rows._replace(usage=usage, notes=(*rows.notes, *self._priced_at_nothing(usage)))

    def _priced_at_nothing(self, usage: list[UsageCounter]) -> tuple[str, ...]:
        free = sorted(
            {
                one.key.model or "a model without a name"
                for one in usage
                if one.spend_usd_total == 0
                and (one.prompt_tokens_total or 0) + (one.generation_tokens_total or 0) > 0
            }
        )
        if not free:
            return ()
        more = f" and {len(free) - _SHOWN_MODELS} more" if len(free) > _SHOWN_MODELS else ""
        models = ", ".join(free[:_SHOWN_MODELS]) + more
        return (f"{self._source} has tokens of {models} and no spend for them: their price is missing there",)


@dataclass(frozen=True, kw_only=True)
class MeteredKind(AroundEngine[MeteredPlace]):
    """Engine rows and usage counters out of one exposition."""

    usage: UsageTable
    no_value: frozenset[str] = frozenset({""})
    """Label values that mean "none"."""

    @property
    def aliases(self) -> dict[str, tuple[Alias, ...]]:
        """As the engine kind's, and those of what is counted by project alone (`spend_usd_total`)."""
        return self.usage.aliases | super().aliases

    def wants(self, name: str) -> bool:
        """Whether a series of that name can say something."""
        return self.engine.wants(name) or self.usage.wants(name)

    def place(self, name: str, labels: dict[str, str]) -> MeteredPlace | Nowhere:
        """Where a series goes: to the engine's row, to a usage counter, or to both."""
        every = {key.lower(): value for key, value in labels.items()}
        labels = {key: value for key, value in every.items() if value not in self.no_value}
        usage = self.usage.place(name, labels, tuple(sorted(every.items())))
        engine = self.engine.place(name, labels)
        if isinstance(engine, Nowhere):
            return MeteredPlace(None, usage) if usage else engine
        # Two series of which one says "none" and the other nothing are two all the same.
        if engine.part == "bucket":
            every.pop("le", None)
        series = tuple(sorted(every.items()))
        also = tuple(one._replace(series=series) for one in engine.also)
        return MeteredPlace(engine._replace(series=series, also=also), usage)

    def layout(self, places: tuple[MeteredPlace, ...]) -> Layout:
        """How values aligned with `places` become engine rows and usage counters."""
        return MeteredLayout(self.engine, self.usage, places)


def metered(engine: EngineKind, usage: UsageTable, no_value: frozenset[str] = frozenset({""})) -> MeteredKind:
    """The engine kind with usage counters beside its rows."""
    return MeteredKind(
        name=engine.name, role=engine.role, default_path=engine.default_path, marks=engine.marks,
        engine=engine, usage=usage, no_value=no_value,
    )  # fmt: skip


def _total(values: list[float], numbers: tuple[int, ...]) -> float | None:
    total = 0.0
    for number in numbers:
        value = values[number]
        if not COUNT.low <= value <= COUNT.high:  # NaN is neither
            return None
        total += value
    return total
