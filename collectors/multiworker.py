"""Restart or another worker: what a counter that fell means. Pure.

An endpoint with several worker processes (uvicorn's `--workers`, vLLM's `--api-server-count`, LiteLLM's
`--num_workers`) answers each scrape with the counters of whichever worker took the connection (vLLM #17546,
LiteLLM #10595). Read as one counter, every change of worker looks like a restart or a leap, and increases
would be made up.

What tells the two apart, best first:
- The process says when it started. One that started after the last counted scrape is a restart, at once. One
  that was seen earlier and answers again is another worker, at once.
- Otherwise the counters: what fell is held, nothing is counted, and the next two scrapes tell. Back at or
  above the old level: another worker. Still under it: a restart, and what fell counts from 0, with the time
  since.

Once workers are seen to alternate, nothing of the target is counted until no sign of it was seen for
`ALTERNATES_FOR`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

NOTE = (
    "multi-worker endpoint: each scrape is answered by another worker with its own counters; rates,"
    " percentiles and usage are not known. Scrape each worker by itself, or have them share their counters"
    " (PROMETHEUS_MULTIPROC_DIR)"
)

HELD_SCRAPES = 2
"""Scrapes after a fall within which the old level must be back (`reference`: vLLM #17546, #18053)."""

ALTERNATES_FOR = timedelta(minutes=15)
"""How long after the last sign nothing is counted: with two workers, 60 scrapes by the same one are no
chance."""

STARTED_SLACK_SECONDS = 2.0
"""A start time has a resolution of a second or worse."""

SKEW_SECONDS = 600.0
"""How far an engine's clock may be behind: a process that stays, and started at most this long before the
last counted scrape, is a new one; one that started earlier was there all the time, and nothing of it is
known."""

_ROUNDING = 1e-9
"""Of a counter: sums of doubles differ by less."""

STARTS_KEPT = 16
"""Start times remembered of one endpoint: more than workers it has, as a rule."""


def is_fall(before: float | None, now: float | None) -> bool:
    """Whether a counter is lower than it was, by more than adding up its parts in another order makes it."""
    return before is not None and now is not None and now < before * (1 - _ROUNDING)


class Counting(Enum):
    """How the counters of one scrape are to be counted."""

    ON = "on"
    """What they gained since the last counted scrape; a series seen first here begins."""
    HELD = "held"
    """Not yet known: the last counted scrape stays the one to count from."""
    SETTLED = "settled"
    """A fall that stayed: what fell counts from 0 since the last counted scrape, all else as with ON."""
    SHIFTED = "shifted"
    """A fall that stayed though the process says that it is the same one: a part of what was added up is
    shown no more. What fell begins anew, for it did not start at 0; all else as with ON."""
    RESTARTED = "restarted"
    """The process is new: everything counts from 0 since the last counted scrape."""
    OFF = "off"
    """Workers alternate: nothing is counted."""
    ANEW = "anew"
    """The first scrape to count from: after OFF, and when another old process has come to stay."""


FALLEN = (Counting.SETTLED, Counting.SHIFTED)
"""With these, `Watch.fallen` names the counters that fell."""


class Watch(NamedTuple):
    """What is remembered of one target between scrapes."""

    start: float | None = None
    """Of the process, Unix seconds, as of the last scrape."""
    starts: tuple[float, ...] = ()
    """Start times seen, the newest last."""
    held: int = 0
    """Scrapes since a fall, that one included; 0: nothing is held."""
    held_by_new_start: bool = False
    """Whether the start time changed with the fall: then a level that is reached again is growth."""
    fallen: frozenset[Hashable] = frozenset()
    """The counters that fell."""
    levels: Mapping[Hashable, float] = {}
    """Their values at the last scrape."""
    alternated_at: datetime | None = None
    """The last sign of several workers."""

    @property
    def calm(self) -> bool:
        """Whether nothing is held and nothing alternates."""
        return not self.held and self.alternated_at is None


def look(
    before: Watch,
    ts: datetime,
    counted_at: datetime | None,
    start: float | None,
    fell: Mapping[Hashable, float],
    shown: Set[Hashable] = frozenset(),
) -> tuple[Watch, Counting]:
    """How to count the scrape at `ts`.

    `counted_at`: the last counted scrape. `start`: of the process, None where not told. `fell`: each counter
    that is under its value at the last counted scrape (with OFF: at the last scrape), and its value.
    `shown`: all counters of this scrape; needed while something is held. Times are UTC without a zone.
    """
    changed = start is not None and before.start is not None and start != before.start
    calm = Watch(start if start is not None else before.start, _with(before.starts, start))
    if before.alternated_at is not None:
        sign = bool(fell) or changed
        if sign or ts - before.alternated_at < ALTERNATES_FOR:
            return calm._replace(alternated_at=ts if sign else before.alternated_at), Counting.OFF
        return calm, Counting.ANEW
    if changed and start in before.starts:
        return calm._replace(alternated_at=ts), Counting.OFF
    if changed and _is_new(start, counted_at, STARTED_SLACK_SECONDS):
        return calm, Counting.RESTARTED
    if before.held:
        return _held(before, calm, ts, counted_at, changed, fell, shown)
    if fell or changed:
        held = calm._replace(held=1, held_by_new_start=changed, fallen=frozenset(fell), levels=dict(fell))
        return held, Counting.HELD
    return calm, Counting.ON


def _held(
    before: Watch,
    calm: Watch,
    ts: datetime,
    counted_at: datetime | None,
    changed: bool,
    fell: Mapping[Hashable, float],
    shown: Set[Hashable],
) -> tuple[Watch, Counting]:
    back = {key for key in before.fallen if key in shown and key not in fell}
    still = before.fallen & fell.keys()
    fallen = before.fallen | fell.keys()
    if before.held_by_new_start and changed:  # two processes that started long ago, in two scrapes
        return calm._replace(alternated_at=ts), Counting.OFF
    by_new_start = before.held_by_new_start or changed
    if by_new_start:
        stayed = Counting.RESTARTED if _is_new(calm.start, counted_at, SKEW_SECONDS) else Counting.ANEW
    else:
        stayed = Counting.SETTLED if calm.start is None else Counting.SHIFTED
    if back and not still:
        if not by_new_start:
            return calm._replace(alternated_at=ts), Counting.OFF
        return calm, stayed
    fell_again = any(fell.get(key, level) < level for key, level in before.levels.items())
    held = 1 if fell_again else before.held + 1
    if held > HELD_SCRAPES:
        return calm._replace(fallen=fallen), stayed
    return (
        calm._replace(held=held, held_by_new_start=by_new_start, fallen=fallen, levels=dict(fell)),
        Counting.HELD,
    )


def _is_new(start: float | None, counted_at: datetime | None, slack: float) -> bool:
    if start is None or counted_at is None:
        return False
    return start >= counted_at.replace(tzinfo=UTC).timestamp() - slack


def _with(starts: tuple[float, ...], start: float | None) -> tuple[float, ...]:
    if start is None or start in starts:
        return starts
    return (*starts, start)[-STARTS_KEPT:]
