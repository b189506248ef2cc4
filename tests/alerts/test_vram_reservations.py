"""Engines that take their memory at start: stated, not paged; and what should not happen beside them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alerts.findings.vram_high import observe
from alerts.gather import Remembered, vram_high_now
from alerts.observation import Observation, Reason
from alerts.settings import VramHighSettings
from sql.store import Store
from tests.alerts.facts import (
    GIB,
    H100_BYTES,
    MIB,
    START,
    Round,
    add,
    add_target,
    at,
    changes,
    firings,
    gpu,
    rows,
    run,
    settings,
    vllm,
)

LEVEL = 72 * GIB
"""90 % of 80 GiB: what vLLM's default of old takes."""


QUICK = settings(
    vram_high={"warm_up": "60s", "plateau": "240s", "growth_for": "120s", "reservation_valid": "180s"}
)
"""The rule with shorter times: the level is known after 300 s, growth counts after 120 s more."""


def fleet(path: str | Path = ":memory:", **engine: Any) -> Store:
    """One exporter, and vLLM on node-2's GPU 3."""
    store = Store.open(path)
    add_target(store, "dcgm-1", interval_seconds=30.0)
    add_target(store, "vllm-1", "vllm", **({"gpus": ["node-2/3"], "project": "chat"} | engine))
    return store


def used(count: float, **engine: Any) -> Round:
    return [gpu(used=round(count))], [vllm(**engine)]


def observed(store: Store, seconds: float) -> dict[tuple[str, str], Observation]:
    gathered = vram_high_now(store, settings(), at(seconds), Remembered())
    assert gathered is not None
    return {(o.check, o.subject): o for o in gathered.observations}


def test_vllm_with_90_percent_of_an_h100_does_not_page() -> None:
    store = fleet()
    events = run(store, 0, 3000, lambda t: used(LEVEL), settings(), step=60)
    assert changes(events) == []
    stated = [e for e in events if e.reason == "preallocated"]
    assert [e.evidence["reason_text"] for e in stated] == ["preallocated by vLLM (90 %), KV 34 % used"]
    assert [row["severity"] for row in rows(store, "finding") if row["reason"] == "preallocated"] == ["info"]


def test_cuda_graphs_on_top_do_not_page() -> None:
    """vllm#7553: 23 859 of 24 564 MiB in use with 0.9 asked: 97.1 %, 7.1 points over, 705 MiB free."""
    facts = ([gpu(used=23_859 * MIB, total=24_564 * MIB)], [vllm()])
    assert changes(run(fleet(), 0, 3000, lambda t: facts, settings(), step=60)) == []


def test_the_same_level_without_a_known_reservation_pages() -> None:
    facts = ([gpu(used=LEVEL)], [vllm(memory_reservation_ratio=None)])
    assert firings(run(fleet(), 0, 200, lambda t: facts, settings())) == [("occupancy", "gpu:GPU-1")]


def test_growth_of_2_gib_for_15_minutes_pages() -> None:
    """2 % of 80 GiB is 1.6 GiB. The level is known 40 min after first sight."""
    events = run(fleet(), 0, 4800, lambda t: used(LEVEL + (2 * GIB if t >= 3600 else 0)), settings(), step=60)
    assert changes(events) == [(3600, "pending", "pending"), (4500, "firing", "over_threshold")]
    firing = next(e for e in events if e.kind == "incident" and e.state == "firing")
    assert firing.evidence["summary"] == (
        "node-2 GPU 3 (H100): VRAM 2.0 GiB over its level after warm-up of 72.0 GiB since 14:00 UTC,"
        " over 1.6 GiB for 15 min"
    )
    assert firing.evidence["baseline_bytes"] == LEVEL


def test_growth_of_1_gib_does_not_page() -> None:
    events = run(fleet(), 0, 900, lambda t: used(LEVEL + (GIB if t >= 360 else 0)), QUICK, step=30)
    assert changes(events) == []


def test_growth_that_goes_back_in_time_does_not_page() -> None:
    facts = {t: used(LEVEL + (2 * GIB if 360 <= t < 480 else 0)) for t in range(0, 901, 30)}
    events = run(fleet(), 0, 900, lambda t: facts[int(t)], QUICK, step=30)
    assert changes(events) == [(360, "pending", "pending"), (480, "inactive", "not_held")]


