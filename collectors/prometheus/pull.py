"""Pulls a Prometheus-compatible source into the store: the newest as it comes, the past beside it.

Live pulling takes what is newer than each target's last stored scrape. A longer past is a span of its own
(`past.py`). Live pulling begins at its end, from the buckets that stood there, so that no increase is lost or
counted twice at the seam.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from collectors.batch import Scraped
from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.prometheus import progress
from collectors.prometheus.api import Api
from collectors.prometheus.derived import Names
from collectors.prometheus.fetch import BACK_OFF_SECONDS, Fetcher, Stretch
from collectors.prometheus.intake import Intake, Listed
from collectors.prometheus.own_thread import OwnThread
from collectors.prometheus.past import Past
from collectors.prometheus.progress import milliseconds, moment
from collectors.prometheus.refusals import ApiError
from collectors.prometheus.settings import PrometheusSettings
from collectors.reading import Reading
from collectors.target import PROMETHEUS, Target
from sql.store import Writer

ROLE = "source"

LATE_MS = 60_000
"""How far back a target that is late holds the others' samples to be asked for again."""

CATCH_UP_MS = 600_000
"""A longer pause of ours is read as a span of the past, beside live pulling."""

AT_LEAST_BACK_MS = 3_600_000
"""Of a pause, this much is read though less was asked for at first start."""

GONE_MS = 3_600_000
"""A target without any sample for this long is gone."""
GONE_WITHOUT_UP_MS = 300_000
"""One that had an `up` and has none any more was taken off Prometheus' list. Its own look-back is as long."""

SKEW_MS = 2_000
"""Clocks that differ by more are told of."""

STUCK_TIMEOUTS = 20
"""After this many timeouts a request is given up, whatever it is doing."""


