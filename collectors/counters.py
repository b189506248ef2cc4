"""Cumulative histogram buckets → increases since the scrape before, over restarts of either side.

Pure: the state is a plain mapping from key to the last buckets seen. A counter that went down counts as a
restart of the engine: the new value is the increase (Prometheus does the same); whether it may be another
worker instead is for `collectors/multiworker.py` to say. A series seen for the
first time on an engine that was there before counts from 0 (prometheus/prometheus #17824 is the trouble
with dropping that first value); on an engine never seen before its past is unknown and gives no increase.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from collectors.reading import Histogram

BASE_EVERY = timedelta(hours=1)
"""How often the raw buckets are written anew, so that a restart sums at most this much."""


class Key(NamedTuple):
    """One histogram of one replica."""

    target: str
    replica: str
    model: str | None
    metric: str


class Last(NamedTuple):
    """What the last counted scrape said."""

    ts: datetime
    edges_seconds: tuple[float, ...]
    buckets: tuple[float, ...]
    sum_seconds: float | None
    base_ts: datetime
    """When the raw buckets were last written to `histogram_base`."""


class Increase(NamedTuple):
    """What goes into the row of this scrape."""

    last: Last
    increases: tuple[float, ...] | None
    interval_seconds: float | None
    sum_increase_seconds: float | None
    write_base: bool
    fell: bool = False
    """Whether a bucket is under its last value."""


def increase(last: Last | None, seen: Histogram, ts: datetime, zero_since: datetime | None) -> Increase:
    """The increase of every cumulative bucket since `last`.

    `zero_since` is the time of the scrape before, when the series is known to have stood at 0 then (or
    not to have existed yet); None when its past is not known. Returns NULL increases at first sight.
    """
    edges, buckets, total = seen.edges_seconds, seen.buckets, seen.sum_seconds
    if last is not None and ts <= last.ts:
        zero_since = None
        last = None  # the clock went back: the interval is not known, start anew
    if last is not None and last.edges_seconds != edges:
        # Another bucket layout is another process; a count that fell proves it started from 0.
        zero_since = last.ts if buckets[-1] < last.buckets[-1] else None
        last = None
    if last is None:
        state = Last(ts, edges, buckets, total, ts)
        if zero_since is None:
            return Increase(state, None, None, None, True)
        return Increase(state, buckets, (ts - zero_since).total_seconds(), total, True)
    interval = (ts - last.ts).total_seconds()
    if buckets == last.buckets:
        gained = (0.0,) * len(buckets)
    else:
        gained = tuple([new - old for new, old in zip(buckets, last.buckets, strict=True)])
        if min(gained) < 0:
            return Increase(Last(ts, edges, buckets, total, ts), buckets, interval, total, True, True)
    gained_sum = None if total is None or last.sum_seconds is None else max(total - last.sum_seconds, 0.0)
    write_base = ts - last.base_ts >= BASE_EVERY
    state = Last(ts, edges, buckets, total, ts if write_base else last.base_ts)
    return Increase(state, gained, interval, gained_sum, write_base)
