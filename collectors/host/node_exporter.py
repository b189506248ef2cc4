"""Prometheus' node_exporter (port 9100): how busy a host's CPUs are and how much memory is left.

Names since 0.16 (2018) and before it (`node_cpu`, `node_memory_MemTotal` without a unit). A target that shows
engine or GPU metrics as well is of that kind: this one has the lowest score there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collectors.exposition import Nowhere
from collectors.plausible import COUNT, UNIX_SECONDS, Limits, OddValues, cannot_be
from collectors.reading import HostSample
from collectors.source import ExpositionKind, Families, Layout, Rows, plain
from collectors.support import Alias

COLUMNS: Mapping[str, Sequence[str]] = {
    "cpu_busy_seconds_total": ("node_cpu_seconds_total", "node_cpu"),
    "cpu_seconds_total": ("node_cpu_seconds_total", "node_cpu"),
    "load1": ("node_load1",),
    "memory_total_bytes": ("node_memory_MemTotal_bytes", "node_memory_MemTotal"),
    "memory_available_bytes": ("node_memory_MemAvailable_bytes", "node_memory_MemAvailable"),
    "swap_total_bytes": ("node_memory_SwapTotal_bytes", "node_memory_SwapTotal"),
    "swap_free_bytes": ("node_memory_SwapFree_bytes", "node_memory_SwapFree"),
    "boot_time_seconds": ("node_boot_time_seconds", "node_boot_time"),
}
"""Canonical column → names, first present wins. CPU time is summed over CPUs and modes."""

LIMITS: Mapping[str, Limits] = {
    "load1": Limits(0, 1e6),
    "memory_total_bytes": Limits(0, 2**56),
    "memory_available_bytes": Limits(0, 2**56),
    "swap_total_bytes": Limits(0, 2**56),
    "swap_free_bytes": Limits(0, 2**56),
    "boot_time_seconds": UNIX_SECONDS,
}
"""2^56 bytes is 64 PiB, the most that x86-64 and arm64 can address; Linux counts loads in tasks, of which
there are at most 4 million."""
_CPU, _UNAME = "cpu", "uname"
_IDLE = frozenset({"idle", "iowait"})
_COUNTED_ELSEWHERE = frozenset({"guest", "guest_nice"})
"""Time of guests is in user and nice already (proc(5))."""
_WHOLE_NUMBERS = frozenset(name for name in LIMITS if name.endswith("_bytes"))
_TARGETS: Mapping[str, tuple[str, int]] = {
    plain(name): (_CPU if column.startswith("cpu_") else column, rank)
    for column, names in COLUMNS.items()
    for rank, name in enumerate(names)
} | {"node_uname_info": (_UNAME, 0)}
_NOBODY = frozenset({"", "localhost", "127.0.0.1", "::1"})

HOSTS_CAP = 4096
"""Hosts of one target (a Prometheus' federation)."""
_CPUS_END = 2**15


class Place(NamedTuple):
    """Where the value of one series goes."""

    column: str
    rank: int
    name: str
    instance: str
    """Tells hosts apart where one answer shows several: the label `instance`."""
    cpu: str
    mode: str
    host: str | None


class _Host:
    def __init__(self) -> None:
        self.host: str | None = None
        self.named = False
        """Whether it says its name itself."""
        self.cells: dict[str, tuple[int, int]] = {}
        """Column → rank, cell."""
        self.cpu: dict[int, dict[tuple[str, str], int]] = {}
        """Rank → CPU and mode → cell."""


class NodeKind(ExpositionKind[Place]):
    """node_exporter."""

    yields: tuple[str, ...] = ("host", "cpu_count", *COLUMNS)

    @property
    def aliases(self) -> Mapping[str, Sequence[Alias]]:
        """Canonical column → its names."""
        return {
            column: tuple(
                Alias(name, "", "since 0.16" if rank == 0 and len(names) > 1 else "")
                for rank, name in enumerate(names)
            )
            for column, names in {**COLUMNS, "host": ("node_uname_info{nodename}",)}.items()
        }

    def score(self, body: bytes, families: Families) -> int:
        """1, however much there is: whatever else a target shows is what it is there for."""
        return min(super().score(body, families), 1)

    def place(self, name: str, labels: dict[str, str]) -> Place | Nowhere:
        """Where the value of a series goes."""
        target = _TARGETS.get(plain(name))
        if target is None:
            return Nowhere.UNWANTED
        column, rank = target
        mode = labels.get("mode", "")
        if column == _CPU and (not mode or mode in _COUNTED_ELSEWHERE):
            return Nowhere.UNWANTED if mode else Nowhere.UNOWNED
        instance = labels.get("exported_instance") or labels.get("instance") or ""
        host = labels.get("nodename") or None
        return Place(column, rank, name, instance, labels.get("cpu", ""), mode, host)

    def layout(self, places: tuple[Place, ...]) -> Layout:
        """How values become host rows."""
        return _Layout(places, self.yields)


class _Layout:
    def __init__(self, places: tuple[Place, ...], yields: tuple[str, ...]) -> None:
        self._hosts: dict[str, _Host] = {}
        self._odd = OddValues()
        found: dict[str, str] = {}
        left_out: set[str] = set()
        for cell, place in enumerate(places):
            host = self._hosts.get(place.instance)
            if host is None:
                if len(self._hosts) >= HOSTS_CAP:
                    left_out.add(place.instance)
                    continue
                host = self._hosts[place.instance] = _Host()
            if place.column == _UNAME:
                host.host, host.named = place.host, True
            elif place.column == _CPU:
                host.cpu.setdefault(place.rank, {})[place.cpu, place.mode] = cell
            elif place.column not in host.cells or place.rank <= host.cells[place.column][0]:
                host.cells[place.column] = place.rank, cell
        for instance, host in self._hosts.items():
            host.host = host.host or _of_instance(instance)
            found |= {column: places[cell].name for column, (_, cell) in host.cells.items()}
            if host.cpu:
                name = places[next(iter(host.cpu[min(host.cpu)].values()))].name
                found |= {"cpu_busy_seconds_total": name, "cpu_seconds_total": name, "cpu_count": name}
            if host.host is not None:
                found["host"] = "node_uname_info" if host.named else "instance"
        self.notes: tuple[str, ...] = ()
        if left_out:
            self.notes = (f"{len(left_out)} hosts past the first {HOSTS_CAP} are left out",)
        self.found_names = tuple(found.items())
        self.missing = tuple(column for column in yields if column not in found)

    def rows(self, values: list[float]) -> Rows:
        """One row a host. A value that cannot be is not known."""
        odd: list[tuple[str, str]] = []
        hosts = [self._row(host, instance, values, odd) for instance, host in self._hosts.items()]
        return Rows([], [], [], tuple(self._odd.notes(odd)), hosts=hosts)

    def _row(self, host: _Host, instance: str, values: list[float], odd: list[tuple[str, str]]) -> HostSample:
        of = host.host or instance

        def checked(column: str, value: float, limits: Limits) -> float | None:
            if limits.low <= value <= limits.high:
                return value
            if value == value:  # NaN is "no value"
                odd.append((column, cannot_be(column, value, limits, of)))
            return None

        known: dict[str, float | None] = {
            column: checked(column, values[cell], LIMITS[column]) for column, (_, cell) in host.cells.items()
        }
        by_mode = host.cpu[min(host.cpu)] if host.cpu else {}
        cpus = {cpu for cpu, _ in by_mode if cpu}
        busy = sum(values[cell] for (_, mode), cell in by_mode.items() if mode not in _IDLE)
        idle = sum(values[cell] for (_, mode), cell in by_mode.items() if mode in _IDLE)
        modes = {mode for _, mode in by_mode}
        return HostSample(
            host=host.host,
            cpu_count=len(cpus) if 0 < len(cpus) < _CPUS_END else None,
            # With a collector flag some modes are left out; without one of both sides there is no share.
            cpu_busy_seconds_total=checked("cpu_busy_seconds_total", busy, COUNT) if modes - _IDLE else None,
            cpu_seconds_total=(
                checked("cpu_seconds_total", busy + idle, COUNT)
                if "idle" in modes and modes - _IDLE
                else None
            ),
            **{column: _whole(column, value) for column, value in known.items()},  # type: ignore[arg-type]
        )


def _of_instance(instance: str) -> str | None:
    """The host of `host:port`, as a Prometheus names what it scraped; None where that names nobody."""
    name, _, port = instance.rpartition(":")
    name = (name if name and port.isdecimal() else instance).strip("[]")
    return None if name in _NOBODY else name


def _whole(column: str, value: float | None) -> float | None:
    return int(value) if value is not None and column in _WHOLE_NUMBERS else value


KIND = NodeKind(
    name="node", role="host", marks=("node_cpu_seconds_total", "node_cpu", "node_memory_memtotal*")
)
