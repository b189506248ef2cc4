"""Which series of a Prometheus are of use: decided by the tables of all kinds, asked for by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from collectors.engines.forms import FormsKind
from collectors.registry import KINDS
from collectors.source import ExpositionKind, plain

OF_EVERY_TARGET = ("up", "scrape_duration_seconds")
"""What Prometheus itself adds for each target it scrapes."""

_PLAIN = re.compile(r"[a-zA-Z0-9_:]*")


class Wanted(NamedTuple):
    """Names to ask for."""

    telling: tuple[str, ...]
    """A target with one of these is a GPU exporter or an engine."""
    shared: tuple[str, ...]
    """Those that any program shows (`process_start_time_seconds`): of use for the targets found by the
    others."""


def wanted(names: Iterable[str]) -> Wanted:
    """What of all names some kind reads."""
    kinds = [kind for kind in KINDS.values() if isinstance(kind, ExpositionKind | FormsKind)]
    telling: list[str] = []
    shared: list[str] = []
    for name in sorted(set(names)):
        if any(kind.wants(name) or plain(name) in kind.marks for kind in kinds):
            (telling if any(kind.marked(name) for kind in kinds) else shared).append(name)
    return Wanted(tuple(telling), tuple(shared))


def selector(names: Collection[str], matchers: str, jobs: Collection[str] = ()) -> str:
    """A selector of all series with one of the names; of the given jobs, where there are any."""
    parts = [f'__name__=~"{_one_of(names)}"']
    if jobs:
        parts.append(f'job=~"{_one_of(jobs)}"')
    if matchers:
        parts.append(matchers)
    return f"{{{','.join(parts)}}}"


def _one_of(texts: Collection[str]) -> str:
    return "|".join(text if _PLAIN.fullmatch(text) else _escaped(text) for text in sorted(texts))


def _escaped(text: str) -> str:
    """As RE2 reads it, inside a PromQL string."""
    pattern = re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)
    return pattern.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