def test_on_a_small_gpu_the_margin_is_512_mib() -> None:
    """2 % of 16 GiB would be 328 MiB."""
    for grown, fires in ((500 * MIB, False), (520 * MIB, True)):

        def facts(t: float, grown: int = grown) -> Round:
            return [gpu(used=14 * GIB + (grown if t >= 360 else 0), total=16 * GIB)], [vllm()]

        events = run(fleet(), 0, 600, facts, QUICK, step=30)
        assert firings(events) == ([("growth", "gpu:GPU-1")] if fires else [])


def test_the_level_is_the_median_of_half_an_hour_after_ten_minutes() -> None:
    """Memory during warm-up and after the window does not count."""
    store = fleet()

    def facts(t: float) -> Round:
        return used(50 * GIB if t < 600 else LEVEL if t <= 2400 else 71 * GIB)

    run(store, 0, 2340, facts, settings(), step=60)
    assert rows(store, "vram_baseline")[0]["baseline_bytes"] is None
    run(store, 2400, 2700, facts, settings(), step=60)
    assert rows(store, "vram_baseline")[0]["baseline_bytes"] == LEVEL


def test_until_the_level_is_known_growth_is_stated_as_such() -> None:
    store = fleet()
    run(store, 0, 60, lambda t: used(LEVEL), settings())
    growth = observed(store, 60)["growth", "gpu:GPU-1"]
    assert growth.stated is not None
    assert growth.stated.reason is Reason.WARMING_UP
    assert growth.stated.text == "the level after warm-up is known 40 min after 13:00 UTC"


def test_a_restart_of_infermeter_keeps_the_level(tmp_path: Path) -> None:
    store = fleet(tmp_path / "store.duckdb")
    run(store, 0, 330, lambda t: used(LEVEL), QUICK, step=30)
    store.close()
    store = Store.open(tmp_path / "store.duckdb")
    events = run(store, 9000, 9150, lambda t: used(LEVEL + 2 * GIB), QUICK, step=30)
    assert firings(events) == [("growth", "gpu:GPU-1")]
    store.close()


def test_a_restart_of_the_engine_begins_anew_and_ends_the_incident() -> None:
    restarted = 1_796_043_600.0 + 600

    def facts(t: float) -> Round:
        if t < 600:
            return used(LEVEL + (2 * GIB if t >= 360 else 0))
        return used(LEVEL + 3 * GIB, process_start_time_seconds=restarted)

    store = fleet()
    events = run(store, 0, 1200, facts, QUICK, step=30)
    assert [(state, reason) for _, state, reason in changes(events)] == [
        ("pending", "pending"), ("firing", "over_threshold"), ("resolved", "warming_up"),
    ]  # fmt: skip
    (baseline,) = rows(store, "vram_baseline")
    assert baseline["baseline_bytes"] == LEVEL + 3 * GIB
    assert baseline["since"] == at(600)


def test_an_engine_that_joins_begins_the_level_anew() -> None:
    store = fleet()
    add_target(store, "vllm-2", "vllm", gpus=["GPU-1"])
    small = [vllm(memory_reservation_ratio=0.5)]
    both = [*small, vllm("vllm-2", memory_reservation_ratio=0.4)]

    def facts(t: float) -> Round:
        return ([gpu(ratio=0.5)], small) if t < 360 else ([gpu(ratio=0.9)], both)

    assert changes(run(store, 0, 900, facts, QUICK, step=30)) == []
    (baseline,) = rows(store, "vram_baseline")
    assert (baseline["since"], baseline["baseline_bytes"]) == (at(360), LEVEL)


def test_an_engine_asleep_or_loading_gives_no_level() -> None:
    """vLLM's sleep mode drops to 10 %; measured from there, waking up would be growth of 64 GiB."""
    store = fleet()
    events = run(store, 0, 1200, lambda t: used(8 * GIB if t < 600 else LEVEL), QUICK, step=30)
    assert changes(events) == []
    assert rows(store, "vram_baseline")[0]["baseline_bytes"] == LEVEL


def test_free_memory_under_the_margin_for_five_minutes_pages() -> None:
    """1.5 GiB free of 80, where 1.6 is the margin; reserved 95 %, so it is not over that by 8 points."""
    store = fleet()
    facts = used(H100_BYTES - 1.5 * GIB, memory_reservation_ratio=0.95)
    events = run(store, 0, 400, lambda t: facts, settings())
    assert changes(events) == [(0, "pending", "pending"), (300, "firing", "over_threshold")]
    assert rows(store, "incident")[0]["summary"] == (
        "node-2 GPU 3 (H100): 1.5 GiB VRAM free of 80.0 GiB since 13:00 UTC, under 1.6 GiB for 5 min"
    )


