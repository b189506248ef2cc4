"""The state machine of a check, and the incident it opens: pure functions of state, observation and now.

inactive → pending (the value fires) → firing (every value fired for the hold time) → resolved (one clears).
A value that does not fire ends pending, also one between the thresholds; only firing is held between them.
An unknown value never fires and never resolves. A stated check is not judged; it ends what is open, and says
why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from alerts.observation import Observation, Reason
from alerts.words import clock, duration, quantity, where

Phase = Literal["inactive", "pending", "firing", "resolved"]
Change = Literal["opened", "fired", "resolved", "cancelled"]


class State(NamedTuple):
    """What is remembered of one check of one subject between two judgements."""

    phase: Phase = "inactive"
    reason: Reason = Reason.BELOW
    incident_id: str | None = None
    pending_since: datetime | None = None
    """Sample time from which the hold time counts."""
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    last_known_at: datetime | None = None
    """Time of the last sample with a value, while pending or firing."""
    no_data_since: datetime | None = None
    peak_value: float | None = None


class Step(NamedTuple):
    """One judgement: the state after it, why, in words, and what changed for the incident, if anything."""

    state: State
    reason: Reason
    text: str
    change: Change | None = None


WELL = State()


def step(state: State, observation: Observation, now: datetime) -> Step:
    """Judge one observation. `now` is only for "since" in words; times are those of the samples."""
    if observation.stated is not None:
        return _stated(state, observation, now)
    if observation.value is None or observation.ts is None:
        return _unknown(state, observation, now)
    if state.phase == "pending":
        return _pending(state, observation, observation.ts)
    if state.phase == "firing":
        return _firing(state, observation, observation.ts)
    if observation.fires():
        opened = State(
            phase="pending",
            incident_id=new_incident_id(observation, now),
            pending_since=observation.ts,
            last_known_at=observation.ts,
            peak_value=observation.value,
        )
        return _fire_if_held(opened, observation, observation.ts, "opened")
    if state.phase == "resolved":
        # It stays "resolved" until it opens anew; the reason says how it ended.
        reason = Reason.CLEARED if state.reason is Reason.NO_DATA else state.reason
        return _judged(state._replace(no_data_since=None), reason, _value_text(observation))
    return _judged(WELL, Reason.BELOW, _value_text(observation))


def _judged(state: State, reason: Reason, text: str, change: Change | None = None) -> Step:
    after = state if state.reason is reason else state._replace(reason=reason)
    return Step(after, reason, text, change)


def _value_text(observation: Observation) -> str:
    side = "under" if observation.worse == "higher" else "over"
    fire_at = quantity(observation.fire_at, observation.unit)
    return f"{quantity(observation.value, observation.unit)}, {side} {fire_at}"


def _stated(state: State, observation: Observation, now: datetime) -> Step:
    assert observation.stated is not None
    reason, text = observation.stated
    if state.phase == "firing":
        after = state._replace(phase="resolved", resolved_at=now, no_data_since=None)
        return _judged(after, reason, text, "resolved")
    return _judged(WELL, reason, text, "cancelled" if state.phase == "pending" else None)


def _unknown(state: State, observation: Observation, now: datetime) -> Step:
    since = state.no_data_since or state.last_known_at or observation.ts or now
    age = (now - since).total_seconds()
    text = f"no data for {duration(age)}"
    if state.phase == "pending" and age > observation.stale_after_seconds:
        text += ", the pending time does not count on"
        return _judged(WELL._replace(no_data_since=since), Reason.NO_DATA, text, "cancelled")
    after = state._replace(no_data_since=since)
    if state.phase == "firing":
        text += ", still firing"
    elif state.phase == "pending":
        text += ", the pending time stands still"
    return _judged(after, Reason.NO_DATA, text)


def _pending(state: State, observation: Observation, ts: datetime) -> Step:
    assert state.pending_since is not None
    assert state.last_known_at is not None
    if not observation.fires():
        held = duration((ts - state.pending_since).total_seconds())
        text = f"{_value_text(observation)} after {held} of {duration(observation.hold_seconds)}"
        return _judged(WELL, Reason.NOT_HELD, text, "cancelled")
    gap = (ts - state.last_known_at).total_seconds()
    peak = observation.worst(state.peak_value)
    after = state._replace(last_known_at=ts, no_data_since=None, peak_value=peak)
    if gap > observation.stale_after_seconds:
        anew = after._replace(pending_since=ts, peak_value=observation.value)
        if observation.hold_seconds > 0:
            text = f"{_progress(anew, observation, ts)}, counted anew after {duration(gap)} without data"
            return _judged(anew, Reason.PENDING_ANEW, text)
        after = anew
    return _fire_if_held(after, observation, ts, None)


def _fire_if_held(state: State, observation: Observation, ts: datetime, change: Change | None) -> Step:
    assert state.pending_since is not None
    if ts - state.pending_since >= timedelta(seconds=observation.hold_seconds):
        return _judged(state._replace(phase="firing", fired_at=ts), Reason.OVER, observation.limit, "fired")
    return _judged(state, Reason.PENDING, _progress(state, observation, ts), change)


def _progress(state: State, observation: Observation, ts: datetime) -> str:
    assert state.pending_since is not None
    held = max(0.0, (ts - state.pending_since).total_seconds())
    return f"pending {held:.0f} of {observation.hold_seconds:.0f} s"


def _firing(state: State, observation: Observation, ts: datetime) -> Step:
    peak = observation.worst(state.peak_value)
    after = state._replace(last_known_at=ts, no_data_since=None, peak_value=peak)
    fire_at, clear_at = (quantity(x, observation.unit) for x in (observation.fire_at, observation.clear_at))
    if observation.clears():
        side = "under" if observation.worse == "higher" else "over"
        text = f"cleared: {quantity(observation.value, observation.unit)}, {side} {clear_at}"
        return _judged(after._replace(phase="resolved", resolved_at=ts), Reason.CLEARED, text, "resolved")
    if observation.fires():
        return _judged(after, Reason.OVER, observation.limit)
    low, high = (clear_at, fire_at) if observation.worse == "higher" else (fire_at, clear_at)
    return _judged(after, Reason.HELD, f"held: between {low} and {high}")


def new_incident_id(observation: Observation, now: datetime) -> str:
    """Sixteen hex digits of the check, its subject and the moment: the same on a replay."""
    text = "|".join((observation.name, observation.check, observation.subject, now.isoformat()))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Incident(NamedTuple):
    """A row of table `incident`; the columns are described there. `labels` and `evidence` as mappings."""

    incident_id: str
    name: str
    check_name: str
    subject: str
    severity: str
    state: str
    reason: str
    reason_text: str
    title: str
    summary: str
    value: float | None
    peak_value: float | None
    threshold: float | None
    unit: str
    started_at: datetime
    fired_at: datetime | None
    resolved_at: datetime | None
    last_seen_at: datetime | None
    no_data_since: datetime | None
    labels: Mapping[str, Any]
    evidence: Mapping[str, Any]


def advance(before: Incident | None, observation: Observation, judged: Step, now: datetime) -> Incident:
    """The incident after a judgement that is, or has just ended, pending or firing.

    A judgement without a value (no data, stated) changes the state and keeps the last known numbers.
    """
    state = judged.state
    known = before is None or (observation.value is not None and observation.stated is None)
    if known:
        assert state.pending_since is not None
        assert state.incident_id is not None
        incident = Incident(
            incident_id=state.incident_id,
            name=observation.name,
            check_name=observation.check,
            subject=observation.subject,
            severity=observation.severity,
            state=state.phase,
            reason=judged.reason,
            reason_text=judged.text,
            title=observation.title,
            summary="",
            value=observation.value,
            peak_value=state.peak_value,
            threshold=observation.fire_at,
            unit=observation.unit,
            started_at=state.pending_since,
            fired_at=state.fired_at,
            resolved_at=state.resolved_at,
            last_seen_at=observation.ts,
            no_data_since=None,
            labels=observation.labels,
            evidence=observation.evidence,
        )
    else:
        assert before is not None
        incident = before._replace(
            state=state.phase,
            reason=judged.reason,
            reason_text=judged.text,
            resolved_at=state.resolved_at,
            no_data_since=state.no_data_since,
        )
    return incident._replace(summary=_summary(incident, observation, before, now))


def _summary(incident: Incident, observation: Observation, before: Incident | None, now: datetime) -> str:
    """One sentence that reads alone: where, what, since when, against which limit."""
    place = where(incident.labels)
    if incident.state == "resolved":
        assert incident.resolved_at is not None
        lasted = duration((incident.resolved_at - incident.started_at).total_seconds())
        text = (
            f"{place}: {incident.title} resolved at {clock(incident.resolved_at, now)} after {lasted}, peak "
        )
        text += f"{quantity(incident.peak_value, incident.unit)}"
        return text + ("" if incident.reason == Reason.CLEARED else f"; {incident.reason_text}")
    if incident.reason == Reason.NO_DATA and before is not None:
        return f"{before.summary.partition('; no data')[0]}; {incident.reason_text}"
    text = f"{place}: {observation.what} since {clock(incident.started_at, now)}, "
    return text + (incident.reason_text if incident.state == "pending" else observation.limit)
