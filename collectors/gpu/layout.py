"""From the values of one set of GPU series to rows: worked out once, then index look-ups per scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from collectors.gpu.memory import memory, whole
from collectors.reading import GpuSample
from collectors.source import Rows

Cells = list[float | None]

_FIRST, _LAST = (GpuSample._fields.index(name) for name in ("utilization_ratio", "xid_last"))
_MEASURES = GpuSample._fields[_FIRST : _LAST + 1]
_MEMORY = slice(_MEASURES.index("memory_used_bytes"), _MEASURES.index("memory_used_ratio") + 1)
_WHOLE_NUMBERS = slice(_MEASURES.index("sm_clock_hertz"), len(_MEASURES))
_MADE_FROM = {
    "memory_used_ratio": (
        ("memory_used_bytes", "memory_free_bytes"),
        ("memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes"),
    ),
    "memory_total_bytes": (("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"),),
}
"""Columns that can be worked out, and from which sets of others."""


class Unit(NamedTuple):
    """From a source's unit to the column's: value × multiplier ÷ divisor."""

    multiplier: float
    divisor: float
    blank: float
    """A value this large is a "no value" of the source."""
    ambiguous: bool = False
    """Percent or ratio under one name."""
    coarse: bool | None = None
    """True: only in expositions with the old units; False: only in those with the new; None: in both."""


class Device(NamedTuple):
    """What the labels of one series say of the GPU and of who uses it; None where nothing."""

    uuid: str | None
    instance: str
    """MIG instance; "" for the whole GPU."""
    number: str | None
    """Its place in the host (label `gpu`): can change at the next start."""
    host: str | None
    model: str | None
    driver: str | None
    pod: str | None
    namespace: str | None
    container: str | None


class GpuPlace(NamedTuple):
    """Where the value of one series goes."""

    column: str
    rank: int
    """Position of the name among the column's aliases."""
    unit: Unit
    device: Device
    copy: tuple[str | None, ...]
    """Tells the copies of one device's value apart (one per pod, job …)."""


class _Copies(NamedTuple):
    column: str
    cells: tuple[int, ...]


@dataclass
class _Entity:
    """One GPU or MIG instance."""

    uuid: str
    instance: str
    places: list[tuple[int, GpuPlace]] = field(default_factory=list)
    head: tuple[Any, ...] = ()
    """The first columns of GpuSample, up to the measured ones."""
    tail: tuple[Any, ...] = ()
    """The last ones: pod, namespace, container."""
    cells: Callable[[Cells], tuple[Any, ...]] = field(default=tuple)
    used_is_shared: bool = False


