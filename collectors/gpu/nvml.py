"""The GPUs of this machine, read from NVIDIA's driver: what `nvml_gateway.py` says, by NVML's own names.

Names and units: nvml.h, and the docstrings of nvidia-ml-py. What only a kernel log or an event queue tells
(the last XID) and what needs a profiler (SM activity) is not there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from collectors.gpu import nvml_words
from collectors.gpu.entities import ABOUT, Device, GpuPlace, short_host
from collectors.gpu.layout import GpuLayout
from collectors.gpu.nvml_gateway import FUNCTION_NOT_FOUND, NO_PERMISSION, NOT_SUPPORTED, PASSING
from collectors.gpu.table import BITS, BYTE, CELSIUS, MEGAHERTZ, MILLIJOULE, MILLIWATT, PERCENT, Named
from collectors.plausible import GPU_BYTES
from collectors.reading import GpuProcess, Reading
from collectors.source import Families
from collectors.support import Alias

COLUMNS: Mapping[str, Sequence[Named]] = {
    "utilization_ratio": (Named("nvmlDeviceGetUtilizationRates.gpu", PERCENT),),
    "memory_controller_ratio": (Named("nvmlDeviceGetUtilizationRates.memory", PERCENT),),
    "memory_used_bytes": (
        Named("nvmlDeviceGetMemoryInfo_v2.used", BYTE),
        Named("nvmlDeviceGetMemoryInfo.used", BYTE),  # with what the driver reserves
    ),
    "memory_free_bytes": (
        Named("nvmlDeviceGetMemoryInfo_v2.free", BYTE),
        Named("nvmlDeviceGetMemoryInfo.free", BYTE),
    ),
    "memory_reserved_bytes": (Named("nvmlDeviceGetMemoryInfo_v2.reserved", BYTE),),
    "memory_total_bytes": (
        Named("nvmlDeviceGetMemoryInfo_v2.total", BYTE),
        Named("nvmlDeviceGetMemoryInfo.total", BYTE),
    ),
    "temperature_celsius": (
        Named("nvmlDeviceGetTemperatureV", CELSIUS),
        Named("nvmlDeviceGetTemperature", CELSIUS),
    ),
    "memory_temperature_celsius": (Named("nvmlDeviceGetFieldValues(MEMORY_TEMP)", CELSIUS),),
    "power_watts": (Named("nvmlDeviceGetPowerUsage", MILLIWATT),),
    "power_limit_watts": (Named("nvmlDeviceGetEnforcedPowerLimit", MILLIWATT),),
    "energy_joules_total": (Named("nvmlDeviceGetTotalEnergyConsumption", MILLIJOULE),),
    "sm_clock_hertz": (Named("nvmlDeviceGetClockInfo(SM)", MEGAHERTZ),),
    "memory_clock_hertz": (Named("nvmlDeviceGetClockInfo(MEM)", MEGAHERTZ),),
    "throttle_reasons": (
        Named("nvmlDeviceGetCurrentClocksEventReasons", BITS),
        Named("nvmlDeviceGetCurrentClocksThrottleReasons", BITS),
    ),
}
_PLACES = {
    named.name: (column, rank, named.unit)
    for column, names in COLUMNS.items()
    for rank, named in enumerate(names)
}

NO_VALUE = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""UINT_MAX and ULONGLONG_MAX: how NVML says "not available" in a number."""

_PROFILED = "only a profiler counts it: dcgm-exporter shows it"
_IMPOSSIBLE = {
    "xid_last": "the driver tells it as an event, to whoever waits for it, not to a poll",
    **dict.fromkeys(
        ("graphics_active_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"), _PROFILED
    ),
    **dict.fromkeys(("pod", "namespace", "container"), "the driver knows processes, not pods"),
}
_SINCE = {
    named.name: "driver 510 and newer; not WSL2" if "_v2" in named.name else "older drivers, and WSL2"
    for column, names in COLUMNS.items()
    if column.startswith("memory_") and column.endswith("_bytes")
    for named in names
}

WITH_RESERVE = "nvmlDeviceGetMemoryInfo.used"

_BEGINNING = re.compile(rb'\s*\{\s*"nvml"\s*:')

Whole = Annotated[int, Field(ge=-(2**63), lt=2**64)]
Pid = Annotated[int, Field(ge=0, lt=2**32)]


class _Process(BaseModel):
    pid: Pid
    kind: str
    bytes: Whole | None = None
    gpu_instance: Whole | None = None
    name: str | None = None


class _Part(BaseModel):
    """What was asked of one GPU or MIG device."""

    uuid: str | None = None
    values: dict[str, Whole | float] = Field(default_factory=dict)
    errors: dict[str, int] = Field(default_factory=dict)
    processes: list[_Process] = Field(default_factory=list)


class _MigDevice(_Part):
    gpu_instance: Whole | None = None


class _Gpu(_Part):
    index: Annotated[int, Field(ge=0, lt=2**15)]
    name: str | None = None
    code: int | None = None
    """Why it cannot be read at all."""
    mig: list[_MigDevice] = Field(default_factory=list)


class _Answer(BaseModel):
    nvml: Literal[1]
    host: str | None = None
    driver: str | None = None
    gpus: list[_Gpu]


def _alias(named: Named) -> Alias:
    scale = named.unit.multiplier / named.unit.divisor
    return Alias(named.name, "" if scale == 1 else f"× {scale:g}", _SINCE.get(named.name, ""))


