"""The pages' queries on a few rows, against answers worked out by hand."""

from datetime import datetime, timedelta
from math import inf
from typing import Any

import pytest

from app.pages import facts
from app.view import View, window
from sql.store import Store
from tests.app.data import frame

START = datetime(2026, 11, 30, 12, 0)
ENGINE = {"target": "t", "replica": "0", "model": None}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def store() -> Store:
    return Store.open()


def put(store: Store, table: str, rows: list[dict[str, Any]]) -> None:
    with store.write() as writer:
        writer.append(table, frame(rows))


def target(name: str, **values: Any) -> dict[str, Any]:
    return {
        "target": name,
        "kind": "auto",
        "url": "http://x/metrics",
        "labels": "{}",
        "interval_seconds": 10.0,
        "first_seen": START,
        "last_seen": START,
        **values,
    }


def scrape(seconds: float, ok: bool, name: str = "t", **values: Any) -> dict[str, Any]:
    return {"ts": at(seconds), "target": name, "ok": ok, "duration_seconds": 0.1, **values}


def engine(seconds: float, **values: Any) -> dict[str, Any]:
    return {"ts": at(seconds), **ENGINE, "engine": "vllm", "role": "engine", **values}


def gpu(seconds: float, **values: Any) -> dict[str, Any]:
    return {"ts": at(seconds), "target": "t", "gpu_uuid": "GPU-1", "mig_instance": "", **values}


def test_a_target_has_its_newest_scrape_and_the_time_of_its_last_good_one(store: Store) -> None:
    put(store, "target", [target("t"), target("silent")])
    put(store, "scrape", [scrape(0, True, bytes=5), scrape(10, False, error="refused"), scrape(99, True)])
    rows = store.query("page_targets", as_of=at(20), look_back=900.0, project=None, environment=None)
    silent, tried = rows.select(
        "target", "last_at", "last_ok", "error", "bytes", "last_ok_at", "scrapes"
    ).rows()
    assert silent == ("silent", None, None, None, None, None, None)
    assert tried == ("t", at(10), False, "refused", None, at(0), 2)


def test_a_target_fails_since_the_first_failure_after_its_last_good_scrape(store: Store) -> None:
    put(store, "scrape", [scrape(0, False), scrape(10, True), scrape(20, False), scrape(30, False)])
    put(store, "scrape", [scrape(0, False, "never"), scrape(5, False, "never")])
    rows = store.query("page_failing_since", targets=["t", "never"], as_of=at(60), look_back=900.0)
    assert sorted(rows.rows()) == [("never", None, at(0)), ("t", at(10), at(20))]


def test_token_rates_are_increases_over_the_time_they_cover_through_a_restart(store: Store) -> None:
    # 100 → 160 in 10 s, then a restart: 20 counts from 0, then 20 → 50. 110 tokens in 30 s.
    put(store, "target", [target("t")])
    counts = [100.0, 160.0, 20.0, 50.0]
    put(store, "engine_sample", [engine(10 * n, generation_tokens_total=v) for n, v in enumerate(counts)])
    row = store.query("page_engines", as_of=at(30), look_back=300.0, project=None, environment=None).row(
        0, named=True
    )
    assert row["generation_tokens_per_second"] == pytest.approx(110 / 30)
    assert row["prompt_tokens_per_second"] is None
    assert row["ts"] == at(30)


def test_a_series_counts_the_increase_up_to_its_first_step_and_keeps_peaks(store: Store) -> None:
    counts = {-10: 0.0, 0: 50.0, 10: 100.0, 20: 150.0, 30: 150.0}
    waits = {-10: 0.0, 0: 1.0, 10: 9.0, 20: 2.0, 30: 0.0}
    put(
        store,
        "engine_sample",
        [
            engine(second, generation_tokens_total=counts[second], requests_waiting=waits[second])
            for second in counts
        ],
    )
    rows = store.query("page_engine_series", **ENGINE, from_ts=at(0), to_ts=at(39), step=20, lead=30.0)
    assert rows.select("ts", "generation_tokens_per_second", "waiting", "waiting_max").rows() == [
        (at(0), 5.0, 5.0, 9.0),  # 50 + 50 tokens in 10 + 10 s
        (at(20), 2.5, 1.0, 2.0),  # 50 + 0 tokens in 20 s
    ]


