"""In what state targets, GPUs and engines are: pure functions of frames and a moment.

Four states, the same words and marks everywhere: `firing`, `watching` (an incident that has not held long
enough), `well`, and `unknown` (no fresh sample).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import polars as pl

STALE_INTERVALS = 3
"""Missed intervals after which a value is old: one lost scrape is common, three are not."""
STATES = ("firing", "watching", "unknown", "well")
"""Worst first."""
_STATE_OF_INCIDENT = {"firing": "firing", "pending": "watching"}


class Subject(NamedTuple):
    """Whom an incident is about: a GPU or MIG instance."""

    gpu: str
    mig: str


FROZEN_SECONDS = 120.0


def subject_of(text: str, labels: str | None = None) -> Subject | None:
    """`gpu:<uuid>` or `gpu:<uuid>/<mig instance>`; None for another kind of subject.

    A UUID can hold a slash itself (`MIG-GPU-…/1/0`): what the incident's labels (JSON) say goes first.
    """
    kind, _, rest = text.partition(":")
    if kind != "gpu" or not rest:
        return None
    told = read_json(labels)
    if gpu := told.get("gpu_uuid"):
        return Subject(str(gpu), str(told.get("mig_instance") or ""))
    gpu, _, mig = rest.partition("/")
    return Subject(gpu, mig)


def read_json(text: str | None) -> dict[str, Any]:
    """A JSON object from a column; an empty one where it is not an object."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def stale_after(interval_seconds: float | None) -> timedelta:
    """From which age on a value is old."""
    return timedelta(seconds=STALE_INTERVALS * (interval_seconds or 10.0))


def is_stale(moment: datetime | None, interval_seconds: float | None, now: datetime) -> bool:
    """True when a sample's time is not known or too long ago."""
    return moment is None or now - moment > stale_after(interval_seconds)


