"""Usage counters made of an engine's own rows."""

from __future__ import annotations

from collectors.reading import EngineSample, Reading, UsageKey
from collectors.usage import Totals, counters


def test_only_rows_of_the_targets_own_role_are_counted_and_cached_tokens_are_part_of_the_prompt() -> None:
    samples = [
        EngineSample("dynamo", "gateway", "", "m", prompt_tokens_total=100.0, generation_tokens_total=10.0),
        EngineSample("vllm", "engine", "0", "m", prompt_tokens_total=100.0, generation_tokens_total=10.0),
    ]
    reading = Reading("dynamo", "gateway", [], samples, [], 1, 0, 0, ())
    key = UsageKey(None, None, "m", None, "target")
    assert counters(reading, samples, own=False) == {key: {"": Totals(100, None, 10, None, None)}}
    llama = EngineSample(
        "llamacpp", "engine", "", "m", prompt_tokens_total=70.0, prefix_cache_hits_total=30.0,
        finished_stop_total=4.0, finished_error_total=1.0,
    )  # fmt: skip
    reading = Reading("llamacpp", "engine", [], [llama], [], 1, 0, 0, ())
    assert counters(reading, [llama], own=False) == {key: {"": Totals(100, 30, None, 5, None)}}
    assert counters(reading._replace(role="router"), [llama], own=False) == {}