def test_more_than_8_points_over_the_reservation_for_five_minutes_pages() -> None:
    for share, fires in ((0.675, False), (0.685, True)):
        facts = ([gpu(ratio=share)], [vllm(memory_reservation_ratio=0.6)])
        events = run(fleet(), 0, 400, lambda t, facts=facts: facts, settings())  # type: ignore[misc]
        assert firings(events) == ([("over_reservation", "gpu:GPU-1")] if fires else [])


def test_two_engines_on_a_gpu_reserve_together() -> None:
    store = fleet()
    add_target(store, "vllm-2", "vllm", gpus=["GPU-1"])
    engines = [vllm(memory_reservation_ratio=0.45), vllm("vllm-2", memory_reservation_ratio=0.45)]
    events = run(store, 0, 600, lambda t: ([gpu(used=LEVEL)], engines), settings())
    assert changes(events) == []
    assert observed(store, 600)["occupancy", "gpu:GPU-1"].evidence["reservation_ratio"] == pytest.approx(0.9)


def test_beside_an_engine_of_unknown_size_nothing_is_over_the_reservation() -> None:
    store = fleet()
    add_target(store, "llama", "llamacpp", gpus=["GPU-1"])
    engines = [
        vllm(memory_reservation_ratio=0.45),
        vllm("llama", engine="llamacpp", memory_reservation_ratio=None),
    ]
    assert changes(run(store, 0, 600, lambda t: ([gpu(ratio=0.7)], engines), settings())) == []


def test_a_reservation_that_becomes_known_ends_an_occupancy_incident() -> None:
    def facts(t: float) -> Round:
        return [gpu(used=LEVEL)], [vllm()] if t >= 300 else []

    events = run(fleet(), 0, 400, facts, settings())
    assert changes(events) == [
        (0, "pending", "pending"), (120, "firing", "over_threshold"), (300, "resolved", "preallocated"),
    ]  # fmt: skip


def test_an_engine_not_heard_of_keeps_its_reservation_for_a_while() -> None:
    """An engine that restarts fills the memory before /metrics answers. Here for 180 s; 15 min by default."""
    events = run(fleet(), 0, 400, lambda t: ([gpu(used=LEVEL)], [vllm()] if t < 60 else []), QUICK)
    assert changes(events) == [(230, "pending", "pending"), (350, "firing", "over_threshold")]
    assert settings().vram_high.reservation_valid_seconds == 900


def test_an_engine_that_left_ends_what_was_judged_beside_it() -> None:
    def facts(t: float) -> Round:
        return [gpu(used=round(H100_BYTES - GIB))], [vllm(memory_reservation_ratio=0.97)] if t < 330 else []

    events = run(fleet(), 0, 520, facts, QUICK)
    assert changes(events) == [
        (0, "pending", "pending"), (300, "firing", "over_threshold"),
        (500, "pending", "pending"), (500, "resolved", "not_applicable"),
    ]  # fmt: skip


def test_stale_memory_beside_a_reservation_is_unknown() -> None:
    store = fleet()
    run(store, 0, 200, lambda t: used(H100_BYTES - GIB, memory_reservation_ratio=0.97), settings())
    assert firings(run(store, 210, 600, lambda t: ([], [vllm()]), settings())) == []


def test_a_configured_ratio_stands_where_the_engine_says_nothing() -> None:
    store = fleet(memory_reservation_ratio=0.85)
    facts = ([gpu(ratio=0.87)], [vllm(engine="sglang", memory_reservation_ratio=None)])
    events = run(store, 0, 600, lambda t: facts, settings())
    assert changes(events) == []
    assert observed(store, 600)["occupancy", "gpu:GPU-1"].evidence["reservation_source"] == "config"


def test_the_ratio_of_a_gpu_target_holds_for_all_its_gpus() -> None:
    store = Store.open(":memory:")
    add_target(store, "dcgm-1", memory_reservation_ratio=0.9)
    both = [gpu("GPU-1", 0.9), gpu("GPU-2", 0.91, gpu_index=4)]
    events = run(store, 0, 600, lambda t: (both, []), settings())
    assert changes(events) == []
    assert {e.evidence["reason_text"] for e in events if e.reason == "preallocated"} == {
        "preallocated (90 %, as configured)"
    }


