"""Judgements, incidents and findings as rows: read into tuples, and written in bulk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import polars as pl

from alerts.incidents import Incident, State, Step
from alerts.observation import Observation, Reason
from sql.store import Store, Writer, to_json

_TS = pl.Datetime("us")


class Judged(NamedTuple):
    """What is remembered of one check of one subject; a row of table `judgement`."""

    name: str
    check: str
    subject: str
    state: State
    text: str
    changed_at: datetime
    labels_json: str


Key = tuple[str, str, str]
"""(finding, check, subject)"""

_REASONS = {reason.value: reason for reason in Reason}


def remembered_judgements(store: Store) -> dict[Key, Judged]:
    """All checks that are not plainly well."""
    remembered = {}
    for name, check, subject, phase, reason, *rest, text, changed_at, labels in store.query(
        "incident_judgements"
    ).iter_rows():
        state = State(phase, _REASONS[reason], *rest)
        remembered[name, check, subject] = Judged(name, check, subject, state, text, changed_at, labels)
    return remembered


def open_incidents(store: Store) -> dict[str, Incident]:
    """The pending and firing incidents, by id."""
    incidents = {}
    for row in store.query("incident_open").iter_rows(named=True):
        row["labels"], row["evidence"] = json.loads(row["labels"]), json.loads(row["evidence"])
        incidents[row["incident_id"]] = Incident(**row)
    return incidents


def incident_json(incident: Incident) -> dict[str, Any]:
    """The incident with its times as ISO text, as it stands in a message's payload."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in incident._asdict().items()
    }


def incident_from_json(content: Mapping[str, Any]) -> Incident:
    """What `incident_json` made, as it was."""
    values: dict[str, Any] = {
        name: datetime.fromisoformat(value) if value is not None and _is_time(name) else value
        for name, value in content.items()
    }
    return Incident(**values)


def _is_time(column: str) -> bool:
    return column.endswith(("_at", "_since"))


def judgement_row(observation: Observation, judged: Step, changed_at: datetime) -> tuple[Any, ...]:
    """A row of table `judgement`."""
    state = judged.state
    key = (observation.name, observation.check, observation.subject)
    return (
        "|".join(key), *key, state.phase, state.reason.value, judged.text, state.incident_id,
        state.pending_since, state.fired_at, state.resolved_at, state.last_known_at, state.no_data_since,
        state.peak_value, changed_at, to_json(observation.labels),
    )  # fmt: skip


def incident_row(incident: Incident) -> tuple[Any, ...]:
    """A row of table `incident`."""
    return incident._replace(labels=to_json(incident.labels), evidence=to_json(incident.evidence))  # type: ignore[arg-type]


_SCHEMAS: dict[str, dict[str, Any]] = {
    "judgement": dict.fromkeys(
        ("judgement_key", "name", "check_name", "subject", "state", "reason", "reason_text", "incident_id"),
        pl.String,
    )
    | dict.fromkeys(("pending_since", "fired_at", "resolved_at", "last_known_at", "no_data_since"), _TS)
    | {"peak_value": pl.Float64, "changed_at": _TS, "labels": pl.String},
    "incident": {
        name: _TS if _is_time(name)
        else pl.Float64 if name in ("value", "peak_value", "threshold")
        else pl.String
        for name in Incident._fields
    },
    "incident_change": {
        "ts": _TS, "incident_id": pl.String, "state": pl.String, "reason": pl.String,
        "reason_text": pl.String, "value": pl.Float64,
    },
    "finding": {"ts": _TS}
    | dict.fromkeys(
        ("name", "check_name", "subject", "severity", "state", "reason", "reason_text", "evidence", "labels"),
        pl.String,
    ),
    "outbox": {
        "message_id": pl.String, "incident_id": pl.String, "channel": pl.String, "event": pl.String,
        "created_at": _TS, "payload": pl.String, "state": pl.String, "attempts": pl.Int64,
        "next_attempt_at": _TS,
    },
}  # fmt: skip
"""Columns of each table as they are written here, in the order of the row tuples."""


def append(writer: Writer, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Append rows as they are written here: tuples in the order of the table's columns above."""
    if rows:
        writer.append(table, pl.DataFrame(list(rows), schema=_SCHEMAS[table], orient="row"))