def test_over_an_outage_with_a_restart_there_is_no_rate(store: Store) -> None:
    counts = {0: 1000.0, 10: 1500.0, 200: 20.0, 210: 520.0}
    put(store, "engine_sample", [engine(second, generation_tokens_total=n) for second, n in counts.items()])
    rows = store.query("page_engine_series", **ENGINE, from_ts=at(0), to_ts=at(219), step=10, lead=30.0)
    assert rows.select("ts", "generation_tokens_per_second").rows() == [
        (at(0), None), (at(10), 50.0), (at(200), None), (at(210), 50.0),
    ]  # fmt: skip


def test_a_step_without_a_sample_has_no_row(store: Store) -> None:
    put(store, "engine_sample", [engine(0, requests_waiting=1.0), engine(70, requests_waiting=1.0)])
    rows = store.query("page_engine_series", **ENGINE, from_ts=at(0), to_ts=at(99), step=10, lead=30.0)
    assert rows["ts"].to_list() == [at(0), at(70)]


def histogram(
    seconds: float, increases: list[float] | None, interval: float | None, **values: Any
) -> dict[str, Any]:
    return {
        "ts": at(seconds),
        **ENGINE,
        "metric": "ttft",
        "edge_set_id": 1,
        "interval_seconds": interval,
        "increases": increases,
        **values,
    }


def test_latency_adds_increases_per_step_and_leaves_out_first_sights_and_gaps(store: Store) -> None:
    put(store, "edge_set", [{"edge_set_id": 1, "edges_seconds": [0.5, inf]}])
    put(
        store,
        "engine_histogram",
        [
            histogram(10, None, None),
            histogram(20, [1.0, 2.0], 10.0),
            histogram(30, [3.0, 4.0], 10.0, sum_increase_seconds=3.0),
            histogram(400, [90.0, 99.0], 370.0),  # covers a gap: where in it the requests fell is not known
            histogram(410, [0.0, 1.0], 10.0),
        ],
    )
    rows = store.query(
        "page_latency",
        targets=["t"],
        metrics=["ttft"],
        from_ts=START,
        to_ts=at(600),
        step=300,
        origin=START,
        max_interval=120.0,
    )
    assert rows.select("ts", "edges_seconds", "increases", "sum_seconds", "timed").rows() == [
        (at(0), [0.5, inf], [4.0, 6.0], 3.0, 4.0),
        (at(300), [0.5, inf], [0.0, 1.0], None, None),
    ]


def test_latency_never_adds_two_edge_sets(store: Store) -> None:
    put(
        store,
        "edge_set",
        [
            {"edge_set_id": 1, "edges_seconds": [0.5, inf]},
            {"edge_set_id": 2, "edges_seconds": [0.5, 1.0, inf]},
        ],
    )
    put(
        store,
        "engine_histogram",
        [
            histogram(20, [1.0, 2.0], 10.0),
            histogram(30, [3.0, 4.0, 5.0], 10.0, edge_set_id=2),
        ],
    )
    rows = store.query(
        "page_latency",
        targets=["t"],
        metrics=["ttft"],
        from_ts=START,
        to_ts=at(60),
        step=60,
        origin=START,
        max_interval=120.0,
    )
    assert sorted(rows["increases"].to_list()) == [[1.0, 2.0], [3.0, 4.0, 5.0]]


def test_the_newest_sample_of_each_gpu_and_instance_within_the_look_back(store: Store) -> None:
    put(store, "target", [target("t")])
    put(
        store,
        "gpu_sample",
        [
            gpu(0, power_watts=1.0),
            gpu(10, power_watts=2.0),
            gpu(10, mig_instance="3", power_watts=3.0),
            gpu(-600, gpu_uuid="GPU-gone"),
            gpu(50, power_watts=9.0),
        ],
    )
    rows = store.query("page_gpus", as_of=at(20), look_back=300.0, project=None, environment=None)
    assert rows.select("gpu_uuid", "mig_instance", "power_watts").rows() == [
        ("GPU-1", "", 2.0),
        ("GPU-1", "3", 3.0),
    ]


def test_a_gpu_that_two_targets_report_is_there_once(store: Store) -> None:
    put(store, "target", [target("a"), target("b")])
    put(store, "gpu_sample", [gpu(0, target="b"), gpu(0, target="a")])
    rows = store.query("page_gpus", as_of=at(5), look_back=300.0, project=None, environment=None)
    assert rows["target"].to_list() == ["a"]


