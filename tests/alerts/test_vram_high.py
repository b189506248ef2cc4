"""The VRAM rule over a store: thresholds, stale data, copies, MIG, restarts. Reservations: the next file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alerts.judge import judge
from sql.store import Store
from tests.alerts.facts import (
    GIB,
    Round,
    add,
    add_target,
    at,
    changes,
    firings,
    fleet,
    gpu,
    rows,
    run,
    settings,
)


def steady(ratio: float | None, **more: Any) -> Round:
    return [gpu(ratio=ratio, **more)], []


def test_80_percent_for_two_minutes_fires_and_74_resolves() -> None:
    store = fleet()
    events = run(store, 0, 300, lambda t: steady(0.80 if t < 200 else 0.74), settings())
    assert changes(events) == [
        (0, "pending", "pending"), (120, "firing", "over_threshold"), (200, "resolved", "cleared"),
    ]  # fmt: skip
    (incident,) = rows(store, "incident")
    assert incident["summary"] == (
        "node-2 GPU 3 (H100): VRAM high resolved at 13:03 UTC after 3 min 20 s, peak 80 %"
    )
    assert (incident["started_at"], incident["fired_at"], incident["resolved_at"]) == (
        at(0),
        at(120),
        at(200),
    )
    assert (incident["state"], incident["peak_value"], incident["threshold"]) == ("resolved", 0.80, 0.80)
    assert [row["state"] for row in rows(store, "incident_change")] == ["pending", "firing", "resolved"]


def test_a_firing_incident_reads_alone() -> None:
    store = fleet()
    run(store, 0, 150, lambda t: steady(0.84), settings())
    (incident,) = rows(store, "incident")
    assert incident["summary"] == (
        "node-2 GPU 3 (H100): VRAM 84 % of 80.0 GiB since 13:00 UTC, over 80 % for 2 min"
    )
    evidence = json.loads(incident["evidence"])
    assert evidence["total_bytes"] == 80 * GIB
    assert [point[0] for point in evidence["series_used_bytes"]] == [
        1_796_043_600,
        1_796_043_660,
        1_796_043_720,
    ]


def test_the_percentage_and_the_size_beside_it_have_one_base() -> None:
    """39.1 of 44.4 GiB usable is 88.06 %; of the board's 45.0 it would be 86.9 %."""
    used, free, board = round(39.1 * GIB), round(5.3 * GIB), round(45.0 * GIB)
    sample = gpu(total=board) | {
        "memory_used_bytes": used, "memory_free_bytes": free, "memory_used_ratio": used / (used + free),
    }  # fmt: skip
    store = fleet()
    run(store, 0, 150, lambda t: ([sample], []), settings())
    (incident,) = rows(store, "incident")
    assert "VRAM 88 % of 44.4 GiB since" in incident["summary"]


def test_79_percent_never_fires() -> None:
    assert run(fleet(), 0, 600, lambda t: steady(0.799), settings()) == []


def test_75_percent_still_fires() -> None:
    events = run(fleet(), 0, 600, lambda t: steady(0.85 if t < 200 else 0.75), settings())
    assert changes(events)[-1] == (120, "firing", "over_threshold")
    held = [e for e in events if e.kind == "finding" and e.reason == "held_between_thresholds"]
    assert len(held) == 1


def test_a_spike_under_two_minutes_is_forgotten_without_a_message() -> None:
    store = fleet()
    events = run(store, 0, 300, lambda t: steady(0.95 if t < 110 else 0.5), settings())
    assert changes(events) == [(0, "pending", "pending"), (110, "inactive", "not_held")]
    assert rows(store, "incident") == []
    assert rows(store, "outbox") == []


def test_findings_are_written_only_when_state_or_reason_changes() -> None:
    store = fleet()
    run(store, 0, 600, lambda t: steady(0.85), settings())
    assert [(row["state"], row["reason"]) for row in rows(store, "finding")] == [
        ("pending", "pending"), ("firing", "over_threshold"),
    ]  # fmt: skip


def test_nothing_fires_on_stale_data() -> None:
    """The exporter dies after one minute at 95 %; its last sample stays the newest for ever."""
    store = fleet()
    events = run(store, 0, 60, lambda t: steady(0.95), settings())
    events += run(store, 70, 300, lambda t: ([], []), settings())
    assert firings(events) == []
    assert changes(events)[-1] == (100, "inactive", "no_data")


def test_a_firing_incident_stays_while_there_is_no_data() -> None:
    store = fleet()
    run(store, 0, 200, lambda t: steady(0.95), settings())
    events = run(store, 260, 7160, lambda t: ([], []), settings(), step=60)
    assert changes(events) == []
    (incident,) = rows(store, "incident")
    assert (incident["state"], incident["reason"], incident["no_data_since"]) == (
        "firing",
        "no_data",
        at(200),
    )
    assert incident["value"] == 0.95
    assert incident["summary"].endswith("; no data for 1 h 56 min, still firing")
    events = run(store, 7210, 7210, lambda t: steady(0.5), settings())
    assert changes(events) == [(7210, "resolved", "cleared")]


def test_three_missed_scrapes_are_no_gap_and_a_fourth_is() -> None:
    """Interval 10 s: a sample 30 s old still counts."""
    for silence, fired in ((30, True), (40, False)):
        store = fleet()
        run(store, 0, 60, lambda t: steady(0.95), settings())
        events = run(store, 60 + silence, 120, lambda t: steady(0.95), settings())
        assert bool(firings(events)) is fired


