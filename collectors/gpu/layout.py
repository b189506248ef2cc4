"""From the values of one set of GPU series to rows: worked out once, then index look-ups per scrape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from collectors.gpu.entities import ABOUT, Cells, Entity, GpuPlace, entities, is_own
from collectors.gpu.memory import memory, whole
from collectors.plausible import GPU, GPU_INDEX_END, RATIO, Limits, OddValues, cannot_be
from collectors.reading import GpuSample
from collectors.source import Rows, plain

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

USERS_CAP = 100
"""Pods of one GPU that are named. MPS serves 48 clients a GPU; time-slicing is set to a few dozen at most."""
_BLANKS = ((2147483632.0, 3.0), (140737488355328.0, 3.0), (9223372036854774784.0, 4096.0))
"""First blank value and how far they reach; the last with room for the rounding of a float."""
_INDEX_DIGITS = len(str(GPU_INDEX_END))
_NAMES_SHOWN = 3
_A_HAIR_ABOVE = 1.001


class _Copies(NamedTuple):
    """One device's value, printed several times: known while they agree."""

    column: str
    cells: tuple[int, ...]

    def of(self, cells: Cells) -> float | None:
        values = {cells[cell] for cell in self.cells}
        return values.pop() if len(values) == 1 else None


class _FirstKnown(NamedTuple):
    """One concept under several names."""

    cells: tuple[int, ...]

    def of(self, cells: Cells) -> float | None:
        return next((cells[cell] for cell in self.cells if cells[cell] is not None), None)


class _Flags(NamedTuple):
    """A bit mask whose bits are printed one by one, 0 or 1; a bit that is not printed is not set."""

    cells: tuple[tuple[int, int], ...]
    """Cell and bit."""

    def of(self, cells: Cells) -> float | None:
        known = [(cells[cell], bit) for cell, bit in self.cells if cells[cell] is not None]
        return float(sum(bit for value, bit in known if value == 1)) if known else None


