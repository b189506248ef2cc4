"""Answers of targets → rows, one transaction a batch.

Used by the live rounds and by replay, so that a recording goes through the very same code. Holds what
must be remembered between scrapes: each target's reader, the last histogram buckets, the edge sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import duckdb

from collectors import frames
from collectors.counters import Increase, Key, Last, increase
from collectors.fetch import Fetched
from collectors.gpu.identity import Identities
from collectors.reading import EngineSample, Reading
from collectors.registry import KINDS, UnknownKindError, detect
from collectors.source import TargetReader
from collectors.target import PROBE, Target
from sql.store import Store, Writer, to_json

UNSTORABLE = (duckdb.Error, ArithmeticError, TypeError, ValueError)
"""What DuckDB and Arrow raise for a value that does not fit its column (ArrowInvalid is a ValueError)."""

FORGET_AFTER = timedelta(hours=1)


class Known(NamedTuple):
    """What is remembered of a target's last good scrape."""

    last_ok: datetime | None = None
    replicas: frozenset[tuple[str, str | None]] = frozenset()
    """(replica, model) of each engine row."""
    described: tuple[Any, ...] | None = None
    """(found kind, role, missing, notes, found names) as written to table `target`."""


class Scraped(NamedTuple):
    """One target's answer, read."""

    target: Target
    ts: datetime
    fetched: Fetched
    reading: Reading | None
    error: str | None
    body_bytes: int | None = None
    """How large the answer was, where `fetched` does not hold it."""


Also = Callable[[Writer, Sequence[Scraped]], None]
"""What else belongs into the transaction that writes these."""


@dataclass
class Ingest:
    """The one place where answers become rows. Not thread-safe: one batch at a time."""

    store: Store
    describes: bool = True
    """Whether table `target` is told what an answer shows; not when what is read is long past."""
    readers: dict[str, TargetReader] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    lasts: dict[Key, Last] = field(default_factory=dict)
    edge_sets: dict[tuple[float, ...], int] = field(default_factory=dict)
    identities: Identities = field(default_factory=Identities)

    def restore(self) -> None:
        """Go on where an earlier process on this store ended: last buckets, edge sets, replicas."""
        for edge_set_id, edges in self.store.query_rows("edge_sets"):
            self.edge_sets[tuple(edges)] = edge_set_id
        for target, replica, model, metric, edges, ts, base_ts, buckets, total in self.store.query_rows(
            "histogram_lasts"
        ):
            key = Key(target, replica, model, metric)
            self.lasts[key] = Last(ts, tuple(edges), tuple(buckets), total, base_ts)
        for target, replica, model, ts in self.store.query_rows("engine_replicas"):
            before = self.known.get(target, Known())
            self.known[target] = Known(ts, before.replicas | {(replica, model)})

    def read(self, target: Target, ts: datetime, fetched: Fetched) -> Scraped:
        """Read one answer. What the target got wrong becomes `Scraped.error`, never an exception."""
        if fetched.error is not None and not (fetched.body and target.kind == PROBE):
            return Scraped(target, ts, fetched, None, fetched.error)
        reader = self.readers.get(target.name)
        if reader is None or target.kind not in ("auto", reader.kind.name):
            try:
                kind = detect(fetched.body) if target.kind == "auto" else KINDS[target.kind]
            except UnknownKindError as error:
                return Scraped(target, ts, fetched, None, str(error))
            reader = self.readers[target.name] = TargetReader(kind)
        reading = reader.read(fetched.body)
        if not reading.says_something:
            del self.readers[target.name]  # another program may answer on this port now: detect anew
            words = fetched.error or f"no {reader.kind.name} metrics in the answer"
            return Scraped(target, ts, fetched, reading, words)
        self.identities.learn(target.name, reading.gpus)
        return Scraped(target, ts, fetched, reading, fetched.error)  # a failed probe: what was measured of it

    def commit(self, batch: Iterable[Scraped], also: Also | None = None) -> None:
        """Write a batch in one transaction, and what `also` writes for it.

        When the store refuses it, its targets are written one by one, and the one that cannot be stored is
        written as a failed scrape: one odd answer must not cost the others theirs. Raises what the store
        says when nothing at all can be written (a full disk); nothing is remembered then.
        """
        whole = list(batch)
        try:
            self._write(whole, also)
        except UNSTORABLE:
            for scraped in whole:
                try:
                    self._write([scraped], also)
                except UNSTORABLE as error:
                    words = f"infermeter could not store this, please report: {type(error).__name__}: {error}"
                    self._write([scraped._replace(reading=None, error=words.splitlines()[0][:500])], also)

    def prime(self, batch: Iterable[Scraped]) -> None:
        """Remember a batch that is written elsewhere: what follows it counts from there.

        The next histogram row of each series writes its base, as the one before may not be in the store yet.
        """
        with self.store.write() as writer:
            writing = _Batch(writer, self)
            for scraped in batch:
                writing.add(scraped)
        self.known.update(writing.known)
        self.lasts.update({key: last._replace(base_ts=datetime.min) for key, last in writing.lasts.items()})
        self.edge_sets.update(writing.edge_sets)

    def _write(self, batch: list[Scraped], also: Also | None = None) -> None:
        with self.store.write() as writer:
            writing = _Batch(writer, self)
            for scraped in batch:
                writing.add(scraped)
            if also is not None:
                also(writer, batch)
            for table, values in writing.rows.items():
                if values:
                    writer.append(table, frames.frame(table, values))
        self.known.update(writing.known)
        self.lasts.update(writing.lasts)
        self.edge_sets.update(writing.edge_sets)

    def forget(self) -> None:
        """Drop the histograms that their target has not shown for `FORGET_AFTER`, though it answered.

        Models and replicas come and go; memory must not grow with all that ever were. One that comes back
        later is a new series.
        """
        for key, last in list(self.lasts.items()):
            known = self.known.get(key.target)
            if known is None or (known.last_ok is not None and known.last_ok - last.ts > FORGET_AFTER):
                del self.lasts[key]

    def sync_targets(
        self, targets: Iterable[Target], now: datetime, origins: Mapping[str, str] | None = None
    ) -> None:
        """Bring table `target` to the list as it is: new and changed ones written, the others marked gone.

        `origins`: target name → where the list has it from (column `origin`).
        """
        listed = list(targets)
        with self.store.write() as writer:
            for target in listed:
                writer.run(
                    "upsert_target", target=target.name, kind=target.kind, url=target.shown_url,
                    project=target.project, environment=target.environment, labels=to_json(target.labels),
                    interval_seconds=target.interval_seconds, gpus=list(target.gpus),
                    memory_reservation_ratio=target.memory_reservation_ratio,
                    origin=(origins or {}).get(target.name), now=now,
                )  # fmt: skip
            writer.run("mark_targets_gone", names=[target.name for target in listed], now=now)
        names = {target.name for target in listed}
        for remembered in (self.readers, self.known):
            for name in remembered.keys() - names:
                del remembered[name]
        self.identities.forget(names)


