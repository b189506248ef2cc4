"""The router of vLLM's production stack. Figures are by hand."""

from __future__ import annotations

from functools import partial

from collectors.engines.vllm_router import KIND, NO_SERVER
from collectors.reading import EngineSample
from tests.collectors.engine_lines import read_lines

A = "http://10.0.0.1:8000"
B = "http://10.0.0.2:8000"


read = partial(read_lines, KIND)


def test_each_server_is_a_replica_of_a_router() -> None:
    reading = read(
        f'vllm:num_requests_running{{server="{A}"}} 4',
        f'vllm:num_requests_running{{server="{B}"}} 2',
        f'vllm:num_requests_waiting{{server="{A}"}} 1',
        f'vllm:gpu_prefix_cache_hits_total{{server="{A}"}} 30',
        f'vllm:gpu_prefix_cache_queries_total{{server="{A}"}} 40',
        f'vllm:gpu_prefix_cache_hit_rate{{server="{A}"}} 0.75',
        'vllm:num_incoming_requests_total{model="m"} 9',
        "process_resident_memory_bytes 7",
    )
    assert reading.role == "router"
    assert reading.engines == [
        EngineSample(
            "vllm_router", "router", A, None, requests_running=4, requests_waiting=1,
            prefix_cache_queries_total=40, prefix_cache_hits_total=30, process_resident_bytes=7,
        ),
        EngineSample("vllm_router", "router", B, None, requests_running=2, process_resident_bytes=7),
    ]  # fmt: skip


def test_a_router_without_figures_of_servers_is_no_failure_and_says_what_to_do() -> None:
    reading = read('vllm:num_incoming_requests_total{model="m"} 9')
    assert reading.engines == [EngineSample("vllm_router", "router", "0", None)]
    assert NO_SERVER in reading.notes


def test_what_names_no_server_is_nobodys() -> None:
    reading = read("vllm:num_requests_running 4", f'vllm:num_requests_running{{server="{A}"}} 1')
    assert [row.requests_running for row in reading.engines] == [1]
    assert reading.unowned_lines == 1


def test_the_one_model_of_a_server_is_its_rows() -> None:
    reading = read(
        f'vllm:num_requests_running{{server="{A}"}} 4',
        f'vllm:input_tokens_total{{server="{A}",model="m"}} 100',
        f'vllm:request_errors_total{{server="{A}",model="m",error_type="timeout"}} 2',
        f'vllm:request_latency_seconds_bucket{{server="{A}",model="m",status="200",le="+Inf"}} 3',
        f'vllm:request_latency_seconds_count{{server="{A}",model="m",status="200"}} 3',
        f'vllm:request_latency_seconds_sum{{server="{A}",model="m",status="200"}} 1.5',
    )
    assert reading.engines == [
        EngineSample(
            "vllm_router", "router", A, "m", requests_running=4, prompt_tokens_total=100,
            finished_error_total=2,
        )
    ]  # fmt: skip
    assert [(one.replica, one.model, one.metric, one.count) for one in reading.histograms] == [
        (A, "m", "e2e", 3)
    ]


def test_several_models_of_a_server_are_one_row_so_that_its_gauges_count_once() -> None:
    reading = read(
        f'vllm:num_requests_running{{server="{A}"}} 4',
        f'vllm:output_tokens_total{{server="{A}",model="m"}} 100',
        f'vllm:output_tokens_total{{server="{A}",model="n"}} 20',
    )
    assert [(row.model, row.requests_running, row.generation_tokens_total) for row in reading.engines] == [
        (None, 4, 120)
    ]


def test_vllm_itself_is_no_router() -> None:
    assert KIND.score(b"", {"vllm:num_requests_running": frozenset({"engine", "model_name"})}) == 0
    assert KIND.score(b"", {"vllm:num_requests_running": frozenset({"server"})}) == 1
