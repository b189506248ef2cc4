"""The past of a source: spans that are read oldest first, beside live pulling, and over restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from collectors.batch import Scraped
from collectors.durations import format_duration
from collectors.ingest import Ingest
from collectors.prometheus import progress
from collectors.prometheus.fetch import Fetcher, Stretch
from collectors.prometheus.intake import Intake
from collectors.prometheus.own_thread import OwnThread
from collectors.prometheus.progress import Span, moment
from collectors.prometheus.refusals import ApiError
from sql.store import Writer

log = logging.getLogger("infermeter")

PAUSE_SECONDS = 0.05
"""Between two stretches, for the others."""

AGAIN_SECONDS = (5.0, 300.0)
"""After an error: doubled from the first to the second."""


@dataclass
class _Reading:
    """What is remembered while one span is read."""

    ingest: Ingest
    fetcher: Fetcher
    listed: set[str] = field(default_factory=set)
    """Targets that are not there any more, and known to the store."""


@dataclass
class Past:
    """The spans of one source. They are read with a memory of their own: time goes one way in each."""

    intake: Intake
    ingest: Ingest
    """The live one: its store, and its edge sets, which are one list whoever adds to it."""
    make_fetcher: Callable[[], Fetcher]
    thread: OwnThread
    clock: Callable[[], datetime]
    spans: list[Span] = field(default_factory=list)
    """The finished ones too."""
    error: str | None = None
    _reading: _Reading | None = None
    _again: datetime | None = None
    _wait: float = AGAIN_SECONDS[0]

    @property
    def end_ms(self) -> int:
        """Live pulling begins here; 0 before there is any span."""
        return max((span.end_ms for span in self.spans), default=0)

    @property
    def unfinished(self) -> bool:
        """Whether there is something left to be read."""
        return any(span.done_ms < span.end_ms for span in self.spans)

    async def leave(self, begin_ms: int, end_ms: int) -> None:
        """Leave a span to be read here."""
        async with self.intake.committing:
            store, name = self.ingest.store, self.intake.source.name
            self.spans.append(await asyncio.to_thread(progress.begin_span, store, name, begin_ms, end_ms))

    async def read(self) -> None:
        """Read what is left, until it is done or the source fails: then a later call goes on."""
        if self._again is not None and self.clock() < self._again:
            return
        try:
            for number, span in enumerate(self.spans):
                if span.done_ms < span.end_ms:
                    await self._read_span(number)
                    self._stop_reading()
        except ApiError as error:
            self.error = str(error)
            self._again = self.clock() + timedelta(seconds=self._wait)
            self._wait = min(2 * self._wait, AGAIN_SECONDS[1])
            self._stop_reading()
            log.warning("%s: reading the past stopped: %s", self.intake.source.name, error)
        else:
            self.error, self._again, self._wait = None, None, AGAIN_SECONDS[0]

    def notes(self) -> list[str]:
        """How far it is, and what keeps it, for the Sources page."""
        notes = [_done(span) for span in self.spans if span.done_ms < span.end_ms]
        if notes and self.error is not None:
            notes.append(f"back-filling stopped and is tried again: {self.error}")
        return notes

    def close(self) -> None:
        """Let what waits end soon."""
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.fetcher.close()
            self._reading = None

    async def _read_span(self, number: int) -> None:
        # Rows of the past do not say what a target shows now.
        ingest = Ingest(self.ingest.store, describes=False, edge_sets=self.ingest.edge_sets)
        self._reading = reading = _Reading(ingest, self.make_fetcher())
        await self.intake.prime(ingest, reading.fetcher, self.thread, self.spans[number].done_ms, live=False)
        told = -1
        while (span := self.spans[number]).done_ms < span.end_ms:
            stretch = await self.thread.run(reading.fetcher.stretch, span.done_ms, span.end_ms)
            await self._take(reading, span, stretch)
            self.spans[number] = span = span._replace(done_ms=stretch.end_ms)
            self.error = None
            tenth = 10 * (span.done_ms - span.begin_ms) // (span.end_ms - span.begin_ms)
            if tenth > told:
                told = tenth
                log.info("%s: %s", self.intake.source.name, _done(span))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _take(self, reading: _Reading, span: Span, stretch: Stretch) -> None:
        found, intake = stretch.found, self.intake
        identities = {scrape.identity for scrape in found.scrapes}
        reading.fetcher.known.update(identities)
        of_now = intake.targets
        targets = {name: of_now[name] for name in map(intake.name, identities) if name in of_now}
        gone = {
            name: intake.derived(identity, found.intervals.get(identity))
            for identity in identities
            if (name := intake.name(identity)) not in targets
        }
        if new := {name: target for name, target in gone.items() if name not in reading.listed}:
            await intake.listed(intake.targets, new)
            reading.listed.update(new)
        last = found.scrapes[-1] if found.scrapes else None

        def also(writer: Writer, part: Sequence[Scraped]) -> None:
            # What cannot be stored as a whole is written one by one: with the last one, all of it is.
            if last is None or (part[-1].target.name, part[-1].ts) == (
                intake.name(last.identity),
                moment(last.ts_ms),
            ):
                progress.note_backfilled(writer, intake.source.name, span, stretch.end_ms)

        ending = stretch.end_ms >= span.end_ms  # what follows is counted by live pulling
        await intake.store(reading.ingest, self.thread, found.scrapes, targets | gone, also, ending=ending)


def _done(span: Span) -> str:
    """Like "back-filled 6h of 24h", by whole minutes where that is fine enough."""
    done, whole = ((ms - span.begin_ms) // 1000 for ms in (span.done_ms, span.end_ms))
    unit = 60 if whole >= 3600 else 1
    return f"back-filled {format_duration(done // unit * unit)} of {format_duration(whole // unit * unit)}"
