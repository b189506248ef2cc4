"""Values that no GPU and no engine can mean are not known; what is stored always fits the store's types."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.engines.around import AroundEngine
from collectors.engines.forms import FormsKind
from collectors.engines.table import EngineKind
from collectors.engines.usage import MeteredKind
from collectors.fetch import Fetched
from collectors.gpu.table import GpuKind
from collectors.ingest import Ingest
from collectors.plausible import ENGINE, GPU, GPU_INDEX_END, OddValues
from collectors.reading import EngineSample, GpuSample, Reading
from collectors.registry import KINDS
from collectors.source import TargetReader
from collectors.target import Target
from sql.store import Store, migrations

T0 = datetime(2026, 11, 30, 12, 0)
WHO = 'gpu="0",UUID="GPU-a",Hostname="n"'
V1 = 'engine="0",model_name="m"'
HIGHEST = {
    "SMALLINT": 2**15 - 1,
    "INTEGER": 2**31 - 1,
    "BIGINT": 2**63 - 1,
    "FLOAT": 3.4e38,
    "DOUBLE": 1.7e308,
}
"""The largest value of DuckDB's types."""


def read(kind: str, *lines: str) -> Reading:
    return TargetReader(KINDS[kind]).read("\n".join(lines).encode())


@pytest.mark.parametrize(
    ("table", "fields", "limits"),
    [("gpu_sample", GpuSample._fields, GPU), ("engine_sample", EngineSample._fields, ENGINE)],
)
def test_every_number_column_has_limits_that_its_type_can_hold(
    table: str, fields: tuple[str, ...], limits: dict[str, tuple[float, float]]
) -> None:
    connection = duckdb.connect()
    for _, _, text in migrations():
        connection.execute(text)
    types = {row[0]: row[1] for row in connection.execute(f"DESCRIBE {table}").fetchall()}
    numbers = {name: types[name] for name in fields if types[name] != "VARCHAR"}
    assert numbers.pop("gpu_index", "SMALLINT") == "SMALLINT"
    assert HIGHEST["SMALLINT"] >= GPU_INDEX_END - 1
    assert numbers.keys() == limits.keys()
    for column, type_name in numbers.items():
        low, high = limits[column]
        assert -HIGHEST[type_name] <= low < high <= HIGHEST[type_name], column


@pytest.mark.parametrize(
    ("name", "text", "column", "said"),
    [
        ("DEV_GPU_UTIL", "250", "utilization_ratio", "2.5"),
        ("DEV_GPU_UTIL_RATIO", "250", "utilization_ratio", "250"),
        ("DEV_MEM_COPY_UTIL", "-1", "memory_controller_ratio", "-0.01"),
        ("PROF_SM_ACTIVE", "2.5", "sm_active_ratio", "2.5"),
        ("PROF_GR_ENGINE_ACTIVE", "-0.1", "graphics_active_ratio", "-0.1"),
        ("DEV_FB_FREE", "-5", "memory_free_bytes", "-5242880"),
        ("DEV_FB_USED_BYTES", "1e300", "memory_used_bytes", "1e+300"),
        ("DEV_FB_USED_PERCENT", "34.3", "memory_used_ratio", "34.3"),
        ("DEV_CLOCK_THROTTLE_REASONS", "-1", "throttle_reasons", "-1"),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", "-4", "energy_joules_total", "-0.004"),
        ("DEV_POWER_USAGE", "-3", "power_watts", "-3"),
        ("DEV_POWER_USAGE", "1e300", "power_watts", "1e+300"),
        ("DEV_GPU_TEMP", "1e9", "temperature_celsius", "1000000000"),
        ("DEV_MEMORY_TEMP", "-274", "memory_temperature_celsius", "-274"),
        ("DEV_SM_CLOCK", "-1", "sm_clock_hertz", "-1000000"),
        ("DEV_XID_ERRORS", "4294967295", "xid_last", "4294967295"),  # -1 as an unsigned number
    ],
)
def test_a_gpu_value_that_cannot_be_is_not_known_and_said(
    name: str, text: str, column: str, said: str
) -> None:
    reading = read("dcgm", f"DCGM_FI_{name}{{{WHO}}} {text}", f"DCGM_FI_DEV_MEM_CLOCK{{{WHO}}} 9")
    assert getattr(reading.gpus[0], column) is None
    assert reading.gpus[0].memory_clock_hertz == 9_000_000
    (note,) = (note for note in reading.notes if "cannot be" in note)
    assert note.startswith(f"{column}: {said} of GPU 0 cannot be (")


