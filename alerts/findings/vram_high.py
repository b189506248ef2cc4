"""GPU memory is high: occupancy where nothing explains it; headroom, growth and over-reservation where an
engine has preallocated.

Engines like vLLM take 90 % of a GPU at start by design, so "80 % in use" says nothing about them
(vllm#822, gpustack#2196). Where the reservation is known, occupancy is stated, and what should not happen
beside a reservation is judged instead. A GPU and each of its MIG instances are subjects of their own; the
copies of a sample per pod are one.

Input frames:
`samples` (`sql/queries/vram_latest_samples.sql`): one row per GPU or MIG instance, the newest with memory.
`reservations` (`sql/queries/vram_reservations.sql`, with `baseline_bytes`, `baseline_since` from
`alerts/findings/vram_baseline.py`): one row per GPU or MIG instance that has an engine or a configured ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Literal

import polars as pl

from alerts.observation import Observation, Reason, Stated
from alerts.settings import VramHighSettings
from alerts.words import duration, gib, percent

NAME = "vram_high"

ENGINE_TITLES = {
    "vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI", "llamacpp": "llama.cpp", "trtllm": "TensorRT-LLM",
    "triton": "Triton", "nim": "NIM", "dynamo": "Dynamo", "lmdeploy": "LMDeploy", "ollama": "Ollama",
}  # fmt: skip

Row = Mapping[str, Any]


def in_question(
    samples: pl.DataFrame,
    reservations: pl.DataFrame,
    remembered: AbstractSet[str],
    parameters: VramHighSettings,
    now: datetime,
) -> pl.DataFrame:
    """The samples without those that are plainly well, of which `observe` need not make anything.

    Plainly well: fresh, under the threshold, without a reservation, and nothing is remembered of the subject
    (`remembered`: subjects with a judgement that is not "well"). Most of a fleet is, at most times.
    """
    age_seconds = (now - pl.col("ts")).dt.total_microseconds() / 1e6
    well = (age_seconds <= parameters.stale_intervals * pl.col("interval_seconds")) & (
        pl.col("memory_used_ratio") < parameters.fire_above
    )
    concerned = ~well.fill_null(value=False)
    if not reservations.is_empty():
        concerned |= pl.col("gpu_uuid").is_in(reservations["gpu_uuid"].unique().implode())
    if remembered:
        instance = pl.col("mig_instance")
        subject = (
            "gpu:" + pl.col("gpu_uuid") + pl.when(instance == "").then(instance).otherwise("/" + instance)
        )
        concerned |= subject.is_in(list(remembered))
    return samples.filter(concerned)


def observe(
    samples: pl.DataFrame, reservations: pl.DataFrame, parameters: VramHighSettings, now: datetime
) -> list[Observation]:
    """All checks that apply to each GPU and MIG instance.

    Occupancy is always there, stated where a reservation explains it. A sample older than
    `stale_intervals` scrape intervals, or without memory, gives a value of None.
    """
    reserved = {
        (row["gpu_uuid"], row["mig_instance"]): row
        for row in reservations.iter_rows(named=True)
        if row["reservation_ratio"] is not None
    }
    # A MIG parent's memory is that of its instances: what explains an instance explains the parent.
    partitioned = {uuid: row for (uuid, instance), row in reserved.items() if instance}
    observations: list[Observation] = []
    for sample in samples.iter_rows(named=True):
        uuid, instance = sample["gpu_uuid"], sample["mig_instance"]
        reservation = reserved.get((uuid, instance))
        one = _Subject(sample, reservation, parameters, now)
        if reservation is not None:
            observations += one.beside_reservation(reservation)
        elif not instance and uuid in partitioned:
            text = f"holds MIG instances, one of them {preallocated(partitioned[uuid])}"
            observations.append(one.occupancy(Stated(Reason.PREALLOCATED, text)))
        else:
            observations.append(one.occupancy(None))
    return observations


def preallocated(reservation: Row) -> str:
    """ "preallocated by vLLM (90 %), KV 34 % used", as pages and findings state it."""
    engine, share = reservation["engine"], percent(reservation["reservation_ratio"])
    text = f"preallocated by {ENGINE_TITLES.get(engine, engine)} ({share})" if engine else (
        f"preallocated ({share}, as configured)"
    )  # fmt: skip
    kv = reservation["kv_cache_used_ratio"]
    return text if kv is None else f"{text}, KV {percent(kv)} used"


class _Subject:
    """One GPU or MIG instance with its newest sample, ready to be checked."""

    def __init__(
        self, sample: Row, reservation: Row | None, parameters: VramHighSettings, now: datetime
    ) -> None:
        self.ts: datetime = sample["ts"]
        self.parameters = parameters
        self.reservation = reservation
        self.stale_after = parameters.stale_intervals * sample["interval_seconds"]
        self.fresh = (now - self.ts).total_seconds() <= self.stale_after
        self.used: int | None = sample["memory_used_bytes"]
        self.total: int | None = sample["memory_total_bytes"]
        self.ratio: float | None = sample["memory_used_ratio"]
        reserved_by_driver = sample["memory_reserved_bytes"] or 0
        self.free: int | None = sample["memory_free_bytes"]
        if self.free is None and self.total is not None and self.used is not None:
            self.free = self.total - reserved_by_driver - self.used
        if self.total is None and self.free is not None and self.used is not None:
            self.total = self.used + self.free + reserved_by_driver
        self.usable = None if self.used is None or self.free is None else self.used + self.free
        """What the ratio is of: without what the driver keeps to itself."""
        self.margin = max(parameters.margin_bytes, parameters.margin_ratio * (self.total or 0))
        instance = sample["mig_instance"]
        self.subject = f"gpu:{sample['gpu_uuid']}" + (f"/{instance}" if instance else "")
        known = reservation or {}
        self.evidence = {
            "used_bytes": self.used,
            "free_bytes": self.free,
            "usable_bytes": self.usable,
            "total_bytes": self.total,
            "used_ratio": self.ratio,
            "reservation_ratio": known.get("reservation_ratio"),
            "reservation_source": known.get("source"),
            "baseline_bytes": known.get("baseline_bytes"),
            "engine": known.get("engine"),
            "kv_cache_used_ratio": known.get("kv_cache_used_ratio"),
        }
        self.labels = {
            "gpu_uuid": sample["gpu_uuid"],
            "mig_instance": instance,
            "host": sample["host"],
            "gpu_index": sample["gpu_index"],
            "gpu_model": sample["gpu_model"],
            "target": sample["target"],
            # The engine's owner pays for the memory; the exporter's labels are those of the machine.
            "project": known.get("project") or sample["project"],
            "environment": known.get("environment") or sample["environment"],
            "namespace": sample["namespace"],
            "pod": sample["pod"],
            "engine_target": known.get("engine_target"),
            "engine": known.get("engine"),
            "model": known.get("model"),
        }

    def occupancy(self, stated: Stated | None) -> Observation:
        p = self.parameters
        of = "" if self.usable is None else f" of {gib(self.usable)}"
        return self._observation(
            "occupancy", self.ratio, "ratio", "higher", (p.fire_above, p.clear_below), p.hold_seconds,
            ("VRAM high", f"{self._used()}{of}", f"over {percent(p.fire_above)}"), stated,
        )  # fmt: skip

    def beside_reservation(self, reservation: Row) -> list[Observation]:
        stated = Stated(Reason.PREALLOCATED, preallocated(reservation))
        observations = [self.occupancy(stated), self._growth(reservation)]
        if self.total is not None:
            observations.append(self._headroom())
        if reservation["all_known"]:
            observations.append(self._over_reservation(reservation["reservation_ratio"]))
        return observations

    def _used(self) -> str:
        return "VRAM" if self.ratio is None else f"VRAM {percent(self.ratio)}"

    def _headroom(self) -> Observation:
        p, margin = self.parameters, self.margin
        free = "VRAM free" if self.free is None else f"{gib(self.free)} VRAM free"
        of = "" if self.usable is None else f" of {gib(self.usable)}"
        return self._observation(
            "headroom", self.free, "bytes", "lower", (margin, margin * (1 + p.hysteresis_ratio)),
            p.headroom_hold_seconds,
            ("VRAM nearly out", f"{free}{of}", f"under {gib(margin)}"),
        )  # fmt: skip

    def _growth(self, reservation: Row) -> Observation:
        p, margin, baseline = self.parameters, self.margin, reservation["baseline_bytes"]
        grown, stated, what = None, None, "VRAM over its level after warm-up"
        if baseline is None:
            known_after = duration(p.warm_up_seconds + p.plateau_seconds)
            text = f"the level after warm-up is known {known_after} after"
            stated = Stated(Reason.WARMING_UP, f"{text} {reservation['baseline_since']:%H:%M} UTC")
        elif self.used is not None:
            grown = self.used - baseline
            what = f"VRAM {gib(grown)} over its level after warm-up of {gib(baseline)}"
        return self._observation(
            "growth", grown, "bytes", "higher", (margin, margin * (1 - p.hysteresis_ratio)),
            p.growth_hold_seconds, ("VRAM growing", what, f"over {gib(margin)}"), stated,
        )  # fmt: skip

    def _over_reservation(self, share: float) -> Observation:
        p = self.parameters
        fire_at = share + p.over_reservation_ratio
        clear_at = share + p.over_reservation_ratio * (1 - p.hysteresis_ratio)
        what = f"{self._used()} where {percent(share)} is reserved"
        return self._observation(
            "over_reservation", self.ratio, "ratio", "higher", (fire_at, clear_at),
            p.over_reservation_hold_seconds,
            ("VRAM over the reservation", what, f"over {percent(min(fire_at, 1.0))}"),
        )  # fmt: skip

    def _observation(
        self,
        check: str,
        value: float | None,
        unit: str,
        worse: Literal["higher", "lower"],
        thresholds: tuple[float, float],
        hold: float,
        words: tuple[str, str, str],
        stated: Stated | None = None,
    ) -> Observation:
        title, what, limit = words
        return Observation(
            name=NAME,
            check=check,
            subject=self.subject,
            value=value if self.fresh else None,
            unit=unit,
            fire_at=thresholds[0],
            clear_at=thresholds[1],
            worse=worse,
            hold_seconds=hold,
            ts=self.ts,
            stale_after_seconds=self.stale_after,
            severity="info" if stated else "warning",
            title=title,
            what=what,
            limit=f"{limit} for {duration(hold)}" if hold else limit,
            evidence=self.evidence,
            labels=self.labels,
            stated=stated,
        )
