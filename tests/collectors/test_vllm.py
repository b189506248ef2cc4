"""vLLM 0.6.6 to 0.32. Numbers of fixtures are what their INDEX says; others are by hand."""

from __future__ import annotations

import math
from functools import partial

import pytest

from collectors.engines.vllm import KIND
from collectors.reading import EngineSample, Histogram, Reading
from collectors.source import TargetReader
from tests.collectors.engine_lines import histogram_lines, read_lines, read_row
from tests.shared import fixture, needs_shared

V1 = 'engine="0",model_name="m"'


read = partial(read_lines, KIND)
read_one = partial(read_row, KIND)


def sample(name: str) -> Reading:
    return TargetReader(KIND).read(fixture(f"engines/{name}.txt"))


def counts(reading: Reading, replica: str = "0") -> dict[str, float | None]:
    return {one.metric: one.count for one in reading.histograms if one.replica == replica}


def histogram(name: str, buckets: dict[str, float], labels: str = V1) -> list[str]:
    return histogram_lines(f"vllm:{name}", buckets, 3.5, labels)


def test_every_column_by_its_name_today() -> None:
    engine = read_one(
        f"vllm:num_requests_running{{{V1}}} 4",
        f"vllm:num_requests_waiting{{{V1}}} 12",
        f"vllm:kv_cache_usage_perc{{{V1}}} 0.25",
        f"vllm:num_preemptions_total{{{V1}}} 3",
        f"vllm:prompt_tokens_total{{{V1}}} 1074",
        f"vllm:generation_tokens_total{{{V1}}} 3243",
        f'vllm:request_success_total{{{V1},finished_reason="stop"}} 7',
        f'vllm:request_success_total{{{V1},finished_reason="length"}} 18',
        f'vllm:request_success_total{{{V1},finished_reason="abort"}} 0',
        f'vllm:request_success_total{{{V1},finished_reason="error"}} 2',
        f'vllm:request_success_total{{{V1},finished_reason="repetition"}} 1',
        f"vllm:prefix_cache_queries_total{{{V1}}} 100",
        f"vllm:prefix_cache_hits_total{{{V1}}} 40",
        'vllm:cache_config_info{engine="0",block_size="16",gpu_memory_utilization="0.92"} 1.0',
        'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 21',
        'http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 1',
        'http_requests_total{handler="none",method="POST",status="404"} 1',
        "process_start_time_seconds 1.79605736771e+09",
        "process_resident_memory_bytes 6.47815168e+08",
    )
    assert engine == EngineSample(
        "vllm", "engine", "0", "m", requests_running=4, requests_waiting=12, kv_cache_used_ratio=0.25,
        preemptions_total=3, prompt_tokens_total=1074, generation_tokens_total=3243, finished_stop_total=8,
        finished_length_total=18, finished_error_total=2, http_4xx_total=2, http_5xx_total=0,
        prefix_cache_queries_total=100, prefix_cache_hits_total=40, memory_reservation_ratio=0.92,
        process_start_time_seconds=1796057367.71, process_resident_bytes=647815168,
    )  # fmt: skip


def test_of_an_old_and_a_new_name_the_new_one_is_read_and_nothing_is_added() -> None:
    engine = read_one(
        f"vllm:gpu_cache_usage_perc{{{V1}}} 0.83", f"vllm:kv_cache_usage_perc{{{V1}}} 0.84",
        f"vllm:gpu_prefix_cache_hits_total{{{V1}}} 5", f"vllm:prefix_cache_hits_total{{{V1}}} 5",
        f"vllm:gpu_prefix_cache_queries_total{{{V1}}} 9",
    )  # fmt: skip
    assert engine.kv_cache_used_ratio == 0.84
    assert (engine.prefix_cache_hits_total, engine.prefix_cache_queries_total) == (5, 9)


