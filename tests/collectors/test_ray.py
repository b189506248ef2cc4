"""vLLM inside Ray Serve LLM, in both spellings (ray #46360, #59071, #62791). Expected values are by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest

from collectors.engines.ray import KIND
from collectors.reading import EngineSample, Histogram
from collectors.registry import detect_all
from tests.collectors.engine_lines import read_lines

WORKER = 'Component="core_worker",NodeAddress="10.0.0.1",SessionName="s",Version="2.32.0",WorkerId="w1"'


read = partial(read_lines, KIND)


@pytest.mark.parametrize("prefix", ["ray_vllm_", "ray_vllm:"])
@pytest.mark.parametrize("total", ["", "_total"])
def test_both_prefixes_and_counters_with_and_without_total_are_the_same(prefix: str, total: str) -> None:
    labels = f'{WORKER},model_name="m"'
    lines = [
        f"{prefix}num_requests_running{{{labels}}} 4", f"{prefix}num_requests_waiting{{{labels}}} 1",
        f"{prefix}gpu_cache_usage_perc{{{labels}}} 0.25", f"{prefix}gpu_prefix_cache_hit_rate{{{labels}}} -1",
        f"{prefix}prompt_tokens{total}{{{labels}}} 10", f"{prefix}generation_tokens{total}{{{labels}}} 20",
        f'{prefix}request_success{total}{{{labels},finished_reason="length"}} 3',
        f'{prefix}time_to_first_token_seconds_bucket{{{labels},le="0.5"}} 2',
        f'{prefix}time_to_first_token_seconds_bucket{{{labels},le="+Inf"}} 3',
        f"{prefix}time_to_first_token_seconds_sum{{{labels}}} 1.5",
        f"{prefix}time_to_first_token_seconds_count{{{labels}}} 3",
        f'ray_node_cpu_count{{{WORKER}}} 8',
    ]  # fmt: skip
    reading = read(*lines)
    assert reading.engines == [
        EngineSample(
            "ray", "engine", "w1", "m", requests_running=4, requests_waiting=1, kv_cache_used_ratio=0.25,
            prompt_tokens_total=10, generation_tokens_total=20, finished_stop_total=0,
            finished_length_total=3,
        )
    ]  # fmt: skip
    assert reading.histograms == [Histogram("w1", "m", "ttft", (0.5, math.inf), (2, 3), 1.5, 3)]
    assert dict(reading.found_names)["prompt_tokens_total"] == f"{prefix}prompt_tokens{total}"
    assert [kind.name for kind in detect_all("\n".join(lines).encode())] == ["ray"]


def test_a_counter_that_never_counted_is_not_known() -> None:
    """Ray makes a counter when it is first incremented by more than nothing."""
    reading = read(f"ray_vllm_num_requests_running{{{WORKER}}} 1")
    engine = reading.engines[0]
    assert (engine.prompt_tokens_total, engine.preemptions_total, engine.finished_stop_total) == (None,) * 3
    assert {"prompt_tokens_total", "preemptions_total"} <= set(reading.missing)


def test_a_gauge_of_minus_one_is_off_and_not_known() -> None:
    reading = read(
        f"ray_vllm_num_requests_running{{{WORKER}}} 1", f"ray_vllm_kv_cache_usage_perc{{{WORKER}}} -1"
    )
    assert reading.engines[0].kv_cache_used_ratio is None


def test_each_replica_of_ray_serve_is_a_replica() -> None:
    lines = [
        f'ray_vllm_num_requests_running{{WorkerId="w{n}",ReplicaId="r{n}",engine="0",model_name="m"}} {n}'
        for n in (1, 2)
    ]
    assert [(one.replica, one.requests_running) for one in read(*lines).engines] == [("r1", 1), ("r2", 2)]


def test_a_name_with_total_goes_before_the_one_without() -> None:
    reading = read(
        f"ray_vllm_prompt_tokens{{{WORKER}}} 5", f"ray_vllm_prompt_tokens_total{{{WORKER}}} 6",
        f"ray_vllm_num_requests_running{{{WORKER}}} 1",
    )  # fmt: skip
    assert reading.engines[0].prompt_tokens_total == 6
