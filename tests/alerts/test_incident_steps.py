"""The state machine, against hand-made sequences and against a model that looks at the whole history."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.incidents import WELL, State, Step, step
from alerts.observation import Observation, Reason, Stated
from tests.alerts.facts import at

HOLD, STALE = 120.0, 30.0


def seen(seconds: float, value: float | None, hold: float = HOLD) -> Observation:
    """Fires at 80 %, clears under 75 %."""
    return Observation(
        "vram_high", "occupancy", "gpu:GPU-1", value, fire_at=0.80, clear_at=0.75, hold_seconds=hold,
        ts=at(seconds), stale_after_seconds=STALE, limit="over 80 % for 2 min",
    )  # fmt: skip


def follow(*values: float | None, every: float = 10.0, state: State = WELL) -> list[Step]:
    steps = []
    for i, value in enumerate(values):
        judged = step(state, seen(i * every, value), at(i * every))
        state = judged.state
        steps.append(judged)
    return steps


def firing() -> State:
    return follow(*[0.85] * 13)[-1].state


def test_it_fires_once_the_value_was_over_for_the_whole_hold_time() -> None:
    steps = follow(*[0.85] * 14)
    assert [s.state.phase for s in steps] == ["pending"] * 12 + ["firing"] * 2
    assert [s.change for s in steps] == ["opened"] + [None] * 11 + ["fired", None]
    assert steps[6].text == "pending 60 of 120 s"
    assert steps[12].state.fired_at == at(120)
    assert steps[12].state.pending_since == at(0)


def test_exactly_80_percent_fires() -> None:
    assert follow(*[0.80] * 13)[-1].state.phase == "firing"


def test_just_under_80_percent_never_begins() -> None:
    assert {s.state.phase for s in follow(*[0.7999999] * 30)} == {"inactive"}


def test_exactly_75_percent_does_not_clear() -> None:
    judged = step(firing(), seen(130, 0.75), at(130))
    assert (judged.state.phase, judged.reason) == ("firing", Reason.HELD)
    assert judged.text == "held: between 75 % and 80 %"


def test_under_75_percent_clears() -> None:
    judged = step(firing(), seen(130, 0.7499999), at(130))
    assert (judged.state.phase, judged.reason, judged.change) == ("resolved", Reason.CLEARED, "resolved")
    assert judged.state.resolved_at == at(130)


def test_between_the_thresholds_ends_pending() -> None:
    """grafana#97731: a recovery threshold must not keep pending alive."""
    judged = follow(0.85, 0.85, 0.77)[-1]
    assert (judged.state.phase, judged.reason, judged.change) == ("inactive", Reason.NOT_HELD, "cancelled")
    assert judged.text == "77 %, under 80 % after 20 s of 2 min"


def test_between_the_thresholds_does_not_resolve() -> None:
    """grafana#87226: clear at 75 % was configured, and 79 % cleared."""
    state = firing()
    for i in range(100):
        judged = step(state, seen(130 + i * 10, 0.79), at(130 + i * 10))
        state = judged.state
        assert state.phase == "firing"


def test_the_time_counts_anew_after_a_value_that_does_not_fire() -> None:
    values = [0.85] * 12 + [0.79] + [0.85] * 12
    assert {s.state.phase for s in follow(*values)} == {"inactive", "pending"}
    assert follow(*values, 0.85)[-1].state.phase == "firing"


def test_unknown_never_fires_and_never_resolves() -> None:
    state = firing()
    for i in range(1, 1000):
        judged = step(state, seen(120, None), at(120 + i * 60))
        state = judged.state
    assert state.phase == "firing"
    assert judged.change is None
    assert {s.state.phase for s in follow(*[None] * 50)} == {"inactive"}


def test_no_data_says_since_when() -> None:
    judged = step(firing(), seen(120, None), at(165))
    assert (judged.reason, judged.text) == (Reason.NO_DATA, "no data for 45 s, still firing")
    assert judged.state.no_data_since == at(120)
    back = step(judged.state, seen(200, 0.9), at(200))
    assert (back.state.no_data_since, back.reason) == (None, Reason.OVER)


def test_a_short_gap_neither_ends_nor_hurries_pending() -> None:
    steps = follow(*[0.85] * 5, None, None, *[0.85] * 6)
    assert steps[5].reason == Reason.NO_DATA
    assert [s.state.phase for s in steps[5:]] == ["pending"] * 7 + ["firing"]


def test_no_data_for_longer_than_the_stale_limit_ends_pending() -> None:
    steps = follow(0.85, 0.85, None, None, None, None)
    assert [s.change for s in steps[1:]] == [None, None, None, None, "cancelled"]


def test_after_a_gap_without_judgements_pending_counts_anew() -> None:
    """infermeter was down for two minutes; nobody knows what the memory did meanwhile."""
    state = follow(0.85, 0.85)[-1].state
    judged = step(state, seen(140, 0.85), at(140))
    assert (judged.state.phase, judged.reason) == ("pending", Reason.PENDING_ANEW)
    assert judged.state.pending_since == at(140)
    assert judged.text == "pending 0 of 120 s, counted anew after 2 min 10 s without data"
    assert judged.state.incident_id == state.incident_id


