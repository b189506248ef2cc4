"""What the tables promise to every kind, shown on a made-up one; and that no body can break a reader."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.engines.table import EngineKind, Named
from collectors.reading import Reading
from collectors.registry import KINDS
from collectors.source import TargetReader

MADE_UP = EngineKind(
    name="made_up",
    role="engine",
    marks=("made_*",),
    prefixes=("made:", "old_made:"),
    columns={
        "requests_running": ("running",),
        "kv_cache_used_ratio": (Named("pool_use_percent", scale=0.01),),
        "requests_waiting": (Named("requests", {"state": "waiting"}),),
        "prefix_cache_hits_total": ("cached_tokens_total",),
        "prompt_tokens_total": ("computed_tokens_total",),
    },
    histograms={"ttft": (Named("first_token_milliseconds", scale=0.001),)},
    added={"prefix_cache_queries_total": ("prefix_cache_hits_total", "prompt_tokens_total")},
    replica_labels=("rank", "dp_rank"),
    model_labels=("model_name", "name"),
)


def read(*lines: str) -> Reading:
    return TargetReader(MADE_UP).read("\n".join(lines).encode())


def test_the_unit_belongs_to_the_name() -> None:
    reading = read(
        'made:pool_use_percent{name="m"} 42',
        'made:first_token_milliseconds_bucket{name="m",le="250"} 3',
        'made:first_token_milliseconds_bucket{name="m",le="+Inf"} 4',
        'made:first_token_milliseconds_sum{name="m"} 900',
        'made:first_token_milliseconds_count{name="m"} 4',
    )
    assert reading.engines[0].kv_cache_used_ratio == pytest.approx(0.42)
    ttft = reading.histograms[0]
    assert (ttft.edges_seconds, ttft.buckets) == ((0.25, math.inf), (3, 4))
    assert (ttft.sum_seconds, ttft.count) == (0.9, 4)


def test_several_series_of_one_name_are_added_up_but_of_kv_pools_the_fullest_counts() -> None:
    engine = read(
        'made:cached_tokens_total{name="m",cache_source="device"} 3',
        'made:cached_tokens_total{name="m",cache_source="host"} 4',
        'made:computed_tokens_total{name="m"} 10',
        'made:pool_use_percent{name="m",pool="full"} 20',
        'made:pool_use_percent{name="m",pool="window"} 60',
    ).engines[0]
    assert (engine.prefix_cache_hits_total, engine.prefix_cache_queries_total) == (7, 17)
    assert engine.kv_cache_used_ratio == pytest.approx(0.6)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    engine = read(
        'made:cached_tokens_total{name="m",cache_source="device"} 3',
        'made:cached_tokens_total{name="m",cache_source="host"} NaN',
    ).engines[0]
    assert engine.prefix_cache_hits_total is None


def test_series_of_a_split_histogram_are_added_up_when_their_edges_agree() -> None:
    lines = [
        f'made:first_token_milliseconds_bucket{{name="m",streaming="{way}",le="{edge}"}} {count}'
        for way, counts in (("true", {"250": 3, "+Inf": 4}), ("false", {"250": 1, "+Inf": 2}))
        for edge, count in counts.items()
    ]
    assert read(*lines).histograms[0].buckets == (4, 6)
    odd = [line.replace('streaming="false",le="250"', 'streaming="false",le="500"') for line in lines]
    reading = read(*odd)
    assert reading.histograms == []
    assert any("different bucket edges" in note for note in reading.notes)


def test_a_condition_on_a_label_picks_the_series() -> None:
    reading = read('made:requests{name="m",state="Waiting"} 5', 'made:requests{name="m",state="active"} 9')
    assert reading.engines[0].requests_waiting == 5


def test_labels_and_prefixes_have_aliases_too() -> None:
    engine = read('old_made:running{name="m",model_name="",dp_rank="3"} 1').engines[0]
    assert (engine.replica, engine.model, engine.requests_running) == ("3", "m", 1)


def test_a_series_that_appears_or_goes_is_followed() -> None:
    reader = TargetReader(MADE_UP)
    bodies = [b"made:running 1\n", b'made:running 2\nmade:requests{state="waiting"} 3\n', b"made:running 4\n"]
    rows = [reader.read(body).engines[0] for body in bodies]
    assert [(row.requests_running, row.requests_waiting) for row in rows] == [(1, None), (2, 3), (4, None)]


def test_counts_of_lines_are_those_of_the_body() -> None:
    reading = read("# HELP made:running x", "made:running 1", "", "made:running{ 2", "other 3")
    assert (reading.lines, reading.rejected_lines, reading.unowned_lines) == (3, 1, 0)


NAMES = [
    "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_TOTAL",
    "DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_SM_CLOCK",
    "vllm:num_requests_running", "vllm:cache_config_info", "vllm:request_success_total",
    "vllm:time_to_first_token_seconds_bucket", "vllm:time_to_first_token_seconds_sum",
    "http_requests_total", "process_resident_memory_bytes", "llamacpp:prompt_tokens_total",
    "llamacpp:prompt_tokens_cached_total",
]  # fmt: skip
KEYS = ["gpu", "UUID", "GPU_I_ID", "pod", "exported_pod", "device", "engine", "model_name", "le", "status",
        "finished_reason", "gpu_memory_utilization"]  # fmt: skip
TEXTS = [
    "",
    "0",
    "1",
    "1.0",
    "+Inf",
    "-Inf",
    "nan",
    "GPU-a",
    "m",
    "nvidia7",
    "²",
    "dcgm-exporter-x",
    "5xx",
    "stop",
    "0.9",
]
VALUES = [
    "0",
    "1",
    "91",
    "0.5",
    "NaN",
    "-Inf",
    "+Inf",
    "9.3e18",
    "1e308",
    "-5",
    "2147483634",
    "ERROR",
    "1 17",
]

series = st.builds(
    lambda name, labels, value: (
        f"{name}{{{','.join(f'{k}={chr(34)}{v}{chr(34)}' for k, v in labels.items())}}} {value}"
    ),
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TEXTS), max_size=5),
    st.sampled_from(VALUES),
)


@pytest.mark.parametrize("name", list(KINDS))
@settings(max_examples=150, deadline=None)
@given(bodies=st.lists(st.lists(series, max_size=25), min_size=1, max_size=3))
def test_no_body_breaks_a_reader_and_nothing_unreal_comes_out(name: str, bodies: list[list[str]]) -> None:
    reader = TargetReader(KINDS[name])
    for lines in bodies:
        body = "\n".join(lines).encode()
        reading = reader.read(body)
        # The memory changes nothing but which bad values are noticed: those of series without a place are
        # looked at only once.
        again = reader.read(body)
        assert again == reading._replace(
            rejected_lines=again.rejected_lines, unowned_lines=again.unowned_lines
        )
        keys = [(gpu.gpu_uuid, gpu.mig_instance) for gpu in reading.gpus]
        assert len(keys) == len(set(keys))
        rows = [(engine.replica, engine.model) for engine in reading.engines]
        assert len(rows) == len(set(rows))
        for row in (*reading.gpus, *reading.engines):
            assert all(math.isfinite(value) for value in row if isinstance(value, float))
        for gpu in reading.gpus:
            assert gpu.memory_used_ratio is None or 0 <= gpu.memory_used_ratio <= 1
        for one in reading.histograms:
            assert one.edges_seconds[-1] == math.inf
            assert len(one.edges_seconds) == len(one.buckets)
            assert list(one.edges_seconds) == sorted(set(one.edges_seconds))
