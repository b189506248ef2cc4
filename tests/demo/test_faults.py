"""Each fault, by name, has the effect that its line in the registry promises, and none after it has ended."""

from __future__ import annotations

import pytest

from app.demo.faults import FAULTS, PLACES, Fault, FaultError, demo_script
from app.demo.fleet import Fleet
from app.demo.topology import ENGINES
from tests.demo.exposition import samples, value

START = 1_796_000_000.0
VLLM = [spec.name for spec in ENGINES if spec.kind == "vllm"]


def fleet(fault: str) -> Fleet:
    made = Fleet(5, START)
    made.add_fault(fault)
    return made


def page(made: Fleet, name: str, after: float) -> str:
    answer = made.render(name, START + after)
    assert answer.status == 200
    return answer.body.decode()


def used_ratio(text: str, gpu: str) -> float:
    used = value(text, "DCGM_FI_DEV_FB_USED", gpu=gpu)
    return used / (used + value(text, "DCGM_FI_DEV_FB_FREE", gpu=gpu))


def test_memory_creep_raises_memory_on_reserved_and_other_gpus_alike() -> None:
    made = fleet("memory_creep@node-2:60+300")
    before, later, end, after = (page(made, "node-2", t) for t in (50, 160, 340, 400))
    for gpu in ("0", "1", "4"):
        grown = value(later, "DCGM_FI_DEV_FB_USED", gpu=gpu) - value(before, "DCGM_FI_DEV_FB_USED", gpu=gpu)
        assert grown == pytest.approx(1200, abs=20)
        assert value(end, "DCGM_FI_DEV_FB_USED", gpu=gpu) > value(later, "DCGM_FI_DEV_FB_USED", gpu=gpu)
        assert value(after, "DCGM_FI_DEV_FB_USED", gpu=gpu) == value(before, "DCGM_FI_DEV_FB_USED", gpu=gpu)
    assert value(end, "DCGM_FI_DEV_FB_USED", gpu="7") == 0
    # An engine's reservation is flat without it.
    assert used_ratio(before, "0") == pytest.approx(0.915, abs=0.005)


def test_vram_high_fills_an_idle_gpu_to_88_percent_and_labels_its_pod() -> None:
    made = fleet("vram_high@node-2:10+300")
    assert used_ratio(page(made, "node-2", 5), "3") == 0.0
    text = page(made, "node-2", 60)
    assert used_ratio(text, "3") == pytest.approx(0.88, abs=0.001)
    assert value(text, "DCGM_FI_DEV_FB_USED", gpu="3", pod="finetune-notebook-0") > 0
    assert used_ratio(page(made, "node-2", 200), "3") == pytest.approx(0.88, abs=0.001)
    assert used_ratio(page(made, "node-2", 320), "3") == 0.0


def test_vram_high_takes_the_gpu_it_is_told() -> None:
    assert used_ratio(page(fleet("vram_high@node-2/6"), "node-2", 60), "6") == pytest.approx(0.88, abs=0.001)


@pytest.mark.parametrize("engine", [spec.name for spec in ENGINES])
def test_request_burst_makes_the_queue_grow(engine: str) -> None:
    made = fleet(f"request_burst@{engine}:120+120")
    waiting = []
    for t in range(60, 240, 5):
        made.advance_to(START + t)
        waiting.append(sum(replica.requests_waiting for replica in made.replicas[engine]))
    assert max(waiting[-12:]) > 20 + 3 * max(waiting[:12])


@pytest.mark.parametrize("engine", VLLM)
def test_kv_pressure_fills_the_cache_and_preempts(engine: str) -> None:
    made = fleet(f"kv_pressure@{engine}:30")
    used = []
    for t in range(30, 430, 10):
        made.advance_to(START + t)
        used.append(max(replica.kv_used_ratio for replica in made.replicas[engine]))
    assert max(used) > 0.95
    assert sum(replica.stats.preemptions for replica in made.replicas[engine]) > 0
    if engine == "qwen-32b":
        text = page(made, engine, 430)
        assert value(text, "vllm:kv_cache_usage_perc") > 0.8
        assert value(text, "vllm:num_preemptions_total") > 0


def test_engine_restart_closes_the_endpoint_then_counts_from_zero() -> None:
    made = fleet("engine_restart@qwen-7b:60")
    before = page(made, "qwen-7b", 59)
    freed = page(made, "node-2", 65)
    gone = made.render("qwen-7b", START + 70)
    assert (gone.status, gone.hangs, gone.body) == (None, False, b"")
    assert value(freed, "DCGM_FI_DEV_FB_USED", gpu="0") == 0
    assert value(page(made, "node-2", 90), "DCGM_FI_DEV_FB_USED", gpu="0") == int(14.5 * 1024)
    after = page(made, "qwen-7b", 110)
    assert value(before, "process_start_time_seconds") == START
    assert value(after, "process_start_time_seconds") == START + 105
    for name in ("vllm:prompt_tokens_total", "vllm:time_to_first_token_seconds_count"):
        assert 0 < value(after, name) < value(before, name)
    assert used_ratio(page(made, "node-2", 110), "0") == pytest.approx(0.915, abs=0.005)


