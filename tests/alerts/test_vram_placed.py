"""Engines whose GPUs are known by table `engine_gpu` alone: what they reserve is theirs there too."""

from __future__ import annotations

import polars as pl
import pytest

from alerts.gather import Remembered, vram_high_now
from collectors.placement import place_engines
from sql.store import Store
from tests.alerts.facts import add, add_target, at, gpu, settings, vllm


def preallocated(store: Store, seconds: float) -> list[str]:
    """The GPUs whose memory an engine is known to have taken."""
    gathered = vram_high_now(store, settings(), at(seconds), Remembered())
    assert gathered is not None
    found = [o for o in gathered.observations if o.check == "occupancy" and o.stated is not None]
    return sorted(o.subject for o in found)


def known_by(store: Store, source: str, uuid: str, first: float = 0, last: float = 0) -> None:
    row = {
        "target": "vllm-1", "replica": "", "gpu_uuid": uuid, "mig_instance": "", "source": source,
        "first_seen": at(first), "last_seen": at(last),
    }  # fmt: skip
    with store.write() as writer:
        writer.append("engine_gpu", pl.DataFrame([row]))


@pytest.mark.parametrize(
    ("engine", "source", "found"),
    [
        ({}, "process", ["gpu:GPU-1"]),
        ({"gpus": ["GPU-2"]}, "process", ["gpu:GPU-2"]),
        ({"labels": {"pod": "llm-0"}}, "process", []),
        ({}, "pod", []),
    ],
    ids=["by process", "what is configured counts more", "so does a pod", "of a pod it has no more"],
)
def test_an_engine_is_where_its_process_is_unless_something_better_says_where(
    engine: dict[str, list[str]], source: str, found: list[str]
) -> None:
    store = Store.open()
    add_target(store, "dcgm-1")
    add_target(store, "vllm-1", "vllm", **engine)
    add(store, 0, [gpu(ratio=0.9), gpu("GPU-2", ratio=0.9, gpu_index=4)], [vllm()])
    known_by(store, source, "GPU-1")
    assert preallocated(store, 5) == found


def test_a_process_that_was_last_seen_long_ago_reserves_nothing_now() -> None:
    store = Store.open()
    add_target(store, "dcgm-1")
    add_target(store, "vllm-1", "vllm")
    known_by(store, "process", "GPU-1")
    add(store, 7200, [gpu(ratio=0.9)], [vllm()])
    assert preallocated(store, 7205) == []


def test_a_configured_uuid_that_two_hosts_show_is_the_one_on_the_engines_host() -> None:
    store = Store.open()
    add_target(store, "dcgm-1")
    add_target(store, "vllm-1", "vllm", url="http://node-2:8000/metrics", gpus=["GPU-1"])
    same = [gpu("GPU-1@node-1", ratio=0.9, host="node-1"), gpu("GPU-1@node-2", ratio=0.9)]
    add(store, 0, same, [vllm()])
    place_engines(store, at(1))
    assert preallocated(store, 5) == ["gpu:GPU-1@node-2"]
