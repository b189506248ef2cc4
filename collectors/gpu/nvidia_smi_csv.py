"""`nvidia-smi --query-gpu=… --format=csv`: any set of columns, with or without units, one or many tables.

A table begins with its header line (so not with `noheader`) and ends at an empty line or one that begins
with `#`. A table of `--query-compute-apps` gives processes; other tables are passed over. Units stand in the
header or in the cell; where in neither, they are those that nvidia-smi always uses for the field. Of a GPU
that stands several times (`--loop`, several captures in one file) the last row counts. What nvidia-smi says
beside a table (a GPU that is lost) is passed on. Its other outputs are known, so that a file of one of them
gets the cure and not a riddle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from collectors.gpu.printed import (
    NOT_PRINTED,
    Columns,
    Notes,
    Who,
    gpu_sample,
    index_of,
    is_fault,
    known_value,
    mask_of,
    pid_of,
    reading,
    said,
    text_of,
)
from collectors.gpu.throttle import PREFIXES, REASONS
from collectors.reading import GpuProcess, GpuSample, Reading
from collectors.source import Families
from collectors.support import Alias
from collectors.urls import DEFAULT_PATH

COLUMNS: Columns = {
    "utilization_ratio": ("%", ("utilization.gpu",)),
    "memory_controller_ratio": ("%", ("utilization.memory",)),
    "memory_used_bytes": ("MiB", ("memory.used",)),
    "memory_free_bytes": ("MiB", ("memory.free",)),
    "memory_reserved_bytes": ("MiB", ("memory.reserved",)),
    "memory_total_bytes": ("MiB", ("memory.total",)),
    "temperature_celsius": ("C", ("temperature.gpu",)),  # not .tlimit: degrees left to the limit
    "memory_temperature_celsius": ("C", ("temperature.memory",)),
    "power_watts": ("W", ("power.draw", "power.draw.average", "power.draw.instant")),
    "power_limit_watts": ("W", ("enforced.power.limit", "power.limit")),
    "sm_clock_hertz": ("MHz", ("clocks.current.sm", "clocks.sm")),
    "memory_clock_hertz": ("MHz", ("clocks.current.memory", "clocks.mem")),
    "throttle_reasons": ("", tuple(f"{prefix}.active" for prefix in PREFIXES)),
}
"""The names are query fields."""
_FLAGS = {f"{prefix}.{reason}": reason for prefix in PREFIXES for reason in REASONS}
_MEASURED = {field for _, fields in COLUMNS.values() for field in fields} | _FLAGS.keys()
_PROCESS_MEMORY = ("used_gpu_memory", "used_memory")
_IDENTITY = {"uuid", "gpu_uuid", "pid", "name", "gpu_name", "index", "driver_version", "timestamp"}
_KNOWN = _MEASURED | _IDENTITY

_CELL = re.compile(r"([A-Za-z][A-Za-z0-9_.]{0,100})\s*(?:\[([^\[\]]{0,20})\])?")
_SCANNED_BYTES = 2**18
"""How far the first header is looked for when it is not known what an answer is."""
_FAILURES = ("NVIDIA-SMI has failed", "Failed to initialize NVML", "No devices were found")
"""What nvidia-smi prints instead of a table."""
_TELLS = re.compile(r"unable to|is lost|warning|error|fail|corrupt", re.IGNORECASE)
"""A line outside of any table that has one of these is of trouble."""
_OTHER_OUTPUTS = (
    (re.compile(r"^# ?gpu[ ,]", re.MULTILINE), "the output of nvidia-smi dmon or pmon"),
    (re.compile(r"^\|? *NVIDIA-SMI \d", re.MULTILINE), "the output of nvidia-smi without options"),
    (re.compile(r"^=+NVSMI LOG=+", re.MULTILINE), "the output of nvidia-smi -q"),
    (re.compile(r"^GPU \d+: .*\(UUID: GPU-", re.MULTILINE), "the output of nvidia-smi -L"),
    (re.compile(r"^(?:[^{<\n]*, *)?GPU-[0-9a-f-]{36} *,", re.MULTILINE), "a table without its header"),
)
_CURE = "run nvidia-smi --query-gpu=… with --format=csv and without noheader, or nvidia-smi -q -x"
ROWS_CAP = 4096
"""GPUs, and processes, of one file."""


class _Header(NamedTuple):
    names: tuple[str, ...]
    """Lower case, without the unit."""
    units: tuple[str, ...]
    spelled: tuple[str, ...]

    @property
    def of_gpus(self) -> bool:
        return "pid" not in self.names and (
            not _MEASURED.isdisjoint(self.names) or {"uuid", "name"} <= set(self.names)
        )

    @property
    def of_processes(self) -> bool:
        return "pid" in self.names and not set(_PROCESS_MEMORY).isdisjoint(self.names)


class NvidiaSmiCsv:
    """The kind."""

    name = "nvidia_smi_csv"
    role = "gpu"
    default_path = DEFAULT_PATH
    columns: Mapping[str, Sequence[str]] = {column: fields for column, (_, fields) in COLUMNS.items()}
    aliases: Mapping[str, Sequence[Alias]] = {
        column: tuple(Alias(field, unit, "") for field in fields)
        for column, (unit, fields) in COLUMNS.items()
    }
    impossible: Mapping[str, str] = {
        **NOT_PRINTED,
        "energy_joules_total": "no query field tells it",
        "xid_last": "only NVML's events and the kernel log tell it",
    }
    yields = (*COLUMNS, "memory_used_ratio")

    def score(self, body: bytes, families: Families) -> int:
        """Many when a header line of query-gpu is there, 1 when it is another output of nvidia-smi."""
        text = text_of(body[:_SCANNED_BYTES])
        for line in text.splitlines():
            header = _header(line)
            if header is not None and (header.of_gpus or header.of_processes):
                return 1000
        if families:
            return 0
        return 1 if text.lstrip().startswith(_FAILURES) or _other_output(text) is not None else 0

    def reader(self) -> Callable[[bytes], Reading]:
        """Reads a file; nothing is remembered from one to the next."""
        return lambda body: _File().read(text_of(body))


def _other_output(text: str) -> str | None:
    """Which other output of nvidia-smi a text is."""
    return next((words for mark, words in _OTHER_OUTPUTS if mark.search(text)), None)


def _header(line: str) -> _Header | None:
    first, comma, _ = line.partition(",")
    if not _CELL.fullmatch(first.strip().strip('"')):
        return None
    found = [_CELL.fullmatch(cell.strip().strip('"')) for cell in line.split(",")]
    cells = [cell for cell in found if cell is not None]
    if len(cells) < len(found) or (not comma and "." not in first):
        return None
    names = tuple(cell[1].lower() for cell in cells)
    if _KNOWN.isdisjoint(names):
        return None
    return _Header(names, tuple(cell[2] or "" for cell in cells), tuple(cell[0] for cell in cells))


class _File:
    def __init__(self) -> None:
        self._last: dict[str, tuple[Who, _Header, list[str]]] = {}
        """The last row of each GPU, by UUID."""
        self._processes: dict[tuple[str, int], GpuProcess] = {}
        self._of_bus: dict[str, str] = {}
        """PCI address → the GPU's name in this file."""
        self._found: dict[str, str] = {}
        self._notes = Notes()
        self._lines = 0
        self._rejected = 0
        self._repeated = False

    def read(self, text: str) -> Reading:
        header: _Header | None = None
        tables = outside = row_number = 0
        told: list[str] = []
        for line in text.splitlines():
            if not line.strip() or line.lstrip()[0] == "#":
                header = None
            elif (found := _header(line)) is not None:
                header, row_number = found, 0
                tables += found.of_gpus or found.of_processes
                if found.of_processes:
                    self._processes.clear()  # of an earlier moment
            elif header is None:
                outside += 1
                if line.lstrip().startswith(_FAILURES):
                    self._reject(line)
                elif _TELLS.search(line):
                    told.append(line)
            elif header.of_gpus or header.of_processes:
                self._lines += 1
                self._row(header, line, row_number)
                row_number += 1
        if not tables and (output := _other_output(text[:_SCANNED_BYTES])) is not None:
            self._notes.add(f"this is {output}, which is not read: {_CURE}")
        elif not tables:
            self._notes.add(f"there is no header line of a table: {_CURE}")
        elif outside:
            for line in told:
                self._notes.add(f"nvidia-smi says: {line.strip()[:200]}")
            self._notes.add(f"{outside} lines stand outside of any table and are passed over")
        if self._repeated:
            self._notes.add("GPUs stand several times: of each the last row counts")
        gpus = [self._sample(*last) for last in self._last.values()]
        processes = [
            process._replace(gpu_uuid=self._of_bus.get(process.gpu_uuid[1:].lower(), process.gpu_uuid))
            for process in self._processes.values()
        ]
        return reading(
            NvidiaSmiCsv.name, gpus, processes, lines=self._lines,
            rejected=self._rejected, yields=NvidiaSmiCsv.yields, found=self._found, notes=self._notes,
        )  # fmt: skip

    def _reject(self, line: str) -> None:
        self._rejected += 1
        self._notes.add(f"nvidia-smi says: {line.strip()[:200]}")

    def _row(self, header: _Header, line: str, number: int) -> None:
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        if header.of_processes and len(cells) > len(header.names) and "process_name" in header.names:
            at = header.names.index("process_name")
            rest = len(header.names) - at - 1
            end = len(cells) - rest
            cells[at:end] = [", ".join(cells[at:end])]  # a path may hold commas
        if len(cells) != len(header.names):
            # Most often words: "Unable to determine the device handle for GPU …: GPU is lost".
            self._reject(line)
            return
        row = dict(zip(header.names, cells, strict=True))
        if header.of_processes:
            self._process(row, dict(zip(header.names, header.units, strict=True)))
            return
        who = self._who(row, number)
        self._repeated |= who.uuid in self._last
        if who.uuid in self._last or len(self._last) < ROWS_CAP:
            self._last[who.uuid] = who, header, cells
        else:
            self._notes.add(f"GPUs past the first {ROWS_CAP} are left out")

    def _sample(self, who: Who, header: _Header, cells: list[str]) -> GpuSample:
        row = dict(zip(header.names, cells, strict=True))
        values: dict[str, float | None] = {}
        units = dict(zip(header.names, header.units, strict=True))
        spelled = dict(zip(header.names, header.spelled, strict=True))
        for column, (unit, fields) in COLUMNS.items():
            for field in fields:
                if field in row and values.get(column) is None:
                    values[column] = known_value(
                        column, row[field], units[field] or unit, f"{field} of {who.uuid}", self._notes
                    )
                    self._found.setdefault(column, spelled[field])
        if values.get("throttle_reasons") is None and (flags := [field for field in _FLAGS if field in row]):
            values["throttle_reasons"] = mask_of((_FLAGS[field], row[field]) for field in flags)
            self._found.setdefault("throttle_reasons", f"{flags[0]} …")
        self._ill(row, who)
        return gpu_sample(who, values, self._notes)

    def _who(self, row: Mapping[str, str], number: int) -> Who:
        uuid, index = said(row.get("uuid") or row.get("gpu_uuid")), index_of(row.get("index"))
        bus = said(row.get("pci.bus_id") or row.get("gpu_bus_id"))
        if uuid is None and index is not None:
            uuid = f"#gpu{index}"
        elif uuid is None and bus is not None:
            uuid = f"#{bus}"
        elif uuid is None:
            uuid = f"#gpu{number}"
            self._notes.add("no column says which GPU a row is (add uuid): they are numbered as they stand")
        if bus is not None:
            self._of_bus[bus.lower()] = uuid
        return Who(
            uuid, "", index, said(row.get("hostname")), said(row.get("name") or row.get("gpu_name")),
            said(row.get("driver_version")),
        )  # fmt: skip

    def _ill(self, row: Mapping[str, str], who: Who) -> None:
        for said_instead in dict.fromkeys(text for text in row.values() if is_fault(text)):
            self._notes.add(f"{who.uuid}: nvidia-smi shows {said_instead} in place of a value")

    def _process(self, row: Mapping[str, str], units: Mapping[str, str]) -> None:
        uuid, pid = said(row.get("gpu_uuid")), pid_of(row.get("pid"))
        if uuid is None and (bus := said(row.get("gpu_bus_id"))) is not None:
            uuid = f"#{bus}"
        if uuid is None or pid is None:
            self._rejected += 1
            return
        used = None
        for field in _PROCESS_MEMORY:
            if field in row and used is None:
                used = known_value(
                    "memory_used_bytes", row[field], units[field] or "MiB", f"{field} of {uuid}", self._notes
                )
        if (uuid, pid) in self._processes or len(self._processes) < ROWS_CAP:
            self._processes[uuid, pid] = GpuProcess(
                uuid, "", pid, said(row.get("process_name")), None if used is None else int(used), "compute"
            )


KIND = NvidiaSmiCsv()