@pytest.mark.parametrize(
    ("name", "text", "column", "value"),
    [
        ("PROF_SM_ACTIVE", "1.29", "sm_active_ratio", 1.29),  # DCGM #152, on MIG: kept as it is
        ("DEV_GPU_UTIL", "100", "utilization_ratio", 1.0),
        ("DEV_GPU_TEMP", "-20", "temperature_celsius", -20),
        ("DEV_POWER_USAGE", "1400", "power_watts", 1400),
        ("DEV_XID_ERRORS", "154", "xid_last", 154),
        ("DEV_CLOCK_THROTTLE_REASONS", "256", "throttle_reasons", 256),
    ],
)
def test_a_gpu_value_at_the_edge_of_what_is_seen_is_kept(
    name: str, text: str, column: str, value: float
) -> None:
    reading = read("dcgm", f"DCGM_FI_{name}{{{WHO}}} {text}")
    assert getattr(reading.gpus[0], column) == value
    assert not any("cannot be" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("line", "column", "said"),
    [
        (f"vllm:kv_cache_usage_perc{{{V1}}} -1", "kv_cache_used_ratio", "-1"),
        (f"vllm:kv_cache_usage_perc{{{V1}}} 1.5", "kv_cache_used_ratio", "1.5"),
        (f"vllm:generation_tokens_total{{{V1}}} -5", "generation_tokens_total", "-5"),
        (f"vllm:generation_tokens_total{{{V1}}} 1e19", "generation_tokens_total", "1e+19"),
        (f"vllm:num_requests_waiting{{{V1}}} -2", "requests_waiting", "-2"),
        ("process_start_time_seconds 1e300", "process_start_time_seconds", "1e+300"),
        ("process_start_time_seconds 12", "process_start_time_seconds", "12"),
        ("process_resident_memory_bytes -1", "process_resident_bytes", "-1"),
        (f'vllm:cache_config_info{{{V1},gpu_memory_utilization="90"}} 1', "memory_reservation_ratio", "90"),
    ],
)
def test_an_engine_value_that_cannot_be_is_not_known_and_said(line: str, column: str, said: str) -> None:
    reading = read("vllm", line, f"vllm:num_requests_running{{{V1}}} 3")
    assert getattr(reading.engines[0], column) is None
    assert reading.engines[0].requests_running == 3
    (note,) = (note for note in reading.notes if "cannot be" in note)
    assert note.startswith(f"{column}: {said} of replica 0 of m cannot be (")


def test_a_part_of_a_sum_that_cannot_be_makes_the_sum_unknown() -> None:
    reading = read(
        "vllm", f"vllm:num_requests_running{{{V1}}} 3",
        'http_requests_total{handler="a",status="5xx"} 10',
        'http_requests_total{handler="b",status="5xx"} -4',
    )  # fmt: skip
    assert reading.engines[0].http_5xx_total is None
    assert any(note.startswith("http_5xx_total: -4 of replica 0") for note in reading.notes)


def ttft(small: str, count: str, total: str = "1") -> list[str]:
    name = "vllm:time_to_first_token_seconds"
    return [
        f'{name}_bucket{{{V1},le="0.5"}} {small}', f'{name}_bucket{{{V1},le="+Inf"}} {count}',
        f"{name}_sum{{{V1}}} {total}", f"vllm:num_requests_running{{{V1}}} 3",
    ]  # fmt: skip


def test_a_histogram_with_a_count_that_cannot_be_is_left_out_and_said() -> None:
    reading = read("vllm", *ttft("-1", "4"))
    assert (reading.histograms, reading.engines[0].requests_running) == ([], 3)
    assert "ttft: a bucket count of -1 cannot be, the histogram is left out" in reading.notes


def test_a_sum_of_a_histogram_that_cannot_be_is_not_known() -> None:
    (histogram,) = read("vllm", *ttft("1", "4", "-3")).histograms
    assert (histogram.buckets, histogram.sum_seconds, histogram.count) == ((1, 4), None, 4)


def test_the_note_of_a_column_stays_while_the_column_stays_odd() -> None:
    """So that a value that moves at each scrape is written once and not at each scrape."""
    odd = OddValues()
    assert odd.notes([("a", "a: -1"), ("a", "a: -2"), ("b", "b: 9")]) == ("a: -1", "b: 9")
    assert odd.notes([("a", "a: -7")]) == ("a: -1",)
    assert odd.notes([]) == ()
    assert odd.notes([("a", "a: -8")]) == ("a: -8",)


