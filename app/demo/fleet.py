"""The simulated fleet: nodes, engines and jobs on one clock, and the pages their exporters serve."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from app.demo.dcgm_page import DcgmPage
from app.demo.engine import Replica
from app.demo.faults import FAULTS, Fault, parse_fault
from app.demo.gpu import THROTTLED_CLOCK_RATIO, Gpu, MemoryHolder, MigInstance
from app.demo.llamacpp_page import LlamaCppPage
from app.demo.topology import ENGINES, JOBS, NODES, EngineSpec, JobSpec, NodeSpec
from app.demo.vllm_page import VllmPage
from app.demo.workload import Workload

TICK_SECONDS = 1.0
_LOADING_AFTER_SECONDS = 10.0
"""A restarting engine first frees its memory, then loads its weights."""
_GRAPHS_MIB = 420
"""CUDA graphs come on top of what an engine reserves."""


@dataclass(frozen=True)
class DemoTarget:
    """One endpoint, as a configuration names it."""

    name: str
    kind: str
    path: str
    labels: dict[str, str]
    project: str | None
    environment: str
    gpus: tuple[str, ...]
    """Of an engine: `host/index`, or `UUID/instance` for a MIG instance."""
    model: str | None = None
    """Where the engine does not say it itself."""


class Answer(NamedTuple):
    """What an endpoint answers to a scrape."""

    status: int | None
    """HTTP status; None: no answer at all (see `hangs`)."""
    content_type: str
    body: bytes
    hangs: bool = False
    """The request is taken and never answered; with status None and False the connection is closed."""


class Fleet:
    """Deterministic by `seed` and `start`: the state at a time does not depend on when it was asked for.

    `start` and every `t` are unix seconds. The start of a fault counts from `origin` (default: start).
    """

    def __init__(self, seed: int, start: float, *, origin: float | None = None) -> None:
        self.start = start
        self.clock = start
        self.origin = start if origin is None else origin
        self.faults: list[Fault] = []
        self.down: set[str] = set()
        self.broken: dict[str, str] = {}
        self._ticks = 0
        self._down_since: dict[str, float] = {}
        self._busy_before: dict[Replica, tuple[float, float]] = {}
        self._rng = _random(seed, "gpus")
        self.nodes = {spec.name: _node_gpus(spec, _random(seed, spec.name)) for spec in NODES}
        self.replicas: dict[str, list[Replica]] = {}
        self._held: dict[str, list[list[MemoryHolder]]] = {}
        """Per engine and replica: the GPUs or MIG instances it runs on."""
        self._cards: dict[str, list[list[Gpu]]] = {}
        for spec in ENGINES:
            self._add_engine(spec, seed)
        for job in JOBS:
            for index in job.gpus:
                gpu = self.nodes[job.node][index]
                gpu.owner = job.owner
                gpu.linked = len(job.gpus) > 1
                gpu.held_mib = int(gpu.usable_mib * job.memory_ratio)
        self._pages: dict[str, DcgmPage | VllmPage | LlamaCppPage] = {}
        for node in NODES:
            self._pages[node.name] = DcgmPage(node, self.nodes[node.name])
        for spec in ENGINES:
            page = LlamaCppPage if spec.kind == "llamacpp" else VllmPage
            self._pages[spec.name] = page(spec, self.replicas[spec.name])
        for gpu in self._gpus():
            gpu.advance(TICK_SECONDS, self._rng)

    def _add_engine(self, spec: EngineSpec, seed: int) -> None:
        replicas = []
        for number in range(len(spec.gpus)):
            rng = _random(seed, f"{spec.name}/{number}")
            workload = Workload(spec.workload, rng, self.start, spec.limits.block_size)
            replicas.append(Replica(spec.limits, workload, self.start))
        self.replicas[spec.name] = replicas
        self._cards[spec.name] = [[self.nodes[spec.node][index] for index in gpus] for gpus in spec.gpus]
        self._held[spec.name] = [
            [_holder(gpu, spec.mig_instance) for gpu in cards] for cards in self._cards[spec.name]
        ]
        for cards, holders in zip(self._cards[spec.name], self._held[spec.name], strict=True):
            for gpu in cards:
                gpu.linked = len(cards) > 1
            for holder in holders:
                holder.owner = spec.owner
                holder.held_mib = _served_mib(spec, holder)

    def _gpus(self) -> list[Gpu]:
        return [gpu for gpus in self.nodes.values() for gpu in gpus]

    # Faults

    def places(self) -> dict[str, list[str]]:
        """What `where` of a fault may be, per kind of place (`faults.PLACES`)."""
        nodes = list(self.nodes)
        engines = [spec.name for spec in ENGINES]
        gpus = [f"{gpu.host}/{gpu.index}" for gpu in self._gpus()]
        return {
            "gpu": nodes + gpus,
            "engine": engines,
            "vllm": [spec.name for spec in ENGINES if spec.kind == "vllm"],
            "target": nodes + engines,
        }

    def add_fault(self, text: str, origin: float | None = None) -> Fault:
        """Schedule `name@where[:start[+duration]]`; start counts from `origin`. Raises FaultError."""
        fault = parse_fault(text, self.places(), self.origin if origin is None else origin)
        self.faults.append(fault)
        return fault

    def remove_fault(self, text: str) -> bool:
        """End the fault written `name@where`; True when there was one. Raises FaultError."""
        wanted = str(parse_fault(text, self.places(), 0.0))
        kept = [fault for fault in self.faults if str(fault) != wanted]
        found = len(kept) < len(self.faults)
        self.faults = kept
        return found

    def active_faults(self) -> list[Fault]:
        """The faults active at the clock's time."""
        return [fault for fault in self.faults if fault.elapsed(self.clock) is not None]

    def gpus_at(self, where: str) -> list[Gpu]:
        """The GPUs of `node`, or the one GPU of `node/index`."""
        node, _, index = where.partition("/")
        return [self.nodes[node][int(index)]] if index else self.nodes[node]

    def last_gpu(self, where: str) -> Gpu:
        """The last GPU of `node`, or the GPU `node/index`."""
        return self.gpus_at(where)[-1]

    def idle_holder(self, where: str) -> MemoryHolder:
        """The first GPU (or MIG instance) there that nobody has, else the last."""
        holders = [holder for gpu in self.gpus_at(where) for holder in gpu.holders]
        return next((holder for holder in holders if holder.owner is None), holders[-1])

    # The clock

    def advance_to(self, t: float) -> None:
        """Run up to the last whole tick not after `t`; nothing happens when `t` is in the past."""
        ticks = int((t - self.start) / TICK_SECONDS)
        while self._ticks < ticks:
            self._ticks += 1
            self.clock = self.start + self._ticks * TICK_SECONDS
            self._tick()

    def _tick(self) -> None:
        self._clear_faults()
        for fault in self.faults:
            elapsed = fault.elapsed(self.clock)
            if elapsed is not None:
                FAULTS[fault.name].apply(self, fault.where, elapsed)
        for spec in ENGINES:
            self._advance_engine(spec)
        for job in JOBS:
            self._advance_job(job)
        for gpu in self._gpus():
            gpu.advance(TICK_SECONDS, self._rng)

    def _clear_faults(self) -> None:
        self.down.clear()
        self.broken.clear()
        for gpu in self._gpus():
            gpu.present = True
            gpu.throttled = False
            gpu.xid = 0
            gpu.clear()
            for instance in gpu.instances:
                instance.clear()
        for replicas in self.replicas.values():
            for replica in replicas:
                replica.workload.rate_factor = 1.0
                replica.workload.long_documents = False

    def _advance_engine(self, spec: EngineSpec) -> None:
        down = spec.name in self.down
        since = self._down_since.setdefault(spec.name, self.clock) if down else 0.0
        if not down:
            self._down_since.pop(spec.name, None)
        for replica, cards, holders in zip(
            self.replicas[spec.name], self._cards[spec.name], self._held[spec.name], strict=True
        ):
            if down:
                replica.stop()
                loading = self.clock - since >= _LOADING_AFTER_SECONDS
                for holder in holders:
                    holder.held_mib = int(spec.weights_gib_per_gpu * 1024) if loading else 0
                continue
            if not replica.running:
                replica.start(self.clock)
                self._busy_before.pop(replica, None)
                for holder in holders:
                    holder.held_mib = _served_mib(spec, holder)
            replica.speed = THROTTLED_CLOCK_RATIO if any(gpu.throttled for gpu in cards) else 1.0
            replica.advance(self.clock)
            stats = replica.stats
            busy, prefill = self._busy_before.get(replica, (0.0, 0.0))
            self._busy_before[replica] = (stats.busy_seconds, stats.prefill_seconds)
            for holder in holders:
                holder.add_load(
                    (stats.busy_seconds - busy) / TICK_SECONDS,
                    (stats.prefill_seconds - prefill) / TICK_SECONDS,
                )

    def _advance_job(self, job: JobSpec) -> None:
        at_work = (self.clock / job.period_seconds) % 1.0 < 2 / 3
        busy = job.busy if at_work else 0.08
        for index in job.gpus:
            self.nodes[job.node][index].add_load(busy, job.compute if at_work else 0.0)

    # The endpoints

    def targets(self) -> list[DemoTarget]:
        """Every endpoint, nodes first."""
        nodes = [
            DemoTarget(
                spec.name,
                "dcgm",
                f"/{spec.name}/dcgm/metrics",
                {"node": spec.name},
                None,
                spec.environment,
                (),
            )
            for spec in NODES
        ]
        engines = [
            DemoTarget(
                spec.name, spec.kind, f"/engines/{spec.name}/metrics",
                {"node": spec.node, "pod": spec.owner.pod}, spec.project,
                spec.environment, tuple(self._gpu_names(spec)),
                spec.model if spec.kind == "llamacpp" else None,
            )
            for spec in ENGINES
        ]  # fmt: skip
        return nodes + engines

    def _gpu_names(self, spec: EngineSpec) -> list[str]:
        cards = [gpu for cards in self._cards[spec.name] for gpu in cards]
        if spec.mig_instance is not None:
            return [f"{gpu.uuid}/{spec.mig_instance}" for gpu in cards]
        return [f"{gpu.host}/{gpu.index}" for gpu in cards]

    def render(self, name: str, t: float) -> Answer:
        """What target `name` answers at `t` (not before the clock). Raises KeyError for an unknown name."""
        page = self._pages[name]
        self.advance_to(t)
        if name in self.down:
            return Answer(None, "", b"")
        trouble = self.broken.get(name)
        if trouble == "hang":
            return Answer(None, "", b"", hangs=True)
        if trouble == "down":
            return Answer(500, "text/plain; charset=utf-8", b"internal server error\n")
        return Answer(200, page.content_type, page.render(self.clock))


def _random(seed: int, name: str) -> Random:
    return Random(f"{seed}/{name}")  # noqa: S311 (a simulation)


def _node_gpus(spec: NodeSpec, rng: Random) -> list[Gpu]:
    gpus = []
    for index in range(spec.gpus):
        instances = [MigInstance(*layout) for layout in spec.mig] if index == 0 else []
        gpus.append(Gpu(spec.name, index, spec.card, rng, instances))
    return gpus


def _holder(gpu: Gpu, mig_instance: int | None) -> MemoryHolder:
    if mig_instance is None:
        return gpu
    return next(instance for instance in gpu.instances if instance.instance_id == mig_instance)


def _served_mib(spec: EngineSpec, holder: MemoryHolder) -> int:
    """What a serving engine has of a GPU."""
    if spec.reservation is None:
        return int((spec.weights_gib_per_gpu + spec.cache_gib_per_gpu) * 1024) + _GRAPHS_MIB
    return int(holder.total_mib * spec.reservation) + _GRAPHS_MIB
