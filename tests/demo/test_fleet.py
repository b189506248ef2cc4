from __future__ import annotations

import time

import pytest

from app.demo.faults import demo_script
from app.demo.fleet import Fleet
from tests.demo.exposition import samples

START = 1_796_000_000.0


def bodies(fleet: Fleet, after: float) -> dict[str, bytes]:
    return {target.name: fleet.render(target.name, START + after).body for target in fleet.targets()}


def test_the_fleet_is_as_large_as_promised() -> None:
    fleet = Fleet(1, START)
    assert len(fleet.nodes) >= 4
    assert all(len(gpus) == 8 for gpus in fleet.nodes.values())
    models = {gpu.card.name for gpus in fleet.nodes.values() for gpu in gpus}
    assert models == {"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"}
    kinds = [target.kind for target in fleet.targets()]
    assert kinds.count("dcgm") == 4
    assert kinds.count("vllm") + kinds.count("llamacpp") >= 6
    assert len({gpu.uuid for gpus in fleet.nodes.values() for gpu in gpus}) == 32
    names = [target.name for target in fleet.targets()]
    assert len(names) == len(set(names))


def test_the_same_seed_gives_the_same_bytes_however_often_it_is_asked() -> None:
    first, second = Fleet(7, START), Fleet(7, START)
    for fleet in (first, second):
        fleet.add_fault("memory_creep@node-2:20")
    for after in (0.3, 17.9, 18.0, 61.5):
        first.advance_to(START + after)
    # The throughput gauges of llama.cpp cover the time since the last scrape, so both scrape once.
    assert bodies(first, 90.2) == bodies(second, 90.9)


def test_another_seed_gives_other_traffic_on_the_same_hardware() -> None:
    first, second = Fleet(1, START), Fleet(2, START)
    assert first.targets() == second.targets()
    assert bodies(first, 60)["qwen-7b"] != bodies(second, 60)["qwen-7b"]


def test_the_clock_does_not_go_back() -> None:
    fleet = Fleet(1, START)
    fleet.advance_to(START + 10)
    fleet.advance_to(START + 5)
    assert fleet.clock == START + 10


def test_counters_never_fall_but_at_a_restart() -> None:
    fleet = Fleet(4, START)
    fleet.add_fault("engine_restart@qwen-32b:120")
    fleet.add_fault("kv_pressure@qwen-7b:30+60")
    before: dict[object, float] = {}
    fell = set()
    for after in range(0, 240, 15):
        for target in fleet.targets():
            answer = fleet.render(target.name, START + after)
            if answer.status != 200:
                continue
            for (name, labels), number in samples(answer.body.decode()).items():
                counts = name.endswith(("_total", "_count", "_bucket", "_sum")) or "energy" in name.lower()
                if not counts or "NVLINK" in name:
                    continue
                key = (target.name, name, labels)
                if number < before.get(key, 0.0):
                    fell.add(target.name)
                before[key] = number
    assert fell == {"qwen-32b"}


def test_memory_adds_up_on_every_gpu_and_instance() -> None:
    fleet = Fleet(1, START)
    for fault in ("memory_creep@node-2", "memory_creep@node-4", "vram_high@node-4/0"):
        fleet.add_fault(fault)
    for after in (0, 100, 900):
        fleet.advance_to(START + after)
        for gpus in fleet.nodes.values():
            for holder in (holder for gpu in gpus for holder in gpu.holders):
                assert holder.used_mib + holder.free_mib + holder.reserved_mib == holder.total_mib
                assert 0 <= holder.used_mib < holder.usable_mib


def test_gpus_follow_their_engine() -> None:
    fleet = Fleet(1, START)
    fleet.advance_to(START + 300)
    busy, idle = fleet.nodes["node-2"][0], fleet.nodes["node-2"][7]
    assert busy.utilization_percent > 50 > idle.utilization_percent
    assert busy.power_watts > 2 * idle.power_watts
    assert busy.temperature > idle.temperature + 5
    assert (busy.used_mib, idle.used_mib) == (int(81_920 * 0.9) + 420, 0)
    # Two replicas, each on its own four GPUs.
    assert [gpu.owner.pod for gpu in fleet.nodes["node-1"] if gpu.owner] == ["llama-70b-0"] * 8


def test_engines_report_a_healthy_load_without_faults() -> None:
    fleet = Fleet(2, START)
    fleet.advance_to(START + 1800)
    for name, replicas in fleet.replicas.items():
        for replica in replicas:
            stats = replica.stats
            assert stats.e2e.count > 300, name
            assert 0.01 < stats.ttft.sum / stats.ttft.count < 2.5, name
            assert 0.005 < stats.itl.sum / stats.itl.count < 0.1, name
            assert stats.aborted < 0.05 * stats.arrivals, name


def test_an_hour_is_simulated_in_seconds() -> None:
    """At most 20 s on one slow core; CPU time, so that other work on the machine does not matter."""
    fleet = Fleet(1, START, origin=START + 3600)
    fleet.faults += demo_script(fleet.origin)
    began = time.process_time()
    fleet.advance_to(START + 3600)
    assert time.process_time() - began < 20


def test_a_page_is_rendered_in_milliseconds() -> None:
    fleet = Fleet(1, START)
    bodies(fleet, 60)
    began = time.process_time()
    for _ in range(10):
        bodies(fleet, 60)
    assert (time.process_time() - began) / (10 * len(fleet.targets())) < 0.010


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(KeyError):
        Fleet(1, START).render("node-9", START)
