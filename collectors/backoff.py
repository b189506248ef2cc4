"""How often a target is asked that cannot be reached: ever less often, up to a minute; again when it answers.

A dead target costs its whole timeout at each round, and a crowd of them (a rack without power) would cost
the living their time. Pure: `now` is seconds of any clock that only goes forward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.target import Target

PATIENCE = 5
"""Failures in a row after which the pause doubles: a restart of an engine is over by then, or is none."""

LONGEST_SECONDS = 60.0
"""A target that is back is seen within this (or its interval, where that is longer)."""

LONGEST_INTERVALS = 6

_PRUNE_AT = 1000
_FORGET_SECONDS = 3600.0


class Waiting(NamedTuple):
    """A target that could not be reached."""

    target: Target
    failures: int
    """In a row."""
    until: float
    """When it is asked again."""


def pause_seconds(failures: int, interval_seconds: float) -> float:
    """How long after the last try the next is due; a whole number of intervals.

    >>> [pause_seconds(failures, 10.0) for failures in (1, 4, 5, 6, 7, 50)]
    [10.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    """
    if failures < PATIENCE:
        return interval_seconds
    doubled = float(1 << min(failures - PATIENCE + 1, 8))
    longest = min(LONGEST_SECONDS // interval_seconds, LONGEST_INTERVALS)
    return interval_seconds * max(1, min(doubled, longest))


@dataclass
class Backoff:
    """The targets that cannot be reached at the moment."""

    waiting: dict[str, Waiting] = field(default_factory=dict)
    _prune_at: int = _PRUNE_AT

    def is_due(self, target: Target, now: float) -> bool:
        """Whether a target is to be asked. One whose entry in the list has changed is."""
        found = self.waiting.get(target.name)
        if found is None:
            return True
        if found.target is not target and found.target != target:
            del self.waiting[target.name]
            return True
        # Rounds come at intervals, and a target's place within them moves: the nearest round is meant.
        return now >= found.until - target.interval_seconds / 2

    def reached(self, target: Target) -> None:
        """It answered, be it with an error of its own."""
        self.waiting.pop(target.name, None)

    def failed(self, target: Target, now: float) -> float | None:
        """It could not be reached when asked at `now`. The pause, where it is longer than the interval."""
        found = self.waiting.get(target.name)
        failures = found.failures + 1 if found is not None else 1
        pause = pause_seconds(failures, target.interval_seconds)
        self.waiting[target.name] = Waiting(target, failures, now + pause)
        if len(self.waiting) > self._prune_at:
            self.waiting = {
                name: one for name, one in self.waiting.items() if now - one.until < _FORGET_SECONDS
            }
            # Of thousands that wait all the same, looking through all at each failure would take seconds.
            self._prune_at = max(_PRUNE_AT, 2 * len(self.waiting))
        return pause if pause > target.interval_seconds else None
