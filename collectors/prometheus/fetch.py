"""Stretches of a Prometheus' past, in answers of a size that it and we can bear. Blocks: runs in a thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.prometheus.api import Answer, Api, Raw
from collectors.prometheus.names import OF_EVERY_TARGET, Wanted, selector, wanted
from collectors.prometheus.refusals import ApiError
from collectors.prometheus.upstream import Found, Identity, Upstreams
from collectors.target import Target

NAMES_EVERY_SECONDS = (5.0, 60.0)
"""New names come with new exporters and versions, and with an engine's first request, not with each scrape.
After a new one there may be more: the time to the next look is doubled from the first to the second."""

NAMES_BACK_MS = 300_000
"""Names are looked for a little before what is read: not every target is scraped as often as we pull."""

SAMPLES_PER_ANSWER = 100_000
"""About 5 MB of JSON: reading it keeps other threads waiting for some 50 ms."""

FIRST_STRETCH_SECONDS = 60.0
SHORTEST_SECONDS = 15.0
"""Below this the names are asked for in parts instead."""
LONGEST_SECONDS = 3600.0
MOST_PARTS = 16

ATTEMPTS = 4
BACK_OFF_SECONDS = 0.5
"""Before the second attempt; doubled before each further one."""

PARTIAL_TRIES = 3
"""How often a partial answer is asked for again, before it is taken as all there is."""


NOTHING_YET = Wanted((), ())


class Stretch(NamedTuple):
    """What was read."""

    end_ms: int
    """Up to here, which can be less than was asked for."""
    found: Found
    samples: int
    size: int
    """Bytes of all answers."""
    notes: tuple[str, ...]
    appeared_after_ms: int | None = None
    """When names are asked for that are new: no target had them at this time."""


@dataclass
class Fetcher:
    """Asks one API. Not thread-safe."""

    source: Target
    api: Api
    known: set[Identity] = field(default_factory=set)
    """Targets that are read though they show nothing at the moment."""
    back_off_seconds: float = BACK_OFF_SECONDS
    of_past: bool = False
    """The names of all that is asked for are looked up before the first stretch of it."""
    stopped: threading.Event = field(default_factory=threading.Event)
    _upstreams: Upstreams = field(default_factory=Upstreams)
    _seconds: float = FIRST_STRETCH_SECONDS
    _longest: float = LONGEST_SECONDS
    """What was too much once is not tried again for a while."""
    _parts: int = 1
    _wanted: Wanted = NOTHING_YET
    _names_wait: float = NAMES_EVERY_SECONDS[0]
    _named: tuple[int, int] = (0, 0)
    """From when to when names were looked up."""
    _appeared_after: int | None = None
    _jobs: set[str] = field(default_factory=set)
    _partial: int = 0

    def close(self) -> None:
        """Let what waits end soon, and end the connections."""
        self.stopped.set()
        self.api.close()

    def server_ms(self) -> int:
        """The server's clock. Raises ApiError."""
        return round(self.api.server_time() * 1000)

    def stretch(self, begin_ms: int, end_ms: int) -> Stretch:
        """What happened after `begin_ms`, up to `end_ms` or as far as one answer goes.

        Tries again with less, and later, where that may help. Raises ApiError when it does not.
        """
        attempt = 1
        while True:
            try:
                begin_ms = self._know_names(begin_ms, end_ms)
                return self._once(begin_ms, min(end_ms, begin_ms + round(self._seconds * 1000)))
            except ApiError as error:
                less = error.too_much and self._less((end_ms - begin_ms) / 1000)
                if not error.again or attempt == ATTEMPTS or (error.too_much and not less):
                    raise
                if self.stopped.wait(self.back_off_seconds * 2 ** (attempt - 1)):
                    raise
                attempt += 1

    def _less(self, asked_seconds: float) -> bool:
        """Ask for less from now on; False when it is the least already."""
        now = min(self._seconds, asked_seconds)
        if now > SHORTEST_SECONDS:
            self._seconds = self._longest = max(now / 2, SHORTEST_SECONDS)
            return True
        if self._parts < MOST_PARTS:
            self._parts *= 2
            return True
        return False

    def _once(self, begin_ms: int, end_ms: int) -> Stretch:
        matchers = self._matchers
        telling, shared = self._wanted
        answers = []
        step = max(-(-len(telling) // self._parts), 1)
        for first in range(0, len(telling), step):
            part = telling[first : first + step]
            answers.append(self.api.samples(selector(part, matchers), begin_ms, end_ms))
        series = [raw for answer in answers for raw in answer.series]
        self._jobs.update(raw.labels.get("job", "") for raw in series)
        self._jobs.update(dict(identity).get("job", "") for identity in self.known)
        if self._jobs:
            # One more for what any program shows, of those jobs alone: a cluster has thousands of others.
            every = selector((*shared, *OF_EVERY_TARGET), matchers, self._jobs)
            answers.append(self.api.samples(every, begin_ms, end_ms))
            series.extend(answers[-1].series)
        notes = self._warned(answers)
        series = _inside(series, begin_ms, end_ms)
        found = self._upstreams.scrapes(series, telling, self.known)
        samples = sum(len(raw.points) for raw in series)
        self._fit((end_ms - begin_ms) / 1000, samples)
        if found.pairs:
            notes += (f"{found.pairs} targets are shown by an HA pair, one replica of each is read",)
        size = sum(answer.size for answer in answers)
        return Stretch(end_ms, found, samples, size, notes + found.odd, self._appeared_after)

    @property
    def _matchers(self) -> str:
        return self.source.prometheus.matchers if self.source.prometheus is not None else ""

    def _know_names(self, begin_ms: int, end_ms: int) -> int:
        """Look the names up when it is time. From where on to read: earlier when there are new ones, whose
        targets may have begun since the last look."""
        self._appeared_after = None
        covered = begin_ms >= self._named[0] and (end_ms <= self._named[1] or not self.of_past)
        if covered and abs(end_ms - self._named[1]) < self._names_wait * 1000:
            return begin_ms
        since = (begin_ms - NAMES_BACK_MS) / 1000
        names = self.api.names(since, end_ms / 1000, self._matchers)
        found = wanted(
            [*names, *self._wanted.telling, *self._wanted.shared]
        )  # one that paused is still asked for
        fresh, self._wanted = found != self._wanted, found
        first, last = NAMES_EVERY_SECONDS
        self._names_wait = first if fresh or not found.telling else min(2 * self._names_wait, last)
        looked_up_to = self._named[1]
        self._named = (begin_ms, end_ms)
        self._longest, self._parts = min(2 * self._longest, LONGEST_SECONDS), max(self._parts // 2, 1)
        if not fresh or not looked_up_to or self.of_past:
            return begin_ms
        self._appeared_after = looked_up_to
        return min(begin_ms, looked_up_to)

    def _warned(self, answers: list[Answer]) -> tuple[str, ...]:
        warnings = tuple(dict.fromkeys(warning for answer in answers for warning in answer.warnings))
        if not warnings:
            self._partial = 0
            return ()
        words = f"the answer is partial: {'; '.join(warnings)[:300]}"
        self._partial += 1
        if self._partial < PARTIAL_TRIES:
            raise ApiError(f"{words}. It is asked for again", again=True)
        return (f"{words}. It was taken as it is after {self._partial} tries",)

    def _fit(self, seconds: float, samples: int) -> None:
        """Size the next answer by this one, at most twice as long."""
        if seconds > 0:
            fitting = SAMPLES_PER_ANSWER * seconds / max(samples, 1)
            self._seconds = min(max(min(fitting, 2 * self._seconds), SHORTEST_SECONDS), self._longest)


def _inside(series: list[Raw], begin_ms: int, end_ms: int) -> list[Raw]:
    """Without the samples at the very begin, which Prometheus 2 shows and Prometheus 3 does not, and without
    what was not asked for."""
    try:
        return [
            raw
            if not raw.points
            or (raw.points[0][0] * 1000 > begin_ms + 0.5 and raw.points[-1][0] * 1000 < end_ms + 0.5)
            else Raw(
                raw.labels, [point for point in raw.points if begin_ms < round(point[0] * 1000) <= end_ms]
            )
            for raw in series
        ]
    except (TypeError, ValueError, LookupError, OverflowError):
        raise ApiError("the answer holds samples that are not what Prometheus' API sends") from None
