"""One GPU in one state, as each source prints it: they must tell the same GPU and the same figures.

The texts are made from the state by each source's own rules (dcgm-exporter and nvidia-smi cut bytes to whole
MiB; nvidia_gpu_exporter has nvidia-smi's MiB as bytes and leaves `GPU-` out; DCGM 4.7 and NVML tell bytes).
"""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.reading import GpuSample
from collectors.registry import detect
from collectors.source import TargetReader

MIB = 1048576
BARE = "0a1b2c3d-1111-2222-3333-444455556666"
TOTAL = 85_520_809_984
"""An H100's."""
PAGES = st.integers(0, (TOTAL - 2**30) // 4096 - 256).map(lambda count: count * 4096)
"""The driver gives memory away in pages."""


class State(NamedTuple):
    used: int
    reserved: int
    util: int
    """Percent."""
    milliwatts: int
    sm_megahertz: int

    @property
    def free(self) -> int:
        return TOTAL - self.reserved - self.used


def dcgm(state: State) -> str:
    labels = f'gpu="2",UUID="GPU-{BARE}",device="nvidia2",modelName="NVIDIA H100",Hostname="n1"'
    lines = {
        "FB_USED": state.used // MIB, "FB_FREE": state.free // MIB, "FB_RESERVED": state.reserved // MIB,
        "GPU_UTIL": state.util, "POWER_USAGE": f"{state.milliwatts / 1000:f}", "SM_CLOCK": state.sm_megahertz,
    }  # fmt: skip
    return "".join(f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n" for name, value in lines.items())


def dcgm_4_9(state: State) -> str:
    labels = f'gpu="2",UUID="GPU-{BARE}",device="nvidia2",modelName="NVIDIA H100",hostname="n1"'
    lines = {
        "FB_USED_BYTES": state.used, "FB_FREE_BYTES": state.free, "FB_RESERVED_BYTES": state.reserved,
        "FB_CAPACITY_BYTES": TOTAL, "GPU_UTIL_RATIO": f"{state.util / 100:f}",
        "BOARD_POWER_WATTS": f"{state.milliwatts / 1000:f}", "SM_CLOCK_HERTZ": state.sm_megahertz * 10**6,
    }  # fmt: skip
    return "".join(f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n" for name, value in lines.items())


def exporter(state: State) -> str:
    who = f'uuid="{BARE}"'
    lines = {
        "memory_used_bytes": state.used // MIB * MIB, "memory_free_bytes": state.free // MIB * MIB,
        "memory_reserved_bytes": state.reserved // MIB * MIB, "memory_total_bytes": TOTAL // MIB * MIB,
        "utilization_gpu_ratio": state.util / 100, "power_draw_watts": round(state.milliwatts / 1000, 2),
        "clocks_current_sm_clock_hz": f"{state.sm_megahertz * 10**6:e}",
    }  # fmt: skip
    info = f'nvidia_smi_gpu_info{{index="2",name="NVIDIA H100",{who}}} 1\n'
    return info + "".join(f"nvidia_smi_{name}{{{who}}} {value}\n" for name, value in lines.items())


def csv(state: State) -> str:
    return (
        "index, uuid, name, memory.used [MiB], memory.free [MiB], memory.reserved [MiB], memory.total [MiB], "
        "utilization.gpu [%], power.draw [W], clocks.current.sm [MHz]\n"
        f"2, GPU-{BARE}, NVIDIA H100, {state.used // MIB} MiB, {state.free // MIB} MiB, "
        f"{state.reserved // MIB} MiB, {TOTAL // MIB} MiB, {state.util} %, {state.milliwatts / 1000:.2f} W, "
        f"{state.sm_megahertz} MHz\n"
    )


def csv_nounits(state: State) -> str:
    header, row = csv(state).splitlines()
    for unit in (" MiB", " %", " W", " MHz"):
        row = row.replace(unit + ",", ",").removesuffix(unit)
    return f"{header}\n{row}\n"


def xml(state: State) -> str:
    return (
        "<nvidia_smi_log><driver_version>550.90.07</driver_version><attached_gpus>8</attached_gpus>"
        f'<gpu id="00000000:0A:00.0"><product_name>NVIDIA H100</product_name><uuid>GPU-{BARE}</uuid>'
        f"<fb_memory_usage><total>{TOTAL // MIB} MiB</total><reserved>{state.reserved // MIB} MiB</reserved>"
        f"<used>{state.used // MIB} MiB</used><free>{state.free // MIB} MiB</free></fb_memory_usage>"
        f"<utilization><gpu_util>{state.util} %</gpu_util></utilization><gpu_power_readings>"
        f"<power_draw>{state.milliwatts / 1000:.2f} W</power_draw></gpu_power_readings>"
        f"<clocks><sm_clock>{state.sm_megahertz} MHz</sm_clock></clocks></gpu></nvidia_smi_log>"
    )


def nvml(state: State) -> str:
    memory = "nvmlDeviceGetMemoryInfo_v2"
    values = {
        f"{memory}.used": state.used, f"{memory}.free": state.free, f"{memory}.reserved": state.reserved,
        f"{memory}.total": TOTAL, "nvmlDeviceGetUtilizationRates.gpu": state.util,
        "nvmlDeviceGetPowerUsage": state.milliwatts, "nvmlDeviceGetClockInfo(SM)": state.sm_megahertz,
    }  # fmt: skip
    gpu = {"index": 2, "uuid": f"GPU-{BARE}", "name": "NVIDIA H100", "values": values}
    return json.dumps({"nvml": 1, "host": "n1", "gpus": [gpu]})


SOURCES = (dcgm, dcgm_4_9, exporter, csv, csv_nounits, xml, nvml)


def gpu(text: str) -> GpuSample:
    body = text.encode()
    (found,) = TargetReader(detect(body)).read(body).gpus
    return found


def agrees(found: GpuSample, state: State) -> None:
    assert found.gpu_uuid == f"GPU-{BARE}"
    assert found.gpu_model == "NVIDIA H100"
    assert found.memory_used_bytes is not None
    assert found.memory_free_bytes is not None
    assert found.memory_used_ratio is not None
    assert found.memory_total_bytes is not None
    assert 0 <= state.used - found.memory_used_bytes < MIB
    assert 0 <= state.free - found.memory_free_bytes < MIB
    assert 0 <= TOTAL - found.memory_total_bytes < 3 * MIB
    usable = TOTAL - state.reserved
    assert abs(found.memory_used_ratio - state.used / usable) < MIB / (usable - 2 * MIB)
    assert found.utilization_ratio == pytest.approx(state.util / 100)
    assert found.power_watts == pytest.approx(state.milliwatts / 1000, abs=0.00501)
    assert found.sm_clock_hertz == state.sm_megahertz * 10**6


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "state",
    [
        State(MIB, 502_267_904, 0, 69_999, 345),
        State(TOTAL - 502_267_904, 502_267_904, 100, 700_000, 1980),
        State(76_000 * MIB + 4096, 502_267_904 - 4096, 1, 655_125, 1979),
    ],
    ids=["nearly empty", "full", "not whole MiB"],
)
def test_every_source_tells_the_same_gpu_and_the_same_figures(source: object, state: State) -> None:
    assert callable(source)
    agrees(gpu(source(state)), state)


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        State, PAGES.map(MIB.__add__), PAGES.map(lambda size: size % 2**30), st.integers(2, 100),
        st.integers(0, 1_000_000), st.integers(100, 3000),
    )
)  # fmt: skip
def test_in_any_state(state: State) -> None:
    for source in SOURCES:
        agrees(gpu(source(state)), state)
