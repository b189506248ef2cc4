"""Which engine stands on which GPU: by configuration, by pod, or by process. Decisions are pure.

Table `engine_gpu` holds every way that says so, each with its age; where ways contradict each other, readers
take the first of `WAYS` that knows any. What no way tells stays unknown.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

import polars as pl

from collectors.gpu.entities import short_host
from collectors.local_processes import is_here, listeners_of
from sql.store import Store

WAYS = ("config", "pod", "process")
"""Best first: what a person wrote, what Kubernetes assigned, what the driver and the sockets show."""

SAMPLES_SINCE = timedelta(minutes=5)
"""A GPU not seen for this long (or three intervals) is not placed anew."""

SAME_STRETCH = timedelta(minutes=15)
"""A placement that was not seen for longer is a new one, with a first sight of its own."""

HOST_LABELS = ("host", "hostname", "node", "node_name")
"""Labels of a target that name the host it stands on."""

GpuKey = tuple[str, str]
"""(gpu_uuid, mig_instance)."""


class Gpu(NamedTuple):
    """A GPU or MIG instance as it was seen last."""

    gpu_uuid: str
    mig_instance: str
    host: str | None
    gpu_index: int | None
    pods: str | None
    """Joined by `,`."""
    namespaces: str | None
    target_host: str | None
    """In the URL of the target that shows it."""


class Engine(NamedTuple):
    """An engine's target."""

    target: str
    role: str | None
    host: str | None
    """In its URL; this machine's name where that is a loopback address."""
    labels: Mapping[str, str]
    gpus: Sequence[str]
    """As configured."""


class Placed(NamedTuple):
    """One engine on one GPU, by one way of knowing."""

    target: str
    gpu_uuid: str
    mig_instance: str
    source: str


def place(
    engines: Iterable[Engine], gpus: Sequence[Gpu], by_process: Mapping[str, Set[GpuKey]]
) -> list[Placed]:
    """All that is known at the moment. `by_process`: engine target → the GPUs that its processes are on."""
    named = _by_name(gpus)
    of_pod: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        for pod in _split(gpu.pods):
            of_pod.setdefault(pod, []).append(gpu)
    found: dict[Placed, None] = {}
    for engine in engines:
        for name in engine.gpus:
            for key in _configured(engine, name, named):
                found[Placed(engine.target, *key, "config")] = None
        if engine.role not in (None, "engine"):
            continue
        namespace = engine.labels.get("namespace")
        for gpu in of_pod.get(engine.labels.get("pod", ""), ()):
            if namespace is None or gpu.namespaces is None or namespace in _split(gpu.namespaces):
                found[Placed(engine.target, gpu.gpu_uuid, gpu.mig_instance, "pod")] = None
        for key in sorted(by_process.get(engine.target, ())):
            found[Placed(engine.target, *key, "process")] = None
    return list(found)


def _by_name(gpus: Iterable[Gpu]) -> dict[str, list[GpuKey]]:
    """What a configuration may call a GPU → which it is; hosts in lower case, whole and short."""
    named: dict[str, list[GpuKey]] = {}
    for gpu in gpus:
        key = (gpu.gpu_uuid, gpu.mig_instance)
        instance = f"/{gpu.mig_instance}" if gpu.mig_instance else ""
        names = [gpu.gpu_uuid + instance]
        if instance:
            names.append(f"MIG-{gpu.gpu_uuid}{instance}/0")
        if gpu.gpu_index is not None and (host := gpu.host or gpu.target_host):
            names += [f"{one}/{gpu.gpu_index}{instance}" for one in {host.lower(), short_host(host)}]
        for name in names:
            named.setdefault(name, []).append(key)
    return named


