"""nvidia_gpu_exporter (utkuozdemir, port 9835): nvidia-smi's fields, or NVML's, as `nvidia_smi_FIELD_UNIT`.

What a GPU is stands in the labels of `nvidia_smi_gpu_info` alone. The UUID has no `GPU-` in front; here it
has, as dcgm-exporter and NVML print it. A field that the card does not have is left out; GPU utilization is,
in MIG mode. `temperature_gpu_tlimit` (degrees left to the limit) is no temperature and not read.
Also mindprince's nvidia_gpu_prometheus_exporter (port 9445, `nvidia_gpu_*`): NVML v1, where used memory
includes what the driver reserves, so that what is not used is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collectors.exposition import Nowhere
from collectors.gpu.entities import ABOUT, Device, GpuPlace, Unit
from collectors.gpu.printed import is_unavailable, pid_of
from collectors.gpu.table import (
    BITS,
    BYTE,
    CELSIUS,
    FLAG,
    HERTZ,
    JOULE,
    MILLIWATT,
    PERCENT,
    RATIO,
    WATT,
    GpuKind,
    Labels,
    Named,
)
from collectors.gpu.throttle import PREFIXES, REASONS
from collectors.plausible import GPU, GPU_BYTES
from collectors.reading import GpuProcess
from collectors.source import Layout, Rows, plain

SECONDS = Unit(1, 1, BITS.blank)
_FLAGS_RANK = 2

COLUMNS: Mapping[str, Sequence[Named]] = {
    "utilization_ratio": (
        Named("nvidia_smi_utilization_gpu_ratio", RATIO),
        Named("nvidia_gpu_duty_cycle", PERCENT),
    ),
    # Of MIG instances, with the NVML backend, from Hopper on.
    "graphics_active_ratio": (Named("nvidia_smi_mig_graphics_activity_ratio", RATIO),),
    "sm_active_ratio": (Named("nvidia_smi_mig_sm_activity_ratio", RATIO),),
    "tensor_active_ratio": (Named("nvidia_smi_mig_tensor_activity_ratio", RATIO),),
    "memory_controller_ratio": (Named("nvidia_smi_utilization_memory_ratio", RATIO),),
    "memory_used_bytes": (
        Named("nvidia_smi_memory_used_bytes", BYTE),
        Named("nvidia_smi_mig_memory_used_bytes", BYTE),
        Named("nvidia_gpu_memory_used_bytes", BYTE),
    ),
    "memory_free_bytes": (
        Named("nvidia_smi_memory_free_bytes", BYTE),
        Named("nvidia_smi_mig_memory_free_bytes", BYTE),
    ),
    "memory_reserved_bytes": (
        Named("nvidia_smi_memory_reserved_bytes", BYTE),
        Named("nvidia_smi_mig_memory_reserved_bytes", BYTE),
    ),
    "memory_total_bytes": (
        Named("nvidia_smi_memory_total_bytes", BYTE),
        Named("nvidia_smi_mig_memory_total_bytes", BYTE),
        Named("nvidia_gpu_memory_total_bytes", BYTE),
    ),
    "temperature_celsius": (
        Named("nvidia_smi_temperature_gpu", CELSIUS),
        Named("nvidia_gpu_temperature_celsius", CELSIUS),
    ),
    "memory_temperature_celsius": (Named("nvidia_smi_temperature_memory", CELSIUS),),
    "power_watts": (
        Named("nvidia_smi_power_draw_watts", WATT),
        Named("nvidia_smi_power_draw_average_watts", WATT),
        Named("nvidia_smi_power_draw_instant_watts", WATT),
        Named("nvidia_gpu_power_usage_milliwatts", MILLIWATT),
    ),
    "power_limit_watts": (  # what is enforced before what was asked for
        Named("nvidia_smi_enforced_power_limit_watts", WATT),
        Named("nvidia_smi_power_limit_watts", WATT),
    ),
    "energy_joules_total": (Named("nvidia_smi_energy_joules_total", JOULE),),  # NVML backend only
    "sm_clock_hertz": (Named("nvidia_smi_clocks_current_sm_clock_hz", HERTZ),),
    "memory_clock_hertz": (Named("nvidia_smi_clocks_current_memory_clock_hz", HERTZ),),
    "throttle_reasons": (
        *(Named(f"nvidia_smi_{prefix}_active", BITS) for prefix in PREFIXES),
        *(
            Named(f"nvidia_smi_{prefix}_{reason}", FLAG, bit, _FLAGS_RANK + rank)
            for rank, prefix in enumerate(PREFIXES)
            for reason, bit in REASONS.items()
        ),
    ),
    "xid_last": (  # NVML backend only; the newest time tells which code came last
        Named("nvidia_smi_xid_last_timestamp_seconds", SECONDS),
        Named("nvidia_smi_xid_errors_total", SECONDS),
    ),
}

_XIDS = {name.name for name in COLUMNS["xid_last"]}
_PROCESS = "nvidia_smi_compute_app_info"
_PROCESS_MEMORY = "nvidia_smi_compute_app_used_memory_bytes"
_SUCCESS = {
    "nvidia_smi_last_collect_success": "the exporter's last collection failed: what it shows is old",
    "nvidia_smi_compute_apps_last_collect_success": (
        "the exporter's last collection of processes failed: those it shows are old"
    ),
}
"""Series of the exporter as a whole, 1 when all is well → what it means when not."""
_RETURN_CODES = ("nvidia_smi_command_exit_code", "nvidia_smi_nvml_return_code")
_FAILURES = "nvidia_smi_failed_scrapes_total"
_OF_THE_EXPORTER = frozenset({*_SUCCESS, *_RETURN_CODES, _FAILURES})
_NOBODY = Device(None, "", None, None, None, None, None, None, None)

PROCESSES_CAP = 4096
"""Processes of one target; the driver itself lists a few dozen a GPU."""


class _Kind(GpuKind):
    def place(self, name: str, labels: dict[str, str]) -> GpuPlace | Nowhere:
        """Where a series goes: GPU columns, and under columns of its own what the layout puts together."""
        key = plain(name)
        if key in _OF_THE_EXPORTER:
            return GpuPlace(key, 0, BITS, _NOBODY, (), name)
        said = {label: text for label, text in labels.items() if not is_unavailable(text)}
        place = super().place(name, said)
        if not isinstance(place, GpuPlace):
            return place
        lower = {label.lower(): text for label, text in labels.items()}
        if key in _XIDS:
            return place._replace(column=key, copy=(lower.get("xid"),))
        if key in (_PROCESS, _PROCESS_MEMORY):
            return place._replace(column=key, copy=(lower.get("pid"), lower.get("process_name")))
        return place

    def layout(self, places: tuple[GpuPlace, ...]) -> Layout:
        """GPU rows, processes, the last XID, and notes on the exporter's own health."""
        return _Layout(self, places)

    def layout_of_gpus(self, places: tuple[GpuPlace, ...]) -> Layout:
        return super().layout(places)


