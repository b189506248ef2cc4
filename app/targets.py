"""The target list as it is now: the configured ones, lists, what discovery and Prometheus sources found."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.config import Config
from collectors.file_sd import FileSd
from collectors.target import PROMETHEUS, Target

log = logging.getLogger("infermeter")

MOST_TOLD = 1000
"""Problems remembered as told: more than there can be at once, but not all that ever were."""

SHOWN_NAMES = 5
"""Of many targets in one message."""


@dataclass
class TargetList:
    """Names are unique: a configured target wins over one that was found on this machine, that over one of a
    list, and that over one that a Prometheus-compatible source shows."""

    config: Config
    lists: list[FileSd]
    found: list[Target] = field(default_factory=list)
    """By discovery, when nothing was configured."""
    targets: list[Target] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    """Name of each target → where it is from: config, discovery, file_sd, http_sd, dns_sd, prometheus_sd,
    kubernetes, or prometheus for what is pulled from a source of that kind."""
    problems: list[str] = field(default_factory=list)
    """What is wrong with a list at the moment, in words. Those of the first refresh are the caller's to
    tell; after it each is logged once."""
    _pulled: dict[str, dict[str, Target]] = field(default_factory=dict)
    _reported: list[Target] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: deque[str] | None = None

    def refresh(self, now: datetime) -> bool:
        """Read the lists again where they changed; True when the target list is not what it was at the
        refresh before."""
        for file_list in self.lists:
            file_list.refresh(now)
        with self._lock:
            self._put_together()
            changed = self.targets != self._reported
            self._reported = self.targets
        self._tell()
        return changed

    def set_pulled(self, source: str, targets: Mapping[str, Target]) -> None:
        """The targets that the source of that name (a target of kind prometheus) shows now, by name.

        They stand in `targets` at once and in no scrape round; the next `refresh` reports the change. One
        whose name is taken is left out: `origins` says whose a name is. From any thread.
        """
        with self._lock:
            self._pulled[source] = dict(targets)
            self._put_together()

    def _put_together(self) -> None:
        groups: list[tuple[str, list[Target]]] = [("config", self.config.targets), ("discovery", self.found)]
        groups += [("file_sd", file_list.targets) for file_list in self.lists]
        by_name: dict[str, Target] = {}
        origins: dict[str, str] = {}
        problems = [problem for file_list in self.lists for problem in file_list.problems]
        for origin, targets in groups:
            for target in targets:
                other = by_name.setdefault(target.name, target)
                if other is target:
                    origins[target.name] = origin
                elif origin != "discovery":
                    problems.append(f"{target.name} stands twice; the one at {other.shown_url} is used")
        for source, pulled in self._pulled.items():
            if taken := pulled.keys() & by_name.keys():
                problems.append(_taken(source, sorted(taken)))
            for name, target in pulled.items():
                if name not in taken:
                    by_name[name], origins[name] = target, PROMETHEUS
        self.targets, self.origins, self.problems = list(by_name.values()), origins, problems

    def _tell(self) -> None:
        if self._told is None:
            self._told = deque(self.problems, maxlen=MOST_TOLD)
            return
        for problem in self.problems:
            if problem not in self._told:
                self._told.append(problem)
                log.warning("%s", problem)

    def by_interval(self) -> dict[float, list[Target]]:
        """The targets of each scrape round: all but Prometheus sources and what is pulled from them."""
        with self._lock:
            targets, origins = self.targets, self.origins
        rounds: dict[float, list[Target]] = {}
        for target in targets:
            if target.kind != PROMETHEUS and origins.get(target.name) != PROMETHEUS:
                rounds.setdefault(target.interval_seconds, []).append(target)
        return rounds


def _taken(source: str, names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN_NAMES]) + (" …" if len(names) > SHOWN_NAMES else "")
    if len(names) == 1:
        return f"1 target of {source} is left out, its name is taken: {shown}"
    return f"{len(names)} targets of {source} are left out, their names are taken: {shown}"