class NvmlKind:
    """The kind `nvml`: an answer is JSON, `{"nvml": 1, "gpus": [{"index", "uuid", "values": {…}}]}`."""

    name = "nvml"
    role = "gpu"
    default_path = ""
    aliases: Mapping[str, Sequence[Alias]] = {
        column: tuple(_alias(named) for named in names) for column, names in COLUMNS.items()
    }
    impossible: Mapping[str, str] = _IMPOSSIBLE

    def score(self, body: bytes, families: Families) -> int:
        """1 for an answer of the gateway."""
        del families
        return int(_BEGINNING.match(body) is not None)

    def reader(self) -> Callable[[bytes], Reading]:
        """A reader with its own memory of GPUs."""
        return _Reader(self).read


class _Reader:
    def __init__(self, kind: NvmlKind) -> None:
        self._kind = kind
        self._places: tuple[GpuPlace, ...] = ()
        self._layout = _layout(())

    def read(self, body: bytes) -> Reading:
        try:
            answer = _Answer.model_validate_json(body)
        except ValidationError:
            nothing = tuple(COLUMNS)
            return Reading(self._kind.name, self._kind.role, [], [], [], 0, 1, 0, nothing)
        gpus = [gpu for gpu in answer.gpus if gpu.code is None]
        found = [place for gpu in gpus for place in _found(answer, gpu)]
        places = tuple(place for place, _ in found)
        if places != self._places:
            self._layout = _layout(places)
            self._places = places
        layout = self._layout
        rows = layout.rows([value for _, value in found])
        identities = {(gpu.gpu_index, gpu.mig_instance): gpu.gpu_uuid for gpu in rows.gpus}
        return Reading(
            self._kind.name, self._kind.role, rows.gpus, [], [],
            _lines(answer), 0, 0, layout.missing, (*layout.notes, *rows.notes, *_notes(answer)),
            layout.found_names,
            processes=[process for gpu in gpus for process in _processes(gpu, identities)],
        )  # fmt: skip


def _layout(places: tuple[GpuPlace, ...]) -> GpuLayout:
    return GpuLayout(
        places, yields=tuple(COLUMNS), own_pod=None,
        # The driver refuses both while MIG is on; where it gives a number, it is of no instance.
        not_on_instance=frozenset({"utilization_ratio", "memory_controller_ratio"}),
        zero_is_unknown=frozenset({"memory_temperature_celsius"}), per_process=frozenset(),
    )  # fmt: skip


def _found(answer: _Answer, gpu: _Gpu) -> Iterator[tuple[GpuPlace, float]]:
    """Where each value goes, and the value. A MIG device's memory is its GPU instance's (DCGM's GPU_I_ID)."""
    host = short_host(answer.host) if answer.host else None
    parts: list[tuple[str, _Part]] = [("", gpu)]
    parts += [(str(mig.gpu_instance), mig) for mig in gpu.mig if mig.gpu_instance is not None]
    for instance, part in parts:
        device = Device(gpu.uuid, instance, str(gpu.index), host, gpu.name, answer.driver, None, None, None)
        yield GpuPlace(ABOUT, 0, BITS, device, ()), 1.0  # it is there, whatever it tells
        for name, value in part.values.items():
            if (target := _PLACES.get(name)) is not None:
                yield GpuPlace(*target, device, (), name), math.nan if value in NO_VALUE else float(value)


def _processes(gpu: _Gpu, identities: Mapping[tuple[Any, str], str]) -> Iterator[GpuProcess]:
    """Each process once per instance and kind: with MIG, the GPU and its MIG devices may both show it."""
    seen: dict[tuple[str, int, str], _Process] = {}
    for own_instance, part in ((None, gpu), *((mig.gpu_instance, mig) for mig in gpu.mig)):
        for process in part.processes:
            instance = process.gpu_instance if process.gpu_instance is not None else own_instance
            key = ("" if instance is None else str(instance), process.pid, process.kind)
            if key not in seen or seen[key].bytes is None:
                seen[key] = process
    for (instance_name, pid, kind), process in seen.items():
        uuid = identities.get((gpu.index, instance_name)) or gpu.uuid
        if uuid is not None:
            low, high = GPU_BYTES
            used = process.bytes
            if used in NO_VALUE or (used is not None and not low <= used <= high):
                used = None
            yield GpuProcess(uuid, instance_name, pid, process.name, used, kind)


def _lines(answer: _Answer) -> int:
    """How many values there are."""
    return sum(len(part.values) for gpu in answer.gpus for part in (gpu, *gpu.mig))


def _notes(answer: _Answer) -> Iterator[str]:
    for gpu in answer.gpus:
        if gpu.code is not None:
            yield nvml_words.gpu_words(gpu.index, gpu.uuid, gpu.code)
    parts: list[tuple[str, _Part]] = []
    for gpu in answer.gpus:
        parts.append((f"{gpu.index}", gpu))
        parts += [(f"{gpu.index}/{mig.gpu_instance}", mig) for mig in gpu.mig]
    if with_reserve := [name for name, part in parts if WITH_RESERVE in part.values]:
        yield (
            f"memory_used_bytes of GPU {', '.join(with_reserve)} holds what the driver reserves: only"
            " NVML's first memory call works here (a driver before 510, or WSL2)"
        )
    refused = {name for _, part in parts for name, code in part.errors.items() if code == NO_PERMISSION}
    if refused:
        yield f"no permission for {', '.join(sorted(refused))}: what they say is not known"
    without = [name for name, part in parts if part.errors.get("nvmlDeviceGetMemoryInfo") == NOT_SUPPORTED]
    if without:
        yield (
            f"GPU {', '.join(without)} tells no memory of its own (it may share the machine's, as GB10 does):"
            " look at the host's memory"
        )
    passing = {*PASSING, *_SAID_ELSEWHERE}
    odd = {
        f"{name} fails with error {code}: what it says is not known"
        for _, part in parts
        for name, code in part.errors.items()
        if code not in passing
    }
    yield from sorted(odd)


_SAID_ELSEWHERE = (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND)

KIND = NvmlKind()