class _Layout:
    def __init__(self, kind: _Kind, places: tuple[GpuPlace, ...]) -> None:
        self._gpu_cells = [
            number for number, place in enumerate(places) if place.column in GPU or place.column == ABOUT
        ]
        self._gpus = kind.layout_of_gpus(tuple(places[number] for number in self._gpu_cells))
        self._processes: dict[GpuProcess, int | None] = {}
        self._xids: dict[str, dict[int, dict[str, int]]] = {}
        """UUID → XID → name of the series → cell."""
        self._health = [
            (number, place) for number, place in enumerate(places) if place.column in _OF_THE_EXPORTER
        ]
        self._failures: float | None = None
        notes = dict.fromkeys(self._gpus.notes)
        for number, place in enumerate(places):
            if place.column in (_PROCESS, _PROCESS_MEMORY):
                self._add_process(number, place, notes)
            elif place.column in _XIDS:
                self._add_xid(number, place)
        self.notes = tuple(notes)
        self.missing = tuple(name for name in self._gpus.missing if name != "xid_last" or not self._xids)
        names = {
            places[number].name: None
            for by in self._xids.values()
            for of in by.values()
            for number in of.values()
        }
        self.found_names = self._gpus.found_names + ((("xid_last", ", ".join(names)),) if names else ())

    def _add_process(self, number: int, place: GpuPlace, notes: dict[str, None]) -> None:
        pid, name = place.copy
        if (known := pid_of(pid)) is None or place.device.uuid is None:
            return
        process = GpuProcess(place.device.uuid, place.device.instance, known, name, None, "compute")
        if process not in self._processes and len(self._processes) >= PROCESSES_CAP:
            notes[f"processes past the first {PROCESSES_CAP} are left out"] = None
            return
        if place.column == _PROCESS_MEMORY:
            self._processes[process] = number
        else:
            self._processes.setdefault(process, None)

    def _add_xid(self, number: int, place: GpuPlace) -> None:
        (code,) = place.copy
        if code is not None and code.isdecimal() and len(code) <= 9 and place.device.uuid is not None:
            of_gpu = self._xids.setdefault(place.device.uuid, {})
            of_gpu.setdefault(int(code), {})[place.column] = number

    def rows(self, values: list[float]) -> Rows:
        """The rows of one scrape."""
        rows = self._gpus.rows([values[number] for number in self._gpu_cells])
        gpus = rows.gpus
        if self._xids:
            last = {uuid: _last_xid(codes, values) for uuid, codes in self._xids.items()}
            gpus = [
                gpu._replace(xid_last=last.get(gpu.gpu_uuid)) if not gpu.mig_instance else gpu for gpu in gpus
            ]
        processes = [
            process._replace(memory_used_bytes=None if cell is None else _bytes(values[cell]))
            for process, cell in self._processes.items()
        ]
        notes = (*rows.notes, *self._unwell(values))
        return rows._replace(gpus=gpus, processes=processes, notes=notes)

    def _unwell(self, values: list[float]) -> Iterator[str]:
        for number, place in self._health:
            value = values[number]
            if place.column in _SUCCESS and value == 0:
                yield f"{_SUCCESS[place.column]} ({place.name} is 0)"
            elif place.column in _RETURN_CODES and value != 0:
                yield f"the exporter could not read the GPUs: {place.name} is {value:g}"
            elif place.column == _FAILURES:
                if self._failures is not None and value > self._failures:
                    yield f"collections of the exporter failed since the last scrape ({place.name} grows)"
                self._failures = value


