"""The demo's pages beside pages of the real exporters."""

from __future__ import annotations

import re
from functools import cache

import pytest

from app.demo.fleet import Fleet
from tests.demo.exposition import Shape, samples, shape, value
from tests.shared import fixture, needs_shared

START = 1_796_000_000.0


@cache
def fleet() -> Fleet:
    made = Fleet(3, START)
    made.advance_to(START + 300)
    return made


def page(name: str) -> str:
    answer = fleet().render(name, 0.0)
    assert answer.status == 200
    return answer.body.decode()


def real(name: str) -> Shape:
    return shape(fixture(name).decode())


NAMES = [target.name for target in Fleet(0, 0.0).targets()]


@pytest.mark.parametrize("name", NAMES)
def test_prometheus_client_reads_every_page(name: str) -> None:
    text = page(name)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(samples(text)) == len(lines) > 10
    assert text.endswith("\n")


@pytest.mark.parametrize("name", NAMES)
def test_histograms_are_cumulative_and_end_at_the_count(name: str) -> None:
    read = samples(page(name))
    for (known, labels), count in read.items():
        base = known.removesuffix("_count")
        buckets = [
            (float(dict(pairs)["le"]), number)
            for (other, pairs), number in read.items()
            if other == f"{base}_bucket" and tuple(pair for pair in pairs if pair[0] != "le") == labels
        ]
        if known.endswith("_count") and buckets:
            numbers = [number for _, number in sorted(buckets)]
            assert numbers == sorted(numbers)
            assert numbers[-1] == count


def test_content_types_are_those_of_the_real_servers() -> None:
    types = {name: fleet().render(name, 0.0).content_type for name in NAMES}
    assert types["qwen-7b"] == "text/plain; version=1.0.0; charset=utf-8"
    assert types["gemma-9b"] == "text/plain; version=0.0.4"
    assert types["node-1"] == "text/plain; charset=utf-8"


def test_a_vllm_page_is_about_as_long_as_a_real_one() -> None:
    assert 45_000 < len(page("qwen-7b")) < 75_000


# What a real page has and ours has not, or the other way round; everything else must be equal.
VLLM_EDGES_BY_CONTEXT = {
    # 1-2-5 steps up to the longest sequence: 512 tokens in the capture, 32 768 in the demo.
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
    "vllm:request_max_num_generation_tokens",
    "vllm:request_params_max_tokens",
    "vllm:request_prefill_kv_computed_tokens",
}


