"""Targets that are read in two ways: what they count would stand twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from collectors.prometheus.upstream import FEDERATED
from collectors.target import PROBE, PROMETHEUS, Target

SHOWN = 5
"""Of many in one message."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def doubled(scraped: Iterable[Target], pulled: Mapping[str, Mapping[str, Target]]) -> list[str]:
    """Sentences about what is scraped and pulled, or pulled from two sources. `pulled`: source → its targets.

    A pulled target is known by its `instance`, and to another source by all its labels: different networks
    can have the same addresses.
    """
    direct: dict[str, str] = {}
    sources: dict[str, Target] = {}
    for target in scraped:
        if target.kind == PROMETHEUS:
            sources[target.name] = target
        elif target.kind != PROBE and target.url and (place := _place(target.url)):
            direct.setdefault(place, target.name)
    problems = []
    seen: dict[frozenset[tuple[str, str]], str] = {}
    for source, targets in pulled.items():
        here = _host(sources[source].url) if source in sources else None
        of_both: list[str] = []
        of_others: dict[str, list[str]] = {}
        for name, target in targets.items():
            if (other := direct.get(_instance(target, here))) is not None:
                of_both.append(f"{name} is {other}")
            first = seen.setdefault(frozenset(target.labels.items()), source)
            if first != source:
                of_others.setdefault(first, []).append(name)
        if of_both:
            problems.append(
                f"{_count(of_both)} pulled from {source} and scraped directly as well ({_some(of_both)}):"
                f" what they count stands twice. Take them out of `targets`, or out of {source} by"
                " `prometheus.match`"
            )
        problems.extend(
            f"{_count(names)} pulled from {source} and from {first} ({_some(names)}): what they count stands"
            " twice. Keep one of the sources, or tell them apart by `prometheus.match`; if they are different"
            " targets of the same names, give each source `labels` of its own"
            for first, names in of_others.items()
        )
    return problems


def _place(url: str) -> str:
    """host:port."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return ""
    host = (parts.hostname or "").lower()
    return f"localhost:{port}" if host in _LOOPBACK else f"{host}:{port}"


def _host(url: str) -> str:
    host = (urlsplit(url).hostname or "").lower()
    return "localhost" if host in _LOOPBACK else host


def _instance(target: Target, prometheus: str | None) -> str:
    """host:port of a pulled target; Prometheus' localhost is Prometheus' host."""
    instance = target.labels.get(FEDERATED[1]) or target.labels.get("instance", "")
    url = instance if "://" in instance else f"http://{instance}"
    try:
        place = _place(url)
    except ValueError:
        return ""
    host, _, port = place.rpartition(":")
    return f"{prometheus}:{port}" if host == "localhost" and prometheus is not None else place


def _count(names: list[str]) -> str:
    return "1 target is" if len(names) == 1 else f"{len(names)} targets are"


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
