"""SGLang 0.3 to 0.5. Numbers of the fixture are added up from its text; others are by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest

from collectors.engines.sglang import KIND
from collectors.reading import EngineSample, Histogram
from collectors.registry import detect_all
from collectors.source import TargetReader
from tests.collectors.engine_lines import histogram_lines, read_lines, read_row
from tests.shared import fixture, needs_shared

REQUEST = 'engine_type="unified",model_name="m"'


def scheduler(**labels: str) -> str:
    every = {"tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0", **labels}
    return REQUEST + "".join(f',{label}="{value}"' for label, value in every.items())


RANK_0 = scheduler()


read = partial(read_lines, KIND)
read_one = partial(read_row, KIND)


def histogram(name: str, buckets: dict[str, float], seconds: float, labels: str) -> list[str]:
    return histogram_lines(f"sglang:{name}", buckets, seconds, labels)


def test_every_column_it_can_give() -> None:
    engine = read_one(
        f"sglang:num_running_reqs{{{RANK_0}}} 9", f"sglang:num_queue_reqs{{{RANK_0}}} 4",
        f"sglang:token_usage{{{RANK_0}}} 0.62", f"sglang:full_token_usage{{{RANK_0}}} 0.5",
        f"sglang:num_retracted_requests_total{{{RANK_0}}} 2",
        f'sglang:prompt_tokens_total{{{REQUEST},is_streaming="false"}} 5183',
        f'sglang:prompt_tokens_total{{{REQUEST},is_streaming="true"}} 13524',
        f'sglang:generation_tokens_total{{{REQUEST},is_streaming="false"}} 1029',
        f'sglang:generation_tokens_total{{{REQUEST},is_streaming="true"}} 3168',
        f'sglang:cached_tokens_total{{{REQUEST},cache_source="device"}} 2000',
        f'sglang:cached_tokens_total{{{REQUEST},cache_source="host"}} 815',
        f"sglang:num_aborted_requests_total{{{REQUEST}}} 3",
        f'sglang:num_requests_total{{{REQUEST},is_streaming="true"}} 30',
        'sglang:http_responses_total{method="POST",status_code="429"} 6',
        'sglang:http_responses_total{method="POST",status_code="200"} 30',
    )  # fmt: skip
    assert engine == EngineSample(
        "sglang", "engine", "0", "m", requests_running=9, requests_waiting=4, kv_cache_used_ratio=0.62,
        preemptions_total=2, prompt_tokens_total=18707, generation_tokens_total=4197, finished_abort_total=3,
        http_4xx_total=6, http_5xx_total=0, prefix_cache_queries_total=18707, prefix_cache_hits_total=2815,
    )  # fmt: skip


def test_0_3_names_the_model_name_and_queues_as_vllm_does() -> None:
    engine = read_one(
        'sglang:num_requests_running{name="m"} 4', 'sglang:num_requests_waiting{name="m"} 7',
        'sglang:token_usage{name="m"} 0.28', 'sglang:cache_hit_rate{name="m"} 10.61',
        'sglang:prompt_tokens_total{name="m"} 100',
        'sglang:func_latency_seconds_sum{name="generate_request"} 4.5',
    )  # fmt: skip
    assert engine == EngineSample(
        "sglang", "engine", "0", "m", requests_running=4, requests_waiting=7, kv_cache_used_ratio=0.28,
        prompt_tokens_total=100, prefix_cache_queries_total=100,
    )  # fmt: skip


def test_the_step_time_had_another_name_until_0_4_1_and_the_new_one_goes_before() -> None:
    old = histogram("time_per_output_token_seconds", {"0.01": 5, "+Inf": 6}, 0.2, REQUEST)
    new = histogram("inter_token_latency_seconds", {"0.02": 7, "+Inf": 8}, 0.3, REQUEST)
    assert [(one.metric, one.count) for one in read(*old).histograms] == [("itl", 6)]
    assert [(one.metric, one.count) for one in read(*old, *new).histograms] == [("itl", 8)]


def test_waiting_are_those_of_every_queue_before_the_work() -> None:
    """Prefill and decode apart: requests in `inflight` have been worked on here."""
    reading = read(
        f"sglang:num_queue_reqs{{{RANK_0}}} 1", f"sglang:num_grammar_queue_reqs{{{RANK_0}}} 2",
        f"sglang:num_prefill_bootstrap_queue_reqs{{{RANK_0}}} 4",
        f"sglang:num_decode_prealloc_queue_reqs{{{RANK_0}}} 8",
        f"sglang:num_decode_transfer_queue_reqs{{{RANK_0}}} 16",
        f"sglang:num_prefill_inflight_queue_reqs{{{RANK_0}}} 32",
        f"sglang:num_prefill_infight_queue_reqs{{{RANK_0}}} 64",
    )  # fmt: skip
    assert reading.engines[0].requests_waiting == 31
    assert read_one(f"sglang:num_queue_reqs{{{RANK_0}}} 1").requests_waiting == 1


def test_ranks_of_one_model_are_copies_and_one_is_taken() -> None:
    """sglang #29372: one server became eight series with context and tensor parallelism."""
    lines = [
        f"sglang:num_running_reqs{{{scheduler(tp_rank=str(tp), pp_rank=str(pp))}}} 9"
        for pp in range(2)
        for tp in range(4)
    ]
    assert read_one(*lines).requests_running == 9


