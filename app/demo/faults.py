"""Faults that come and go by name: `name@where[:start[+duration]]`.

A fault is level-triggered: at each tick it says what it does to the fleet while it is active, and nothing
of it stays when it has ended.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.demo.topology import FINETUNE

if TYPE_CHECKING:
    from app.demo.fleet import Fleet

MIB_PER_SECOND_CREEP = 12.0
"""0.7 GiB a minute: between the 26 GB an hour of sglang PR 7340 and what a demo has time for."""


class FaultError(ValueError):
    """A fault as written cannot be used; the message lists what can."""


@dataclass(frozen=True)
class Fault:
    """One fault on one thing. Seconds; times are those of the simulated clock."""

    name: str
    where: str
    start: float
    duration: float | None = None
    """None: until it is removed."""
    period: float | None = None
    """It comes again this often, and has come before `start` as well."""

    def elapsed(self, t: float) -> float | None:
        """Seconds since it began at `t`, or None when it is not active."""
        seconds = t - self.start
        if self.period is not None:
            seconds %= self.period
        elif seconds < 0:
            return None
        return seconds if self.duration is None or seconds < self.duration else None

    def __str__(self) -> str:
        return f"{self.name}@{self.where}"


@dataclass(frozen=True)
class FaultKind:
    """What `apply(fleet, where, elapsed)` does, and what `where` may be."""

    takes: str
    """gpu, engine, vllm or target (see PLACES)."""
    seconds: float
    """How long it lasts in the demo's script."""
    doc: str
    apply: Callable[[Fleet, str, float], None]
    ends_by_itself: bool = False
    """Written without a duration it lasts `seconds`; others last until they are removed."""


PLACES = {
    "gpu": "a node, or node/GPU for one GPU of it",
    "engine": "an engine",
    "vllm": "a vLLM engine (llama.cpp shows no KV cache)",
    "target": "a node or an engine",
}


def _memory_creep(fleet: Fleet, where: str, elapsed: float) -> None:
    for gpu in fleet.gpus_at(where):
        for holder in gpu.holders:
            if holder.held_mib:
                holder.outside_mib += int(MIB_PER_SECOND_CREEP * elapsed)


def _vram_high(fleet: Fleet, where: str, elapsed: float) -> None:
    holder = fleet.idle_holder(where)
    holder.visitor = FINETUNE
    # The weights load for 20 s, then a caching allocator's plateau.
    holder.outside_mib += int(holder.usable_mib * 0.88 * min(1.0, 0.1 + elapsed / 20))
    loaded = elapsed > 20
    holder.add_load(0.85 if loaded else 0.05, 0.55 if loaded else 0.0)


def _request_burst(fleet: Fleet, where: str, _elapsed: float) -> None:
    for replica in fleet.replicas[where]:
        spec = replica.workload.spec
        most = replica.limits.requests_per_second(spec.mean_prompt, spec.mean_output)
        replica.workload.rate_factor = max(4.0, 1.6 * most / spec.requests_per_second)


def _kv_pressure(fleet: Fleet, where: str, _elapsed: float) -> None:
    for replica in fleet.replicas[where]:
        replica.workload.rate_factor = 2.5
        replica.workload.long_documents = True


def _engine_restart(fleet: Fleet, where: str, _elapsed: float) -> None:
    fleet.down.add(where)


def _exporter_down(fleet: Fleet, where: str, _elapsed: float) -> None:
    fleet.broken[where] = "down"


def _exporter_hang(fleet: Fleet, where: str, _elapsed: float) -> None:
    fleet.broken[where] = "hang"


def _gpu_missing(fleet: Fleet, where: str, _elapsed: float) -> None:
    fleet.last_gpu(where).present = False


def _throttle(fleet: Fleet, where: str, _elapsed: float) -> None:
    for gpu in fleet.gpus_at(where):
        gpu.throttled = True


def _xid(fleet: Fleet, where: str, _elapsed: float) -> None:
    fleet.last_gpu(where).xid = 94


