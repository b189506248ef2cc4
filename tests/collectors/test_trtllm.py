"""trtllm-serve: JSON records and both generations of its exposition. Figures are by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.engines.trtllm import KIND, NO_RECORDS
from collectors.reading import EngineSample, Reading
from collectors.source import TargetReader


def record(number: int, **more: Any) -> dict[str, Any]:
    return {
        "iter": number, "iterLatencyMS": 15.5, "numActiveRequests": 5, "numQueuedRequests": 3,
        "gpuMemUsage": 4_000_000_000, "timestamp": "11-30-2026 10:00:00",
        "kvCacheStats": {
            "maxNumBlocks": 1000, "freeNumBlocks": 400, "usedNumBlocks": 600, "tokensPerBlock": 64,
            "reusedBlocks": 30, "missedBlocks": 90, "cacheHitRate": 0.25,
        },
        "inflightBatchingStats": {"numContextRequests": 2, "numGenRequests": 3, "numPausedRequests": 1},
    } | more  # fmt: skip


def read(*bodies: Any) -> Reading:
    reader = TargetReader(KIND)
    for body in bodies:
        reading = reader.read(body if isinstance(body, bytes) else json.dumps(body).encode())
    return reading


def test_the_newest_record_gives_the_gauges() -> None:
    reading = read([record(7, numActiveRequests=9), record(8), record(6, numActiveRequests=1)])
    assert reading.engines == [
        EngineSample(
            "trtllm", "engine", "0", None, requests_running=5, requests_waiting=3, requests_swapped=1,
            kv_cache_used_ratio=0.6, prefix_cache_queries_total=120, prefix_cache_hits_total=30,
        )
    ]  # fmt: skip
    assert (reading.lines, reading.rejected_lines, reading.unowned_lines) == (3, 0, 0)
    assert dict(reading.found_names)["requests_waiting"] == "numQueuedRequests"


def test_records_without_a_number_count_in_their_order() -> None:
    first, second = record(0, numActiveRequests=1), record(0, numActiveRequests=2)
    del first["iter"], second["iter"]
    assert read([first, second]).engines[0].requests_running == 2


def test_latencies_are_missing_in_json_and_where_they_are_is_said() -> None:
    reading = read([record(1)])
    assert {"ttft", "e2e", "generation_tokens_total"} <= set(reading.missing)
    assert "requests_running" not in reading.missing
    assert any("/prometheus/metrics" in note for note in reading.notes)


def test_an_empty_list_is_neither_a_failure_nor_zero() -> None:
    reading = read([record(1)], b"[]")
    assert reading.engines == [EngineSample("trtllm", "engine", "0", None)]
    assert reading.says_something
    assert reading.notes[0] == NO_RECORDS
    assert "requests_running" not in reading.missing


def test_malformed_records_are_counted_and_skipped() -> None:
    broken = [record(9, numActiveRequests="5"), record(9, kvCacheStats=[]), 7, None, {}, {"iter": 9}]
    reading = read([record(8), *broken, record(9, numQueuedRequests=True)])
    assert [row.requests_running for row in reading.engines] == [5]
    assert (reading.lines, reading.rejected_lines) == (8, 7)


def test_a_field_that_is_not_there_is_not_known() -> None:
    row = read([{"iter": 1, "numActiveRequests": 2}]).engines[0]
    assert (row.requests_running, row.requests_waiting, row.kv_cache_used_ratio) == (2, None, None)


def test_no_cache_blocks_at_all_is_no_use_of_zero() -> None:
    stats = {"maxNumBlocks": 0, "usedNumBlocks": 0}
    assert read([record(1, kvCacheStats=stats)]).engines[0].kv_cache_used_ratio is None


def test_what_cannot_be_is_not_known_and_said() -> None:
    stats = {"maxNumBlocks": 10, "usedNumBlocks": 20}
    reading = read([record(1, numQueuedRequests=-1, kvCacheStats=stats)])
    assert (reading.engines[0].requests_waiting, reading.engines[0].kv_cache_used_ratio) == (None, None)
    assert any(note.startswith("requests_waiting: -1") for note in reading.notes)
    assert any(note.startswith("kv_cache_used_ratio: 2") for note in reading.notes)


def test_ranks_of_attention_data_parallelism_are_rows() -> None:
    reading = read([record(4, attentionDpRank=1, numActiveRequests=2), record(4, attentionDpRank=0)])
    assert [(row.replica, row.requests_running) for row in reading.engines] == [("0", 5), ("1", 2)]


@pytest.mark.parametrize("body", [b"{}", b"[", b"[1e999999, \xff]", b"[" * 200_000, b"{" + b'"a":[' * 9999])
def test_what_is_no_list_of_records_gives_no_row(body: bytes) -> None:
    reading = read(body)
    assert not reading.says_something
    assert reading.rejected_lines == 1


OLD = """
# TYPE request_success_total counter
request_success_total{engine_type="undefined",finished_reason="stop",model_name="undefined"} 4
request_success_total{engine_type="undefined",finished_reason="length",model_name="undefined"} 2
# TYPE e2e_request_latency_seconds histogram
e2e_request_latency_seconds_bucket{engine_type="undefined",le="0.5",model_name="undefined"} 1
e2e_request_latency_seconds_bucket{engine_type="undefined",le="+Inf",model_name="undefined"} 6
e2e_request_latency_seconds_sum{engine_type="undefined",model_name="undefined"} 9.5
e2e_request_latency_seconds_count{engine_type="undefined",model_name="undefined"} 6
time_to_first_token_seconds_bucket{engine_type="undefined",le="+Inf",model_name="undefined"} 5
time_to_first_token_seconds_sum{engine_type="undefined",model_name="undefined"} 0.5
time_to_first_token_seconds_count{engine_type="undefined",model_name="undefined"} 5
"""


def test_the_old_exposition_has_bare_names_and_a_model_that_is_none() -> None:
    reading = read(OLD.encode())
    assert reading.engines == [
        EngineSample("trtllm", "engine", "0", None, finished_stop_total=4, finished_length_total=2)
    ]
    assert [(one.metric, one.model, one.count, one.sum_seconds) for one in reading.histograms] == [
        ("ttft", None, 5, 0.5), ("e2e", None, 6, 9.5),
    ]  # fmt: skip


NEW = """
trtllm_num_requests_running{model_name="m",engine_type="trtllm"} 5
trtllm_num_requests_waiting{model_name="m",engine_type="trtllm"} 3
trtllm_num_paused_requests{model_name="m",engine_type="trtllm"} 1
trtllm_kv_cache_utilization{model_name="m",engine_type="trtllm"} 0.6
trtllm_prompt_tokens_total{model_name="m",engine_type="trtllm"} 100
trtllm_prompt_cached_tokens_total{model_name="m",engine_type="trtllm"} 40
trtllm_generation_tokens_total{model_name="m",engine_type="trtllm"} 30
trtllm_request_success_total{model_name="m",engine_type="trtllm",finished_reason="length"} 2
trtllm_request_success_total{model_name="m",engine_type="trtllm",finished_reason="cancelled"} 1
trtllm_request_error_total{model_name="m",engine_type="trtllm",http_code="400"} 3
trtllm_request_error_total{model_name="m",engine_type="trtllm",http_code="422"} 1
trtllm_request_prefill_time_seconds_bucket{model_name="m",engine_type="trtllm",le="+Inf"} 2
trtllm_request_prefill_time_seconds_sum{model_name="m",engine_type="trtllm"} 0.25
trtllm_request_prefill_time_seconds_count{model_name="m",engine_type="trtllm"} 2
"""


def test_the_new_exposition_has_a_prefix_gauges_and_tokens() -> None:
    reading = read(NEW.encode())
    assert reading.engines == [
        EngineSample(
            "trtllm", "engine", "0", "m", requests_running=5, requests_waiting=3, requests_swapped=1,
            kv_cache_used_ratio=0.6, prompt_tokens_total=100, generation_tokens_total=30,
            finished_stop_total=0, finished_length_total=2, finished_abort_total=1, http_4xx_total=4,
            http_5xx_total=0, prefix_cache_queries_total=100, prefix_cache_hits_total=40,
        )
    ]  # fmt: skip
    assert [(one.metric, one.count, one.sum_seconds) for one in reading.histograms] == [("prefill", 2, 0.25)]


def test_builds_of_early_2026_name_their_gauges_otherwise() -> None:
    labels = '{model_name="m",engine_type="trtllm"}'
    (row,) = read(
        f"trtllm_num_active_requests{labels} 5\ntrtllm_server_queue_length{labels} 3\n".encode()
    ).engines
    assert (row.requests_running, row.requests_waiting) == (5, 3)


def test_one_reader_reads_both_forms() -> None:
    reader = TargetReader(KIND)
    assert reader.read(NEW.encode()).engines[0].model == "m"
    assert reader.read(b"[]").engines[0].model is None
    assert reader.read(NEW.encode()).engines[0].requests_running == 5


def test_bare_names_beside_those_of_nim_are_nims() -> None:
    families = {
        name: frozenset({"model_name", "engine_type"}) for name in ("time_to_first_token_seconds_bucket",)
    }
    assert KIND.score(b"", families) == 1
    assert KIND.score(b"", families | {"num_request_max": frozenset()}) == 0
    assert KIND.score(b"", families | {"num_request_max": frozenset(), "trtllm_x": frozenset()}) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["iter", "numActiveRequests", "kvCacheStats", "usedNumBlocks", "maxNumBlocks", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(JSON)
def test_no_json_is_too_odd(answer: Any) -> None:
    body = json.dumps(answer).encode()
    reading = read(body)
    assert KIND.score(body, {}) >= 0
    assert all(
        row.kv_cache_used_ratio is None or 0 <= row.kv_cache_used_ratio <= 1 for row in reading.engines
    )