def test_names_with_an_underscore_and_capitals_are_the_same_names() -> None:
    engine = read_one('VLLM_num_requests_running{Engine="1",Model_Name="m"} 4')
    assert (engine.replica, engine.model, engine.requests_running) == ("1", "m", 4)


def test_v0_has_no_engine_label_a_swap_queue_and_a_hit_rate_that_is_not_read() -> None:
    engine = read_one(
        'vllm:num_requests_running{model_name="m"} 12', 'vllm:num_requests_swapped{model_name="m"} 2',
        'vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0',
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.973',
        'vllm:cache_config_info{block_size="16",gpu_memory_utilization="0.9"} 1.0',
    )  # fmt: skip
    assert (engine.replica, engine.requests_swapped, engine.kv_cache_used_ratio) == ("0", 2, 0.973)
    assert (engine.prefix_cache_hits_total, engine.memory_reservation_ratio) == (None, 0.9)


def test_a_reason_that_was_never_counted_is_0_where_the_family_is_shown() -> None:
    """V0 shows a reason from its first request on. `error` is a reason that older versions do not know."""
    engine = read_one('vllm:request_success_total{finished_reason="stop",model_name="m"} 5')
    assert (engine.finished_stop_total, engine.finished_length_total) == (5, 0)
    assert engine.finished_error_total is None
    none_yet = read_one('vllm:num_requests_running{model_name="m"} 1')
    assert (none_yet.finished_stop_total, none_yet.http_4xx_total) == (None, None)


def test_aborts_are_never_a_fact_and_a_note_says_so() -> None:
    reading = read(
        f'vllm:request_success_total{{{V1},finished_reason="abort"}} 0',
        f"vllm:num_requests_running{{{V1}}} 0",
    )
    assert reading.engines[0].finished_abort_total is None
    assert any("finished_abort_total is not measured" in note for note in reading.notes)
    assert "finished_abort_total" not in reading.missing


def test_each_replica_and_model_is_a_row_and_http_stands_on_the_first_alone() -> None:
    reading = read(
        *(f'vllm:num_requests_running{{engine="{n}",model_name="m"}} {n}' for n in (10, 2, 0)),
        *(f'vllm:cache_config_info{{engine="{n}",gpu_memory_utilization="0.{n + 1}"}} 1' for n in (0, 2)),
        'http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 4',
        "process_resident_memory_bytes 7",
    )
    assert [(one.replica, one.requests_running, one.http_5xx_total) for one in reading.engines] == [
        ("0", 0, 4), ("2", 2, None), ("10", 10, None),
    ]  # fmt: skip
    assert [one.memory_reservation_ratio for one in reading.engines] == [0.1, 0.3, None]
    assert [one.process_resident_bytes for one in reading.engines] == [7, 7, 7]


def test_two_models_on_one_endpoint_are_two_rows() -> None:
    reading = read(*(f'vllm:num_requests_running{{engine="0",model_name="{m}"}} 1' for m in ("b", "a")))
    assert [(one.replica, one.model) for one in reading.engines] == [("0", "a"), ("0", "b")]


def test_a_process_without_an_engine_makes_no_row() -> None:
    reading = read("process_resident_memory_bytes 7", 'http_requests_total{status="2xx"} 1')
    assert (reading.engines, reading.histograms) == ([], [])


def test_a_histogram_is_read_by_the_edges_it_shows() -> None:
    reading = read(*histogram("time_to_first_token_seconds", {"0.5": 1, "2": 3, "+Inf": 4}))
    assert reading.histograms == [
        Histogram("0", "m", "ttft", (0.5, 2.0, math.inf), (1.0, 3.0, 4.0), 3.5, 4.0)
    ]


def test_buckets_in_any_order_and_twice_are_one_ladder() -> None:
    lines = histogram("time_to_first_token_seconds", {"+Inf": 4, "2": 3, "0.5": 1, "2.0": 3})
    assert read(*reversed(lines)).histograms[0].edges_seconds == (0.5, 2.0, math.inf)