def _configured(engine: Engine, name: str, named: Mapping[str, list[GpuKey]]) -> list[GpuKey]:
    """The GPUs that one entry of `gpus` means. A UUID that several hosts show is the one on the engine's
    host."""
    found = named.get(name)
    host, slash, index = name.partition("/")
    if found is None and slash and index.isdecimal():
        found = named.get(f"{host.lower()}/{index}") or named.get(f"{short_host(host)}/{index}")
    if found is None:
        uuid, slash, instance = name.partition("/")
        own = [engine.host, *(engine.labels.get(label) for label in HOST_LABELS)]
        for one in own:
            if one and (found := named.get(f"{uuid}@{short_host(one)}{slash}{instance}")):
                break
    return found or []


def _split(joined: str | None) -> list[str]:
    return [part.strip() for part in joined.split(",")] if joined else []


def place_engines(store: Store, now: datetime) -> int:
    """Bring table `engine_gpu` up to `now` (UTC without a zone); how many placements are known. Blocks on
    files."""
    targets = store.query("placement_targets").to_dicts()
    longest = max((row["interval_seconds"] for row in targets), default=0.0)
    since = now - max(SAMPLES_SINCE, timedelta(seconds=3 * longest))
    hosts = {row["target"]: urlsplit(row["url"]).hostname for row in targets}
    gpus = [
        Gpu(uuid, instance, host, index, pods, namespaces, hosts.get(target))
        for uuid, instance, host, index, pods, namespaces, target in store.query_rows(
            "placement_gpus", since=since, now=now
        )
    ]
    if not gpus:
        return 0
    engines = [
        Engine(row["target"], row["role"], _host(row["url"]), json.loads(row["labels"]), row["gpus"] or ())
        for row in targets
        if row["role"] not in ("gpu", "host", "probe")
    ]
    urls = {row["target"]: row["url"] for row in targets}
    placed = place(engines, gpus, _by_process(store, urls, {engine.target for engine in engines}, since, now))
    _write(store, placed, now)
    return len(placed)


def _host(url: str) -> str | None:
    host = urlsplit(url).hostname
    return socket.gethostname() if host is not None and is_here(host) else host


def _by_process(
    store: Store, urls: Mapping[str, str], engines: Set[str], since: datetime, now: datetime
) -> dict[str, set[GpuKey]]:
    """The GPUs of engines on this machine: the processes on its GPUs, or parents of them, listen at the
    URL."""
    on_gpu: dict[int, set[GpuKey]] = {}
    for target, uuid, instance, pid in store.query_rows("placement_processes", since=since, now=now):
        if is_here(urlsplit(urls.get(target, "")).hostname or ""):
            on_gpu.setdefault(pid, set()).add((uuid, instance))
    if not on_gpu:
        return {}
    local = {}
    for target in engines:
        parts = urlsplit(urls[target])
        if parts.hostname is not None and is_here(parts.hostname):
            local[target] = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    found: dict[str, set[GpuKey]] = {}
    for pid, places in listeners_of(on_gpu.keys(), set(local.values())).items():
        for target, address in local.items():
            if address in places:
                found.setdefault(target, set()).update(on_gpu[pid])
    return found


def _write(store: Store, placed: Sequence[Placed], now: datetime) -> None:
    present = {Placed(*row) for row in store.query_rows("placement_present", since=now - SAME_STRETCH)}
    frame = pl.DataFrame(
        [(one.target, "", *one[1:], now, now) for one in placed if one not in present],
        schema={
            "target": pl.String, "replica": pl.String, "gpu_uuid": pl.String, "mig_instance": pl.String,
            "source": pl.String, "first_seen": pl.Datetime("us"), "last_seen": pl.Datetime("us"),
        },
        orient="row",
    )  # fmt: skip
    again = [one for one in placed if one in present]
    with store.write() as writer:
        if again:
            names, uuids, instances, ways = (list(column) for column in zip(*again, strict=True))
            writer.run(
                "renew_placements", targets=names, gpu_uuids=uuids, mig_instances=instances, sources=ways,
                since=now - SAME_STRETCH, now=now,
            )  # fmt: skip
        writer.append("engine_gpu", frame)
