"""Retention: what is old goes, what is still needed stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from app.housekeeping import housekeeping
from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm

NOW = datetime(2026, 11, 30, 12, 0)
TARGET = Target(name="llm", url="http://host:8000/metrics")


@dataclass
class Retention:
    raw: float


def test_raw_rows_past_retention_go_and_a_restart_still_goes_on_from_the_last_buckets() -> None:
    store = Store.open()
    ingest = Ingest(store)
    ingest.sync_targets([TARGET], NOW)
    start = NOW - timedelta(hours=5)
    for i in range(60):
        n = float(i)
        body = vllm(ttft={"0.1": n, "1.0": n, "+Inf": n})
        scraped = ingest.read(TARGET, start + timedelta(minutes=5 * i), Fetched(200, body, 0.01, None))
        ingest.commit([scraped])
    before = dict(ingest.lasts)
    assert store.query("histogram_rows", target="llm").height == 60
    housekeeping(store, Retention(raw=7200.0), NOW)
    kept = store.query("histogram_rows", target="llm")["ts"].to_list()
    assert min(kept) == NOW - timedelta(hours=2)
    assert len(store.query("scrape_rows", target="llm")) == len(kept)
    again = Ingest(store)
    again.restore()
    # The base is written once an hour; only the time of the newest one is remembered.
    assert {k: (v.ts, v.buckets) for k, v in again.lasts.items()} == {
        k: (v.ts, v.buckets) for k, v in before.items()
    }


def test_a_target_silent_for_longer_than_retention_starts_anew_instead_of_wrong() -> None:
    store = Store.open()
    ingest = Ingest(store)
    ingest.sync_targets([TARGET], NOW)
    old = NOW - timedelta(days=3)
    body = vllm(ttft={"0.1": 5, "1.0": 5, "+Inf": 5})
    ingest.commit([ingest.read(TARGET, old, Fetched(200, body, 0.01, None))])
    housekeeping(store, Retention(raw=86_400.0), NOW)
    again = Ingest(store)
    again.restore()
    assert again.lasts == {}
    later = vllm(ttft={"0.1": 9, "1.0": 9, "+Inf": 9})
    again.commit([again.read(TARGET, NOW, Fetched(200, later, 0.01, None))])
    (row,) = store.query("histogram_rows", target="llm").to_dicts()
    assert row["increases"] is None


@pytest.mark.parametrize(
    ("table", "time", "more"),
    [
        ("gpu_process", "ts", {"gpu_uuid": "GPU-1", "mig_instance": "", "pid": 7}),
        ("host_sample", "ts", {"host": "node-1"}),
        ("probe", "ts", {"ok": True}),
        ("engine_gpu", "last_seen", {
            "replica": "", "gpu_uuid": "GPU-1", "mig_instance": "", "source": "pod", "first_seen": NOW,
        }),
        ("pull_progress", "last_ts", {"source": "prom", "labels": "{}"}),
    ],
)  # fmt: skip
def test_rows_of_further_sources_go_with_the_raw_rows(table: str, time: str, more: dict[str, Any]) -> None:
    store = Store.open()
    ages = (timedelta(minutes=119), timedelta(minutes=121))
    with store.write() as writer:
        writer.append(table, pl.DataFrame([{"target": f"t-{age}", time: NOW - age} | more for age in ages]))
    housekeeping(store, Retention(raw=7200.0), NOW)
    left = store._connection.execute(f"SELECT target FROM {table}").fetchall()
    assert left == [(f"t-{ages[0]}",)]


def test_targets_go_once_they_were_gone_for_longer_than_raw_rows_are_kept() -> None:
    store = Store.open()
    ingest = Ingest(store)
    ages = {"long-gone": 121, "gone": 119}  # minutes
    for name, minutes in ages.items():
        ingest.sync_targets([TARGET, Target(name=name, url="http://pod:8000")], NOW - timedelta(minutes=999))
        ingest.sync_targets([TARGET], NOW - timedelta(minutes=minutes))
    housekeeping(store, Retention(raw=7200.0), NOW)
    assert sorted(store.query("target_rows")["target"]) == ["gone", "llm"]
