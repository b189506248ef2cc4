"""What each finding needs from the store: one function a finding, one line in `GATHERERS`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, NamedTuple

import polars as pl

from alerts.findings import vram_baseline, vram_high
from alerts.findings.vram_baseline import Baseline, Plateau
from alerts.observation import Observation
from alerts.settings import AlertSettings, VramHighSettings
from sql.store import Store, Writer, to_json

SLACK_SECONDS = 60.0
"""How much longer than `stale_intervals` scrapes a GPU is looked for, so that it is seen to go stale."""

SERIES_SECONDS = 1800.0
"""How much of the past an incident shows as its evidence."""


class Gathered(NamedTuple):
    """Observations, and what the finding remembers: `save` runs in the transaction of the judgement."""

    observations: list[Observation]
    save: Callable[[Writer], None]


class Remembered(NamedTuple):
    """Subjects with a judgement that is not plainly "well", and those of them with an open incident."""

    subjects: AbstractSet[str] = frozenset()
    open_subjects: AbstractSet[str] = frozenset()


Gatherer = Callable[[Store, AlertSettings, datetime, Remembered], Gathered | None]
"""(store, settings, now, what is remembered) → what to judge; None when the rule is off."""


def vram_high_now(
    store: Store, settings: AlertSettings, now: datetime, remembered: Remembered
) -> Gathered | None:
    """GPU memory: newest samples, reservations and levels after warm-up.

    What is plainly well and was so before is left out: no judgement could come of it.
    """
    parameters = settings.vram_high
    if not parameters.enabled:
        return None
    ((longest, reserve),) = store.query_rows("vram_targets")
    since = now - timedelta(seconds=parameters.stale_intervals * (longest or 15.0) + SLACK_SECONDS)
    engines_since = now - timedelta(seconds=parameters.reservation_valid_seconds)
    samples = store.query("vram_latest_samples", since=since, now=now)
    reservations, changed = pl.DataFrame(schema={"gpu_uuid": pl.String}), list[Baseline]()
    if reserve:
        reservations = store.query("vram_reservations", since=since, engines_since=engines_since, now=now)
    if not reservations.is_empty():
        baselines, changed = _baselines(store, reservations, parameters, now)
        reservations = reservations.join(
            _baseline_frame(baselines), on=["gpu_uuid", "mig_instance"], how="left"
        )
    samples = vram_high.in_question(samples, reservations, remembered.subjects, parameters, now)
    observations = vram_high.observe(samples, reservations, parameters, now)
    observations = _with_series(store, observations, remembered.open_subjects, now)
    return Gathered(observations, partial(_save_baselines, changed))


GATHERERS: dict[str, Gatherer] = {
    vram_high.NAME: vram_high_now,
}


def _baselines(
    store: Store, reservations: pl.DataFrame, parameters: VramHighSettings, now: datetime
) -> tuple[list[Baseline], list[Baseline]]:
    """The levels of all reserved GPUs, and those of them that have to be written."""
    rows = {(row["gpu_uuid"], row["mig_instance"]): row for row in reservations.iter_rows(named=True)}
    known = {}
    for uuid, instance, engines, since, level, learned_at in store.query_rows("vram_baselines"):
        known[uuid, instance] = Baseline(uuid, instance, _engines(engines), since, level, learned_at)
    seen = {key: vram_baseline.engines_of(row) for key, row in rows.items()}
    baselines = vram_baseline.renew(known, seen, now)
    due = [baseline for baseline in baselines.values() if baseline.due(parameters, now)]
    if due:
        plateaus = _plateaus(store, due, parameters)
        for baseline in due:
            key = (baseline.gpu_uuid, baseline.mig_instance)
            plateau = plateaus.get(key, Plateau(None, None, 0))
            baselines[key] = vram_baseline.learn(baseline, plateau, rows[key]["reservation_ratio"], now)
    changed = [baseline for key, baseline in baselines.items() if known.get(key) != baseline]
    return list(baselines.values()), changed


@lru_cache(maxsize=10_000)
def _engines(text: str) -> dict[str, float | None]:
    engines: dict[str, float | None] = json.loads(text)
    return engines


def _plateaus(
    store: Store, due: Sequence[Baseline], parameters: VramHighSettings
) -> dict[vram_baseline.Key, Plateau]:
    windows = [baseline.window(parameters) for baseline in due]
    rows = store.query_rows(
        "vram_plateaus",
        gpu_uuids=[baseline.gpu_uuid for baseline in due],
        mig_instances=[baseline.mig_instance for baseline in due],
        begins=[begin for begin, _ in windows],
        ends=[end for _, end in windows],
        earliest=min(begin for begin, _ in windows),
        latest=max(end for _, end in windows),
    )
    return {(uuid, instance): Plateau(*medians) for uuid, instance, *medians in rows}


def _baseline_frame(baselines: Sequence[Baseline]) -> pl.DataFrame:
    return pl.DataFrame(
        [(b.gpu_uuid, b.mig_instance, b.baseline_bytes, b.since) for b in baselines],
        schema={
            "gpu_uuid": pl.String,
            "mig_instance": pl.String,
            "baseline_bytes": pl.Int64,
            "baseline_since": pl.Datetime("us"),
        },
        orient="row",
    )


def _save_baselines(changed: Sequence[Baseline], writer: Writer) -> None:
    if not changed:
        return
    writer.run(
        "vram_forget_baselines",
        gpu_uuids=[baseline.gpu_uuid for baseline in changed],
        mig_instances=[baseline.mig_instance for baseline in changed],
    )
    rows = [baseline._replace(engines=to_json(baseline.engines)) for baseline in changed]  # type: ignore[arg-type]
    schema: dict[str, Any] = {
        "gpu_uuid": pl.String,
        "mig_instance": pl.String,
        "engines": pl.String,
        "since": pl.Datetime("us"),
        "baseline_bytes": pl.Int64,
        "learned_at": pl.Datetime("us"),
    }
    writer.append("vram_baseline", pl.DataFrame(rows, schema=schema, orient="row"))


def _with_series(
    store: Store, observations: list[Observation], open_subjects: AbstractSet[str], now: datetime
) -> list[Observation]:
    """The observations, with the recent past added to the evidence of those that fire or are open."""
    wanted = {
        (o.labels["gpu_uuid"], o.labels["mig_instance"])
        for o in observations
        if o.stated is None and (o.fires() or o.subject in open_subjects)
    }
    if not wanted:
        return observations
    keys = sorted(wanted)
    rows = store.query_rows(
        "vram_series",
        gpu_uuids=[uuid for uuid, _ in keys],
        mig_instances=[instance for _, instance in keys],
        since=now - timedelta(seconds=SERIES_SECONDS),
        now=now,
    )
    series = {
        (uuid, instance): [[int(t), used] for t, used in zip(seconds, used_bytes, strict=True)]
        for uuid, instance, seconds, used_bytes in rows
    }
    return [
        o._replace(evidence={**o.evidence, "series_used_bytes": series[key]})
        if (key := (o.labels["gpu_uuid"], o.labels["mig_instance"])) in series and o.stated is None
        else o
        for o in observations
    ]
