"""From what a source's targets answered to rows: used by live pulling and by reading the past."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from collectors.batch import Scraped
from collectors.fetch import Fetched
from collectors.ingest import Also, Ingest
from collectors.prometheus.derived import Names, derived
from collectors.prometheus.fetch import Fetcher, Stretch
from collectors.prometheus.own_thread import OwnThread
from collectors.prometheus.progress import moment
from collectors.prometheus.upstream import Identity, Scrape
from collectors.target import Target

BEFORE_MS = 120_000
"""Where to look for the scrape before the first one: its buckets are what the first increase counts from."""

SHORTER = 0.8
"""A scrape interval is another one when it is under this part of what was seen before: scrapes jitter, and
after a gap the first one looks long."""

COULD_NOT = "Prometheus could not scrape it"
NOTHING = "Prometheus has no metric of it that infermeter knows"

Listed = Callable[[Mapping[str, Target], Mapping[str, Target]], Awaitable[None]]
"""Makes the target list hold the first ones, which the source shows now; the store is to know the second ones
too, which it does not show any more."""


@dataclass
class Intake:
    """One source's, on one event loop."""

    source: Target
    committing: asyncio.Lock
    names: Names
    listed: Listed
    identities: dict[str, Identity] = field(default_factory=dict)
    """Target → its labels at the source."""
    targets: dict[str, Target] = field(default_factory=dict)
    """Those that the source shows now."""
    _paces: dict[str, float] = field(default_factory=dict)
    """The shortest scrape interval seen of each, seconds."""
    _newest_ms: dict[Identity, int] = field(default_factory=dict)
    """The newest scrape that this process has seen."""

    def name(self, identity: Identity) -> str:
        """The name of an upstream target."""
        name = self.names.of(self.source.name, identity)
        self.identities[name] = identity
        return name

    def derived(self, identity: Identity, scrape_seconds: float | None = None) -> Target:
        """An upstream target as one of ours."""
        return derived(self.source, identity, self.name(identity), scrape_seconds)

    async def list_new(self, stretch: Stretch, fetcher: Fetcher) -> None:
        """Have those listed that stand there for the first time, and those whose pace is known only now."""
        changed = {}
        intervals = self._intervals(stretch)
        for identity in {scrape.identity for scrape in stretch.found.scrapes}:
            name, seconds = self.name(identity), intervals.get(identity)
            paced = seconds is not None and seconds < SHORTER * self._paces.get(name, math.inf)
            if name not in self.targets or paced:
                changed[name] = self.derived(identity, seconds)
                fetcher.known.add(identity)
                if seconds is not None:
                    self._paces[name] = seconds
        if any(self.targets.get(name) != target for name, target in changed.items()):
            self.targets.update(changed)
            await self.listed(self.targets, {})

    def _intervals(self, stretch: Stretch) -> dict[Identity, float]:
        """Seconds between the scrapes of a target, the last one of the stretch before counted: a target that
        is scraped less often than we pull is never twice in one."""
        found = dict(stretch.found.intervals)
        for scrape in stretch.found.scrapes:
            before = self._newest_ms.get(scrape.identity)
            if before is None or scrape.ts_ms > before:
                self._newest_ms[scrape.identity] = scrape.ts_ms
                if before is not None:
                    found.setdefault(scrape.identity, (scrape.ts_ms - before) / 1000)
        return found

    def drop(self, name: str, fetcher: Fetcher) -> None:
        """A target that is gone."""
        del self.targets[name]
        self._paces.pop(name, None)
        identity = self.identities.pop(name)
        self._newest_ms.pop(identity, None)
        fetcher.known.discard(identity)
        self.names.forget(name)

    async def store(
        self,
        ingest: Ingest,
        thread: OwnThread,
        scrapes: Sequence[Scrape],
        targets: Mapping[str, Target],
        also: Also,
        *,
        ending: bool = False,
        appeared_after: datetime | None = None,
    ) -> None:
        """Read the scrapes, oldest first, and write them in one transaction with what `also` writes.

        `ending`: none follows. `appeared_after`: the names of histograms seen for the first time are younger.
        """
        batch = await thread.run(self._read, ingest, targets, scrapes)
        async with self.committing:
            ingest.appeared_after = appeared_after
            try:
                await asyncio.to_thread(ingest.commit, batch, also, ending=ending)
            finally:
                ingest.appeared_after = None

    async def prime(
        self,
        ingest: Ingest,
        fetcher: Fetcher,
        thread: OwnThread,
        at_ms: int,
        *,
        live: bool,
        but: Collection[str] = (),
    ) -> None:
        """Let `ingest` know what each target showed last, up to `at_ms`: increases count from there.

        `but`: targets of which it knows something newer.
        """
        begin = at_ms - BEFORE_MS
        newest: dict[Identity, Scrape] = {}
        while begin < at_ms:
            stretch = await thread.run(fetcher.stretch, begin, at_ms)
            newest.update((scrape.identity, scrape) for scrape in stretch.found.scrapes if scrape.up)
            if live:
                await self.list_new(stretch, fetcher)
            begin = stretch.end_ms
        last = [scrape for identity, scrape in newest.items() if self.name(identity) not in but]
        targets = {self.name(scrape.identity): self.derived(scrape.identity) for scrape in last}
        batch = await thread.run(self._read, ingest, targets, last)
        async with self.committing:
            await asyncio.to_thread(ingest.prime, batch)
            if not live:
                await asyncio.to_thread(ingest.resume_usage, moment(at_ms))

    def _read(
        self, ingest: Ingest, targets: Mapping[str, Target], scrapes: Iterable[Scrape]
    ) -> list[Scraped]:
        return [_read(ingest, targets[self.name(scrape.identity)], scrape) for scrape in scrapes]


def _read(ingest: Ingest, target: Target, scrape: Scrape) -> Scraped:
    ts = moment(scrape.ts_ms)
    if scrape.up and scrape.body:
        return ingest.read(target, ts, Fetched(200, scrape.body, scrape.duration_seconds, None))
    error = NOTHING if scrape.up else COULD_NOT
    fetched = Fetched(200 if scrape.up else None, b"", scrape.duration_seconds, error)
    return Scraped(target, ts, fetched, None, error)