def test_a_scrape_without_memory_numbers_is_unknown_not_zero() -> None:
    store = fleet()
    run(store, 0, 200, lambda t: steady(0.95), settings())
    events = run(store, 210, 400, lambda t: steady(None), settings())
    assert changes(events) == []
    assert rows(store, "incident")[0]["reason"] == "no_data"


def test_memory_from_one_source_is_not_hidden_by_another_without_it() -> None:
    store = fleet()
    add_target(store, "power")
    both = [gpu(ratio=0.9), gpu(ratio=None, target="power")]

    def facts(t: float) -> Round:
        return (both[:1] if t % 20 == 0 else both[1:]), []

    assert firings(run(store, 0, 200, facts, settings())) == [("occupancy", "gpu:GPU-1")]


def test_a_gpu_that_never_has_memory_numbers_is_never_judged() -> None:
    store = fleet()
    events = run(store, 0, 300, lambda t: steady(None, total=None), settings())
    assert firings(events) == []


def test_copies_of_a_gpu_are_one_incident() -> None:
    """A second target with the same GPU (NVML beside dcgm-exporter): one message, not two."""
    store = fleet()
    add_target(store, "nvml")
    both = [gpu(ratio=0.9), gpu(ratio=0.9, target="nvml")]
    events = run(store, 0, 200, lambda t: (both, []), settings())
    assert firings(events) == [("occupancy", "gpu:GPU-1")]
    assert len(rows(store, "outbox")) == 1


def test_mig_parent_and_instances_are_subjects_of_their_own() -> None:
    instances = [
        gpu(ratio=0.5, total=40 * GIB),
        gpu(ratio=0.9, total=20 * GIB, mig_instance="3"),
        gpu(ratio=0.2, total=20 * GIB, mig_instance="4"),
    ]
    store = fleet()
    events = run(store, 0, 200, lambda t: (instances, []), settings())
    assert firings(events) == [("occupancy", "gpu:GPU-1/3")]
    (incident,) = rows(store, "incident")
    assert incident["summary"].startswith("node-2 GPU 3 MIG 3 (H100): VRAM 90 % of 20.0 GiB")
    assert json.loads(incident["labels"])["mig_instance"] == "3"


def test_a_restart_keeps_the_pending_time(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    store = Store.open(path)
    add_target(store, "dcgm-1")
    run(store, 0, 60, lambda t: steady(0.9), settings())
    store.close()
    store = Store.open(path)
    events = run(store, 80, 130, lambda t: steady(0.9), settings())
    assert changes(events) == [(120, "firing", "over_threshold")]
    store.close()


def test_a_restart_neither_fires_nor_resolves_again(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    store = Store.open(path)
    add_target(store, "dcgm-1")
    run(store, 0, 200, lambda t: steady(0.9), settings())
    store.close()
    store = Store.open(path)
    events = run(store, 300, 600, lambda t: steady(0.9), settings())
    assert changes(events) == []
    assert [row["event"] for row in rows(store, "outbox")] == ["fired"]
    store.close()


def test_the_rule_switched_off_resolves_what_is_open() -> None:
    store = fleet()
    run(store, 0, 200, lambda t: steady(0.9), settings())
    events = run(store, 210, 220, lambda t: steady(0.9), settings(vram_high={"enabled": False}))
    assert changes(events) == [(210, "resolved", "rule_off")]
    assert rows(store, "incident")[0]["summary"].endswith("; the rule is switched off")


def test_thresholds_and_hold_time_come_from_the_settings() -> None:
    config = settings(vram_high={"fire_above": 0.9, "clear_below": 0.6, "for": "30s"})
    events = run(fleet(), 0, 300, lambda t: steady(0.95 if t < 100 else 0.65 if t < 200 else 0.5), config)
    assert [change[:2] for change in changes(events)] == [(0, "pending"), (30, "firing"), (200, "resolved")]


def test_a_message_is_written_for_each_channel_and_a_resolve_only_where_it_fired() -> None:
    store = fleet()
    two = [{"name": name, "kind": "slack", "webhook_url": "https://x.test/1"} for name in ("a", "b")]
    three = [*two, {"name": "late", "kind": "slack", "webhook_url": "https://x.test/1"}]
    run(store, 0, 150, lambda t: steady(0.9), settings(channels=two))
    run(store, 160, 160, lambda t: steady(0.5), settings(channels=three))
    assert sorted((row["channel"], row["event"]) for row in rows(store, "outbox")) == [
        ("a", "fired"), ("a", "resolved"), ("b", "fired"), ("b", "resolved"),
    ]  # fmt: skip


def test_all_of_a_judgement_is_written_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message fails to be written: the incident has not fired either, and both come with the next try."""
    store = fleet()
    run(store, 0, 110, lambda t: steady(0.9), settings())
    add(store, 120, [gpu(ratio=0.9)])
    from sql.store import Writer

    appended = Writer.append

    def fails(self: Writer, table: str, frame: pl.DataFrame) -> None:
        if table == "outbox":
            raise OSError("disk full")
        appended(self, table, frame)

    monkeypatch.setattr(Writer, "append", fails)
    with pytest.raises(OSError, match="disk full"):
        judge(store, settings(), at(120))
    monkeypatch.undo()
    assert [row["state"] for row in rows(store, "incident")] == ["pending"]
    assert firings(judge(store, settings(), at(121))) == [("occupancy", "gpu:GPU-1")]
    assert len(rows(store, "outbox")) == 1
