"""Triton, with and without the TensorRT-LLM backend. Figures are by hand or the fixture's."""

from __future__ import annotations

import math

import pytest

from collectors.engines.triton import KIND
from collectors.reading import EngineSample, Reading
from collectors.source import TargetReader
from tests.shared import fixture, needs_shared

ENSEMBLE = """
nv_inference_request_success{model="ensemble",version="1"} 10
nv_inference_request_success{model="tensorrt_llm",version="1"} 0
nv_inference_request_failure{model="ensemble",reason="REJECTED",version="1"} 1
nv_inference_request_failure{model="ensemble",reason="CANCELED",version="1"} 2
nv_inference_request_failure{model="ensemble",reason="BACKEND",version="1"} 3
nv_inference_request_failure{model="ensemble",reason="OTHER",version="1"} 4
nv_inference_request_duration_us{model="ensemble",version="1"} 2500000
nv_inference_queue_duration_us{model="ensemble",version="1"} 400000
nv_inference_compute_infer_duration_us{model="ensemble",version="1"} 1900000
nv_inference_pending_request_count{model="ensemble",version="1"} 6
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 2
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 7
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_inference_pending_request_count{model="tensorrt_llm",version="1"} 9
nv_trt_llm_general_metrics{general_type="timestamp",model="tensorrt_llm",version="1"} 1700074049
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.5
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 50
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
"""


def read(text: str) -> Reading:
    return TargetReader(KIND).read(text.encode())


def test_each_model_is_a_row_of_its_own_and_figures_are_picked_by_their_label() -> None:
    assert read(ENSEMBLE).engines == [
        EngineSample(
            "triton", "engine", "v1", "ensemble", requests_waiting=6, finished_abort_total=2,
            finished_error_total=8,
        ),
        EngineSample(
            "triton", "engine", "v1", "tensorrt_llm", requests_running=7, requests_waiting=2,
            kv_cache_used_ratio=0.5,
        ),
    ]  # fmt: skip


def test_counters_of_microseconds_are_means_per_request() -> None:
    found = {(one.model, one.metric): one for one in read(ENSEMBLE).histograms}
    e2e, queue = found["ensemble", "e2e"], found["ensemble", "queue"]
    assert (e2e.edges_seconds, e2e.buckets, e2e.count) == ((math.inf,), (10,), 10)
    assert e2e.sum_seconds == pytest.approx(2.5)
    assert queue.count == 10
    assert queue.sum_seconds == pytest.approx(0.4)
    assert {metric for _, metric in found} == {"e2e", "queue"}


def test_the_histogram_of_first_responses_is_in_milliseconds() -> None:
    reading = read(
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="100"} 3\n'
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="2000"} 4\n'
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="+Inf"} 5\n'
        'nv_inference_first_response_histogram_ms_sum{model="m",version="1"} 6500\n'
        'nv_inference_first_response_histogram_ms_count{model="m",version="1"} 5\n'
    )
    (ttft,) = reading.histograms
    assert (ttft.metric, ttft.edges_seconds, ttft.buckets) == ("ttft", (0.1, 2.0, math.inf), (3, 4, 5))
    assert ttft.sum_seconds == pytest.approx(6.5)
    assert any("first response" in note for note in reading.notes)


def test_an_otel_collector_adds_total_to_counters() -> None:
    """OpenTelemetry's Prometheus exporter writes it behind every counter (`add_metric_suffixes`)."""
    reading = read(
        'nv_inference_request_success_total{model="m",version="1"} 10\n'
        'nv_inference_request_duration_us_total{model="m",version="1"} 5000000\n'
        'nv_inference_request_failure_total{model="m",version="1"} 2\n'
    )
    assert reading.engines[0].finished_error_total == 2
    assert [(one.metric, one.sum_seconds, one.count) for one in reading.histograms] == [("e2e", 5, 10)]


def test_of_summaries_the_sum_and_the_count_are_read_and_no_quantile() -> None:
    (queue,) = read(
        'nv_inference_queue_summary_us_count{model="m",version="1"} 161\n'
        'nv_inference_queue_summary_us_sum{model="m",version="1"} 11110\n'
        'nv_inference_queue_summary_us{model="m",version="1",quantile="0.5"} NaN\n'
        'nv_inference_pending_request_count{model="m",version="1"} 0\n'
    ).histograms
    assert (queue.metric, queue.count) == ("queue", 161)
    assert queue.sum_seconds == pytest.approx(0.01111)


def test_versions_of_one_model_are_replicas() -> None:
    reading = read(
        'nv_inference_pending_request_count{model="m",version="2"} 5\n'
        'nv_inference_pending_request_count{model="m",version="1"} 3\n'
    )
    assert [(row.replica, row.requests_waiting) for row in reading.engines] == [("v1", 3), ("v2", 5)]
    assert not any("replica" in note for note in reading.notes)


def test_before_pending_requests_were_shown_waiting_is_not_known() -> None:
    reading = read(
        'nv_inference_request_success{model="m",version="1"} 10\n'
        'nv_inference_queue_duration_us{model="m",version="1"} 400000\n'
        'nv_inference_request_failure{model="m",version="1"} 2\n'
    )
    assert reading.engines == [EngineSample("triton", "engine", "v1", "m", finished_error_total=2)]
    assert "requests_waiting" in reading.missing
    assert any("no pending_request_count" in note for note in reading.notes)
    assert not any("no pending_request_count" in note for note in read(ENSEMBLE).notes)


def test_without_a_fraction_kv_use_is_used_of_max() -> None:
    lines = [line for line in ENSEMBLE.splitlines() if "fraction" not in line and "tensorrt_llm" in line]
    reading = read(
        "\n".join(lines).replace(
            '"used",model="tensorrt_llm",version="1"} 50', '"used",model="tensorrt_llm",version="1"} 30'
        )
    )
    assert reading.engines[0].kv_cache_used_ratio == pytest.approx(0.3)


def test_that_an_ensemble_counts_twice_is_said() -> None:
    assert any("not to be added up" in note for note in read(ENSEMBLE).notes)
    assert not any("blocks in use" in note for note in read(ENSEMBLE).notes)


def test_a_server_without_a_model_is_no_failure() -> None:
    reading = read("nv_cpu_utilization 0.01\nnv_cpu_memory_used_bytes 1e9\n")
    assert reading.engines == [EngineSample("triton", "engine", "0", None)]


@needs_shared
def test_the_sample_of_the_backend_contradicts_itself_and_that_is_said() -> None:
    reading = read(fixture("engines/triton-trtllm-backend-1.txt").decode())
    assert reading.engines == [
        EngineSample(
            "triton", "engine", "v1", "tensorrt_llm", requests_running=0, requests_waiting=1,
            kv_cache_used_ratio=0.4875,
        )
    ]  # fmt: skip
    assert (
        "tensorrt_llm: KV cache fraction 0.4875 is shown, but 1 of 6239 blocks in use are 0.0001603"
        in reading.notes
    )
    assert (reading.lines, reading.rejected_lines, reading.unowned_lines) == (23, 0, 0)