def test_an_exporter_down_answers_500_and_one_that_hangs_does_not_answer() -> None:
    made = fleet("exporter_down@node-1:10+20")
    made.add_fault("exporter_hang@qwen-7b:10+20")
    assert made.render("node-1", START + 15).status == 500
    assert made.render("qwen-7b", START + 15)[::3] == (None, True)
    assert made.render("node-2", START + 15).status == 200
    assert made.render("node-1", START + 31).status == 200


def test_gpu_missing_takes_one_gpus_series_away() -> None:
    made = fleet("gpu_missing@node-1:10+20")

    def gpus(after: float) -> set[str]:
        names = samples(page(made, "node-1", after))
        return {dict(labels)["gpu"] for name, labels in names if name == "DCGM_FI_DEV_GPU_TEMP"}

    before, missing, after = gpus(5), gpus(15), gpus(31)
    assert before == after == {"0", "1", "2", "3", "4", "5", "6", "7"}
    assert missing == {"0", "1", "2", "3", "4", "5", "6"}


def test_throttle_lowers_clocks_sets_the_reason_and_slows_the_engine() -> None:
    made = fleet("throttle@node-1:300+300")
    cool, hot = page(made, "node-1", 290), page(made, "node-1", 590)
    assert value(hot, "DCGM_FI_DEV_SM_CLOCK", gpu="0") < 0.7 * value(cool, "DCGM_FI_DEV_SM_CLOCK", gpu="0")
    assert int(value(hot, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", gpu="0")) & 0x40
    assert int(value(cool, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", gpu="0")) & 0x68 == 0
    assert value(hot, "DCGM_FI_DEV_GPU_TEMP", gpu="0") > 80
    assert made.replicas["llama-70b"][0].speed < 1


def test_xid_shows_a_code_that_was_not_there() -> None:
    made = fleet("xid@node-1:10+20")
    assert "XID" not in page(made, "node-1", 5)
    assert value(page(made, "node-1", 15), "DCGM_FI_DEV_XID_ERRORS", gpu="7", err_code="94") == 94


def test_every_fault_has_words_a_place_and_a_test() -> None:
    source = globals()
    for name, kind in FAULTS.items():
        assert kind.doc
        assert kind.takes in PLACES
        word = name.removeprefix("exporter_")
        assert any(word in test for test in source if test.startswith("test_")), name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("memory_crep@node-2", ["unknown fault 'memory_crep'", "did you mean memory_creep?", "vram_high"]),
        ("memory_creep@node-9", ["unknown place 'node-9'", "node-1, node-2, node-3, node-4"]),
        ("memory_creep@node-1/8", ["unknown place 'node-1/8'", "node/GPU"]),
        ("request_burst@node-1", ["takes an engine", "llama-70b", "gemma-9b"]),
        ("kv_pressure@gemma-9b", ["a vLLM engine", "qwen-7b"]),
        ("memory_creep", ["name@where[:start[+duration]]", "memory_creep"]),
        ("throttle@node-1:soon", ["is not a fault", "name@where"]),
        ("throttle@node-1:1.2.3", ["not a length of time", "5m"]),
        ("", ["is not a fault"]),
    ],
)
def test_a_fault_written_wrongly_is_refused_with_what_can_be_written(text: str, says: list[str]) -> None:
    with pytest.raises(FaultError) as refused:
        Fleet(0, START).add_fault(text)
    for words in says:
        assert words in str(refused.value)


def test_start_and_duration_are_read_with_units_and_count_from_the_origin() -> None:
    made = Fleet(0, START, origin=START + 3600)
    assert made.add_fault("throttle@node-1:60+5m") == Fault("throttle", "node-1", START + 3660, 300.0)
    assert made.add_fault("throttle@node-1/3:1h") == Fault("throttle", "node-1/3", START + 7200, None)
    assert made.add_fault("throttle@node-1", START + 7.0) == Fault("throttle", "node-1", START + 7, None)
    assert made.add_fault("engine_restart@qwen-7b:1.5m").duration == 45.0


def test_a_removed_fault_ends() -> None:
    made = fleet("throttle@node-1")
    made.advance_to(START + 5)
    assert [str(fault) for fault in made.active_faults()] == ["throttle@node-1"]
    assert made.remove_fault("throttle@node-1")
    assert not made.remove_fault("throttle@node-1")
    made.advance_to(START + 6)
    assert made.nodes["node-1"][0].throttled is False


def test_the_script_shows_a_full_gpu_soon_and_one_that_is_over_within_the_last_hour() -> None:
    """The rule is 80 % for 2 minutes, clear below 75 %; the page must have it within 3 minutes."""
    made = Fleet(1, START, origin=START + 3600)
    made.faults += demo_script(made.origin)
    held: dict[str, list[float]] = {}
    for t in range(0, 3600 + 600, 5):
        made.advance_to(START + t)
        for gpus in made.nodes.values():
            for gpu in gpus:
                if gpu.owner is None and gpu.used_mib / gpu.usable_mib >= 0.8:
                    held.setdefault(f"{gpu.host}/{gpu.index}", []).append(t - 3600)
    before = [t for t in held["node-2/6"] if t < 0]
    assert -2160 < min(before) < max(before) < -1500
    live = [t for t in held["node-3/5"] if t > 0]
    assert min(live) < 40
    assert 300 < max(live) < 480
    assert len(live) == (max(live) - min(live)) / 5 + 1, "it is held without a break"
    assert not made.nodes["node-3"][5].is_held
