"""Increases of histogram buckets over restarts of the engine and of infermeter."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from collectors.counters import BASE_EVERY, Last, increase
from collectors.reading import Histogram
from tests.collectors.moments import T0, at

EDGES = (0.1, 1.0, math.inf)


def seen(*buckets: float, total: float | None = None, edges: tuple[float, ...] = EDGES) -> Histogram:
    return Histogram("0", "m", "ttft", edges, buckets, total, buckets[-1])


def last(*buckets: float, total: float | None = None, ts: datetime = T0) -> Last:
    return Last(ts, EDGES, buckets, total, ts)


def test_the_increase_is_the_difference_of_each_cumulative_bucket() -> None:
    step = increase(last(1, 2, 3, total=2.0), seen(2, 5, 7, total=6.5), at(10), None)
    assert step.increases == (1, 3, 4)
    assert (step.interval_seconds, step.sum_increase_seconds) == (10, 4.5)
    assert not step.write_base


def test_the_past_of_a_series_never_seen_before_is_unknown() -> None:
    step = increase(None, seen(1000, 2000, 3000, total=9.0), T0, None)
    assert (step.increases, step.interval_seconds, step.sum_increase_seconds) == (None, None, None)
    assert step.write_base
    assert step.last.buckets == (1000, 2000, 3000)


def test_a_series_that_came_up_on_a_known_engine_counts_from_0() -> None:
    step = increase(None, seen(1, 2, 3, total=2.0), at(10), T0)
    assert step.increases == (1, 2, 3)
    assert (step.interval_seconds, step.sum_increase_seconds) == (10, 2.0)


def test_a_counter_that_fell_is_a_restart_and_its_new_value_the_increase() -> None:
    step = increase(last(50, 90, 100, total=80.0), seen(1, 1, 2, total=1.2), at(10), None)
    assert step.increases == (1, 1, 2)
    assert step.sum_increase_seconds == 1.2
    assert step.write_base, "the base must be written anew, the sum of increases no longer leads to it"


def test_one_bucket_that_fell_is_enough_for_a_restart() -> None:
    step = increase(last(5, 9, 10), seen(4, 10, 12), at(10), None)
    assert step.increases == (4, 10, 12)


def test_a_restart_with_other_bucket_edges_counts_from_0() -> None:
    other = (0.5, math.inf)
    step = increase(last(50, 90, 100), seen(1, 2, edges=other), at(10), None)
    assert step.increases == (1, 2)


def test_other_bucket_edges_without_a_fall_are_a_new_series_of_unknown_past() -> None:
    other = (0.5, math.inf)
    step = increase(last(50, 90, 100), seen(70, 120, edges=other), at(10), None)
    assert step.increases is None


def test_a_clock_that_went_back_gives_no_increase() -> None:
    step = increase(last(1, 2, 3), seen(2, 3, 4), at(-5), at(-20))
    assert step.increases is None


def test_a_missing_sum_is_unknown_and_not_0() -> None:
    assert increase(last(1, 2, 3), seen(2, 3, 4, total=1.0), at(10), None).sum_increase_seconds is None


def test_the_base_is_written_anew_every_hour() -> None:
    state = last(0, 0, 0)
    step = increase(state, seen(0, 0, 0), T0 + BASE_EVERY - timedelta(seconds=1), None)
    assert not step.write_base
    step = increase(step.last, seen(0, 0, 0), T0 + BASE_EVERY, None)
    assert step.write_base
    assert step.last.base_ts == T0 + BASE_EVERY


def test_a_mean_without_buckets_gains_requests_and_seconds() -> None:
    only = (math.inf,)
    before = Last(T0, only, (50,), 10.0, T0)
    step = increase(before, seen(60, total=12.5, edges=only), at(10), None)
    assert (step.increases, step.sum_increase_seconds) == ((10,), 2.5)
    restarted = increase(before, seen(4, total=0.5, edges=only), at(10), None)
    assert (restarted.increases, restarted.sum_increase_seconds) == ((4,), 0.5)
    unknown = increase(before._replace(sum_seconds=None), seen(60, total=12.5, edges=only), at(10), None)
    assert (unknown.increases, unknown.sum_increase_seconds) == ((10,), None)


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 50), min_size=3, max_size=3)), max_size=30))
def test_base_and_later_increases_always_lead_to_the_raw_buckets(
    steps: list[tuple[bool, list[int]]],
) -> None:
    raw = [0, 0, 0]
    state: Last | None = None
    base: tuple[float, ...] = ()
    total_observed = total_counted = 0.0
    for i, (restart, observed) in enumerate(steps):
        if restart:
            raw = [0, 0, 0]
        cumulative = [sum(observed[: j + 1]) for j in range(3)]
        hidden_restart = (
            state is not None
            and restart
            and all(new >= old for new, old in zip(cumulative, state.buckets, strict=True))
        )
        raw = [old + new for old, new in zip(raw, cumulative, strict=True)]
        step = increase(state, seen(*raw), at(10 * i), None)
        if step.write_base:
            base = step.last.buckets
        else:
            assert step.increases is not None
            base = tuple(old + new for old, new in zip(base, step.increases, strict=True))
        assert base == tuple(raw)
        if state is not None and not hidden_restart:
            assert step.increases is not None
            total_observed += cumulative[-1]
            total_counted += step.increases[-1]
        state = step.last
    assert total_counted == total_observed