def test_a_histogram_without_its_last_bucket_is_a_mean_and_that_is_said() -> None:
    reading = read(*histogram("e2e_request_latency_seconds", {"0.5": 1, "2": 3}))
    assert reading.histograms == [Histogram("0", "m", "e2e", (math.inf,), (3,), 3.5, 3)]
    assert "e2e: there is no +Inf bucket, the buckets are left out" in reading.notes
    without_count = [
        line for line in histogram("e2e_request_latency_seconds", {"2": 3}) if "_count" not in line
    ]
    assert read(*without_count).histograms == []
    assert "e2e" in read(*without_count).missing


def test_each_latency_has_its_histogram_and_token_counts_have_none() -> None:
    names = [
        "time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds",
        "request_time_per_output_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
        "request_prefill_time_seconds", "request_decode_time_seconds", "request_inference_time_seconds",
        "iteration_tokens_total", "request_prompt_tokens",
    ]  # fmt: skip
    lines = [line for n, name in enumerate(names) for line in histogram(name, {"1": 0, "+Inf": n})]
    assert {one.metric: one.count for one in read(*lines).histograms} == {
        "ttft": 0, "itl": 1, "tpot": 3, "e2e": 4, "queue": 5, "prefill": 6, "decode": 7,
    }  # fmt: skip


def test_until_0_14_the_step_time_had_another_name() -> None:
    reading = read(*histogram("time_per_output_token_seconds", {"1": 9, "+Inf": 9}))
    assert counts(reading) == {"itl": 9}


def test_v0_before_0_6_6_had_another_queue_time_and_the_new_one_goes_before() -> None:
    old = histogram("time_in_queue_requests", {"1": 2, "+Inf": 2})
    assert counts(read(*old)) == {"queue": 2}
    assert counts(read(*old, *histogram("request_queue_time_seconds", {"1": 3, "+Inf": 3}))) == {"queue": 3}


def test_only_the_last_of_several_engines_shown_is_said() -> None:
    """vllm PR #21257: before 0.10 only the last data-parallel engine logged."""
    reading = read('vllm:num_requests_running{engine="3",model_name="m"} 1')
    assert any(note.startswith("replicas 0 to 2 are not shown here") for note in reading.notes)
    both = read(*(f'vllm:num_requests_running{{engine="{n}",model_name="m"}} 1' for n in (0, 3)))
    assert not any("not shown here" in note for note in both.notes)


def test_chunked_prefill_of_0_5_1_is_not_trusted() -> None:
    """vllm #6337: every first token at 0 s."""
    lines = [
        line.replace("3.5", "0.0")
        for line in histogram("time_to_first_token_seconds", {"0.001": 7, "+Inf": 7})
    ]
    assert "ttft: requests are counted and their time is 0 in all, do not trust it" in read(*lines).notes


def test_a_version_that_shows_less_has_nulls_and_not_zeros() -> None:
    """vllm #7782: fewer metrics in the container of 0.5.4."""
    reading = read(f"vllm:num_requests_running{{{V1}}} 0")
    assert (reading.engines[0].preemptions_total, reading.engines[0].generation_tokens_total) == (None, None)
    assert {"preemptions_total", "generation_tokens_total", "ttft"} <= set(reading.missing)


def test_the_names_that_are_read_are_told_as_they_are_spelled() -> None:
    reading = read(
        f"vllm:gpu_cache_usage_perc{{{V1}}} 0.5",
        'VLLM_cache_config_info{engine="0",gpu_memory_utilization="0.9"} 1',
        *histogram("time_per_output_token_seconds", {"1": 1, "+Inf": 1}),
    )
    assert reading.found_names == (
        ("kv_cache_used_ratio", "vllm:gpu_cache_usage_perc"),
        ("memory_reservation_ratio", "VLLM_cache_config_info"),
        ("itl", "vllm:time_per_output_token_seconds"),
    )


