"""One transaction of readings in the making: which rows they become, and what is to be remembered of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, NamedTuple, Protocol

from collectors import frames, multiworker, usage
from collectors.counters import Increase, Key, Last, increase
from collectors.fetch import Fetched
from collectors.gpu.identity import Identities
from collectors.known import (
    Known,
    Replica,
    falls,
    histograms_since,
    process_start,
    telling,
    uncounted,
    usage_since,
)
from collectors.multiworker import Counting, Watch
from collectors.reading import EngineSample, Histogram, ProbeResult, Reading, UsageKey
from collectors.target import Target
from sql.store import Writer, to_json

AccountKey = tuple[str, UsageKey]
"""(target, usage key)."""

_COST_PLACES = Decimal("1e-9")
"""Of column `probe.cost`."""


class Scraped(NamedTuple):
    """One target's answer, read."""

    target: Target
    ts: datetime
    fetched: Fetched
    reading: Reading | None
    error: str | None
    body_bytes: int | None = None
    """How large the answer was, where `fetched` does not hold it."""


class Memory(Protocol):
    """What stands between scrapes; read here, changed only once the transaction is committed."""

    known: dict[str, Known]
    lasts: dict[Key, Last]
    edge_sets: dict[tuple[float, ...], int]
    watches: dict[str, Watch]
    accounts: dict[AccountKey, usage.Account]
    identities: Identities
    describes: bool
    appeared_after: datetime | None


class _Counted(NamedTuple):
    """One histogram of a reading and what it would add."""

    histogram: Histogram
    series: Key
    last: Last | None
    step: Increase