FAULTS: dict[str, FaultKind] = {
    "memory_creep": FaultKind(
        "gpu", 900, "memory beside the engine's reservation grows on GPUs in use", _memory_creep
    ),
    "vram_high": FaultKind("gpu", 420, "a notebook fills an idle GPU to 88 % and stays", _vram_high),
    "request_burst": FaultKind(
        "engine", 180, "more requests than it can serve: the queue grows", _request_burst
    ),
    "kv_pressure": FaultKind("vllm", 240, "long documents fill the KV cache: preemptions", _kv_pressure),
    "engine_restart": FaultKind(
        "engine", 45, "the engine is gone, then back with all counters at 0", _engine_restart, True
    ),
    "exporter_down": FaultKind("target", 120, "the endpoint answers HTTP 500", _exporter_down),
    "exporter_hang": FaultKind(
        "target", 120, "the endpoint takes the request and never answers", _exporter_hang
    ),
    "gpu_missing": FaultKind("gpu", 300, "a GPU falls off the bus: its series stop", _gpu_missing),
    "throttle": FaultKind("gpu", 240, "hot: clocks drop to 55 %, engines there slow down", _throttle),
    "xid": FaultKind("gpu", 300, "a contained memory error: XID 94 on one GPU", _xid),
}
"""Every fault there is. A new one is one line here and one function above."""

_SYNTAX = re.compile(r"([a-z_]+)@([^:@]+)(?::([0-9.]+[smh]?)(?:\+([0-9.]+[smh]?))?)?")
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_fault(text: str, places: dict[str, list[str]], origin: float) -> Fault:
    """Read `name@where[:start[+duration]]`; start and duration in seconds, or with s, m or h.

    `places` has what each kind of place may be (`Fleet.places()`), `origin` is the time that start counts
    from. Raises FaultError, which lists the valid faults, places or the syntax.
    """
    match = _SYNTAX.fullmatch(text.strip())
    if match is None:
        names = ", ".join(FAULTS)
        raise FaultError(
            f"{text!r} is not a fault; write name@where[:start[+duration]], for instance memory_creep@node-2"
            f" or throttle@node-1:60+5m; the faults are: {names}"
        )
    name, where, start, duration = match.groups()
    kind = FAULTS.get(name)
    if kind is None:
        raise FaultError(
            f"unknown fault {name!r}{_nearest(name, list(FAULTS))}; the faults are: {', '.join(FAULTS)}"
        )
    known = places[kind.takes]
    if where not in known:
        shown = [place for place in known if "/" not in place]
        raise FaultError(
            f"{name}: unknown place {where!r}{_nearest(where, known)}; it takes {PLACES[kind.takes]}: "
            + ", ".join(shown)
        )
    lasts = kind.seconds if kind.ends_by_itself else None
    if duration:
        lasts = _seconds(duration, text)
    return Fault(name, where, origin + _seconds(start or "0", text), lasts)


def _seconds(text: str, whole: str) -> float:
    unit = _UNIT_SECONDS.get(text[-1])
    try:
        return float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        raise FaultError(f"{whole!r}: {text!r} is not a length of time; write 90, 90s, 5m or 1h") from None


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def demo_script(origin: float) -> list[Fault]:
    """What comes and goes by itself, so that there is something to see: one round an hour around `origin`.

    A GPU passes 80 % of its memory 25 s after `origin` and is back 7 min later; another did so 35 minutes
    before, so the last hour before `origin` holds an incident that is over.
    """
    round_ = (
        ("vram_high", "node-3/5", 10.0),
        ("request_burst", "llama-70b", 660.0),
        ("throttle", "node-2/1", 960.0),
        ("vram_high", "node-2/6", 1500.0),
        ("kv_pressure", "qwen-32b", 2040.0),
        ("exporter_down", "node-4", 2400.0),
        ("engine_restart", "coder-14b", 2700.0),
        ("memory_creep", "node-2/4", 2640.0),
    )
    return [
        Fault(name, where, origin + after, FAULTS[name].seconds, period=3600.0)
        for name, where, after in round_
    ]
