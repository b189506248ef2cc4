"""Facts for the alert tests: targets, GPUs and engines, appended as a scrape round would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from alerts.judge import Event, judge
from alerts.settings import AlertSettings
from sql.store import Store

START = datetime(2026, 11, 30, 13, 0)
MIB, GIB = 2**20, 2**30
H100_BYTES = 80 * GIB
WEBHOOK = "https://hooks.slack.com/services/T0SECRET/B0SECRET/verysecretverysecret"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def settings(**changes: Any) -> AlertSettings:
    channels = [{"name": "ops", "kind": "slack", "webhook_url": WEBHOOK}]
    return AlertSettings.model_validate({"channels": channels} | changes)


def gpu(
    uuid: str = "GPU-1", ratio: float | None = 0.5, *, total: int = H100_BYTES, used: int | None = None,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A GPU sample; memory from `ratio`, or from `used` bytes."""
    if used is not None:
        ratio = used / total
    if used is None and ratio is not None:
        used = round(ratio * total)
    return {
        "target": "dcgm-1",
        "gpu_uuid": uuid,
        "mig_instance": "",
        "gpu_index": 3,
        "host": "node-2",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "memory_used_bytes": used,
        "memory_free_bytes": None if used is None else total - used,
        "memory_total_bytes": total,
        "memory_used_ratio": ratio,
    } | more


def vllm(target: str = "vllm-1", **more: Any) -> dict[str, Any]:
    """An engine sample of vLLM with its default reservation of 90 %."""
    return {
        "target": target,
        "engine": "vllm",
        "role": "engine",
        "replica": "0",
        "model": "llama-70b",
        "memory_reservation_ratio": 0.9,
        "kv_cache_used_ratio": 0.34,
        "process_start_time_seconds": 1_796_043_600.0,
    } | more


def add_target(store: Store, name: str, kind: str = "dcgm", **more: Any) -> None:
    labels = json.dumps(more.pop("labels", {}))
    role = "gpu" if kind == "dcgm" else "engine"
    row = {
        "target": name, "kind": kind, "found_kind": kind, "role": role, "url": f"http://{name}/metrics",
        "labels": labels, "interval_seconds": 10.0, "first_seen": START, "last_seen": START, "gpus": None,
    } | more  # fmt: skip
    with store.write() as writer:
        writer.append("target", pl.DataFrame([row], schema_overrides={"gpus": pl.List(pl.String)}))


def add(
    store: Store, seconds: float, gpus: Iterable[dict[str, Any]] = (), engines: Iterable[dict[str, Any]] = ()
) -> None:
    """One scrape round at that second."""
    with store.write() as writer:
        for table, rows in (("gpu_sample", gpus), ("engine_sample", engines)):
            stamped = [{"ts": at(seconds)} | row for row in rows]
            if stamped:
                writer.append(table, pl.DataFrame(stamped, infer_schema_length=None))


def fleet() -> Store:
    """An empty store that knows one exporter."""
    store = Store.open(":memory:")
    add_target(store, "dcgm-1")
    return store


Round = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def run(
    store: Store, begin: float, end: float, facts: Callable[[float], Round], config: AlertSettings,
    step: float = 10.0, base_url: str | None = None,
) -> list[Event]:  # fmt: skip
    """Scrape and judge every `step` seconds, from `begin` to `end`, both included."""
    events = []
    seconds = begin
    while seconds <= end:
        gpus, engines = facts(seconds)
        add(store, seconds, gpus, engines)
        events += judge(store, config, at(seconds), base_url)
        seconds += step
    return events


def changes(events: Iterable[Event], check: str | None = None) -> list[tuple[float, str, str]]:
    """(second, state, reason) of the incident changes, of one check if given."""
    return [
        (round(event.t - 1_796_043_600.0, 3), event.state, event.reason)
        for event in events
        if event.kind == "incident" and check in (None, event.evidence.get("check"))
    ]


def firings(events: Iterable[Event]) -> list[tuple[str, str]]:
    """(check, subject) of the incidents that fired."""
    return [
        (event.evidence["check"], event.subject)
        for event in events
        if event.kind == "incident" and event.state == "firing"
    ]


def rows(store: Store, table: str) -> list[dict[str, Any]]:
    """A whole table, for tests of what stands in it."""
    cursor = store._connection.cursor()
    names = [column[0] for column in cursor.execute(f"SELECT * FROM {table}").description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
