"""Answers of targets → rows, one transaction a batch.

Used by the live rounds and by replay, so that a recording goes through the very same code. Holds what
must be remembered between scrapes: each target's reader, the last counters, the edge sets. What rows a
reading becomes is for `collectors/batch.py` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import duckdb

from collectors import multiworker, usage
from collectors.batch import AccountKey, Batch, Scraped
from collectors.counters import Key, Last
from collectors.fetch import Fetched
from collectors.gpu.identity import Identities
from collectors.known import Known
from collectors.multiworker import Watch
from collectors.reading import UsageKey
from collectors.registry import KINDS, UnknownKindError, detect
from collectors.source import TargetReader
from collectors.target import PROBE, Target
from sql.store import Store, Writer, to_json

UNSTORABLE = (duckdb.Error, ArithmeticError, TypeError, ValueError)
"""What DuckDB and Arrow raise for a value that does not fit its column (ArrowInvalid is a ValueError)."""

FORGET_AFTER = timedelta(hours=1)

FORGET_OTEL_AFTER = timedelta(days=30)
"""Usage keys of an OpenTelemetry collector: it takes series away that nobody sent for some minutes, and shows
them again as they were. One that is forgotten by then would be counted once more."""

UNWRITTEN_AT_MOST = timedelta(minutes=10)
"""How old a usage row is, at most, after which something was used that stands in no row: a row is written a
minute after the one before, or at the next scrape, or after the scrapes that a fall is held for."""

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
    watches: dict[str, Watch] = field(default_factory=dict)
    accounts: dict[AccountKey, usage.Account] = field(default_factory=dict)
    identities: Identities = field(default_factory=Identities)
    appeared_after: datetime | None = None
    """While a batch is written whose histograms were not looked for before: those seen for the first time may
    be there since this time, and not only since the scrape before. (As a Prometheus is pulled.)"""
    listed: frozenset[str] = frozenset()
    """The names in the target list, as last stored."""

    def restore(self) -> None:
        """Go on where an earlier process on this store ended: last counters, edge sets, replicas."""
        for edge_set_id, edges in self.store.query_rows("edge_sets"):
            self.edge_sets[tuple(edges)] = edge_set_id
        for target, replica, model, metric, edges, ts, base_ts, buckets, total in self.store.query_rows(
            "histogram_lasts"
        ):
            key = Key(target, replica, model, metric)
            # A sum without buckets may be made by its reader, which begins anew with each process (TGI).
            known_total = total if len(edges) > 1 else None
            self.lasts[key] = Last(ts, tuple(edges), tuple(buckets), known_total, base_ts)
        starts: dict[str, set[float | None]] = {}
        for target, replica, model, ts, *counters, start in self.store.query_rows("engine_replicas"):
            before = self.known.get(target, Known())
            replicas = {**before.replicas, (replica, model): tuple(counters)}
            self.known[target] = Known(ts, ts, replicas)
            starts.setdefault(target, set()).add(start)
        for target, found in starts.items():
            if len(found) == 1 and (start := found.pop()) is not None:
                self.watches[target] = Watch(start, (start,))
        self._restore_accounts()
        for target, ts in self.store.query_rows("alternating_targets", note=multiworker.NOTE):
            self.watches[target] = Watch(alternated_at=ts)

    def resume_usage(self, at: datetime) -> None:
        """Count usage on from its newest rows up to `at`, where `prime` has just begun: what was used between
        the two stands in no row yet."""
        primed = self.accounts
        self.accounts = {}
        self._restore_accounts(at - UNWRITTEN_AT_MOST, at)
        self.accounts = primed | self.accounts  # a gateway that was not primed was there all the same

    def _restore_accounts(self, since: datetime | None = None, until: datetime | None = None) -> None:
        for target, replica, *names, ts, prompt, cached, generation, requests, spend in self.store.query_rows(
            "usage_bases", since=since, until=until
        ):
            whose = UsageKey(*names)
            known = self.known.get(target, Known())
            self.known[target] = known = known._replace(
                last_ok=max(known.last_ok or ts, ts),
                counted_at=max(known.counted_at or ts, ts),
                own_usage=known.own_usage or whose.source != usage.TARGET,
            )
            totals = usage.Totals(prompt, cached, generation, requests, spend)
            account = self.accounts.get((target, whose))
            at = max(account.row_at, ts) if account is not None else ts
            raws = {**(account.raws if account is not None else {}), replica: usage.Raw(ts, totals)}
            self.accounts[target, whose] = usage.Account(at, at, at, raws, restored=True)
        # A key that nobody used for long is as old as its last row, and still shown: it ages from now on.
        for key, account in self.accounts.items():
            shown = self.known[key[0]].last_ok or account.counted_at
            raws = {replica: raw._replace(ts=max(raw.ts, shown)) for replica, raw in account.raws.items()}
            self.accounts[key] = account._replace(raws=raws)

    def read(self, target: Target, ts: datetime, fetched: Fetched) -> Scraped:
        """Read one answer. What the target got wrong becomes `Scraped.error`, never an exception."""
        if fetched.error is not None and not (fetched.body and target.kind == PROBE):
            return Scraped(target, ts, fetched, None, fetched.error)
        reader = self.readers.get(target.name)
        try:
            if reader is None or target.kind not in ("auto", reader.kind.name):
                reader = self._choose(target, fetched.body)
            reading = reader.read(fetched.body)
            if target.kind == "auto" and (not reading.says_something or reader.outgrown(reading.lines)):
                # Another program may answer on this port now, or one that shows its own names by and by.
                chosen = self._choose(target, fetched.body)
                if chosen.kind is not reader.kind:
                    reader, reading = chosen, chosen.read(fetched.body)
        except UnknownKindError as error:
            self.readers.pop(target.name, None)
            return Scraped(target, ts, fetched, None, str(error))
        if not reading.says_something:
            del self.readers[target.name]
            words = fetched.error or f"no {reader.kind.name} metrics in the answer"
            return Scraped(target, ts, fetched, reading, words)
        self.identities.learn(target.name, reading.gpus)
        return Scraped(target, ts, fetched, reading, fetched.error)  # a failed probe: what was measured of it

    def _choose(self, target: Target, body: bytes) -> TargetReader:
        """The reader of an answer from now on. Raises UnknownKindError when no kind reads it."""
        kind = detect(body) if target.kind == "auto" else KINDS[target.kind]
        reader = self.readers.get(target.name)
        if reader is None or reader.kind is not kind:
            reader = self.readers[target.name] = TargetReader(kind)
        return reader

    def commit(self, batch: Iterable[Scraped], also: Also | None = None, *, ending: bool = False) -> None:
        """Write a batch in one transaction, and what `also` writes for it. `ending`: none follows.

        When the store refuses it, its targets are written one by one, and the one that cannot be stored is
        written as a failed scrape: one odd answer must not cost the others theirs. Raises what the store
        says when nothing at all can be written (a full disk); nothing is remembered then.
        """
        whole = list(batch)
        try:
            self._write(whole, also, ending)
        except UNSTORABLE:
            if not whole:  # no answer is to blame
                raise
            for scraped in whole:
                try:
                    self._write([scraped], also, ending)
                except UNSTORABLE as error:
                    words = f"infermeter could not store this, please report: {type(error).__name__}: {error}"
                    failed = scraped._replace(reading=None, error=words.splitlines()[0][:500])
                    self._write([failed], also, ending)

    def prime(self, batch: Iterable[Scraped]) -> None:
        """Remember a batch that is written elsewhere: what follows it counts from there.

        What was remembered of its targets goes: it is from before what is written elsewhere. The next row of
        each series writes its base, as the one before may not be in the store yet.
        """
        whole = list(batch)
        self._forget_counters({scraped.target.name for scraped in whole})
        with self.store.write() as writer:
            writing = Batch(writer, self)
            for scraped in whole:
                writing.add(scraped)
            writing.describe()
        writing.lasts = {key: last._replace(base_ts=usage.NEVER) for key, last in writing.lasts.items()}
        writing.accounts = {
            key: account._replace(unwritten=True) for key, account in writing.accounts.items()
        }
        self._learn(writing)

    def _forget_counters(self, targets: Set[str]) -> None:
        for name in targets:
            if (known := self.known.get(name)) is not None:
                self.known[name] = Known(described=known.described, own_usage=known.own_usage)
            if (watch := self.watches.get(name)) is not None:
                self.watches[name] = Watch(alternated_at=watch.alternated_at)
        self.lasts = {key: last for key, last in self.lasts.items() if key.target not in targets}
        self.accounts = {key: one for key, one in self.accounts.items() if key[0] not in targets}

    def _write(self, batch: list[Scraped], also: Also | None, ending: bool) -> None:
        with self.store.write() as writer:
            writing = Batch(writer, self)
            for scraped in batch:
                writing.add(scraped)
            if ending:
                writing.settle()
            if also is not None:
                also(writer, batch)
            writing.append_rows()
        self._learn(writing)

    def _settle(self, of: Callable[[str, usage.Account], bool]) -> None:
        with self.store.write() as writer:
            writing = Batch(writer, self)
            writing.settle(of)
            writing.append_rows()
        self._learn(writing)

    def _learn(self, writing: Batch) -> None:
        self.known.update(writing.known)
        for series in writing.gone:
            self.lasts.pop(series, None)
        self.lasts.update(writing.lasts)
        self.edge_sets.update(writing.edge_sets)
        self.watches.update(writing.watches)
        self.accounts.update(writing.accounts)

    def forget(self) -> None:
        """Drop the histograms and usage keys that their target has not shown for `FORGET_AFTER`, though it
        answered.

        Models, replicas and keys come and go; memory must not grow with all that ever were. One that comes
        back later is a new series. What it used last, and stands in no row yet, is written.
        """
        newest = max((known.last_ok for known in self.known.values() if known.last_ok), default=usage.NEVER)
        self._settle(lambda _, account: account.counted_at < newest - usage.ROW_EVERY)
        for key, last in list(self.lasts.items()):
            known = self.known.get(key.target)
            if known is None or (known.last_ok is not None and known.last_ok - last.ts > FORGET_AFTER):
                del self.lasts[key]
        for whose, account in list(self.accounts.items()):
            known = self.known.get(whose[0])
            left = None
            if known is not None:
                after = FORGET_OTEL_AFTER if whose[1].source == "otel" else FORGET_AFTER
                left = usage.still_shown(account, (known.last_ok or account.counted_at) - after)
            if left is None:
                del self.accounts[whose]
            else:
                self.accounts[whose] = left

    def sync_targets(
        self,
        targets: Iterable[Target],
        now: datetime,
        origins: Mapping[str, str] | None = None,
        unsettled: Iterable[str] = (),
    ) -> None:
        """Bring table `target` to the list as it is: new and changed ones written, the others marked gone.

        `origins`: target name → where the list has it from (column `origin`). `unsettled`: origins of which a
        list could not be had since the start; of these no target is marked gone that was not listed since.
        """
        listed = {target.name: target for target in targets}
        values = list(listed.values())
        left = self.listed - listed.keys()
        if left:
            self._settle(lambda name, _: name in left)
        with self.store.write() as writer:
            # One statement for all: one each would take the store for a minute where there are 10 000.
            writer.run(
                "upsert_targets", targets=list(listed), kinds=[target.kind for target in values],
                urls=[target.shown_url for target in values], projects=[target.project for target in values],
                environments=[target.environment for target in values],
                labels=[to_json(target.labels) for target in values],
                intervals_seconds=[target.interval_seconds for target in values],
                gpus=[target.gpus for target in values],
                memory_reservation_ratios=[target.memory_reservation_ratio for target in values],
                origins=[(origins or {}).get(name) for name in listed], now=now,
            )  # fmt: skip
            writer.run(
                "mark_targets_gone", names=list(listed), left=list(left), unsettled=list(unsettled), now=now
            )
        self.listed = frozenset(listed)
        for remembered in (self.readers, self.known, self.watches):
            for name in remembered.keys() - listed.keys():
                del remembered[name]
        self.identities.forget(set(listed))
