"""Ollama's list of loaded models. Figures are by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.engines.ollama import KIND, NO_MODEL
from collectors.reading import EngineSample, Reading
from collectors.source import TargetReader
from collectors.target import Target

GEMMA = {
    "name": "gemma3:4b", "model": "gemma3:4b", "size": 6_591_830_464, "digest": "a2af6cc3",
    "details": {"format": "gguf", "parameter_size": "4.3B"}, "context_length": 4096,
    "expires_at": "2026-11-30T16:47:07.93355-07:00", "size_vram": 5_333_539_264,
}  # fmt: skip


def read(answer: Any) -> Reading:
    return TargetReader(KIND).read(answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def test_each_loaded_model_is_a_row_with_its_memory() -> None:
    whole = GEMMA | {"name": "phi4:14b", "size": 9_000_000_000, "size_vram": 9_000_000_000}
    reading = read({"models": [GEMMA, whole]})
    assert reading.engines == [
        EngineSample(
            "ollama", "engine", "0", "gemma3:4b", model_memory_bytes=6_591_830_464,
            model_gpu_memory_bytes=5_333_539_264,
        ),
        EngineSample(
            "ollama", "engine", "0", "phi4:14b", model_memory_bytes=9_000_000_000,
            model_gpu_memory_bytes=9_000_000_000,
        ),
    ]  # fmt: skip
    assert reading.notes == (
        "gemma3:4b: 5.33 GB of 6.59 GB are in GPU memory, its layers run partly on the CPU",
    )
    assert (reading.lines, reading.rejected_lines, reading.missing) == (2, 0, ())


def test_half_a_surrogate_pair_in_a_name_becomes_what_can_be_stored() -> None:
    # json.dumps writes "\\ud800" for it, and JSON may hold that; UTF-8 cannot. The pair 😀 stays whole.
    names = [
        row.model for row in read({"models": [GEMMA | {"name": "a\ud800b"}, GEMMA | {"name": "😀"}]}).engines
    ]
    assert names == ["a\ufffdb", "😀"]


def test_a_model_that_is_not_on_a_gpu_at_all_is_said() -> None:
    reading = read({"models": [GEMMA | {"size_vram": 0}]})
    assert reading.notes == ("gemma3:4b: 0.00 GB of 6.59 GB are in GPU memory, it runs on the CPU",)


@pytest.mark.parametrize("expires_at", ["0001-01-01T00:00:00Z", "not a time", None, 7, {}])
def test_when_a_model_is_to_be_unloaded_does_not_matter(expires_at: Any) -> None:
    assert [row.model for row in read({"models": [GEMMA | {"expires_at": expires_at}]}).engines] == [
        "gemma3:4b"
    ]


def test_without_a_loaded_model_there_is_a_row_that_knows_nothing() -> None:
    reading = read({"models": []})
    assert reading.engines == [EngineSample("ollama", "engine", "0", None)]
    assert reading.says_something
    assert reading.notes == (NO_MODEL,)


def test_models_that_are_none_are_counted_and_skipped() -> None:
    reading = read({"models": [GEMMA, {"size": 1}, 7, GEMMA | {"name": "b", "size_vram": "1"}]})
    assert [row.model for row in reading.engines] == ["gemma3:4b"]
    assert (reading.lines, reading.rejected_lines) == (4, 3)


def test_a_size_that_is_not_told_is_not_known() -> None:
    reading = read({"models": [{"name": "a", "size": 5}]})
    assert reading.engines[0].model_gpu_memory_bytes is None
    assert reading.missing == ("model_gpu_memory_bytes",)
    assert reading.notes == ()


@pytest.mark.parametrize("answer", [b"Ollama is running", b"{}", {"models": {}}, [GEMMA], b'{"models":[' * 9])
def test_another_answer_gives_no_row(answer: Any) -> None:
    reading = read(answer)
    assert not reading.says_something
    assert reading.rejected_lines == 1


def test_without_a_path_the_list_of_loaded_models_is_asked_for() -> None:
    target = Target.model_validate({"url": "http://gpu-node-1:11434", "kind": "ollama"})
    assert target.url == "http://gpu-node-1:11434/api/ps"


VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from([*GEMMA]), VALUES, max_size=6), max_size=4))
def test_no_list_is_too_odd(models: list[dict[str, Any]]) -> None:
    for row in read({"models": models}).engines:
        assert row.model_memory_bytes is None or row.model_memory_bytes >= 0