def test_each_data_parallel_rank_is_a_replica_and_requests_are_counted_once() -> None:
    reading = read(
        f"sglang:num_running_reqs{{{scheduler(dp_rank='0', tp_rank='0')}}} 1",
        f"sglang:num_running_reqs{{{scheduler(dp_rank='0', tp_rank='1')}}} 1",
        f"sglang:num_running_reqs{{{scheduler(dp_rank='1', tp_rank='2')}}} 5",
        f"sglang:num_running_reqs{{{scheduler(dp_rank='1', tp_rank='3')}}} 5",
        f"sglang:token_usage{{{scheduler(dp_rank='1', tp_rank='2')}}} 0.2",
        f"sglang:generation_tokens_total{{{REQUEST}}} 70",
        *histogram("time_to_first_token_seconds", {"0.1": 1, "+Inf": 3}, 2.5, REQUEST),
    )
    assert [
        (one.replica, one.requests_running, one.kv_cache_used_ratio, one.generation_tokens_total)
        for one in reading.engines
    ] == [("0", 1, None, 70), ("1", 5, 0.2, None)]
    assert [(one.replica, one.count) for one in reading.histograms] == [("0", 3)]


def test_with_priorities_the_total_is_not_added_to_what_shares_it_out() -> None:
    lines = [
        f"sglang:{name}{{{RANK_0},priority=\"{priority}\"}} {value}"
        for name in ("num_running_reqs", "num_queue_reqs", "num_decode_prealloc_queue_reqs")
        for priority, value in (("", 5), ("1", 3), ("9", 2))
    ]  # fmt: skip
    engine = read_one(*lines)
    assert (engine.requests_running, engine.requests_waiting) == (5, 10)


def test_what_is_counted_by_priority_without_a_total_is_added_up() -> None:
    engine = read_one(
        *(f'sglang:prompt_tokens_total{{{REQUEST},priority="{p}"}} {n}' for p, n in (("1", 30), ("2", 12)))
    )
    assert engine.prompt_tokens_total == 42


def test_streamed_and_other_requests_are_one_histogram() -> None:
    reading = read(
        *histogram(
            "time_to_first_token_seconds", {"0.1": 1, "+Inf": 2}, 1.5, f'{REQUEST},is_streaming="true"'
        ),
        *histogram(
            "time_to_first_token_seconds", {"0.1": 3, "+Inf": 5}, 2.25, f'{REQUEST},is_streaming="false"'
        ),
    )
    assert reading.histograms == [Histogram("0", "m", "ttft", (0.1, math.inf), (4, 7), 3.75, 7)]


def test_queue_time_may_start_with_a_bucket_that_ends_at_0() -> None:
    reading = read(*histogram("queue_time_seconds", {"0.0": 4, "0.1": 5, "+Inf": 5}, 0.05, RANK_0))
    assert reading.histograms[0].edges_seconds == (0.0, 0.1, math.inf)


