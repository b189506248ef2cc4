"""Finding out what answered."""

from __future__ import annotations

import gzip

import pytest

from collectors.registry import KINDS, UnknownKindError, detect, detect_all, kind_named
from tests.shared import SHARED, needs_shared

DCGM = b'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 40\n'
VLLM = b'vllm:num_requests_running{engine="0",model_name="m"} 1\nvllm:num_requests_waiting{engine="0"} 0\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (DCGM, "dcgm"),
        (b'dcgm_gpu_temp{gpu="0",uuid="GPU-a"} 40', "dcgm"),
        (VLLM, "vllm"),
        (b'vllm_num_requests_running{model_name="m"} 1', "vllm"),
        (b"llamacpp:requests_processing 0", "llamacpp"),
        (b"process_resident_memory_bytes 1\nllamacpp:requests_processing 0", "llamacpp"),
    ],
)
def test_a_kind_is_known_by_its_names(body: bytes, kind: str) -> None:
    assert detect(body).name == kind


def test_of_a_mixed_answer_the_kind_that_says_most_comes_first() -> None:
    assert [kind.name for kind in detect_all(DCGM + VLLM)] == ["vllm", "dcgm"]


def test_a_router_that_repeats_vllms_gauges_is_not_taken_for_vllm() -> None:
    with pytest.raises(UnknownKindError):
        detect(b'vllm:num_requests_running{server="http://10.0.0.1:8000"} 4')


def test_an_unknown_exposition_is_said_with_its_families_and_the_kinds_there_are() -> None:
    body = b'node_load1 0.5\nnode_x_bucket{le="1"} 2\nnode_x_bucket{le="+Inf"} 2\nnode_x_count 2\n'
    with pytest.raises(
        UnknownKindError, match=r"shows these metrics: node_load1, node_x\. Known kinds: .*dcgm.*vllm"
    ):
        detect(body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the answer is empty"),
        (b"  \n", "the answer is empty"),
        (b'{"error":{"code":501,"type":"not_supported_error"}}', "--metrics"),
        (b"<html><body>404</body></html>", "not a Prometheus exposition"),
        (b"hello there\n", "no line of the answer is a sample"),
        (gzip.compress(DCGM), "no line of the answer is a sample"),
    ],
)
def test_an_answer_that_is_no_exposition_is_said_with_the_cure(body: bytes, said: str) -> None:
    with pytest.raises(UnknownKindError, match=said):
        detect(body)


def test_a_kind_is_asked_for_by_name() -> None:
    assert kind_named("vllm") is KINDS["vllm"]
    with pytest.raises(UnknownKindError, match="no kind 'vlm'; the kinds are dcgm, "):
        kind_named("vlm")


def test_each_kind_stands_under_its_name() -> None:
    assert all(name == kind.name for name, kind in KINDS.items())


@needs_shared
def test_every_exposition_of_a_known_kind_is_recognised_and_no_other_is_taken_for_one() -> None:
    for path in sorted((SHARED / "fixtures").glob("*/*.txt")):
        starts = [name for name in KINDS if path.name.startswith(name)]
        if path.name == "prometheus_exported_pod_labels.txt":
            starts = ["dcgm"]
        try:
            found = [kind.name for kind in detect_all(path.read_bytes())]
        except UnknownKindError:
            found = []
        assert found == starts, path.name