@dataclass
class Batch:
    """One transaction in the making: what it learns stays here until it is committed."""

    writer: Writer
    before: Memory
    known: dict[str, Known] = field(default_factory=dict)
    lasts: dict[Key, Last] = field(default_factory=dict)
    edge_sets: dict[tuple[float, ...], int] = field(default_factory=dict)
    watches: dict[str, Watch] = field(default_factory=dict)
    accounts: dict[AccountKey, usage.Account] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    """Histograms to be forgotten."""
    rows: dict[str, list[Any]] = field(default_factory=lambda: {table: [] for table in frames.SCHEMAS})
    described: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What answers turned out to be, of the targets of which that is news."""

    def add(self, scraped: Scraped) -> None:
        """Turn one answer into rows. Raises what the store says of a value that does not fit."""
        fetched, reading = scraped.fetched, scraped.reading
        counts: tuple[int | None, int | None, int | None] = (None, None, None)
        if reading is not None:
            counts = (reading.lines, reading.rejected_lines, reading.unowned_lines)
        row = (
            scraped.ts, scraped.target.name, scraped.error is None, fetched.status, fetched.duration_seconds,
            scraped.body_bytes or len(fetched.body) or None, *counts, scraped.error,
        )  # fmt: skip
        self.rows["scrape"].append(row)
        if reading is not None and reading.says_something:
            self._samples(scraped.target, scraped.ts, reading)

    def append_rows(self) -> None:
        """Put the rows into the transaction."""
        for table, values in self.rows.items():
            if values:
                self.writer.append(table, frames.frame(table, values))
        self.describe()

    def describe(self) -> None:
        """Write what is news of targets, in one statement: one each took half a minute at the first round of
        6000."""
        if not self.described:
            return
        kinds, roles, missing, notes, found_names = zip(*self.described.values(), strict=True)
        self.writer.run(
            "describe_targets", targets=list(self.described), found_kinds=list(kinds), roles=list(roles),
            missing=[list(names) for names in missing], notes=[list(words) for words in notes],
            found_names=[to_json(dict(names)) for names in found_names],
        )  # fmt: skip

    def _samples(self, target: Target, ts: datetime, reading: Reading) -> None:
        key = (ts, target.name)
        self.rows["host_sample"].extend(key + host for host in reading.hosts)
        self.rows["probe"].extend(key + _storable(probe) for probe in reading.probes)
        reading = self.before.identities.tell_apart(target.name, reading)
        self.rows["gpu_sample"].extend(key + gpu for gpu in reading.gpus)
        self.rows["gpu_process"].extend(key + process for process in reading.processes)
        engines = reading.engines
        if target.model is not None:
            engines = [engine if engine.model else engine._replace(model=target.model) for engine in engines]
        known = self.known.get(target.name) or self.before.known.get(target.name) or Known()
        counting = Counting.ON
        replicas = known.replicas
        own = known.own_usage or bool(reading.usage)
        if engines or reading.histograms or reading.usage:
            seen = {(one.replica, one.model): telling(one) for one in engines}
            counting = self._count(target, ts, reading, engines, seen, known, own)
            if counting is not Counting.HELD:
                replicas = seen
            if counting in (Counting.HELD, Counting.OFF):
                engines = uncounted(engines, counting)
        self.rows["engine_sample"].extend(key + engine for engine in engines)
        notes = reading.notes if counting is not Counting.OFF else (*reading.notes, multiworker.NOTE)
        description = (reading.source, reading.role, reading.missing, notes, reading.found_names)
        if self.before.describes and known.described != description:
            self.described[target.name] = description
        counted_at = known.counted_at if counting is Counting.HELD else ts
        payer = (target.project, target.environment)
        self.known[target.name] = Known(ts, counted_at, replicas, description, True, own, payer)

    def _count(
        self,
        target: Target,
        ts: datetime,
        reading: Reading,
        engines: list[EngineSample],
        replicas: Mapping[Replica, tuple[float | None, ...]],
        known: Known,
        own: bool,
    ) -> Counting:
        """Count what can be counted of histograms and usage; how, is the same for all of a target."""
        name = target.name
        zero_since = histograms_since(engines, known)
        counted = [self._counted(target, one, ts, zero_since) for one in reading.histograms]
        fell = falls(known.replicas, replicas)
        for one in counted:
            if one.step.fell:
                fell[one.series] = one.histogram.buckets[-1]
        used = usage.counters(reading, engines, own) if own or target.project is not None else {}
        for key, raws in used.items():
            account = self._account((name, key))
            if account is not None:
                fell.update({(key, replica): value for replica, value in usage.fell(account, raws).items()})
        start = process_start(engines)
        watch = self.watches.get(name) or self.before.watches.get(name) or Watch()
        counting = Counting.ON
        if fell or not watch.calm or start != watch.start:
            shown: set[Any] = set()
            if watch.held:
                shown.update(one.series for one in counted)
                shown.update(replicas)
                shown.update((key, replica) for key, raws in used.items() for replica in raws)
            watch, counting = multiworker.look(watch, ts, known.counted_at, start, fell, shown)
            self.watches[name] = watch
        for one in counted:
            self._histogram(ts, _as_counted(one, ts, counting, watch, zero_since), one, counting)
        if counting is Counting.RESTARTED:
            self._forget_not_shown(name, ts, {one.series for one in counted})
            if own or target.project is not None:
                used |= {key: {} for key in self._keys_of(name, own) - used.keys()}
        for key, raws in used.items():
            fallen = set()
            if counting in multiworker.FALLEN:
                fallen = {replica for replica in raws if (key, replica) in watch.fallen}
            since = usage_since(key, raws, engines, known)
            step = usage.step(self._account((name, key)), raws, ts, counting, since, fallen)
            self._usage(name, (target.project, target.environment), key, step)
        return counting

    def settle(self, of: Callable[[str, usage.Account], bool] = lambda *_: True) -> None:
        """Write what was used and stands in no row yet, as no scrape may follow that does; `of`: of which
        targets and accounts."""
        for (name, key), account in {**self.before.accounts, **self.accounts}.items():
            if any(account.pending) and of(name, account):
                known = self.known.get(name) or self.before.known.get(name) or Known()
                self._usage(name, known.payer, key, usage.settled(account))

    def _forget_not_shown(self, name: str, ts: datetime, shown: set[Key]) -> None:
        """The target's process is new: histograms that it does not show yet begin at 0 when it does."""
        before = {series: last for series, last in self.before.lasts.items() if series not in self.gone}
        for series, last in {**before, **self.lasts}.items():
            if series.target == name and series not in shown:
                edges = last.edges_seconds
                edge_set_id = self.before.edge_sets.get(edges) or self.edge_sets[edges]
                zeros = (0.0,) * len(edges)
                self.rows["histogram_base"].append((ts, *series, edge_set_id, zeros))
                self.lasts.pop(series, None)
                self.gone.add(series)

    def _keys_of(self, name: str, own: bool) -> set[UsageKey]:
        """The usage keys of the target, of its own counters or of those made from its engine rows."""
        return {
            key
            for target, key in (*self.before.accounts, *self.accounts)
            if target == name and (key.source != usage.TARGET) is own
        }

    def _account(self, key: AccountKey) -> usage.Account | None:
        return self.accounts.get(key) or self.before.accounts.get(key)

    def _counted(
        self, target: Target, histogram: Histogram, ts: datetime, zero_since: Mapping[Replica, datetime]
    ) -> _Counted:
        series = Key(target.name, histogram.replica, histogram.model or target.model, histogram.metric)
        last = self.lasts.get(series)
        if last is None and series not in self.gone:
            last = self.before.lasts.get(series)
        since = zero_since.get((series.replica, series.model))
        if since is not None and self.before.appeared_after is not None:
            since = min(since, self.before.appeared_after)
        return _Counted(histogram, series, last, increase(last, histogram, ts, since))

    def _histogram(self, ts: datetime, step: Increase, of: _Counted, counting: Counting) -> None:
        histogram = of.histogram
        edges = histogram.edges_seconds
        edge_set_id = self.before.edge_sets.get(edges) or self.edge_sets.get(edges)
        if edge_set_id is None:
            edge_set_id = int(self.writer.run("add_edge_set", edges=list(edges))[0][0])
            self.edge_sets[edges] = edge_set_id
        head = (ts, *of.series, edge_set_id)
        self.rows["engine_histogram"].append(
            (
                *head, step.interval_seconds, step.increases, step.sum_increase_seconds,
                histogram.sum_seconds, histogram.count,
            )
        )  # fmt: skip
        if step.write_base:
            self.rows["histogram_base"].append((*head, step.last.buckets))
        if counting is not Counting.HELD:
            self.lasts[of.series] = step.last

    def _usage(
        self, name: str, payer: tuple[str | None, str | None], key: UsageKey, step: usage.Step
    ) -> None:
        if step.account is None:
            return
        self.accounts[name, key] = step.account
        project, environment = payer
        if step.row is not None:
            whose = key
            if key.source == usage.TARGET:
                whose = key._replace(project=project, environment=environment)
            elif key.environment is None:
                whose = key._replace(environment=environment)
            row = (step.row.ts, step.row.interval_seconds, name, *whose, *step.row.used)
            self.rows["project_usage"].append(row)
        if step.base is not None:
            self.rows["usage_base"].extend(
                (step.base.counted_at, name, replica, *key, *raw.totals)
                for replica, raw in step.base.raws.items()
            )


def _as_counted(
    one: _Counted, ts: datetime, counting: Counting, watch: Watch, zero_since: Mapping[Replica, datetime]
) -> Increase:
    """The increase of a histogram under the verdict on its target's counters."""
    if counting is Counting.ON:
        return one.step
    histogram, last = one.histogram, one.last
    if counting is Counting.ANEW:
        return increase(None, histogram, ts, None)
    if counting is Counting.RESTARTED or (counting is Counting.SETTLED and one.series in watch.fallen):
        since = last.ts if last is not None else zero_since.get((one.series.replica, one.series.model))
        return increase(None, histogram, ts, since)
    if counting in multiworker.FALLEN:
        return increase(None, histogram, ts, None) if one.series in watch.fallen else one.step
    base_ts = last.base_ts if last is not None else ts
    state = Last(ts, histogram.edges_seconds, histogram.buckets, histogram.sum_seconds, base_ts)
    return Increase(state, None, None, None, False)


def _storable(probe: ProbeResult) -> ProbeResult:
    if probe.cost is None:
        return probe
    return probe._replace(cost=probe.cost.quantize(_COST_PLACES, ROUND_HALF_EVEN))
