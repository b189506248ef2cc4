"""Which GPU or MIG instance each series belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Cells = list[float | None]

GPUS_CAP = 4096
"""GPUs and MIG instances of one target, in order of appearance: 64 hosts of 8 GPUs with 7 instances each."""


class Unit(NamedTuple):
    """From a source's unit to the column's: value × multiplier ÷ divisor."""

    multiplier: float
    divisor: float
    blank: float
    """A value this large is a "no value" of the source, or none."""
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
    """A measured column of GpuSample, or `ABOUT`."""
    rank: int
    """Position of the name among the column's aliases."""
    unit: Unit
    device: Device
    copy: tuple[str | None, ...]
    """Tells the copies of one device's value apart (one per pod, job …)."""
    name: str = ""
    """As the exporter spells it."""
    bit: int = 0
    """Not 0: the value is a flag, 1 when this bit of the column is set."""


ABOUT = "about"
"""The place of a series whose labels alone count: it says what the GPU is."""


@dataclass
class Entity:
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
    nothing_reserved: bool = False
    """What it shows as used includes what the driver keeps: the rest of the total is free."""


def entities(
    places: tuple[GpuPlace, ...],
    own_pod: str | None,
    notes: list[str],
    *,
    instances_are_indexed: bool = False,
) -> list[Entity]:
    """GPUs and MIG instances, in order of appearance, at most `GPUS_CAP`.

    Their key is UUID and instance, not pod or host, while a UUID stands for one GPU. Where it cannot, or
    there is none, it is host and index: `node-1#gpu0`; `#gpu0` without a host, unique in this target alone.
    `instances_are_indexed`: the index counts instances, so one UUID has several of them.
    """
    hosts: dict[str, set[str]] = {}
    for device in (place.device for place in places):
        if device.uuid is not None and device.host is not None and not is_own(device.host, own_pod):
            hosts.setdefault(device.uuid, set()).add(short_host(device.host))
    on_several = {uuid for uuid, names in hosts.items() if len(names) > 1}
    indexes: dict[tuple[str, str | None], set[str]] = {}
    for device in (place.device for place in places):
        if device.uuid is not None and device.number is not None:
            host = short_host(device.host) if device.host and device.uuid in on_several else None
            indexes.setdefault((device.uuid, host), set()).add(device.number)
    found: dict[tuple[str, str], Entity] = {}
    left_out: set[tuple[str, str]] = set()
    for number, place in enumerate(places):
        device = place.device
        host = "" if device.host is None or is_own(device.host, own_pod) else device.host
        of_host = short_host(device.host) if device.host and device.uuid in on_several else None
        if device.uuid is None:
            uuid = f"{host}#gpu{device.number}"
            notes.append("the exporter shows no UUID: GPUs are told apart by their index, which can change")
        elif (
            device.number is not None
            and len(indexes[device.uuid, of_host]) > 1
            and not (instances_are_indexed and device.instance)
        ):
            uuid = f"{host}#gpu{device.number}"
            notes.append(
                f"{device.uuid} is shown for several GPUs (masked?): they are told apart by their index"
            )
        elif device.uuid in on_several and host:
            uuid = f"{device.uuid}@{short_host(host)}"
            notes.append(
                f"{device.uuid} is shown for GPUs of several hosts (masked?): they are told apart by host"
            )
        else:
            uuid = device.uuid
        key = (uuid, device.instance)
        entity = found.get(key)
        if entity is None:
            if len(found) >= GPUS_CAP:
                left_out.add(key)
                continue
            entity = found[key] = Entity(*key)
        entity.places.append((number, place))
    if left_out:
        notes.append(f"{len(left_out)} GPUs and MIG instances past the first {GPUS_CAP} are left out")
    return list(found.values())


def is_own(host: str | None, own_pod: str | None) -> bool:
    """Whether a host is the name of the exporter's own pod, another one at each of its starts."""
    return host is not None and own_pod is not None and own_pod in host


def short_host(host: str) -> str:
    """A host as it is compared: of `Node-1.example.com` `node-1`, for one exporter says this, another that;
    an address stays whole."""
    first, _, _ = host.lower().partition(".")
    return host.lower() if first.isdecimal() else first
