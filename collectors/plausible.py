"""Which values can be: the least and the largest of each measured column, in the column's own unit.

A value outside is a fault of its source: it becomes None, and a note names the column and the value. The
limits are far from any real reading; they only keep out what no GPU or engine can mean, and what the store's
column types (`sql/migrations/0001_samples.sql`) cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Limits(NamedTuple):
    """Both belong to what can be."""

    low: float
    high: float


RATIO = Limits(0, 1)
PROFILED_RATIO = Limits(0, 1.5)
"""DCGM's profiling counters are scaled to the MIG instance and can pass 1: SM_ACTIVE 1.29 in DCGM #152. Kept
as they are; whoever draws them cuts them off."""
COUNT = Limits(0, 9.2e18)
"""Counters and queue lengths are never negative; the upper end is that of a BIGINT (2^63 - 1)."""
GPU_BYTES = Limits(0, 2**50)
"""1 PiB; the largest GPU today has 288 GB (NVIDIA B300, AMD MI355X)."""
CELSIUS = Limits(-50, 200)
"""GPUs shut down near 100 °C, and silicon is rated from -40 °C."""
WATTS = Limits(0, 10_000)
"""The largest modules today are near 3 kW (GB200: one CPU and two GPUs)."""
JOULES = Limits(0, 1e13)
"""10 kW for 30 years; the counter starts when the driver is loaded."""
HERTZ = Limits(0, 1e11)
"""100 GHz; clocks of GPUs and of their memory are under 20 GHz."""
BITS = Limits(0, 2**47)
"""NVML's clock-event mask uses bits 0 to 8 (gpu.md 3.2); above 2^47 DCGM's "blank" values begin."""
XID = Limits(0, 2**31 - 17)
"""Codes have three digits; the column is an INTEGER, the end is where DCGM's "blank" values begin."""
UNIX_SECONDS = Limits(946_684_800, 4_102_444_800)
"""The years 2000 to 2100: no process on a GPU started before."""
GPU_INDEX_END = 2**15
"""Indexes are below this: the column is a SMALLINT, and no host has as many GPUs."""

GPU: Mapping[str, Limits] = {
    "utilization_ratio": RATIO,
    "graphics_active_ratio": PROFILED_RATIO,
    "sm_active_ratio": PROFILED_RATIO,
    "tensor_active_ratio": PROFILED_RATIO,
    "dram_active_ratio": PROFILED_RATIO,
    "memory_controller_ratio": RATIO,
    "memory_used_bytes": GPU_BYTES,
    "memory_free_bytes": GPU_BYTES,
    "memory_reserved_bytes": GPU_BYTES,
    "memory_total_bytes": GPU_BYTES,
    "memory_used_ratio": RATIO,
    "temperature_celsius": CELSIUS,
    "memory_temperature_celsius": CELSIUS,
    "power_watts": WATTS,
    "power_limit_watts": WATTS,
    "energy_joules_total": JOULES,
    "sm_clock_hertz": HERTZ,
    "memory_clock_hertz": HERTZ,
    "throttle_reasons": BITS,
    "xid_last": XID,
}

ENGINE: Mapping[str, Limits] = {
    "requests_running": COUNT,
    "requests_waiting": COUNT,
    "requests_swapped": COUNT,
    "kv_cache_used_ratio": RATIO,
    "preemptions_total": COUNT,
    "prompt_tokens_total": COUNT,
    "generation_tokens_total": COUNT,
    "finished_stop_total": COUNT,
    "finished_length_total": COUNT,
    "finished_abort_total": COUNT,
    "finished_error_total": COUNT,
    "http_4xx_total": COUNT,
    "http_5xx_total": COUNT,
    "prefix_cache_queries_total": COUNT,
    "prefix_cache_hits_total": COUNT,
    "memory_reservation_ratio": RATIO,
    "process_start_time_seconds": UNIX_SECONDS,
    "process_resident_bytes": COUNT,
    "model_memory_bytes": COUNT,
    "model_gpu_memory_bytes": COUNT,
}


def cannot_be(column: str, value: float, limits: Limits, of: str = "") -> str:
    """The note: "memory_free_bytes: -5242880 of GPU 0 cannot be (0 to 1.1259e+15), it is not known"."""
    whose = f" of {of}" if of else ""
    number = f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:g}"
    return f"{column}: {number}{whose} cannot be ({limits.low:g} to {limits.high:g}), it is not known"


class OddValues:
    """The notes on values that cannot be: one a column, which stays the same while the column stays odd, so
    that a value that moves at each scrape is not news at each scrape."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def notes(self, found: Iterable[tuple[str, str]]) -> Sequence[str]:
        """`found`: (column, note) of this scrape, of each column the first counts."""
        odd: dict[str, str] = {}
        for column, note in found:
            odd.setdefault(column, self._said.get(column, note))
        self._said = odd
        return tuple(odd.values())