@dataclass
class _Batch:
    """One transaction in the making: what it learns stays here until it is committed."""

    writer: Writer
    before: Ingest
    known: dict[str, Known] = field(default_factory=dict)
    lasts: dict[Key, Last] = field(default_factory=dict)
    edge_sets: dict[tuple[float, ...], int] = field(default_factory=dict)
    rows: dict[str, list[Any]] = field(default_factory=lambda: {table: [] for table in frames.SCHEMAS})

    def add(self, scraped: Scraped) -> None:
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

    def _samples(self, target: Target, ts: datetime, reading: Reading) -> None:
        key = (ts, target.name)
        self.rows["host_sample"].extend(key + host for host in reading.hosts)
        self.rows["probe"].extend(key + probe for probe in reading.probes)
        reading = self.before.identities.tell_apart(target.name, reading)
        known = self.known.get(target.name) or self.before.known.get(target.name) or Known()
        self.rows["gpu_sample"].extend(key + gpu for gpu in reading.gpus)
        engines = reading.engines
        if target.model is not None:
            engines = [engine if engine.model else engine._replace(model=target.model) for engine in engines]
        self.rows["engine_sample"].extend(key + engine for engine in engines)
        zero_since = _zero_since(engines, known)
        for histogram in reading.histograms:
            series = Key(target.name, histogram.replica, histogram.model or target.model, histogram.metric)
            since = zero_since.get((series.replica, series.model))
            last = self.lasts.get(series) or self.before.lasts.get(series)
            step = increase(last, histogram, ts, since)
            self.lasts[series] = step.last
            self._histogram(series, step, histogram.count)
        description = (reading.source, reading.role, reading.missing, reading.notes, reading.found_names)
        if self.before.describes and known.described != description:
            self.writer.run(
                "describe_target", target=target.name, found_kind=reading.source, role=reading.role,
                missing=list(reading.missing), notes=list(reading.notes),
                found_names=to_json(dict(reading.found_names)),
            )  # fmt: skip
        replicas = frozenset((engine.replica, engine.model) for engine in engines)
        self.known[target.name] = Known(ts, replicas, description)

    def _histogram(self, series: Key, step: Increase, count: float | None) -> None:
        last = step.last
        edges = last.edges_seconds
        edge_set_id = self.before.edge_sets.get(edges) or self.edge_sets.get(edges)
        if edge_set_id is None:
            edge_set_id = int(self.writer.run("add_edge_set", edges=list(edges))[0][0])
            self.edge_sets[edges] = edge_set_id
        head = (last.ts, series.target, series.replica, series.model, series.metric, edge_set_id)
        self.rows["engine_histogram"].append(
            (*head, step.interval_seconds, step.increases, step.sum_increase_seconds, last.sum_seconds, count)
        )
        if step.write_base:
            self.rows["histogram_base"].append((*head, last.buckets))


def _zero_since(engines: list[EngineSample], known: Known) -> dict[tuple[str, str | None], datetime]:
    """For which replicas a histogram seen for the first time counts from 0, and since when.

    Those that were there at the last good scrape (the engine made the series since), and those whose
    process started after it.
    """
    if known.last_ok is None:
        return {}
    last_ok = known.last_ok.replace(tzinfo=UTC).timestamp()
    zero_since = {}
    for engine in engines:
        replica = (engine.replica, engine.model)
        started = engine.process_start_time_seconds
        if replica in known.replicas or (started is not None and started >= last_ok):
            zero_since[replica] = known.last_ok
    return zero_since
