"""The fields a dcgm-exporter prints: names, types, units, and where the model has the value.

4.8: the default counters, and three that operators often add (SM_ACTIVE, the power limit, the throttle
reasons). 4.9: the renamed names with their new units (hertz, joules, ratios, bytes); no capture of a real 4.9
page is public, so its help texts are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from app.demo.gpu import Gpu, MemoryHolder, MigInstance

Value = Callable[[Gpu, MemoryHolder], "str | None"]

_MIB = 1024 * 1024


class Field(NamedTuple):
    """One family. `value` gives the text of a sample, or None where the card does not have it."""

    name: str
    kind: str
    help: str
    value: Value
    labels: Callable[[Gpu], str] | None = None
    """Labels of this field alone, each with a comma before it."""


def _number(read: Callable[[Gpu], int]) -> Value:
    return lambda gpu, _holder: str(read(gpu))


def _real(read: Callable[[Gpu], float]) -> Value:
    return lambda gpu, _holder: f"{read(gpu):f}"


def _held(read: Callable[[MemoryHolder], int]) -> Value:
    return lambda _gpu, holder: str(read(holder))


def _ratio(read: Callable[[MemoryHolder], float]) -> Value:
    return lambda _gpu, holder: f"{read(holder):f}"


def _zero(_gpu: Gpu, _holder: MemoryHolder) -> str:
    return "0"


def _whole(value: Value) -> Value:
    """Utilisation counters do not exist for MIG instances."""
    return lambda gpu, holder: None if isinstance(holder, MigInstance) else value(gpu, holder)


def _memory_temperature(gpu: Gpu, _holder: MemoryHolder) -> str:
    return str(round(gpu.temperature + 7)) if gpu.card.has_memory_sensor else "0"


def _xid(gpu: Gpu, _holder: MemoryHolder) -> str | None:
    return str(gpu.xid) if gpu.xid else None


def _xid_labels(gpu: Gpu) -> str:
    return f',err_code="{gpu.xid}",err_msg="Contained memory error"'


def _nvlink(gpu: Gpu, factor: float) -> str | None:
    return str(int(gpu.nvlink_mb_per_second * factor)) if gpu.card.has_nvlink else None


_ROWS = "Number of remapped rows for {} errors"

FIELDS_4_8: tuple[Field, ...] = (
    Field("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", _number(lambda g: g.sm_mhz)),
    Field(
        "DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", _number(lambda g: g.memory_mhz),
    ),
    Field("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", _memory_temperature),
    Field(
        "DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", _number(lambda g: round(g.temperature)),
    ),
    Field("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", _real(lambda g: round(g.power_watts, 3))),
    Field(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).",
        _number(lambda g: int(g.energy_joules * 1000)),
    ),
    Field("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", _zero),
    Field(
        "DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).",
        _whole(_number(lambda g: g.utilization_percent))
    ),
    Field(
        "DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).",
        _whole(_number(lambda g: g.memory_utilization_percent)),
    ),
    Field("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", _whole(_zero)),
    Field("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", _whole(_zero)),
    Field(
        "DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", _xid, _xid_labels
    ),
    Field("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", _held(lambda h: h.free_mib)),
    Field("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", _held(lambda h: h.used_mib)),
    Field(
        "DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).",
        _held(lambda h: h.reserved_mib),
    ),
    Field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", _ROWS.format("uncorrectable"), _zero),
    Field("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", _ROWS.format("correctable"), _zero),
    Field("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", _zero),
    Field(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter",
        "Total number of NVLink bandwidth counters for all lanes.",
        lambda gpu, _holder: _nvlink(gpu, 1.0),
    ),
    Field("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", _zero),
    Field(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.",
        _ratio(lambda h: h.graphics_active),
    ),
    Field(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active.",
        _ratio(lambda h: h.tensor_active),
    ),
    Field(
        "DCGM_FI_PROF_DRAM_ACTIVE", "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        _ratio(lambda h: h.dram_active),
    ),
    Field(
        "DCGM_FI_PROF_PCIE_TX_BYTES", "gauge",
        "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads -"
        " in bytes per second.", _number(lambda g: g.pcie_tx),
    ),
    Field(
        "DCGM_FI_PROF_PCIE_RX_BYTES", "gauge",
        "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in"
        " bytes per second.", _number(lambda g: g.pcie_rx),
    ),
    Field(
        "DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of cycles an SM has at least 1 warp assigned.",
        _ratio(lambda h: h.sm_active),
    ),
    Field(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT", "gauge", "Power management limit (in W).",
        _real(lambda g: g.card.limit_watts),
    ),
    Field(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "Current clock throttle reasons (bitmask).",
        _number(lambda g: g.reasons),
    ),
)  # fmt: skip

FIELDS_4_9: tuple[Field, ...] = (
    Field(
        "DCGM_FI_DEV_SM_CLOCK_HERTZ", "gauge", "SM clock, in hertz.", _number(lambda g: g.sm_mhz * 1_000_000),
    ),
    Field(
        "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "gauge", "Memory clock, in hertz.",
        _number(lambda g: g.memory_mhz * 1_000_000),
    ),
    Field("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "gauge", "Memory temperature, in Celsius.", _memory_temperature),
    Field(
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "gauge", "GPU temperature, in Celsius.",
        _number(lambda g: round(g.temperature)),
    ),
    Field(
        "DCGM_FI_DEV_BOARD_POWER_WATTS", "gauge", "Power draw, in watts.",
        _real(lambda g: round(g.power_watts, 3)),
    ),
    Field(
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "counter", "Energy since the driver was loaded, in joules.",
        _real(lambda g: round(g.energy_joules, 3)),
    ),
    Field("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", "counter", "PCIe retries.", _zero),
    Field(
        "DCGM_FI_DEV_GPU_UTIL_RATIO", "gauge", "GPU utilization, 0 to 1.",
        _whole(_real(lambda g: g.utilization_percent / 100)),
    ),
    Field(
        "DCGM_FI_DEV_MEMORY_UTIL_RATIO", "gauge", "Memory bandwidth utilization, 0 to 1.",
        _whole(_real(lambda g: g.memory_utilization_percent / 100)),
    ),
    Field(
        "DCGM_FI_DEV_ENC_UTIL_RATIO", "gauge", "Encoder utilization, 0 to 1.", _whole(_real(lambda _g: 0.0)),
    ),
    Field(
        "DCGM_FI_DEV_DEC_UTIL_RATIO", "gauge", "Decoder utilization, 0 to 1.", _whole(_real(lambda _g: 0.0)),
    ),
    Field("DCGM_FI_DEV_XID_ERROR", "gauge", "Last XID error.", _xid, _xid_labels),
    Field(
        "DCGM_FI_DEV_FB_CAPACITY_BYTES", "gauge", "Framebuffer size, in bytes.",
        _held(lambda h: h.total_mib * _MIB),
    ),
    Field(
        "DCGM_FI_DEV_FB_FREE_BYTES", "gauge", "Framebuffer memory free, in bytes.",
        _held(lambda h: h.free_mib * _MIB),
    ),
    Field(
        "DCGM_FI_DEV_FB_USED_BYTES", "gauge", "Framebuffer memory used, in bytes.",
        _held(lambda h: h.used_mib * _MIB),
    ),
    Field(
        "DCGM_FI_DEV_FB_RESERVED_BYTES", "gauge", "Framebuffer memory reserved, in bytes.",
        _held(lambda h: h.reserved_mib * _MIB),
    ),
    Field(
        "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "counter", "Rows remapped, uncorrectable errors.", _zero,
    ),
    Field("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", "counter", "Rows remapped, correctable errors.", _zero),
    Field("DCGM_FI_DEV_ROW_REMAP_FAILED", "gauge", "Whether remapping of rows has failed.", _zero),
    Field(
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "gauge", "NVLink throughput, in bytes per second.",
        lambda gpu, _holder: _nvlink(gpu, 1e6),
    ),
    Field("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", _zero),
    Field(
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "gauge", "Graphics engine activity, 0 to 1.",
        _ratio(lambda h: h.graphics_active),
    ),
    Field("DCGM_FI_PROF_SM_UTIL_RATIO", "gauge", "SM activity, 0 to 1.", _ratio(lambda h: h.sm_active)),
    Field(
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO", "gauge", "Tensor pipe activity, 0 to 1.",
        _ratio(lambda h: h.tensor_active),
    ),
    Field(
        "DCGM_FI_PROF_DRAM_UTIL_RATIO", "gauge", "Device memory activity, 0 to 1.",
        _ratio(lambda h: h.dram_active),
    ),
    Field("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "PCIe bytes sent per second.", _number(lambda g: g.pcie_tx)),
    Field(
        "DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "PCIe bytes received per second.",
        _number(lambda g: g.pcie_rx),
    ),
)  # fmt: skip