def test_the_peak_is_the_worst_value_since_pending_began() -> None:
    state = follow(0.85, 0.97, *[0.82] * 12)[-1].state
    judged = step(state, seen(140, 0.6), at(140))
    assert judged.state.peak_value == 0.97


def test_where_lower_is_worse_everything_is_mirrored() -> None:
    def free(seconds: float, value: float) -> Observation:
        return seen(seconds, value, hold=0)._replace(worse="lower", fire_at=100, clear_at=125, unit="bytes")

    fired = step(WELL, free(0, 100), at(0))
    assert (fired.state.phase, fired.change) == ("firing", "fired")
    held = step(fired.state, free(10, 125), at(10))
    assert held.reason == Reason.HELD
    worse = step(held.state, free(20, 40), at(20))
    assert worse.state.peak_value == 40
    assert step(worse.state, free(30, 126), at(30)).reason == Reason.CLEARED


def test_a_stated_check_ends_what_is_open_and_says_why() -> None:
    stated = seen(130, 0.91)._replace(stated=Stated(Reason.PREALLOCATED, "preallocated by vLLM (90 %)"))
    judged = step(firing(), stated, at(130))
    assert (judged.state.phase, judged.change) == ("resolved", "resolved")
    assert judged.text == "preallocated by vLLM (90 %)"
    pending = follow(0.91, 0.91)[-1].state
    assert step(pending, stated, at(130)).change == "cancelled"
    assert step(WELL, stated, at(130)).state == WELL._replace(reason=Reason.PREALLOCATED)


def test_an_incident_that_comes_back_is_a_new_one() -> None:
    first = firing()
    over = step(first, seen(130, 0.5), at(130)).state
    again = step(over, seen(140, 0.9), at(140))
    assert again.change == "opened"
    assert again.state.incident_id != first.incident_id
    assert again.state.fired_at is None
    assert again.state.resolved_at is None


class Seen(NamedTuple):
    now: float
    ts: float
    value: float | None


def fires_by_definition(history: list[Seen]) -> list[bool]:
    """Whether it fires after each observation, told from the definition over the whole history.

    Not firing: it starts when the newest values, back to one at least `HOLD` before, all were known and at
    least 80 %, with no stretch of more than `STALE` without a known one. Firing: until one under 75 %.
    """
    told: list[bool] = []
    begin = 0  # nothing before the last end counts
    for i, last in enumerate(history):
        if told and told[-1]:
            ended = last.value is not None and last.value < 0.75
            told.append(not ended)
            if ended:
                begin = i + 1
            continue
        oldest: float | None = None
        for j in range(i, begin - 1, -1):
            now, ts, value = history[j]
            if value is None:
                before = [h.ts for h in history[begin:j] if h.value is not None]
                if before and now - before[-1] > STALE:
                    break
                continue
            if value < 0.80 or (oldest is not None and oldest - ts > STALE):
                break
            oldest = ts
        held = oldest is not None and last.value is not None and last.ts - oldest >= HOLD
        told.append(held)
    return told


VALUES = st.sampled_from([0.9, 0.85, 0.80, 0.85, 0.9, 0.80, 0.7999, 0.76, 0.75, 0.7499, 0.3, None])


@given(
    st.lists(
        st.tuples(st.sampled_from([10.0, 10.0, 10.0, 25.0, 31.0, 60.0]), VALUES, st.integers(1, 14)),
        max_size=25,
    )
)
@settings(max_examples=300, deadline=None)
def test_it_fires_and_resolves_as_the_definition_over_the_whole_history_says(
    stretches: list[tuple[float, float | None, int]],
) -> None:
    history: list[Seen] = []
    now = 0.0
    for pause, value, times in stretches:
        for _ in range(times):
            now += pause
            history.append(Seen(now, now, value))
    state, told = WELL, []
    for now, ts, value in history:
        state = step(state, seen(ts, value), at(now)).state
        told.append(state.phase == "firing")
    assert told == fires_by_definition(history)


@given(st.lists(st.tuples(st.sampled_from([5.0, 10.0, 45.0]), VALUES), max_size=80))
@settings(max_examples=200, deadline=None)
def test_every_step_is_one_of_the_allowed_ones_and_keeps_its_times_in_order(
    moves: list[tuple[float, float | None]],
) -> None:
    allowed = {
        "inactive": {"inactive", "pending"}, "pending": {"pending", "firing", "inactive"},
        "firing": {"firing", "resolved"}, "resolved": {"resolved", "pending"},
    }  # fmt: skip
    state, now = WELL, 0.0
    for pause, value in moves:
        now += pause
        judged = step(state, seen(now, value), at(now))
        after = judged.state
        assert after.phase in allowed[state.phase]
        assert (judged.change is not None) == (
            after.phase != state.phase and (state.phase, after.phase) != ("resolved", "inactive")
        )
        assert judged.text
        if after.phase in ("pending", "firing"):
            assert after.incident_id is not None
            assert after.pending_since is not None
            assert after.pending_since <= (after.fired_at or at(now))
            assert after.peak_value is not None
            assert after.peak_value >= 0.80
        state = after
