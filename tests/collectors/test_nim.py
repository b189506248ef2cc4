"""NIM 1.x. Numbers of the capture are as its text has them; others are by hand."""

from __future__ import annotations

from functools import partial

import pytest

from collectors.engines.nim import KIND
from collectors.reading import EngineSample
from collectors.registry import UnknownKindError, detect_all
from collectors.source import TargetReader
from tests.collectors.engine_lines import read_lines
from tests.shared import fixture, needs_shared

M = 'model_name="m"'


read = partial(read_lines, KIND)


def kinds(*lines: str) -> list[str]:
    try:
        return [kind.name for kind in detect_all("\n".join(lines).encode())]
    except UnknownKindError:
        return []


def test_bare_names_and_three_digit_exponents_are_read() -> None:
    reading = read(
        f"num_requests_running{{{M}}} 3", f"num_requests_waiting{{{M}}} 2", f"num_request_max{{{M}}} 64",
        f"gpu_cache_usage_perc{{{M}}} 2.5e-001", f"prompt_tokens_total{{{M}}} 1.09e+002",
        f"generation_tokens_total{{{M}}} 174.0", f"request_failure_total{{{M}}} 1",
        f'request_finish_total{{finished_reason="length",{M}}} 5', f"request_success_total{{{M}}} 5",
        "process_resident_memory_bytes 1.0463768576e+010",
    )  # fmt: skip
    assert reading.engines == [
        EngineSample(
            "nim", "engine", "0", "m", requests_running=3, requests_waiting=2, kv_cache_used_ratio=0.25,
            prompt_tokens_total=109, generation_tokens_total=174, finished_stop_total=0,
            finished_length_total=5, finished_error_total=1, process_resident_bytes=10463768576,
        )
    ]  # fmt: skip
    assert "NIM does not count aborted requests: finished_abort_total is not measured" in reading.notes


@pytest.mark.parametrize("own", ["num_request_max", "gpu_cache_usage_perc"])
def test_bare_names_are_those_of_nim_beside_one_that_only_nim_has(own: str) -> None:
    assert kinds(f"num_requests_running{{{M}}} 3", f"{own}{{{M}}} 1") == ["nim"]


def test_bare_names_alone_are_not_taken_for_nim() -> None:
    """An old trtllm-serve shows the same latencies without a prefix."""
    lines = [
        f"time_to_first_token_seconds_count{{{M}}} 3", f"e2e_request_latency_seconds_count{{{M}}} 3",
        f'request_success_total{{finished_reason="stop",{M}}} 3',
    ]  # fmt: skip
    assert "nim" not in kinds(*lines)


def test_it_answers_below_v1() -> None:
    assert KIND.default_path == "/v1/metrics"


@needs_shared
def test_a_captured_nim() -> None:
    body = fixture("engines/nim-1.x-1.txt")
    assert [kind.name for kind in detect_all(body)] == ["nim"]
    reading = TargetReader(KIND).read(body)
    assert reading.engines == [
        EngineSample(
            "nim", "engine", "0", "meta/llama-3.1-8b-instruct", requests_running=1, requests_waiting=0,
            kv_cache_used_ratio=0.0002848191398461977, prompt_tokens_total=109, generation_tokens_total=174,
            finished_stop_total=0, finished_length_total=5, finished_error_total=0,
            process_start_time_seconds=1730312854.9, process_resident_bytes=10463768576,
        )
    ]  # fmt: skip
    assert {one.metric: (one.count, one.sum_seconds) for one in reading.histograms} == {
        "ttft": (5, 0.6119842529296875),
        "itl": (169, 1.856855869293213),
        "e2e": (5, 2.4688401222229004),
    }
    assert (reading.missing, reading.rejected_lines, reading.unowned_lines) == ((), 0, 0)
