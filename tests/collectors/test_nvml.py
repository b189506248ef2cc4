"""The kind `nvml`: an answer of the gateway → rows. Figures by hand, in NVML's units."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.gpu.nvml import COLUMNS, KIND
from collectors.reading import GpuProcess, Reading
from collectors.registry import KINDS, detect
from collectors.support import Alias, aliases, impossible
from collectors.target import Target

MIB = 1024 * 1024


def answer(*gpus: dict[str, Any], **machine: Any) -> bytes:
    """As the gateway prints it."""
    shown = [{"index": index, "uuid": f"GPU-{index}", "name": "L4", **gpu} for index, gpu in enumerate(gpus)]
    return json.dumps(
        {"nvml": 1, "host": "Node-1.example.com", "driver": "580.1", **machine, "gpus": shown}
    ).encode()


def read(*gpus: dict[str, Any]) -> Reading:
    return KIND.reader()(answer(*gpus))


def test_an_answer_is_known_by_itself() -> None:
    assert detect(answer({})) is KIND
    assert KINDS["nvml"] is KIND
    assert KIND.score(b'{"model": "nvml"}', {}) == 0


def test_the_target_needs_no_url() -> None:
    target = Target.model_validate({"kind": "nvml"})
    assert (target.name, target.url) == ("nvml", "nvml://localhost")


def test_units_are_nvml_s() -> None:
    gpu = read(
        {
            "values": {
                "nvmlDeviceGetUtilizationRates.gpu": 50,
                "nvmlDeviceGetPowerUsage": 72500,
                "nvmlDeviceGetTotalEnergyConsumption": 1500,
                "nvmlDeviceGetClockInfo(SM)": 2040,
                "nvmlDeviceGetCurrentClocksEventReasons": 0x44,
            }
        }
    ).gpus[0]
    assert (gpu.gpu_uuid, gpu.gpu_index, gpu.host, gpu.gpu_model) == ("GPU-0", 0, "node-1", "L4")
    assert (gpu.utilization_ratio, gpu.power_watts, gpu.energy_joules_total) == (0.5, 72.5, 1.5)
    assert (gpu.sm_clock_hertz, gpu.throttle_reasons, gpu.xid_last) == (2_040_000_000, 0x44, None)


def test_a_gpu_that_tells_nothing_is_a_row_all_the_same_and_all_is_missing() -> None:
    reading = read({})
    assert [gpu.gpu_uuid for gpu in reading.gpus] == ["GPU-0"]
    assert set(reading.gpus[0][6:]) == {None}
    assert reading.missing == tuple(COLUMNS)


def test_a_gpu_without_a_uuid_is_told_by_host_and_index() -> None:
    reading = read({"uuid": None, "processes": [{"pid": 7, "kind": "compute", "bytes": 5}]})
    assert reading.gpus[0].gpu_uuid == "node-1#gpu0"
    assert reading.processes == [GpuProcess("node-1#gpu0", "", 7, None, 5, "compute")]


def test_memory_by_the_second_call_leaves_the_reserve_out() -> None:
    """gpu.md 2: used ÷ (total - reserved)."""
    call = "nvmlDeviceGetMemoryInfo_v2"
    gpu = read(
        {"values": {f"{call}.total": 1000, f"{call}.reserved": 200, f"{call}.free": 200, f"{call}.used": 600}}
    ).gpus[0]
    assert (gpu.memory_used_ratio, gpu.memory_reserved_bytes) == (0.75, 200)


def test_a_driver_that_reserves_all_is_told_and_has_no_ratio() -> None:
    call = "nvmlDeviceGetMemoryInfo_v2"
    reading = read(
        {"values": {f"{call}.total": 1000, f"{call}.reserved": 1000, f"{call}.free": 0, f"{call}.used": 5}}
    )
    assert reading.gpus[0].memory_used_ratio is None
    assert reading.notes == ("GPU-0: reserved memory is not less than the total",)


@pytest.mark.parametrize("number", [0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF])
def test_what_nvml_says_for_not_available_is_not_known_and_no_fault(number: int) -> None:
    reading = read(
        {
            "values": {name.name: number for names in COLUMNS.values() for name in names[:1]},
            "processes": [{"pid": 1, "kind": "compute", "bytes": number}],
        }
    )
    assert set(reading.gpus[0][6:]) == {None}
    assert reading.processes[0].memory_used_bytes is None
    assert reading.notes == ()


def test_a_process_that_the_gpu_and_its_mig_device_show_is_one() -> None:
    process = {"pid": 9, "kind": "compute", "name": "vllm"}
    reading = read(
        {
            "processes": [{**process, "gpu_instance": 3, "bytes": None}],
            "mig": [{"gpu_instance": 3, "processes": [{**process, "bytes": 8 * MIB}]}],
        }
    )
    assert reading.processes == [GpuProcess("GPU-0", "3", 9, "vllm", 8 * MIB, "compute")]


def test_the_same_note_is_said_once_for_many_gpus() -> None:
    broken = {"errors": {"nvmlDeviceGetPowerUsage": 17}}
    assert read(broken, broken).notes == (
        "nvmlDeviceGetPowerUsage fails with error 17: what it says is not known",
    )


def test_a_gpu_that_cannot_be_read_is_no_row_and_a_note() -> None:
    reading = read({}, {"code": 999}, {"uuid": None, "code": 6})
    assert [gpu.gpu_uuid for gpu in reading.gpus] == ["GPU-0"]
    assert reading.notes[0].startswith("GPU 1 (GPU-1) cannot be read: this container has lost its GPUs")
    assert reading.notes[1] == "GPU 2 is not where it was: GPUs are looked for anew"


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"null", b'{"nvml": 1}', b'{"nvml": 2, "gpus": []}', b'{"nvml": 1, "gpus": [{}]}'],
)
def test_what_is_no_answer_is_one_bad_line(body: bytes) -> None:
    reading = KIND.reader()(body)
    assert (reading.gpus, reading.rejected_lines, reading.says_something) == ([], 1, False)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([named.name for every in COLUMNS.values() for named in every])
numbers = st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False) | st.integers()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"index": st.integers(-1, 40000) | json_values, "values": st.dictionaries(names, numbers)},
            optional={"uuid": st.none() | st.text(max_size=8), "mig": json_values, "processes": json_values},
        ),
        max_size=3,
    )
)
def test_whatever_stands_in_an_answer_is_read_without_an_error_and_within_limits(gpus: list[Any]) -> None:
    reading = KIND.reader()(json.dumps({"nvml": 1, "gpus": gpus}).encode())
    for gpu in reading.gpus:
        assert gpu.utilization_ratio is None or 0 <= gpu.utilization_ratio <= 1
        assert gpu.memory_used_bytes is None or 0 <= gpu.memory_used_bytes <= 2**50
        assert gpu.memory_used_ratio is None or 0 <= gpu.memory_used_ratio <= 1


def test_the_table_of_support_tells_each_call_with_its_unit_and_what_is_never_there() -> None:
    told = aliases(KIND)
    assert told.keys() == COLUMNS.keys()
    assert told["power_watts"] == (Alias("nvmlDeviceGetPowerUsage", "× 0.001", ""),)
    assert [alias.versions for alias in told["memory_used_bytes"]] == [
        "driver 510 and newer; not WSL2",
        "older drivers, and WSL2",
    ]
    assert not told.keys() & impossible(KIND).keys()
    assert "xid_last" in impossible(KIND)
