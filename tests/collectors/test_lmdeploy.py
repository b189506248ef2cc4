"""LMDeploy 0.18. Numbers of the fixture are as its text has them; others are by hand."""

from __future__ import annotations

import math
from functools import partial

from collectors.engines.lmdeploy import KIND
from collectors.reading import EngineSample, Histogram
from collectors.registry import detect_all
from collectors.source import TargetReader
from tests.collectors.engine_lines import read_lines
from tests.shared import fixture, needs_shared

L = 'engine="0",model_name="m"'


read = partial(read_lines, KIND)


def finished(**counts: int) -> list[str]:
    return [
        f'lmdeploy:request_success_total{{{L},finished_reason="ResponseType.{reason}"}} {count}'
        for reason, count in counts.items()
    ]


def test_every_column_it_can_give() -> None:
    reading = read(
        f"lmdeploy:num_requests_running{{{L}}} 3", f"lmdeploy:num_requests_waiting{{{L}}} 2",
        f"lmdeploy:num_api_requests_waiting{{{L}}} 4", f"lmdeploy:gpu_cache_usage_perc{{{L}}} 0.41",
        f"lmdeploy:prompt_tokens_total{{{L}}} 15940", f"lmdeploy:generation_tokens_total{{{L}}} 2133",
        f"lmdeploy:cached_tokens_total{{{L}}} 3975", f"lmdeploy:prefix_cache_hit_rate{{{L}}} 0.25",
        *finished(FINISH=24, CANCEL=6, OUT_OF_MEMORY=1, INTERNAL_ENGINE_ERROR=2, SUCCESS=99),
        f"lmdeploy:num_requests_succeeded{{{L}}} 23",
    )  # fmt: skip
    assert reading.engines == [
        EngineSample(
            "lmdeploy", "engine", "0", "m", requests_running=3, requests_waiting=6, kv_cache_used_ratio=0.41,
            prompt_tokens_total=15940, generation_tokens_total=2133, finished_stop_total=24,
            finished_abort_total=6, finished_error_total=3, prefix_cache_queries_total=15940,
            prefix_cache_hits_total=3975,
        )
    ]  # fmt: skip


def test_reasons_are_the_text_of_a_python_enum_and_each_failure_is_an_error() -> None:
    failures = [
        "ENGINE_STOP_ERROR", "SESSION_REPEAT", "SESSION_NOT_EXIST", "HANDLER_NOT_EXIST",
        "INPUT_LENGTH_ERROR", "INTERNAL_ENGINE_ERROR", "PREFIX_CACHE_CONFLICT", "NO_QUEUE", "NOT_SUPPORTED",
        "OUT_OF_MEMORY",
    ]  # fmt: skip
    engine = read(*finished(**dict.fromkeys(failures, 1), FINISH=5, SUCCESS=7)).engines[0]
    assert (engine.finished_error_total, engine.finished_stop_total) == (10, 5)
    assert engine.finished_abort_total is None


def test_where_reasons_are_not_shown_the_gauge_that_counts_is_read() -> None:
    reading = read(f"lmdeploy:num_requests_succeeded{{{L}}} 24", f"lmdeploy:num_requests_failed{{{L}}} 6")
    engine = reading.engines[0]
    assert (engine.finished_stop_total, engine.finished_error_total) == (24, None)
    assert dict(reading.found_names)["finished_stop_total"] == "lmdeploy:num_requests_succeeded"
    assert any("finished_stop_total is both" in note for note in reading.notes)


def test_a_step_is_in_seconds_though_its_name_does_not_say_so() -> None:
    reading = read(
        f'lmdeploy:iter_token_latency_bucket{{{L},le="0.05"}} 3',
        f'lmdeploy:iter_token_latency_bucket{{{L},le="+Inf"}} 4',
        f"lmdeploy:iter_token_latency_sum{{{L}}} 0.25", f"lmdeploy:iter_token_latency_count{{{L}}} 4",
        f'lmdeploy:iteration_tokens_total_bucket{{{L},le="+Inf"}} 9',
    )  # fmt: skip
    assert reading.histograms == [Histogram("0", "m", "itl", (0.05, math.inf), (3, 4), 0.25, 4)]


@needs_shared
def test_0_18() -> None:
    body = fixture("engines/lmdeploy-0.18.0-1.txt")
    assert [kind.name for kind in detect_all(body)] == ["lmdeploy"]
    reading = TargetReader(KIND).read(body)
    assert reading.engines == [
        EngineSample(
            "lmdeploy", "engine", "0", "Qwen/Qwen3-8B", requests_running=3, requests_waiting=2 + 2,
            kv_cache_used_ratio=0.41, prompt_tokens_total=15940, generation_tokens_total=2133,
            finished_stop_total=24, finished_abort_total=6, finished_error_total=0,
            prefix_cache_queries_total=15940, prefix_cache_hits_total=3975,
            process_start_time_seconds=1.79605761737e09, process_resident_bytes=5.8884096e08,
        )
    ]  # fmt: skip
    assert {one.metric: (one.count, one.sum_seconds) for one in reading.histograms} == {
        "ttft": (30, 6.339669998167639),
        "itl": (2103, 30.67365478202712),
        "tpot": (2103, 30.67365478202712),
        "e2e": (30, 37.44799412007905),
        "queue": (30, 1.2679339996335275),
        "prefill": (30, 5.07173599853411),
        "decode": (30, 31.10832412191142),
    }
    assert (reading.missing, reading.rejected_lines, reading.unowned_lines) == ((), 0, 0)