def fresh(frame: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """The rows that may be ranked: of a GPU or engine that is silent or stands still nothing is known now."""
    old = [is_stale(row["ts"], row["interval_seconds"], now) for row in frame.iter_rows(named=True)]
    return frame.filter((pl.col("state") != "unknown") & ~pl.Series(old, dtype=pl.Boolean))


def as_of(incidents: pl.DataFrame, moment: datetime) -> pl.DataFrame:
    """`page_incidents` with each `state` as it was at a past moment; `later` for what had not begun."""
    state = (
        pl.when(pl.col("started_at") > moment)
        .then(pl.lit("later"))
        .when(pl.col("resolved_at") <= moment)
        .then(pl.lit("resolved"))
        .when(pl.col("fired_at") <= moment)
        .then(pl.lit("firing"))
        .otherwise(pl.lit("pending"))
    )
    return incidents.with_columns(state.alias("state"))


def open_incidents(incidents: pl.DataFrame) -> pl.DataFrame:
    """Those that fire or are watched."""
    return incidents.filter(pl.col("state").is_in(list(_STATE_OF_INCIDENT)))


def incident_state(state: str) -> str:
    """`firing`, `pending`, `resolved` as `firing`, `watching`, `well`."""
    return _STATE_OF_INCIDENT.get(state, "well")


def gpu_states(gpus: pl.DataFrame, incidents: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """`page_gpus` with `state` and `verdict` (the incident's title), the worst first within its node."""
    troubles: dict[Subject, tuple[str, str]] = {}
    for row in open_incidents(incidents).iter_rows(named=True):
        subject = subject_of(row["subject"], row["labels"])
        if subject is not None and subject not in troubles:  # the frame has the worst first
            troubles[subject] = (incident_state(row["state"]), row["title"])
    states, verdicts = [], []
    for row in gpus.iter_rows(named=True):
        state, verdict = troubles.get(Subject(row["gpu_uuid"], row["mig_instance"]), ("", ""))
        if not state:
            state = "unknown" if is_stale(row["ts"], row["interval_seconds"], now) else "well"
        states.append(state)
        verdicts.append(verdict)
    return gpus.with_columns(
        pl.Series("state", states, dtype=pl.String), pl.Series("verdict", verdicts, dtype=pl.String)
    )


def gpu_engines(
    gpu: Mapping[str, Any], targets: pl.DataFrame, placements: pl.DataFrame | None = None
) -> list[str]:
    """The targets of the engines that use a GPU: configured to, by its UUID or as `host/index`, or found on
    it (`page_engine_gpus`)."""
    names = {gpu["gpu_uuid"], f"{gpu['host']}/{gpu['gpu_index']}"}
    configured = [
        row["target"]
        for row in targets.select("target", "gpus").iter_rows(named=True)
        if row["gpus"] and names.intersection(row["gpus"])
    ]
    if placements is None:
        return configured
    mig = gpu.get("mig_instance")
    found = placements.filter(pl.col("gpu_uuid") == gpu["gpu_uuid"])
    if mig is not None:
        found = found.filter(pl.col("mig_instance").is_in([mig, ""]))
    return list(dict.fromkeys([*configured, *found["target"]]))


def gpu_list(gpus: Sequence[str]) -> str:
    """An engine's GPUs, shortly: `node-1/0–7, node-2/0, GPU-9`."""
    numbers: dict[str, list[int]] = {}
    others = []
    for gpu in gpus:
        host, slash, index = gpu.rpartition("/")
        if slash and index.isdecimal():
            numbers.setdefault(host, []).append(int(index))
        else:
            others.append(gpu)
    words = []
    for host, indexes in numbers.items():
        runs: list[list[int]] = []
        for number in sorted(set(indexes)):
            if runs and number == runs[-1][-1] + 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        words += [f"{host}/{run[0]}" if len(run) == 1 else f"{host}/{run[0]}–{run[-1]}" for run in runs]
    return ", ".join([*words, *others])


def place_of(project: str | None, environment: str | None) -> str:
    """`chat/prod`, `chat`, `–/prod`; empty where neither is known."""
    if not environment:
        return project or ""
    return f"{project or '–'}/{environment}"


def incident_place(incident: Mapping[str, Any]) -> str:
    """What an incident is about: `node-2 GPU 1 MIG 1`, an engine's target, or its subject as it is."""
    labels, subject = read_json(incident["labels"]), subject_of(incident["subject"], incident["labels"])
    if subject is None:
        return str(labels.get("target") or incident["subject"])
    index = labels.get("gpu_index")
    gpu = subject.gpu if index is None else f"GPU {index}"
    words = [labels.get("host") or labels.get("target"), gpu, subject.mig and f"MIG {subject.mig}"]
    return " ".join(str(word) for word in words if word)


def engines_of(
    incident: Mapping[str, Any], targets: pl.DataFrame, placements: pl.DataFrame | None = None
) -> list[str]:
    """The targets of the engines an incident is about: itself, or those that use its GPU."""
    labels = read_json(incident["labels"])
    subject = subject_of(incident["subject"], incident["labels"])
    if subject is not None:
        place = {"host": labels.get("host"), "gpu_index": labels.get("gpu_index")}
        gpu = {"gpu_uuid": subject.gpu, "mig_instance": subject.mig, **place}
        found = gpu_engines(gpu, targets, placements)
        named = labels.get("engine_target")
        return [*found, *([str(named)] if named and named not in found else [])]
    if incident["subject"].startswith("engine:"):
        return [str(labels.get("target") or incident["subject"].removeprefix("engine:"))]
    return []


def serving(engines: pl.DataFrame) -> pl.DataFrame:
    """The engines themselves: a router, a gateway or a probe shows the same requests once more, so its
    figures are added to nothing. Where only those are watched, they stand for what they see."""
    own = engines.filter(pl.col("role") == "engine")
    return engines if own.is_empty() else own


def is_frozen(engine: Mapping[str, Any]) -> bool:
    """Whether an engine's figures stand still: requests run, and no token was counted for two minutes.

    vLLM sets its gauges only when a step is reported, so they can show load that is long gone (vllm#29928,
    #22545). Two minutes: a long prompt's prefill counts no token either.
    """
    frozen = engine["frozen_seconds"]
    return frozen is not None and frozen >= max(FROZEN_SECONDS, 3 * engine["interval_seconds"])


def engine_states(
    engines: pl.DataFrame,
    targets: pl.DataFrame,
    incidents: pl.DataFrame,
    now: datetime,
    placements: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """`page_engines` with `state` and `verdict`.

    An engine's verdict is that of an incident on itself or on a GPU it uses; where there is none, the
    verdict is empty: none is made up.
    """
    troubles: dict[str, tuple[str, str]] = {}
    for incident in open_incidents(incidents).iter_rows(named=True):
        for target in engines_of(incident, targets, placements):
            troubles.setdefault(target, (incident_state(incident["state"]), incident["title"]))
    states, verdicts = [], []
    for row in engines.iter_rows(named=True):
        state, verdict = troubles.get(row["target"], ("", ""))
        if not state:
            unsure = is_stale(row["ts"], row["interval_seconds"], now) or is_frozen(row)
            state = "unknown" if unsure else "well"
        states.append(state)
        verdicts.append(verdict)
    return engines.with_columns(
        pl.Series("state", states, dtype=pl.String), pl.Series("verdict", verdicts, dtype=pl.String)
    )


def target_states(targets: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """`page_targets` with `state`: `gone`, `waiting` (never scraped), `failing`, `stale` or `ok`."""
    states = [_target_state(row, now) for row in targets.iter_rows(named=True)]
    return targets.with_columns(pl.Series("state", states, dtype=pl.String))


def _target_state(row: Mapping[str, Any], now: datetime) -> str:
    if row["gone_at"] is not None and row["gone_at"] <= now:
        return "gone"
    if row["last_at"] is None:
        # One that was scraped before and not of late is stale; a new one has its first scrape before it.
        fresh = now - row["first_seen"] <= stale_after(row["interval_seconds"])
        return "waiting" if fresh else "stale"
    if not row["last_ok"]:
        return "failing"
    return "stale" if is_stale(row["last_at"], row["interval_seconds"], now) else "ok"


TARGET_ORDER = {"failing": 0, "stale": 1, "waiting": 2, "ok": 3, "gone": 4}
"""Worst first."""


class Freshness(NamedTuple):
    """How old the newest data is, and whether that is too old."""

    at: datetime | None
    stale: bool


def freshness(targets: pl.DataFrame, now: datetime) -> Freshness:
    """The newest good scrape of all targets; stale when it is older than three of its target's intervals."""
    good = targets.filter(pl.col("last_ok_at").is_not_null() & pl.col("gone_at").is_null())
    if good.is_empty():
        return Freshness(None, True)
    newest = good.sort("last_ok_at").row(-1, named=True)
    return Freshness(newest["last_ok_at"], is_stale(newest["last_ok_at"], newest["interval_seconds"], now))


def sorted_by_state(frame: pl.DataFrame, *then: str, descending: bool = True) -> pl.DataFrame:
    """The worst state first, then by further columns, unknown values last."""
    place = pl.col("state").replace_strict(
        {state: number for number, state in enumerate(STATES)}, default=9, return_dtype=pl.Int8
    )
    return (
        frame.with_columns(place.alias("_place"))
        .sort(
            ["_place", *then],
            descending=[False, *(descending for _ in then)],
            nulls_last=True,
            maintain_order=True,
        )
        .drop("_place")
    )