def test_creation_times_are_no_values() -> None:
    reading = read(
        f"vllm:prompt_tokens_created{{{V1}}} 1.79e9",
        f"vllm:time_to_first_token_seconds_created{{{V1}}} 1.79e9",
    )
    assert (reading.engines, reading.lines) == ([], 2)


@pytest.mark.parametrize("text", ["NaN", "-nan", "+Inf"])
def test_what_is_no_number_is_not_known(text: str) -> None:
    reading = read(
        f"vllm:kv_cache_usage_perc{{{V1}}} {text}", f"vllm:num_requests_running{{{V1}}} 1",
        *histogram("time_to_first_token_seconds", {"0.5": 1, "+Inf": 1}),
    )  # fmt: skip
    assert (reading.engines[0].kv_cache_used_ratio, reading.engines[0].requests_running) == (None, 1)
    assert counts(reading) == {"ttft": 1}


def test_a_histogram_with_a_count_that_is_no_number_is_left_out_and_said() -> None:
    lines = [
        line.replace(" 1", " NaN") for line in histogram("time_to_first_token_seconds", {"0.5": 1, "+Inf": 2})
    ]
    reading = read(f"vllm:num_requests_running{{{V1}}} 1", *lines)
    assert reading.histograms == []
    assert "ttft: a bucket count is no number, the histogram is left out" in reading.notes


@needs_shared
def test_in_flight_requests_are_in_no_histogram_but_ttft() -> None:
    reading = sample("vllm-0.32.0-2")
    assert (reading.engines[0].requests_running, reading.engines[0].requests_waiting) == (4, 12)
    assert counts(reading)["ttft"] == 4
    assert counts(reading)["e2e"] == counts(reading)["queue"] == 0
    assert reading.engines[0].kv_cache_used_ratio == pytest.approx(0.000244, abs=1e-6)


@needs_shared
def test_aborted_requests_are_in_the_token_counters() -> None:
    reading = sample("vllm-0.32.0-3")
    engine = reading.engines[0]
    assert (engine.prompt_tokens_total, engine.finished_length_total, engine.finished_abort_total) == (
        1074,
        18,
        None,
    )
    assert (counts(reading)["ttft"], counts(reading)["e2e"]) == (21, 18)
    assert (engine.http_4xx_total, engine.memory_reservation_ratio) == (2, 0.92)
    assert reading.missing == ("requests_swapped",)
    assert len(next(one for one in reading.histograms if one.metric == "ttft").edges_seconds) == 23


@needs_shared
def test_two_replicas_behind_several_api_servers() -> None:
    reading = sample("vllm-0.32.0-dp2-1")
    assert [one.prompt_tokens_total for one in reading.engines] == [498, 576]
    assert [one.finished_length_total for one in reading.engines] == [9, 9]
    assert [one.process_start_time_seconds for one in reading.engines] == [None, None]
    assert (counts(reading, "0")["ttft"], counts(reading, "1")["ttft"]) == (10, 11)


@needs_shared
def test_two_replicas_of_0_12() -> None:
    assert [one.kv_cache_used_ratio for one in sample("vllm-0.12.0-1").engines] == [0.83, 0.12]


@needs_shared
def test_0_9_2_shows_kv_use_twice_and_it_is_read_once() -> None:
    reading = sample("vllm-0.9.2-1")
    assert [one.kv_cache_used_ratio for one in reading.engines] == [0.83]
    assert counts(reading)["itl"] == 1732
    assert "tpot" in reading.missing


@needs_shared
def test_0_6_6_near_the_end_of_its_memory() -> None:
    engine = sample("vllm-0.6.6.post1-1").engines[0]
    assert (engine.requests_swapped, engine.kv_cache_used_ratio, engine.preemptions_total) == (2, 0.973, 57)
    assert (engine.finished_stop_total, engine.finished_length_total) == (40, 20)
    assert (engine.prefix_cache_queries_total, engine.http_4xx_total) == (None, None)
