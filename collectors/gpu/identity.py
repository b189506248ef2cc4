"""GPUs of several targets told apart.

A kind reads one target and knows no other: a GPU without UUID and host is `#gpu0` to each of them, and a
UUID that is masked or copied with a virtual machine can stand for GPUs of several hosts. What is stored as
`gpu_uuid` is the identity that all queries and judgements go by, so it is made unique here, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from collectors.gpu.entities import short_host
from collectors.reading import GpuSample, Reading

_Shown = frozenset[tuple[str, str | None]]


class Identities:
    """Which target shows which UUID on which host, as of its last answer.

    Two exporters of one host show the same GPU; one that names no host may be of any. Different hosts cannot
    have one GPU: while they show one UUID at the same time, it is stored as `UUID@host`.
    """

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}
        """Target → (UUID, host)."""
        self._targets: dict[str, dict[str, set[str]]] = {}
        """UUID → short host → targets that show it there."""
        self._on_several: set[str] = set()

    def learn(self, target: str, gpus: Iterable[GpuSample]) -> None:
        """Take notice of an answer. Done for all of a round before the first of it is stored."""
        shown = frozenset((gpu.gpu_uuid, gpu.host) for gpu in gpus)
        before = self._shown.get(target, frozenset())
        if shown == before:
            return
        self._shown[target] = shown
        for uuid, host in before - shown:
            self._take_back(target, uuid, host)
        for uuid, host in shown:
            if host is not None:
                hosts = self._targets.setdefault(uuid, {})
                hosts.setdefault(short_host(host), set()).add(target)
                if len(hosts) > 1:
                    self._on_several.add(uuid)

    def forget(self, kept: Set[str]) -> None:
        """Drop the targets that are not among `kept`."""
        for target in self._shown.keys() - kept:
            self.learn(target, ())
            del self._shown[target]

    def tell_apart(self, target: str, reading: Reading) -> Reading:
        """The reading, its GPUs under names that are theirs alone among all targets."""
        shown = {gpu.gpu_uuid for gpu in reading.gpus} | {one.gpu_uuid for one in reading.processes}
        if not any(uuid in self._on_several or uuid[:1] == "#" for uuid in shown):
            return reading
        notes: dict[str, None] = dict.fromkeys(reading.notes)
        gpus = []
        names: dict[str, str] = {}
        for gpu in reading.gpus:
            uuid = gpu.gpu_uuid
            name = names[uuid] = self._unique(target, uuid, gpu.host)
            if uuid in self._on_several and uuid[:1] != "#":
                notes[
                    f"{uuid} is shown for GPUs of {len(self._targets[uuid])} hosts (masked, or copied with a "
                    f"virtual machine?): here it is {name}"
                ] = None
            gpus.append(gpu._replace(gpu_uuid=name))
        processes = [  # a GPU that has processes may have no sample
            one._replace(gpu_uuid=names.get(one.gpu_uuid) or self._unique(target, one.gpu_uuid, None))
            for one in reading.processes
        ]
        return reading._replace(gpus=gpus, processes=processes, notes=tuple(notes))

    def _unique(self, target: str, uuid: str, host: str | None) -> str:
        """The name of one GPU among all targets."""
        if uuid[:1] == "#":
            return f"{target}{uuid}"
        if uuid in self._on_several:
            return f"{uuid}@{target if host is None else short_host(host)}"
        return uuid

    def _take_back(self, target: str, uuid: str, host: str | None) -> None:
        if host is None:
            return
        hosts = self._targets[uuid]
        there = hosts[short_host(host)]
        there.discard(target)
        if not there:
            del hosts[short_host(host)]
        if len(hosts) < 2:
            self._on_several.discard(uuid)
        if not hosts:
            del self._targets[uuid]