def _last_xid(codes: Mapping[int, Mapping[str, int]], values: list[float]) -> int | None:
    """The code with the newest time; without times only a single code can be the last."""
    time_name, count_name = (named.name for named in COLUMNS["xid_last"])
    times = {
        code: values[cells[time_name]]
        for code, cells in codes.items()
        if time_name in cells and values[cells[time_name]] > 0
    }
    if times:
        return max(times, key=lambda code: times[code])
    seen = [code for code, cells in codes.items() if count_name in cells and values[cells[count_name]] > 0]
    return seen[0] if len(seen) == 1 else None


def _bytes(value: float) -> int | None:
    return int(value) if GPU_BYTES.low <= value <= GPU_BYTES.high else None


KIND = _Kind(
    name="nvidia_gpu_exporter",
    marks=(
        "nvidia_smi_gpu_info", "nvidia_smi_*_bytes", "nvidia_smi_*_ratio", "nvidia_smi_*_watts",
        "nvidia_smi_*_hz", "nvidia_smi_clocks_*", "nvidia_smi_failed_scrapes_total", *_RETURN_CODES,
        "nvidia_gpu_memory_used_bytes", "nvidia_gpu_memory_total_bytes", "nvidia_gpu_duty_cycle",
        "nvidia_gpu_power_usage_milliwatts",
    ),
    columns=COLUMNS,
    labels=Labels(
        uuid=("uuid",),
        index=("index", "minor_number"),
        device=(),
        instance=("gpu_instance_id",),
        host=("hostname", "host", "node"),  # none of its own: whoever scrapes may add one
        model=("name",),
        driver=("driver_version",),
        pod=("exported_pod", "pod"),
        namespace=("exported_namespace", "namespace"),
        container=("exported_container", "container"),
    ),
    own_pod="gpu-exporter",
    about=frozenset(
        {"nvidia_smi_gpu_info", "nvidia_smi_mig_info", _PROCESS, _PROCESS_MEMORY, *_OF_THE_EXPORTER}
    ),
    uuid_prefix="GPU-",
    not_on_instance=frozenset({"utilization_ratio", "memory_controller_ratio"}),
    zero_is_unknown=frozenset({"memory_temperature_celsius"}),
    nothing_reserved=("nvidia_gpu_memory_used_bytes",),
    impossible={"dram_active_ratio": "neither nvidia-smi nor NVML's activity of MIG instances tells it"},
)  # fmt: skip