def test_a_projects_gpus_are_its_targets_and_those_its_engines_use(store: Store) -> None:
    put(
        store,
        "target",
        [
            target("t"),
            target("own", project="chat"),
            target("llm", project="chat", gpus=["n/1", "GPU-2"]),
        ],
    )
    put(
        store,
        "gpu_sample",
        [
            gpu(0, gpu_uuid="GPU-0", host="n", gpu_index=0),
            gpu(0, gpu_uuid="GPU-1", host="n", gpu_index=1),
            gpu(0, gpu_uuid="GPU-2"),
            gpu(0, gpu_uuid="GPU-3", target="own"),
        ],
    )
    rows = store.query("page_gpus", as_of=at(5), look_back=300.0, project="chat", environment=None)
    assert sorted(rows["gpu_uuid"]) == ["GPU-1", "GPU-2", "GPU-3"]


def test_a_gpu_series_keeps_the_peak_of_each_step(store: Store) -> None:
    put(
        store,
        "gpu_sample",
        [gpu(n * 10, memory_used_ratio=value) for n, value in enumerate([0.1, 0.9, 0.2, 0.4])],
    )
    rows = store.query("page_gpu_series", gpu="GPU-1", mig="", from_ts=at(0), to_ts=at(30), step=20)
    shown = rows.select("memory_used_ratio_min", "memory_used_ratio", "memory_used_ratio_max").rows()
    assert shown == [(0.1, pytest.approx(0.5), 0.9), (0.2, pytest.approx(0.3), 0.4)]


def test_throttle_bits_are_shares_of_the_samples_that_report_them(store: Store) -> None:
    masks = [0x4, 0x44, None, 0x0, 1 << 40]
    put(store, "gpu_sample", [gpu(n, throttle_reasons=mask) for n, mask in enumerate(masks)])
    rows = store.query("page_gpu_throttle", gpu="GPU-1", mig="", from_ts=at(0), to_ts=at(30), step=60)
    assert rows.select("bit", "share").rows() == [(2, 0.5), (6, 0.25), (40, 0.25)]


@pytest.mark.parametrize("incident", [None, "old"])
def test_incidents_of_a_window_and_the_one_that_is_asked_for(store: Store, incident: str | None) -> None:
    base = {
        "name": "vram_high",
        "check_name": "occupancy",
        "severity": "warning",
        "reason": "r",
        "reason_text": "r",
        "title": "t",
        "summary": "s",
        "unit": "ratio",
        "labels": "{}",
        "evidence": "{}",
        "subject": "gpu:x",
    }
    put(
        store,
        "incident",
        [
            {
                **base,
                "incident_id": "old",
                "state": "resolved",
                "started_at": at(-900),
                "resolved_at": at(-800),
            },
            {
                **base,
                "incident_id": "into",
                "state": "resolved",
                "started_at": at(-900),
                "resolved_at": at(10),
            },
            {
                **base,
                "incident_id": "open",
                "state": "firing",
                "started_at": at(-5000),
                "fired_at": at(-4000),
                "resolved_at": None,
            },
            {**base, "incident_id": "later", "state": "pending", "started_at": at(900), "resolved_at": None},
        ],
    )
    rows = store.query("page_incidents", from_ts=at(0), to_ts=at(60), incident=incident)
    assert rows["incident_id"].to_list() == (
        ["open", "into"] if incident is None else ["open", "old", "into"]
    )


def test_since_when_a_target_fails_is_said_only_where_it_is_known(store: Store) -> None:
    day = 86_400.0
    put(store, "target", [target(name) for name in ("long", "new", "late")])
    put(store, "scrape", [
        # `long` failed all through the day looked at, `new` for two hours, `late` after a good scrape.
        *(scrape(second - day, False, "long") for second in (-3600, 20, 3600, day)),
        *(scrape(-second, False, "new") for second in (7200, 3600, 0)),
        scrape(-600, True, "late"), scrape(-540, False, "late"), scrape(0, False, "late"),
    ])  # fmt: skip
    facts._answer.clear()
    facts._long_answer.clear()
    shown = window(View(), START)
    rows = facts.targets(store, View(), shown, START)
    assert dict(rows.select("target", "failing_since").iter_rows()) == {
        "long": None,
        "new": at(-7200),
        "late": at(-540),
    }


def test_a_gpu_that_is_gone_is_found_for_a_week(store: Store) -> None:
    put(store, "gpu_sample", [gpu(-3600), gpu(-8 * 86_400, gpu_uuid="GPU-old")])
    facts._answer.clear()
    facts._long_answer.clear()
    shown = window(View(), START)
    assert facts.last_of_gpu(store, "GPU-1", "", shown)["ts"].to_list() == [at(-3600)]
    assert facts.last_of_gpu(store, "GPU-old", "", shown).is_empty()
