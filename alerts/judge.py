"""The judge: reads what the findings need, steps every check, and writes what came of it in one transaction.

State, incidents, findings and messages stand in the store together or not at all: what was decided is told,
whenever the process is killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from alerts.gather import GATHERERS, Gathered, Remembered
from alerts.incidents import WELL, Incident, State, Step, advance, step
from alerts.links import links
from alerts.observation import Observation, Reason, Stated
from alerts.records import (
    Judged,
    Key,
    append,
    incident_json,
    incident_row,
    judgement_row,
    open_incidents,
    remembered_judgements,
)
from alerts.settings import AlertSettings
from alerts.words import unix
from sql.store import Store, Writer, to_json


class Event(NamedTuple):
    """One finding (a check's state or reason changed) or one change of an incident's state.

    `t`: Unix seconds of the judgement. `state` of a cancelled incident is `inactive`.
    """

    kind: str
    name: str
    subject: str
    state: str
    reason: str
    evidence: Mapping[str, Any]
    t: float


def judge(store: Store, settings: AlertSettings, now: datetime, base_url: str | None = None) -> list[Event]:
    """Judge every rule at `now` (UTC without a zone) and write the outcome. Returns what changed.

    `base_url`: where people reach our pages; without it messages carry no links.
    """
    remembered = remembered_judgements(store)
    open_subjects = {
        key[2] for key, judged in remembered.items() if judged.state.phase in ("pending", "firing")
    }
    known = Remembered({subject for _, _, subject in remembered}, open_subjects)
    gathered = {name: gather(store, settings, now, known) for name, gather in GATHERERS.items()}
    observations = [o for found in gathered.values() if found is not None for o in found.observations]
    observations += _unobserved(remembered, gathered, observations)
    outcome = _Outcome(now, base_url, remembered, open_incidents(store))
    for observation in observations:
        outcome.add(observation)
    saves = [found.save for found in gathered.values() if found is not None]
    with store.write() as writer:
        for save in saves:
            save(writer)
        outcome.write(writer, [channel.name for channel in settings.channels])
    return outcome.events


def _unobserved(
    remembered: Mapping[Key, Judged],
    gathered: Mapping[str, Gathered | None],
    observations: Iterable[Observation],
) -> list[Observation]:
    """What to judge of the open checks that no finding observed: rule off, not applicable, or no data."""
    observed = {(o.name, o.check, o.subject) for o in observations}
    subjects = {(o.name, o.subject) for o in observations}
    missing = []
    for key, judged in remembered.items():
        if key in observed or judged.state.phase not in ("pending", "firing"):
            continue
        stated = None
        if gathered.get(judged.name) is None:
            stated = Stated(Reason.RULE_OFF, "the rule is switched off")
        elif (judged.name, judged.subject) in subjects:
            stated = Stated(Reason.NOT_APPLICABLE, "no preallocating engine is known there any more")
        missing.append(
            Observation(
                judged.name,
                judged.check,
                judged.subject,
                labels=json.loads(judged.labels_json),
                stated=stated,
            )
        )
    return missing


@dataclass
class _Outcome:
    """The rows of one judgement in the making."""

    now: datetime
    base_url: str | None
    remembered: Mapping[Key, Judged]
    incidents: Mapping[str, Incident]
    events: list[Event] = field(default_factory=list)
    forgotten: list[Key] = field(default_factory=list)
    judgements: list[tuple[Any, ...]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    written: list[Incident] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    findings: list[tuple[Any, ...]] = field(default_factory=list)
    fired: list[Incident] = field(default_factory=list)
    resolved: list[Incident] = field(default_factory=list)

    def add(self, observation: Observation) -> None:
        """Step one check and note what has to be written for it."""
        key = (observation.name, observation.check, observation.subject)
        before = self.remembered.get(key)
        state = before.state if before is not None else WELL
        judged = step(state, observation, self.now)
        if judged.state == state and state.phase not in ("pending", "firing"):
            return  # nothing new: no row is touched
        changed = (judged.state.phase, judged.reason) != (state.phase, state.reason)
        changed_at = self.now if before is None or changed else before.changed_at
        if before is not None:
            self.forgotten.append(key)
        if judged.state != WELL:
            self.judgements.append(judgement_row(observation, judged, changed_at))
        if changed:
            self._finding(observation, judged)
        self._incident(observation, state, judged)

    def _finding(self, observation: Observation, judged: Step) -> None:
        evidence = dict(observation.evidence) | {"check": observation.check, "reason_text": judged.text}
        if observation.value is not None:
            evidence["value"] = observation.value
        self.events.append(self._event("finding", observation, judged, evidence))
        self.findings.append(
            (
                self.now, observation.name, observation.check, observation.subject, observation.severity,
                judged.state.phase, judged.reason.value, judged.text, to_json(evidence),
                to_json(observation.labels),
            )
        )  # fmt: skip

    def _event(self, kind: str, observation: Observation, judged: Step, evidence: Mapping[str, Any]) -> Event:
        state, reason = judged.state.phase, judged.reason.value
        return Event(kind, observation.name, observation.subject, state, reason, evidence, unix(self.now))

    def _incident(self, observation: Observation, state: State, judged: Step) -> None:
        incident_id = judged.state.incident_id or state.incident_id
        if incident_id is None or (state.phase == "resolved" and judged.change is None):
            return
        before = self.incidents.get(incident_id)
        if judged.change == "cancelled":
            self.removed.append(incident_id)
            evidence = {"check": observation.check, "incident_id": incident_id, "reason_text": judged.text}
        else:
            if before is not None:
                self.removed.append(incident_id)
            incident = advance(before, observation, judged, self.now)
            self.written.append(incident)
            if judged.change == "fired":
                self.fired.append(incident)
            if judged.change == "resolved":
                self.resolved.append(incident)
            told = ("incident_id", "summary", "value", "peak_value", "threshold")
            evidence = dict(incident.evidence) | {"check": observation.check, "reason_text": judged.text}
            evidence |= {name: getattr(incident, name) for name in told}
        if judged.change is not None:
            self.events.append(self._event("incident", observation, judged, evidence))
            row = (
                self.now,
                incident_id,
                judged.state.phase,
                judged.reason.value,
                judged.text,
                observation.value,
            )
            self.changes.append(row)

    def write(self, writer: Writer, channels: list[str]) -> None:
        """All rows, within the caller's transaction."""
        if self.forgotten:
            keys = ["|".join(key) for key in self.forgotten]
            writer.run("incident_forget_judgements", judgement_keys=keys)
        if self.removed:
            writer.run("incident_remove", incident_ids=self.removed)
        append(writer, "judgement", self.judgements)
        append(writer, "incident", [incident_row(incident) for incident in self.written])
        append(writer, "incident_change", self.changes)
        append(writer, "finding", self.findings)
        append(writer, "outbox", [self._fired_row(i, name) for i in self.fired for name in channels])
        self._tell_new_channels(writer, channels)
        if self.resolved:
            writer.run(
                "outbox_add_resolved",
                incident_ids=[incident.incident_id for incident in self.resolved],
                payloads=[self._payload(incident) for incident in self.resolved],
                channels=channels,
                now=self.now,
            )

    def _tell_new_channels(self, writer: Writer, channels: list[str]) -> None:
        """What still fires is told to a channel that was configured after it had fired."""
        firing = {incident.incident_id: incident for incident in self.written if incident.state == "firing"}
        if not firing:
            return
        untold = writer.run("outbox_firing_without_message", channels=channels, incident_ids=list(firing))
        append(writer, "outbox", [self._fired_row(firing[one], channel) for one, channel in untold])

    def _fired_row(self, incident: Incident, channel: str) -> tuple[Any, ...]:
        message_id = f"{incident.incident_id}:fired:{channel}"
        payload = self._payload(incident)
        return (
            message_id, incident.incident_id, channel, "fired", self.now, payload, "waiting", 0, self.now,
        )  # fmt: skip

    def _payload(self, incident: Incident) -> str:
        return to_json({"incident": incident_json(incident), "links": links(self.base_url, incident)})
