"""Dynamo's frontend and workers. Figures are by hand or the fixture's text."""

from __future__ import annotations

import math

import pytest

from collectors.engines.dynamo import KIND
from collectors.reading import EngineSample, Histogram, Reading
from collectors.source import TargetReader
from tests.shared import fixture, needs_shared

FRONTEND = """
dynamo_frontend_inflight_requests{model="m"} 8
dynamo_frontend_active_requests{model="m"} 8
dynamo_frontend_queued_requests{model="m"} 3
dynamo_frontend_inflight_requests{model="unknown_model"} 1
dynamo_frontend_queued_requests{model="unknown_model"} 1
dynamo_frontend_input_sequence_tokens_sum{model="m"} 774
dynamo_frontend_input_sequence_tokens_count{model="m"} 17
dynamo_frontend_cached_tokens_sum{model="m"} 192
dynamo_frontend_output_tokens_total{model="m"} 481
dynamo_frontend_model_context_length{model="m"} 0
dynamo_frontend_disconnected_clients 1
dynamo_frontend_worker_active_decode_blocks{dp_rank="0",worker_id="1",worker_type="decode"} 12
dynamo_frontend_requests_total{endpoint="chat_completions",error_type="",model="m",status="success"} 16
dynamo_frontend_requests_total{endpoint="chat_completions",error_type="cancelled",model="m",status="error"} 2
dynamo_frontend_requests_total{endpoint="chat_completions",error_type="internal",model="m",status="error"} 3
dynamo_frontend_requests_total{endpoint="completions",error_type="validation",model="m",status="error"} 4
dynamo_frontend_requests_total{endpoint="x",error_type="not_found",model="unknown_model",status="error"} 5
dynamo_component_gpu_cache_usage_percent{dynamo_component="router"} 0.5
"""


def read(text: str | bytes) -> Reading:
    return TargetReader(KIND).read(text if isinstance(text, bytes) else text.encode())


def test_a_frontend_is_a_gateway_with_a_row_per_real_model() -> None:
    reading = read(FRONTEND)
    assert (reading.source, reading.role) == ("dynamo", "gateway")
    assert reading.engines == [
        EngineSample(
            "dynamo", "gateway", "0", "m", requests_running=8, requests_waiting=3, prompt_tokens_total=774,
            generation_tokens_total=481, finished_abort_total=2, finished_error_total=7, http_4xx_total=9,
            http_5xx_total=3, prefix_cache_queries_total=774, prefix_cache_hits_total=192,
        )
    ]  # fmt: skip


def test_the_frontends_gauges_per_worker_outlive_the_workers_and_are_not_read() -> None:
    assert read(FRONTEND).engines[0].kv_cache_used_ratio is None
    assert "kv_cache_used_ratio" not in dict(read(FRONTEND).found_names)


def test_the_first_bucket_may_end_at_zero() -> None:
    reading = read(
        'dynamo_frontend_time_to_first_token_seconds_bucket{model="m",le="0"} 0\n'
        'dynamo_frontend_time_to_first_token_seconds_bucket{model="m",le="0.0022"} 3\n'
        'dynamo_frontend_time_to_first_token_seconds_bucket{model="m",le="+Inf"} 4\n'
        'dynamo_frontend_time_to_first_token_seconds_sum{model="m"} 0.5\n'
        'dynamo_frontend_time_to_first_token_seconds_count{model="m"} 4\n'
    )
    assert reading.histograms == [
        Histogram("0", "m", "ttft", (0.0, 0.0022, math.inf), (0.0, 3.0, 4.0), 0.5, 4.0)
    ]


ROUTE = (
    'dynamo_frontend_stage_duration_seconds_bucket{stage="route",le="+Inf"} 17\n'
    'dynamo_frontend_stage_duration_seconds_sum{stage="route"} 0.25\n'
    'dynamo_frontend_stage_duration_seconds_count{stage="route"} 17\n'
    'dynamo_frontend_stage_duration_seconds_bucket{stage="preprocess",le="+Inf"} 90\n'
)


def test_the_time_to_a_worker_is_queueing_and_other_stages_are_not() -> None:
    (queue,) = read(FRONTEND + ROUTE).histograms
    assert (queue.metric, queue.model, queue.count, queue.sum_seconds) == ("queue", "m", 17, 0.25)


def test_with_several_models_the_time_to_a_worker_is_nobodys() -> None:
    reading = read(FRONTEND + ROUTE + 'dynamo_frontend_inflight_requests{model="n"} 1\n')
    assert [row.model for row in reading.engines] == ["m", "n"]
    assert reading.histograms == []
    assert [row.http_4xx_total for row in reading.engines] == [9, None]


def test_a_frontend_without_a_model_is_no_failure() -> None:
    reading = read("dynamo_frontend_disconnected_clients 0\n")
    assert reading.engines == [EngineSample("dynamo", "gateway", "0", None)]


@pytest.mark.parametrize("name", ["gpu_cache_usage_percent", "kvstats_gpu_cache_usage_percent"])
def test_a_worker_is_an_engine(name: str) -> None:
    reading = read(
        f'dynamo_component_{name}{{dynamo_component="backend",model="m",worker_id="4e44"}} 0.25\n'
        'dynamo_component_inflight_requests{dynamo_endpoint="generate",model="m",worker_id="4e44"} 3\n'
        'dynamo_component_inflight_requests{dynamo_endpoint="clear_kv_blocks",model="m",worker_id="4e44"} 1\n'
    )
    assert reading.role == "engine"
    assert reading.engines == [
        EngineSample("dynamo", "engine", "0", "m", requests_running=3, kv_cache_used_ratio=0.25)
    ]


def test_a_worker_that_shows_its_engines_own_names_is_that_engines() -> None:
    component = {"dynamo_component_gpu_cache_usage_percent": frozenset({"worker_id"})}
    assert KIND.score(b"", component) == 1
    for name in ("vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running"):
        assert KIND.score(b"", component | {name: frozenset()}) == 0


@needs_shared
def test_a_real_frontend_after_its_requests() -> None:
    reading = read(fixture("engines/dynamo-frontend-1.6.1-1.txt"))
    assert reading.engines == [
        EngineSample(
            "dynamo", "gateway", "0", "tiny-random", requests_running=0, requests_waiting=0,
            prompt_tokens_total=774, generation_tokens_total=481, finished_abort_total=1,
            finished_error_total=0, http_4xx_total=1, http_5xx_total=0, prefix_cache_queries_total=774,
            prefix_cache_hits_total=192,
        )
    ]  # fmt: skip
    found = {one.metric: (one.count, one.sum_seconds) for one in reading.histograms}
    assert found == {
        "ttft": (17, 0.654209586), "itl": (464, 2.70789124), "e2e": (17, 3.3667791829999993),
        "queue": (17, 0.000023253999999999998),
    }  # fmt: skip
    assert (reading.rejected_lines, reading.unowned_lines, reading.missing) == (0, 0, ())


@needs_shared
def test_a_real_frontend_under_load() -> None:
    (row,) = read(fixture("engines/dynamo-frontend-1.6.1-2.txt")).engines
    assert (row.requests_running, row.requests_waiting, row.generation_tokens_total) == (8, 0, 154)