class GpuLayout:
    """How values aligned with `places` become GPU samples."""

    def __init__(
        self,
        places: tuple[GpuPlace, ...],
        *,
        yields: tuple[str, ...],
        own_pod: str | None,
        not_on_instance: frozenset[str],
        zero_is_unknown: frozenset[str],
        per_process: frozenset[str],
    ) -> None:
        # As floats: a float times an int is converted first, each time.
        self._units = [
            (float(unit.multiplier), float(unit.divisor), float(unit.blank))
            for unit in (place.unit for place in places)
        ]
        self._ambiguous = [number for number, place in enumerate(places) if place.unit.ambiguous]
        # A percent stands beside MiB and MHz, a ratio beside bytes and hertz (DCGM 4.6 against 4.7).
        grains = {place.unit.coarse for place in places}
        self._percent = True in grains and False not in grains
        self._unknown = len(places)
        self._copies: list[_Copies] = []
        self._zero_is_unknown: list[int] = []
        self._own_pod = own_pod
        self._notes: list[str] = []

        self._entities = _entities(places, self._notes)
        with_instances = {entity.uuid for entity in self._entities if entity.instance}
        present: set[str] = set()
        for entity in self._entities:
            self._describe(entity)
            columns = self._columns(entity)
            present |= columns.keys()
            for column, cell in columns.items():
                bare_parent = entity.uuid in with_instances and column in not_on_instance
                if column in zero_is_unknown or bare_parent:
                    self._zero_is_unknown.append(cell)
            absent = not_on_instance if entity.instance else frozenset[str]()
            entity.used_is_shared = (
                "memory_used_bytes" in per_process and columns.get("memory_used_bytes", 0) > self._unknown
            )
            entity.cells = itemgetter(
                *(
                    self._unknown if column in absent else columns.get(column, self._unknown)
                    for column in _MEASURES
                )
            )
        present |= {
            column for column, ways in _MADE_FROM.items() if any(present.issuperset(way) for way in ways)
        }
        self.missing = tuple(column for column in yields if column not in present)
        if "memory_total_bytes" not in present and "memory_used_bytes" in present:
            self._notes.append(
                "memory_total_bytes is not known: neither the total nor the reserved memory is shown, and "
                "used + free is short by the reserve (dcgm-exporter shows FB_RESERVED by default since 4.4.0)"
            )
        self.notes = tuple(dict.fromkeys(self._notes))

    def rows(self, values: list[float]) -> Rows:
        """The rows of one scrape. A blank or a value that is no number is not known."""
        cells: Cells = [
            value * multiplier / divisor if -blank < value < blank else None
            for value, (multiplier, divisor, blank) in zip(values, self._units, strict=True)
        ]
        notes: dict[str, None] = {}
        if self._ambiguous:
            self._settle(cells, notes)
        cells.append(None)
        for copies in self._copies:
            cells.append(_one_of(cells, copies))
        for cell in self._zero_is_unknown:
            if cells[cell] == 0:
                cells[cell] = None
        gpus = []
        for entity in self._entities:
            measured = entity.cells(cells)
            *figures, fault = memory(*measured[_MEMORY], used_is_shared=entity.used_is_shared)
            if fault is not None:
                notes[f"{entity.uuid}{entity.instance and f'/{entity.instance}'}: {fault}"] = None
            gpus.append(
                GpuSample._make(
                    (
                        *entity.head,
                        *measured[: _MEMORY.start],
                        *figures,
                        *measured[_MEMORY.stop : _WHOLE_NUMBERS.start],
                        *map(whole, measured[_WHOLE_NUMBERS]),
                        *entity.tail,
                    )
                )
            )
        if self._copies:
            self._tell_differences(cells, gpus, notes)
        return Rows(gpus, [], [], tuple(notes))

    def _settle(self, cells: Cells, notes: dict[str, None]) -> None:
        """Percent or ratio, for all GPUs of the exporter at once.

        A value above 1 proves the percent. The percent is a whole number (INT64), so a fraction proves the
        ratio. With 0 and 1 alone, the units of the other names tell.
        """
        seen = [value for cell in self._ambiguous if (value := cells[cell]) is not None]
        if any(value > 1 for value in seen):
            percent = True
        elif any(0 < value < 1 for value in seen):
            percent = False
        else:
            percent = self._percent
        if not percent:
            return
        notes["GPU_UTIL_RATIO is a percent here (DCGM 4.6) and is read as one"] = None
        for number in self._ambiguous:
            value = cells[number]
            cells[number] = None if value is None else value / 100

    def _tell_differences(self, cells: Cells, gpus: list[GpuSample], notes: dict[str, None]) -> None:
        lost = {
            copies.column
            for position, copies in enumerate(self._copies)
            if cells[self._cell(position)] is None and any(cells[cell] is not None for cell in copies.cells)
        }
        if "memory_used_bytes" in lost and all(gpu.memory_used_bytes is not None for gpu in gpus):
            lost.discard("memory_used_bytes")  # worked out from total, reserved and free
        for column in sorted(lost):
            notes[
                f"{column}: the copies of one GPU for its pods differ (values of single processes): not known"
            ] = None

    def _cell(self, copies: int) -> int:
        """The cell of the copies at that position."""
        return self._unknown + 1 + copies

    def _describe(self, entity: _Entity) -> None:
        devices = list(dict.fromkeys(place.device for _, place in entity.places))
        host = _first(device.host for device in devices)
        if host is not None and self._own_pod is not None and self._own_pod in host:
            self._notes.append(f"host is not known: the exporter prints a name of its own ({self._own_pod}…)")
            host = None
        number = _first(device.number for device in devices)
        index = int(number) if number is not None and number.isdecimal() else None
        model, driver = (
            _first(device.model for device in devices),
            _first(device.driver for device in devices),
        )
        entity.head = (entity.uuid, entity.instance, index, host, model, driver)
        entity.tail = (
            _all(device.pod for device in devices),
            _all(device.namespace for device in devices),
            _all(device.container for device in devices),
        )

    def _columns(self, entity: _Entity) -> dict[str, int]:
        """Canonical column → cell, for one entity. Copies of one device's value become one cell."""
        found: dict[str, dict[int, dict[tuple[str | None, ...], int]]] = {}
        for number, place in entity.places:
            # The same series twice (two scrapes pasted together, an XID's new err_code): the last counts.
            found.setdefault(place.column, {}).setdefault(place.rank, {})[place.copy] = number
        columns = {}
        for column, ranks in found.items():
            cells = tuple(ranks[min(ranks)].values())
            if len(cells) == 1:
                columns[column] = cells[0]
            else:
                self._copies.append(_Copies(column, cells))
                columns[column] = self._cell(len(self._copies) - 1)
        return columns


def _entities(places: tuple[GpuPlace, ...], notes: list[str]) -> list[_Entity]:
    """GPUs and MIG instances, in order of appearance. Their key is UUID and instance, not pod or host."""
    indexes: dict[str, set[str]] = {}
    for place in places:
        if place.device.uuid is not None and place.device.number is not None:
            indexes.setdefault(place.device.uuid, set()).add(place.device.number)
    found: dict[tuple[str, str], _Entity] = {}
    for number, place in enumerate(places):
        device = place.device
        if device.uuid is None:
            uuid = f"{device.host or ''}#gpu{device.number}"
            notes.append("the exporter shows no UUID: GPUs are told apart by their index, which can change")
        elif device.number is not None and len(indexes[device.uuid]) > 1:
            uuid = f"{device.uuid}#gpu{device.number}"
            notes.append(
                f"{device.uuid} is shown for several GPUs (masked?): they are told apart by their index"
            )
        else:
            uuid = device.uuid
        key = (uuid, device.instance)
        found.setdefault(key, _Entity(*key)).places.append((number, place))
    return list(found.values())


def _one_of(cells: Cells, copies: _Copies) -> float | None:
    values = {cells[cell] for cell in copies.cells}
    return values.pop() if len(values) == 1 else None


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)


def _all(texts: Iterable[str | None]) -> str | None:
    """Several users of one GPU, joined."""
    return ",".join(dict.fromkeys(text for text in texts if text is not None)) or None