@dataclass
class Settled:
    """What the values of one exporter have proven, kept from scrape to scrape."""

    percent: bool | None = None
    """Whether a name that was a percent in one version and is a ratio in the next is a percent here."""


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
        first_known: frozenset[str] = frozenset(),
        instances_are_indexed: bool = False,
        nothing_reserved: tuple[str, ...] = (),
        settled: Settled | None = None,
    ) -> None:
        self._places = places
        self._units = [_unit(place) for place in places]
        self._odd = OddValues()
        self._ambiguous = [number for number, place in enumerate(places) if place.unit.ambiguous]
        # A percent stands beside MiB and MHz, a ratio beside bytes and hertz (DCGM 4.6 against 4.7).
        grains = {place.unit.coarse for place in places}
        self._percent = True in grains and False not in grains
        self._settled = settled if settled is not None else Settled()
        self._unknown = len(places)
        self._made: list[_Copies | _FirstKnown | _Flags] = []
        self._zero_is_unknown: list[int] = []
        self._own_pod = own_pod
        self._first_known = first_known
        self._notes: list[str] = []
        self._names: dict[str, dict[str, None]] = {}

        self._entities = entities(places, own_pod, self._notes, instances_are_indexed=instances_are_indexed)
        with_instances = {entity.uuid for entity in self._entities if entity.instance}
        present: set[str] = set()
        for entity in self._entities:
            self._describe(entity)
            absent = not_on_instance if entity.instance else frozenset[str]()
            unknown_at_zero = zero_is_unknown
            if not entity.instance and entity.uuid in with_instances:
                unknown_at_zero |= not_on_instance
            self._zero_is_unknown += [
                number for number, place in entity.places if place.column in unknown_at_zero
            ]
            columns = self._columns(entity, absent)
            present |= columns.keys()
            entity.used_is_shared = "memory_used_bytes" in per_process and self._is_copies(
                columns.get("memory_used_bytes", self._unknown)
            )
            entity.nothing_reserved = bool(nothing_reserved) and any(
                place.column == "memory_used_bytes" and plain(place.name).endswith(nothing_reserved)
                for _, place in entity.places
            )
            if entity.nothing_reserved and {"memory_used_bytes", "memory_total_bytes"} <= columns.keys():
                present |= {"memory_free_bytes", "memory_used_ratio"}
            entity.cells = itemgetter(*(columns.get(column, self._unknown) for column in _MEASURES))
        self._name_instances()
        present |= {
            column for column, ways in _MADE_FROM.items() if any(present.issuperset(way) for way in ways)
        }
        self.missing = tuple(column for column in yields if column not in present)
        self.found_names = tuple(
            (column, _listed(self._names[column])) for column in _MEASURES if column in self._names
        )
        if "memory_total_bytes" not in present and "memory_used_bytes" in present:
            self._notes.append(
                "memory_total_bytes is not known: neither the total nor the reserved memory is shown, and "
                "used + free is short by the reserve (dcgm-exporter shows FB_RESERVED by default since 4.4.0)"
            )
        self.notes = tuple(dict.fromkeys(self._notes))

    def rows(self, values: list[float]) -> Rows:
        """The rows of one scrape. A blank or a value that is no number is not known."""
        cells: Cells = [
            value * multiplier / divisor if low <= value <= high else None
            for value, (multiplier, divisor, low, high) in zip(values, self._units, strict=True)
        ]
        notes: dict[str, None] = {}
        if None in cells:
            notes.update(dict.fromkeys(self._odd.notes(self._cannot_be(values, cells))))
        if self._ambiguous:
            self._settle(cells, notes)
        for cell in self._zero_is_unknown:
            if cells[cell] == 0:
                cells[cell] = None
        cells.append(None)
        for made in self._made:
            cells.append(made.of(cells))
        gpus = []
        for entity in self._entities:
            measured = entity.cells(cells)
            *figures, fault = memory(
                *measured[_MEMORY],
                used_is_shared=entity.used_is_shared,
                nothing_reserved=entity.nothing_reserved,
            )
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
        if self._made:
            self._tell_differences(cells, gpus, notes)
        return Rows(gpus, [], [], tuple(notes))

    def _cannot_be(self, values: list[float], cells: Cells) -> Iterator[tuple[str, str]]:
        """Column and note of each value that is neither known nor a way to say "no value"."""
        for place, value, cell in zip(self._places, values, cells, strict=False):
            if cell is None and math.isfinite(value) and not _is_blank(value) and value != place.unit.blank:
                device, unit = place.device, place.unit
                gpu = f"GPU {device.number}" if device.number is not None else f"{device.uuid}"
                shown = value * unit.multiplier / unit.divisor
                yield place.column, cannot_be(place.column, shown, _limits(place), gpu)

    def _settle(self, cells: Cells, notes: dict[str, None]) -> None:
        """Percent or ratio, for all GPUs of the exporter at once.

        The percent is a whole number (INT64), so that 2 and more proves it, and a fraction the ratio. With 0
        and 1 alone, what was proven last holds; before any proof the units of the other names tell. A ratio a
        hair above 1 (the rounding of a double) is 1, and more than that is not known.
        """
        seen = [value for cell in self._ambiguous if (value := cells[cell]) is not None]
        if any(value >= 2 for value in seen):
            self._settled.percent = True
        elif any(not value.is_integer() for value in seen):
            self._settled.percent = False
        percent = self._percent if self._settled.percent is None else self._settled.percent
        if not percent:
            for number in self._ambiguous:
                value = cells[number]
                if value is not None and value > 1:
                    cells[number] = 1.0 if value < _A_HAIR_ABOVE else None
            return
        notes["GPU_UTIL_RATIO is a percent here (DCGM 4.6) and is read as one"] = None
        for number in self._ambiguous:
            value = cells[number]
            cells[number] = None if value is None else value / 100

    def _tell_differences(self, cells: Cells, gpus: list[GpuSample], notes: dict[str, None]) -> None:
        lost = {
            made.column
            for position, made in enumerate(self._made)
            if isinstance(made, _Copies)
            and cells[self._unknown + 1 + position] is None
            and any(cells[cell] is not None for cell in made.cells)
        }
        if "memory_used_bytes" in lost and all(gpu.memory_used_bytes is not None for gpu in gpus):
            lost.discard("memory_used_bytes")  # worked out from total, reserved and free
        for column in sorted(lost):
            notes[
                f"{column}: the copies of one GPU for its pods differ (values of single processes): not known"
            ] = None

    def _is_copies(self, cell: int) -> bool:
        return cell > self._unknown and isinstance(self._made[cell - self._unknown - 1], _Copies)

    def _make(self, made: _Copies | _FirstKnown | _Flags) -> int:
        """The cell where it will stand, past those of the places and the one that is always unknown."""
        self._made.append(made)
        return self._unknown + len(self._made)

    def _describe(self, entity: Entity) -> None:
        devices = list(dict.fromkeys(place.device for _, place in entity.places))
        host = _first(device.host for device in devices)
        if is_own(host, self._own_pod):
            self._notes.append(f"host is not known: the exporter prints a name of its own ({self._own_pod}…)")
            host = None
        number = _first(device.number for device in devices)
        index = None
        if number is not None and number.isdecimal() and len(number) <= _INDEX_DIGITS:
            index = int(number) if int(number) < GPU_INDEX_END else None
        if number is not None and index is None:
            self._notes.append(f"gpu_index: {number[:40]!r} is no index of a GPU, it is not known")
        model, driver = (
            _first(device.model for device in devices),
            _first(device.driver for device in devices),
        )
        entity.head = (entity.uuid, entity.instance, index, host, model, driver)
        entity.tail = (
            self._all(device.pod for device in devices),
            self._all(device.namespace for device in devices),
            self._all(device.container for device in devices),
        )

    def _name_instances(self) -> None:
        """What an instance's own series leave out (index, host, model, driver) is that of its card."""
        cards = {entity.uuid: entity.head for entity in self._entities if not entity.instance}
        for entity in self._entities:
            if entity.instance and (card := cards.get(entity.uuid)) is not None:
                pairs = zip(entity.head[2:], card[2:], strict=True)
                entity.head = entity.head[:2] + tuple(
                    of_card if own is None else own for own, of_card in pairs
                )

    def _all(self, texts: Iterable[str | None]) -> str | None:
        """Several users of one GPU, joined."""
        every = list(dict.fromkeys(text for text in texts if text is not None))
        if len(every) > USERS_CAP:
            self._notes.append(f"a GPU has more than {USERS_CAP} users: the first {USERS_CAP} are named")
        return ",".join(every[:USERS_CAP]) or None

    def _columns(self, entity: Entity, absent: frozenset[str]) -> dict[str, int]:
        """Canonical column → cell, for one entity. Copies of one device's value become one cell."""
        found: dict[str, dict[int, dict[int, dict[tuple[str | None, ...], int]]]] = {}
        for number, place in entity.places:
            if place.column == ABOUT or place.column in absent:
                continue
            # The same series twice (two scrapes pasted together, an XID's new err_code): the last counts.
            ranks = found.setdefault(place.column, {})
            ranks.setdefault(place.rank, {}).setdefault(place.bit, {})[place.copy] = number
        columns = {}
        for column, ranks in found.items():
            read = sorted(ranks) if column in self._first_known else [min(ranks)]
            cells = [self._one_name(column, ranks[rank]) for rank in read]
            columns[column] = cells[0] if len(cells) == 1 else self._make(_FirstKnown(tuple(cells)))
            for rank in read:
                for copies in ranks[rank].values():
                    names = dict.fromkeys(self._places[number].name for number in copies.values())
                    self._names.setdefault(column, {}).update(names)
        return columns

    def _one_name(self, column: str, bits: dict[int, dict[tuple[str | None, ...], int]]) -> int:
        """The cell of what one name of a column says, all its copies and bits together."""
        found = {}
        for bit, copies in bits.items():
            cells = tuple(copies.values())
            found[bit] = cells[0] if len(cells) == 1 else self._make(_Copies(column, cells))
        if 0 in found:
            return found[0]
        return self._make(_Flags(tuple((cell, bit) for bit, cell in found.items())))


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:_NAMES_SHOWN]) + (" …" if len(every) > _NAMES_SHOWN else "")


def _limits(place: GpuPlace) -> Limits:
    """What the place can hold. While it is not settled which of both it is: what a percent can."""
    if place.bit or place.column == ABOUT:
        return RATIO
    low, high = GPU[place.column]
    return Limits(low, high * 100) if place.unit.ambiguous else Limits(low, high)


def _unit(place: GpuPlace) -> tuple[float, float, float, float]:
    """Multiplier, divisor, and the least and largest value in the source's unit.

    As floats: a float times an int is converted first, each time.
    """
    unit, (low, high) = place.unit, _limits(place)
    per_unit = unit.divisor / unit.multiplier
    below_blank = math.nextafter(unit.blank, 0)
    return float(unit.multiplier), float(unit.divisor), low * per_unit, min(high * per_unit, below_blank)


def _is_blank(value: float) -> bool:
    """DCGM's four "no value"s, of each of its three number types (see `table.py`)."""
    return any(first <= value <= first + width for first, width in _BLANKS)


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)