@pytest.mark.parametrize(
    "index", ["32768", "3000000000", "99999999999999999999", "9" * 4000, "-1", "1.5", "²", "x"]
)
def test_a_gpu_label_that_is_no_index_is_not_known_and_said(index: str) -> None:
    reading = read("dcgm", f'DCGM_FI_DEV_GPU_TEMP{{gpu="{index}",UUID="GPU-a"}} 40')
    assert (reading.gpus[0].gpu_index, reading.gpus[0].temperature_celsius) == (None, 40)
    assert any(note.startswith("gpu_index: ") for note in reading.notes)


def test_the_largest_index_is_read() -> None:
    reading = read("dcgm", 'DCGM_FI_DEV_GPU_TEMP{gpu="32767",UUID="GPU-a"} 40')
    assert (reading.gpus[0].gpu_index, [n for n in reading.notes if "index" in n]) == (32767, [])


def names_of(kind: Any) -> list[str]:
    """The names that an exposition kind reads, those of all its forms; none for JSON, XML and CSV."""
    if isinstance(kind, FormsKind):
        return [name for form in kind.forms for name in names_of(form.kind)]
    if isinstance(kind, GpuKind):
        return [named.name for names in kind.columns.values() for named in names]
    if isinstance(kind, EngineKind):
        return [*kind._targets]
    if isinstance(kind, MeteredKind):
        return [*kind.engine._targets, *kind.usage._targets]
    return names_of(kind.engine) if isinstance(kind, AroundEngine) else []


NAMES = {name: names for name, kind in KINDS.items() if (names := names_of(kind))}
JSON_ANSWERS = {
    "trtllm": '[{"iter":1,"numActiveRequests":%s,"numQueuedRequests":%s,"attentionDpRank":%s,'
    '"kvCacheStats":{"usedNumBlocks":%s,"maxNumBlocks":%s,"reusedBlocks":%s,"missedBlocks":%s}}]',
    "ollama": '{"models":[{"name":"a","size":%s,"size_vram":%s},{"name":"b","size":%s,"size_vram":%s}]}',
}
KEYS = ["gpu", "UUID", "GPU_I_ID", "Hostname", "pod", "device", "engine", "model_name", "le", "status",
        "finished_reason", "gpu_memory_utilization", "model", "version", "server", "replica", "reason",
        "request_type", "kv_cache_block_type", "error_type", "model_name", "team_alias", "status_code",
        "gen_ai_token_type", "project"]  # fmt: skip
label = st.sampled_from(
    ["0", "1", "+Inf", "0.5", "1e300", "-1", "nan", "3000000000", "9" * 30, "GPU-a", "5xx", "stop"]
)
label |= st.text(st.characters(exclude_categories=["Cs"], exclude_characters='\n"\\'), max_size=8)
value = st.one_of(
    st.floats().map(repr), st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["0", "1", "100", "2147483648", "9223372036854775807", "9223372036854775808", "1e300"]),
)  # fmt: skip


@pytest.mark.parametrize("name", list(NAMES))
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_answer_of_a_kind_can_be_stored(name: str, data: st.DataObject) -> None:
    series = st.builds(
        lambda metric, labels, number: (
            metric + "{" + ",".join(f'{key}="{text}"' for key, text in labels.items()) + "} " + number
        ),
        st.sampled_from(NAMES[name]), st.dictionaries(st.sampled_from(KEYS), label, max_size=5), value,
    )  # fmt: skip
    store_one(name, "\n".join(data.draw(st.lists(series, min_size=1, max_size=12))))


@pytest.mark.parametrize("name", list(JSON_ANSWERS))
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_json_of_a_kind_can_be_stored(name: str, data: st.DataObject) -> None:
    answer = JSON_ANSWERS[name]
    number = st.one_of(value, st.sampled_from(["null", "NaN", "-Infinity", "1e999", '"1"', "true", "[]"]))
    store_one(name, answer % tuple(data.draw(number) for _ in range(answer.count("%s"))))


def store_one(name: str, text: str) -> None:
    target = Target(name="t", url="http://t/metrics", kind=name)
    store = Store.open(":memory:")
    try:
        ingest = Ingest(store)
        ingest.sync_targets([target], T0)
        scraped = ingest.read(target, T0, Fetched(200, text.encode(), 0.01, None))
        # `commit` would write what cannot be stored as a failed scrape.
        ingest._write([scraped], None, ending=False)
    finally:
        store.close()