def assert_same(ours: Shape, theirs: Shape, *, only_ours: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    assert {name: kind for name, kind in ours.types.items() if name not in only_ours} == theirs.types
    assert [name for name in ours.order if name not in only_ours] == theirs.order
    assert {name: text for name, text in ours.helps.items() if name not in only_ours} == theirs.helps
    for name, keys in theirs.series.items():
        assert ours.series[name] == keys, name
    for name, edges in theirs.edges.items():
        if name in VLLM_EDGES_BY_CONTEXT:
            assert ours.edges[name][: len(edges) - 1] == edges[:-1], name
        else:
            assert ours.edges[name] == edges, name


@needs_shared
def test_the_vllm_page_has_the_shape_of_a_real_one() -> None:
    assert_same(shape(page("qwen-7b")), real("engines/vllm-0.32.0-3.txt"))


@needs_shared
def test_the_vllm_label_values_that_are_fixed_are_the_real_ones() -> None:
    def fixed(text: str) -> set[tuple[str, str, str]]:
        keys = ("reason", "sleep_state", "source", "finished_reason", "engine", "generation")
        return {
            (name, key, found)
            for (name, pairs) in samples(text)
            for key, found in pairs
            if key in keys
        }  # fmt: skip

    assert fixed(page("qwen-7b")) == fixed(fixture("engines/vllm-0.32.0-3.txt").decode())


@needs_shared
def test_two_replicas_are_written_as_the_multiprocess_mode_writes_them() -> None:
    text = page("llama-70b")
    assert_same(shape(text), real("engines/vllm-0.32.0-dp2-1.txt"))
    theirs = fixture("engines/vllm-0.32.0-dp2-1.txt").decode()
    for family in ("vllm:request_success_total", "vllm:generation_tokens_total", "vllm:kv_cache_usage_perc"):
        order = [re.sub(r'model_name="[^"]*"', "", line.split(" ")[0]) for line in text.splitlines()
                 if line.startswith(family)]  # fmt: skip
        assert order == [re.sub(r'model_name="[^"]*"', "", line.split(" ")[0]) for line in theirs.splitlines()
                         if line.startswith(family)]  # fmt: skip
    assert "histogram\nvllm:time_to_first_token_seconds_sum{" in text


@needs_shared
def test_the_old_vllm_page_has_the_old_names_and_the_http_families_of_a_server() -> None:
    # The capture comes from the metric classes alone, so it has no HTTP server's families.
    ours = shape(page("mistral-7b"))
    http = {name for name in ours.types if name.startswith("http_")}
    assert_same(ours, real("engines/vllm-0.9.2-1.txt"), only_ours=http)


@needs_shared
def test_the_llama_cpp_page_has_the_shape_of_a_real_one() -> None:
    assert_same(shape(page("gemma-9b")), real("engines/llamacpp-xllamacpp-2026.10.11549-3.txt"))


ADDED_BY_OPERATORS = {
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
}
NOT_ON_L40S = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"}
POD_KEYS = ("container", "namespace", "pod", "pod_uid")


@needs_shared
@pytest.mark.parametrize("name", ["node-1", "node-2"])
def test_the_dcgm_page_has_the_shape_of_a_real_one(name: str) -> None:
    ours, theirs = shape(page(name)), real("gpu/dcgm4_l40s_full_idle.txt")
    more = ADDED_BY_OPERATORS | NOT_ON_L40S
    assert {name: kind for name, kind in ours.types.items() if name not in more} == theirs.types
    assert [name for name in ours.order if name not in more] == theirs.order
    assert {name: text for name, text in ours.helps.items() if name not in more} == theirs.helps
    for sample, keys in theirs.series.items():
        (device,) = keys
        assert ours.series[sample] <= {device, (*device, *POD_KEYS)}, sample
    assert any(len(keys) == 11 for keys in ours.series["DCGM_FI_DEV_GPU_UTIL"])


@needs_shared
def test_dcgm_numbers_are_written_as_the_real_ones() -> None:
    def forms(text: str) -> dict[str, str]:
        found = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name = line.split("{")[0]
                found[name] = "real" if "." in line.rsplit(" ", 1)[1] else "whole"
        return found

    theirs = forms(fixture("gpu/dcgm4_l40s_full_idle.txt").decode())
    ours = forms(page("node-1"))
    assert {name: ours[name] for name in theirs} == theirs


def test_the_renamed_page_has_the_new_names_with_their_units() -> None:
    text = page("node-3")
    names = set(shape(text).types)
    assert not names & {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"}
    gpu = fleet().nodes["node-3"][0]
    assert value(text, "DCGM_FI_DEV_FB_USED_BYTES", gpu="0") == gpu.used_mib * 1024**2
    assert value(text, "DCGM_FI_DEV_SM_CLOCK_HERTZ", gpu="0") == gpu.sm_mhz * 1e6
    assert value(text, "DCGM_FI_DEV_GPU_UTIL_RATIO", gpu="0") == gpu.utilization_percent / 100
    joules = value(text, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL_total", gpu="0")
    assert joules == pytest.approx(gpu.energy_joules, abs=0.001)
    capacity = value(text, "DCGM_FI_DEV_FB_CAPACITY_BYTES", gpu="1")
    parts = ("USED", "FREE", "RESERVED")
    assert capacity == sum(value(text, f"DCGM_FI_DEV_FB_{part}_BYTES", gpu="1") for part in parts)
    (keys,) = {keys[:7] for keys in shape(text).series["DCGM_FI_DEV_GPU_UTIL_RATIO"]}
    assert keys[5:] == ("hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION")


def test_mig_instances_stand_for_their_gpu_and_have_no_utilization() -> None:
    text = page("node-4")
    utilization = [labels for name, labels in samples(text) if name == "DCGM_FI_DEV_GPU_UTIL"]
    assert {dict(labels)["gpu"] for labels in utilization} == {"1", "2", "3", "4", "5", "6", "7"}
    used = [dict(labels) for name, labels in samples(text) if name == "DCGM_FI_DEV_FB_USED"]
    instances = [(labels["GPU_I_ID"], labels["GPU_I_PROFILE"]) for labels in used if labels["gpu"] == "0"]
    assert instances == [("1", "3g.40gb"), ("5", "2g.20gb"), ("13", "1g.10gb"), ("14", "1g.10gb")]
    assert value(text, "DCGM_FI_DEV_FB_USED", GPU_I_ID="1") / 40_192 == pytest.approx(0.91, abs=0.005)


def test_the_page_shows_what_the_engine_counted() -> None:
    replica = fleet().replicas["qwen-7b"][0]
    text = page("qwen-7b")
    assert value(text, "vllm:num_requests_running") == replica.requests_running
    assert value(text, "vllm:num_requests_waiting") == replica.requests_waiting
    assert value(text, "vllm:kv_cache_usage_perc") == replica.kv_used_ratio
    assert value(text, "vllm:prompt_tokens_total") == replica.stats.prompt_tokens > 0
    assert value(text, "vllm:generation_tokens_total") == replica.stats.generation_tokens
    assert value(text, "vllm:time_to_first_token_seconds_count") == replica.stats.ttft.count
    assert value(text, "vllm:time_to_first_token_seconds_sum") == replica.stats.ttft.sum
    assert value(text, "vllm:e2e_request_latency_seconds_count") == replica.stats.e2e.count
    assert value(text, "vllm:inter_token_latency_seconds_count") == replica.stats.itl.count
    assert value(text, "vllm:request_success_total", finished_reason="abort") == 0.0
    assert value(text, "process_start_time_seconds") == START
    success = sum(
        value(text, "vllm:request_success_total", finished_reason=reason) for reason in ("stop", "length")
    )
    assert success == replica.stats.e2e.count
    sources = ("local_compute", "local_cache_hit", "external_kv_transfer")
    assert value(text, "vllm:prompt_tokens_total") == sum(
        value(text, "vllm:prompt_tokens_by_source_total", source=source) for source in sources
    )


def test_a_scrape_of_llama_cpp_empties_its_throughput_windows() -> None:
    own = Fleet(3, START)
    first = own.render("gemma-9b", START + 120).body.decode()
    second = own.render("gemma-9b", START + 120).body.decode()
    assert value(first, "llamacpp:predicted_tokens_seconds") > 0
    assert value(second, "llamacpp:predicted_tokens_seconds") == 0
    assert value(second, "llamacpp:tokens_predicted_total") > 0