@pytest.mark.parametrize(
    ("engine", "sample", "found"),
    [
        ({"gpus": ["node-2/3"]}, {}, True),
        ({"gpus": ["GPU-1"]}, {}, True),
        ({"gpus": ["node-2/4"]}, {}, False),
        ({"gpus": ["node-3/3"]}, {}, False),
        ({"gpus": ["GPU-1/3"]}, {"mig_instance": "3"}, True),
        ({"gpus": ["MIG-GPU-1/3/0"]}, {"mig_instance": "3"}, True),
        ({"gpus": ["node-2/3/3"]}, {"mig_instance": "3"}, True),
        ({"gpus": ["GPU-1/3"]}, {"mig_instance": "4"}, False),
        ({"gpus": ["GPU-1"]}, {"mig_instance": "3"}, False),
        ({"labels": {"pod": "llm-0"}}, {"pod": "llm-0"}, True),
        ({"labels": {"pod": "llm-0"}}, {"pod": "web,llm-0"}, True),
        ({"labels": {"pod": "llm-0"}}, {"pod": "llm-01"}, False),
        ({"labels": {"pod": "llm-0", "namespace": "a"}}, {"pod": "llm-0", "namespace": "a"}, True),
        ({"labels": {"pod": "llm-0", "namespace": "a"}}, {"pod": "llm-0", "namespace": "b"}, False),
        ({"labels": {"pod": "llm-0"}, "gpus": ["GPU-2"]}, {"pod": "llm-0"}, False),
        ({}, {"pod": "llm-0"}, False),
    ],
)
def test_an_engine_is_placed_by_its_gpus_else_by_its_pod(
    engine: dict[str, Any], sample: dict[str, Any], found: bool
) -> None:
    store = Store.open(":memory:")
    add_target(store, "dcgm-1")
    add_target(store, "vllm-1", "vllm", **engine)
    add(store, 0, [gpu(ratio=0.9, **sample)], [vllm()])
    (occupancy,) = (o for o in observed(store, 5).values() if o.check == "occupancy")
    assert (occupancy.stated is not None) is found


def test_replicas_of_one_endpoint_reserve_one_share_of_each_of_its_gpus() -> None:
    store = fleet(gpus=["node-2/3", "node-2/4"])
    both = [gpu(used=LEVEL), gpu("GPU-2", used=LEVEL, gpu_index=4)]
    add(store, 0, both, [vllm(replica="0"), vllm(replica="1", kv_cache_used_ratio=0.5)])
    for subject in ("gpu:GPU-1", "gpu:GPU-2"):
        assert observed(store, 5)["occupancy", subject].evidence["reservation_ratio"] == 0.9


def test_a_mig_parent_is_explained_by_its_instances() -> None:
    store = fleet(gpus=["GPU-1/3"])
    gpus = [gpu(ratio=0.9), gpu(ratio=0.9, total=40 * GIB, mig_instance="3")]
    events = run(store, 0, 300, lambda t: (gpus, [vllm()]), settings())
    assert changes(events) == []
    parent = observed(store, 300)["occupancy", "gpu:GPU-1"]
    assert parent.stated is not None
    assert parent.stated.text.startswith("holds MIG instances, one of them preallocated by vLLM (90 %)")


def test_the_engine_says_whose_the_memory_is() -> None:
    store = fleet()
    run(store, 0, 400, lambda t: used(H100_BYTES - GIB, memory_reservation_ratio=0.97), settings())
    labels = observed(store, 400)["headroom", "gpu:GPU-1"].labels
    assert (labels["project"], labels["engine_target"], labels["model"]) == ("chat", "vllm-1", "llama-70b")


def test_observing_is_a_function_of_its_frames() -> None:
    """Without a store: an unplaced GPU, an age of exactly three intervals, and one more second."""
    sample = {
        "gpu_uuid": "GPU-1", "mig_instance": "", "ts": START, "interval_seconds": 10.0, "target": "dcgm-1",
        "project": None, "environment": None, "host": None, "gpu_index": None, "gpu_model": None, "pod": None,
        "namespace": None, "memory_used_bytes": None, "memory_free_bytes": None, "memory_total_bytes": None,
        "memory_reserved_bytes": None, "memory_used_ratio": 0.9,
    }  # fmt: skip
    nothing = pl.DataFrame(
        schema={"gpu_uuid": pl.String, "mig_instance": pl.String, "reservation_ratio": pl.Float64}
    )
    for age, value in ((30, 0.9), (31, None)):
        now = START + timedelta(seconds=age)
        (one,) = observe(pl.DataFrame([sample]), nothing, VramHighSettings(), now)
        assert (one.check, one.subject, one.value, one.ts) == ("occupancy", "gpu:GPU-1", value, START)
