"""GPU exporters as tables: canonical column → the names an exporter gives it, first present wins.

A GPU exporter is a `GpuKind` with its tables filled in. What all share stands here and in `layout.py`:
who a series belongs to, "blank" values, several copies of one device's value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from collectors.exposition import Nowhere
from collectors.gpu.entities import ABOUT, Device, GpuPlace, Unit
from collectors.gpu.layout import GpuLayout, Settled
from collectors.reading import GpuSample, Reading
from collectors.source import ExpositionKind, Layout, plain

# Blank values: DCGM/dcgmlib/dcgm_structs.h. INT32 0x7ffffff0 and INT64 0x7ffffffffffffff0, each +0 to +3;
# FP64 140737488355328.0 to .331. A limit is used only where no real reading can reach it.
_INT32_BLANK = 2147483632.0
_INT64_BLANK = 9.2e18  # 9223372036854775792 as a float, with room for its rounding
_FP64_BLANK = 140737488355328.0

MIB = Unit(1048576, 1, _INT32_BLANK, coarse=True)
BYTE = Unit(1, 1, _FP64_BLANK, coarse=False)
PERCENT = Unit(1, 100, _INT32_BLANK, coarse=True)
RATIO = Unit(1, 1, _INT32_BLANK)
RATIO_OR_PERCENT = Unit(1, 1, _INT32_BLANK, ambiguous=True)
"""A name that was a percent in one version and is a ratio in the next: decided per exporter."""
MEGAHERTZ = Unit(1000000, 1, _INT32_BLANK, coarse=True)
HERTZ = Unit(1, 1, _FP64_BLANK, coarse=False)
CELSIUS = Unit(1, 1, _INT32_BLANK)
WATT = Unit(1, 1, _INT32_BLANK)
MILLIWATT = Unit(1, 1000, _INT32_BLANK)
MILLIJOULE = Unit(1, 1000, _INT64_BLANK, coarse=True)
JOULE = Unit(1, 1, _FP64_BLANK, coarse=False)
CODE = Unit(1, 1, _INT32_BLANK)
BITS = Unit(1, 1, _FP64_BLANK)
FLAG = Unit(1, 1, _FP64_BLANK)
"""0 or 1, one bit of a mask."""


class Named(NamedTuple):
    """One name of a concept. The unit belongs to the name, it is never guessed from the value."""

    name: str
    unit: Unit
    bit: int = 0
    """Not 0: the series is a flag, 1 when this bit of the column is set."""
    rank: int | None = None
    """Names of one rank belong together (the flags of a mask); None: its place in the order."""
    versions: str = ""
    """Which versions show it; "" where all do, or where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Which labels say what, in lower case; of several the first that is not empty wins."""

    uuid: tuple[str, ...]
    index: tuple[str, ...] = ("gpu",)
    device: tuple[str, ...] = ("device",)
    """Like `nvidia0`: gives the index where none of `index` is there."""
    instance: tuple[str, ...] = ()
    host: tuple[str, ...] = ("hostname",)
    model: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    pod: tuple[str, ...] = ("pod",)
    namespace: tuple[str, ...] = ("namespace",)
    container: tuple[str, ...] = ("container",)
    copy: tuple[str, ...] = ()
    """Beside pod, namespace and container: what tells two copies of one device's value apart."""
    elsewhere: tuple[str, ...] = ()
    """A line with one of these is of a link, a switch or a CPU."""