def test_stages_are_read_by_their_names() -> None:
    lines = [
        line
        for stage, count in (("prefill_forward", 3), ("decode_forward", 4), ("tokenize", 9))
        for line in histogram(
            "per_stage_req_latency_seconds", {"0.1": 1, "+Inf": count}, 1.0, f'{RANK_0},stage="{stage}"'
        )
    ]
    assert {one.metric: one.count for one in read(*lines).histograms} == {"prefill": 3, "decode": 4}


def test_gauges_with_le_and_gauges_that_keep_their_last_value_are_not_read() -> None:
    """Fact 6; sglang #4244, #26608, #5625."""
    reading = read(
        f'sglang:routing_key_running_req_count{{{RANK_0},gt="0",le="1"}} 3',
        f"sglang:gen_throughput{{{RANK_0}}} 512", f"sglang:cache_hit_rate{{{RANK_0}}} 0.37",
        f"sglang:fwd_occupancy{{{RANK_0}}} NaN",
    )  # fmt: skip
    assert (reading.engines, reading.histograms, reading.lines, reading.rejected_lines) == ([], [], 4, 0)


def test_retracted_and_paused_requests_are_not_swapped_ones() -> None:
    """They carry a pid (multiprocess mode "all": those of dead processes stay)."""
    engine = read_one(
        f"sglang:num_running_reqs{{{RANK_0}}} 1", f'sglang:num_paused_reqs{{{RANK_0},pid="25066"}} 3'
    )
    assert engine.requests_swapped is None


def test_what_a_version_does_not_show_is_not_known() -> None:
    """sglang #13485: 0.5.1 showed less; its retractions were a gauge that counts."""
    reading = read(
        f"sglang:num_running_reqs{{{RANK_0}}} 1",
        f"sglang:total_retracted_reqs{{{RANK_0}}} 8",
        f"sglang:avg_request_queue_latency{{{RANK_0}}} 0.5",
    )
    assert (reading.engines[0].preemptions_total, reading.engines[0].requests_waiting) == (8, None)
    assert {"ttft", "queue", "requests_waiting", "http_4xx_total"} <= set(reading.missing)
    assert any("when a request finishes" in note for note in reading.notes)


def test_a_router_shows_each_worker_as_a_replica_with_underscores_in_names() -> None:
    """sglang #12618: the router writes `sglang_` for `sglang:`."""
    body = "\n".join(
        f'sglang_num_running_reqs{{{RANK_0},worker_addr="http://{host}:30000"}} {running}'
        for host, running in (("b", 2), ("a", 1))
    )
    reading = TargetReader(KIND).read(body.encode())
    assert [(one.replica, one.requests_running) for one in reading.engines] == [
        ("http://a:30000", 1), ("http://b:30000", 2),
    ]  # fmt: skip
    assert dict(reading.found_names)["requests_running"] == "sglang_num_running_reqs"
    assert [kind.name for kind in detect_all(body.encode())] == ["sglang"]


@needs_shared
def test_0_5_23() -> None:
    body = fixture("engines/sglang-0.5.23-1.txt")
    assert [kind.name for kind in detect_all(body)] == ["sglang"]
    reading = TargetReader(KIND).read(body)
    assert reading.engines == [
        EngineSample(
            "sglang", "engine", "0", "Qwen/Qwen3-8B", requests_running=9, requests_waiting=4,
            kv_cache_used_ratio=0.62, preemptions_total=2, prompt_tokens_total=5183 + 13524,
            generation_tokens_total=1029 + 3168, finished_abort_total=3,
            prefix_cache_queries_total=5183 + 13524, prefix_cache_hits_total=2815,
        )
    ]  # fmt: skip
    assert {one.metric: one.count for one in reading.histograms} == {
        "ttft": 40, "itl": 4157, "tpot": 40, "e2e": 40, "queue": 40,
    }  # fmt: skip
    seconds = {one.metric: one.sum_seconds for one in reading.histograms}
    assert seconds["ttft"] == pytest.approx(2.0333968732612977 + 7.2409139325509955)
    assert seconds["e2e"] == pytest.approx(20.82518716778689 + 68.78917840708066)
    assert reading.missing == ("http_4xx_total", "http_5xx_total", "prefill", "decode")
    assert (reading.rejected_lines, reading.unowned_lines) == (0, 0)