@dataclass
class Puller:
    """Pulls one source, on one event loop. `clock` gives UTC without a zone."""

    source: Target
    ingest: Ingest
    committing: asyncio.Lock
    clock: Callable[[], datetime]
    names: Names
    listed: Listed
    back_off_seconds: float = BACK_OFF_SECONDS
    _last_ms: dict[str, int] = field(default_factory=dict)
    """Target → its newest scrape that is stored."""
    _seen_ms: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Target → its newest scrape, stored or not, and whether it has an `up`."""
    _cut_ms: int | None = None
    """Live pulling has come to here; None before the first pull."""
    _began_ms: int = 0
    _told: tuple[str, ...] | None = None
    """The notes that stand in table `target`."""

    def __post_init__(self) -> None:
        self._settings = self.source.prometheus or PrometheusSettings()
        limit = STUCK_TIMEOUTS * self.source.timeout_seconds
        self._thread = OwnThread(limit)
        self.intake = Intake(self.source, self.committing, self.names, self.listed)
        self._fetcher = self._new_fetcher()
        of_past = partial(self._new_fetcher, of_past=True)
        self.past = Past(self.intake, self.ingest, of_past, OwnThread(limit), self.clock)

    def _new_fetcher(self, of_past: bool = False) -> Fetcher:
        known = {self.intake.identities[name] for name in self.intake.targets}
        return Fetcher(self.source, Api(self.source), known, self.back_off_seconds, of_past)

    def restore(self) -> None:
        """Go on where an earlier process on this store ended. Reads the store; `intake.targets` is what it
        knew."""
        identities, self._last_ms, self.past.spans = progress.load(self.ingest.store, self.source.name)
        for name, identity in identities.items():
            if self.names.restore(self.source.name, identity, name):
                self.intake.targets[name] = self.intake.derived(identity)
                self._seen_ms[name] = (self._last_ms[name], False)
                self._fetcher.known.add(identity)

    def close(self) -> None:
        """Let what waits in threads end soon."""
        self._fetcher.close()
        self.past.close()

    async def pull(self) -> None:
        """Everything new, and the source's own scrape row. What the source does wrong ends in that row."""
        loop = asyncio.get_running_loop()
        started, began = loop.time(), self.clock()
        samples = size = 0
        notes: list[str] = []
        error = None
        try:
            cut = await self._complete_up_to(notes)
            if self._cut_ms is None:
                await self._begin(cut)
            begin = self._live_begin()
            while begin < cut and loop.time() - started <= self.source.interval_seconds:
                stretch = await self._thread.run(self._fetcher.stretch, begin, cut)
                begin = stretch.end_ms
                await self._take(stretch)
                samples, size = samples + stretch.samples, size + stretch.size
                notes.extend(stretch.notes)
            await self._drop_gone()
            if not self.intake.targets:
                notes.append("no series in it that infermeter knows")
            notes.extend(self.past.notes())
        except ApiError as failure:
            error = str(failure)
            if self._thread.stuck:
                self._fetcher.close()
                self._fetcher = self._new_fetcher()
        fetched = Fetched(200 if error is None else None, b"", loop.time() - started, error)
        told = tuple(dict.fromkeys(notes))
        reading = Reading(PROMETHEUS, ROLE, [], [], [], samples, 0, 0, (), told) if error is None else None

        def also(writer: Writer, _: Sequence[Scraped]) -> None:
            if error is None and told != self._told:
                writer.run(
                    "describe_targets", targets=[self.source.name], found_kinds=[PROMETHEUS], roles=[ROLE],
                    missing=[[]], notes=[list(told)], found_names=["{}"],
                )  # fmt: skip

        async with self.committing:
            row = Scraped(self.source, began, fetched, reading, error, size or None)
            await asyncio.to_thread(self.ingest.commit, [row], also)
        if error is None:
            self._told = told

    async def _complete_up_to(self, notes: list[str]) -> int:
        """Up to where samples are complete, by the server's clock; notes where that differs from ours.

        Never later than our own now: from a server whose clock is ahead samples are taken that much later,
        their times stay what they are.
        """
        before = milliseconds(self.clock())
        server = await self._thread.run(self._fetcher.server_ms)
        after = milliseconds(self.clock())
        if server - after > SKEW_MS:
            ahead = (server - after) / 1000
            notes.append(
                f"its clock is {ahead:.0f} s ahead of ours: samples are taken that much later; use NTP"
            )
        elif before - server > SKEW_MS:
            behind = (before - server) / 1000
            notes.append(f"its clock is {behind:.0f} s behind ours: samples bear that older time; use NTP")
        return min(server - round(self._settings.lag * 1000), after)

    async def _begin(self, cut: int) -> None:
        """The first pull: where live pulling begins, and what of the past is left to be read beside it."""
        backfill = round(self._settings.backfill * 1000)
        newest = max((*self._last_ms.values(), self.past.end_ms))
        if newest == 0:
            if backfill:
                await self._prime(cut)
            await self._leave(cut - backfill, cut)
        elif cut - newest > CATCH_UP_MS:
            begin = self._live_begin(newest)
            while begin < newest:  # targets that were behind the others
                stretch = await self._thread.run(self._fetcher.stretch, begin, newest)
                begin = stretch.end_ms
                await self._take(stretch)
            await self._prime(cut)
            await self._leave(max(newest, cut - max(backfill, AT_LEAST_BACK_MS)), cut)
        elif self.past.unfinished:
            # What was restored of a target without a live row is from somewhere in the past.
            live = {name for name, last in self._last_ms.items() if last > self.past.end_ms}
            await self._prime(self.past.end_ms, live)
        self._cut_ms, self._began_ms = self._cut_ms or newest, cut

    async def _prime(self, at_ms: int, but: Collection[str] = ()) -> None:
        await self.intake.prime(self.ingest, self._fetcher, self._thread, at_ms, live=True, but=but)

    async def _leave(self, begin_ms: int, end_ms: int) -> None:
        await self.past.leave(begin_ms, end_ms)
        self._last_ms = {name: max(last, end_ms) for name, last in self._last_ms.items()}
        self._cut_ms = end_ms

    def _live_begin(self, cut: int | None = None) -> int:
        """From where on to ask: the oldest of the targets' last scrapes that is not long ago."""
        cut = cut or self._cut_ms or 0
        recent = [last for last in self._last_ms.values() if last >= cut - LATE_MS]
        return max(min((*recent, cut)), self.past.end_ms)

    async def _take(self, stretch: Stretch) -> None:
        """Store what is new in it."""
        intake, end_of_past = self.intake, self.past.end_ms
        await intake.list_new(stretch, self._fetcher)
        fresh = []
        for scrape in stretch.found.scrapes:
            name = intake.name(scrape.identity)
            self._seen_ms[name] = (scrape.ts_ms, scrape.identity in stretch.found.watched)
            if scrape.ts_ms > self._last_ms.get(name, end_of_past):
                fresh.append(scrape)

        def also(writer: Writer, part: Sequence[Scraped]) -> None:
            progress.note_pulled(writer, self.source.name, part, intake.identities)

        if fresh:
            appeared = stretch.appeared_after_ms
            await intake.store(
                self.ingest, self._thread, fresh, intake.targets, also,
                appeared_after=None if appeared is None else moment(appeared),
            )  # fmt: skip
            self._last_ms.update((intake.name(scrape.identity), scrape.ts_ms) for scrape in fresh)
        self._cut_ms = max(self._cut_ms or 0, stretch.end_ms)

    async def _drop_gone(self) -> None:
        """Take off the list what Prometheus does not have any more."""
        cut, intake = self._cut_ms or 0, self.intake
        if cut - self._began_ms < GONE_WITHOUT_UP_MS:
            return  # every target is to be seen once before one is missed
        gone = [
            name
            for name, (seen, watched) in self._seen_ms.items()
            if name in intake.targets and cut - seen > (GONE_WITHOUT_UP_MS if watched else GONE_MS)
        ]
        if not gone:
            return
        async with self.committing:
            await asyncio.to_thread(progress.forget, self.ingest.store, self.source.name, gone)
        for name in gone:
            intake.drop(name, self._fetcher)
            del self._seen_ms[name]
            self._last_ms.pop(name, None)
        await self.listed(intake.targets, {})