@dataclass(frozen=True, kw_only=True)
class GpuKind(ExpositionKind[GpuPlace]):
    """A GPU exporter that answers with an exposition."""

    role: str = "gpu"
    columns: Mapping[str, Sequence[Named]]
    """Canonical columns, and `memory_used_ratio` as the exporter itself says it."""
    labels: Labels
    own_pod: str | None = None
    """Part of the exporter's own pod name: such a pod or host name says nothing of the workload."""
    not_on_instance: frozenset[str] = frozenset()
    """Columns a MIG instance does not have, whatever is printed."""
    zero_is_unknown: frozenset[str] = frozenset()
    """Columns where 0 means there is no sensor."""
    per_process: frozenset[str] = frozenset()
    """Columns that some version prints per process of a shared GPU."""
    first_known: frozenset[str] = frozenset()
    """Columns where of several names the first with a known value counts, not the first that is shown."""
    instances_are_indexed: bool = False
    """The index counts instances (AMD's partitions), not cards."""
    nothing_reserved: tuple[str, ...] = ()
    """Ends of names (as `plain`) of used memory that leaves nothing out: what is not used is free."""
    about: frozenset[str] = frozenset()
    """Names (as `plain`) of series whose labels alone count: they say what a GPU is."""
    uuid_prefix: str = ""
    """What this exporter leaves out at the beginning of a UUID."""
    impossible: Mapping[str, str] = field(default_factory=dict)
    """Canonical column → why no version can give it, for the documentation."""
    settled: Settled | None = None
    """Of one target's reader; None in the registry."""

    @property
    def yields(self) -> tuple[str, ...]:
        """Canonical columns that some version can give: the measured ones."""
        return tuple(column for column in GpuSample._fields if column in self.columns)

    @cached_property
    def _targets(self) -> Mapping[str, tuple[str, int, Unit, int]]:
        targets = {
            plain(named.name): (column, rank if named.rank is None else named.rank, named.unit, named.bit)
            for column, names in self.columns.items()
            for rank, named in enumerate(names)
        }
        return targets | dict.fromkeys(self.about, (ABOUT, 0, BITS, 0))

    def reader(self) -> Callable[[bytes], Reading]:
        """A reader with its own memory of series, and of what this target's values have proven."""
        return super(GpuKind, replace(self, settled=Settled())).reader()

    def wants(self, name: str) -> bool:
        """Whether the tables have the name."""
        return self.known(plain(name)) is not None

    def known(self, key: str) -> str | None:
        """The name of the tables that an exposed one (as `plain`) stands for."""
        if key in self._targets:
            return key
        # Only one `_total` is taken off, and only where the name is not known with it: gateways add it
        # to DCGM's counters.
        key = key.removesuffix("_total")
        return key if key in self._targets else None

    def place(self, name: str, labels: dict[str, str]) -> GpuPlace | Nowhere:
        """Where a series goes: UNOWNED when it names no GPU."""
        key = self.known(plain(name))
        if key is None:
            return Nowhere.UNWANTED
        labels = {label.lower(): value for label, value in labels.items() if value}
        where = self.labels
        if any(label in labels for label in where.elsewhere):
            return Nowhere.UNWANTED
        uuid, index = _first(labels, where.uuid), _first(labels, where.index)
        if index is None and (device := _first(labels, where.device)):
            index = "".join(re.findall(r"\d+$", device)) or None
        if uuid is not None and not uuid.startswith((self.uuid_prefix, "MIG-")):
            uuid = self.uuid_prefix + uuid
        if uuid is None and index is None:
            return Nowhere.UNOWNED
        column, rank, unit, bit = self._targets[key]
        return GpuPlace(
            column, rank, unit, self._device(labels, uuid, index), self._copy(labels), name, bit
        )  # fmt: skip

    def _device(self, labels: Mapping[str, str], uuid: str | None, index: str | None) -> Device:
        where = self.labels
        # Prometheus keeps the workload in exported_* when its own labels (the exporter's pod) win.
        exported = {label: text for label, text in labels.items() if label.startswith("exported_")}
        owner = exported or labels
        pod, namespace, container = (
            _first(owner, keys) for keys in (where.pod, where.namespace, where.container)
        )
        if pod is not None and self.own_pod is not None and self.own_pod in pod:
            pod = namespace = container = None
        return Device(
            uuid, _first(labels, where.instance) or "", index, _first(labels, where.host),
            _first(labels, where.model), _first(labels, where.driver), pod, namespace, container,
        )  # fmt: skip

    def _copy(self, labels: Mapping[str, str]) -> tuple[str | None, ...]:
        where = self.labels
        return tuple(labels.get(key) for key in (*where.pod, *where.namespace, *where.container, *where.copy))

    def layout(self, places: tuple[GpuPlace, ...]) -> Layout:
        """How values aligned with `places` become GPU rows."""
        return GpuLayout(
            places, yields=self.yields, own_pod=self.own_pod, not_on_instance=self.not_on_instance,
            zero_is_unknown=self.zero_is_unknown, per_process=self.per_process,
            first_known=self.first_known, instances_are_indexed=self.instances_are_indexed,
            nothing_reserved=self.nothing_reserved, settled=self.settled,
        )  # fmt: skip


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((labels[key] for key in keys if key in labels), None)
