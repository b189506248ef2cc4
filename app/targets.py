"""The target list as it is now: the configured ones, lists, what discovery and Prometheus sources found."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.config import Config
from app.doubled import doubled
from collectors.dns_sd import DnsSd
from collectors.file_sd import FileSd
from collectors.http_sd import HttpSd
from collectors.kubernetes_sd import KubernetesSd
from collectors.prometheus_sd import PrometheusSd
from collectors.target import PROMETHEUS, Target
from collectors.target_groups import capped
from collectors.target_source import LIST_TIMEOUT_SECONDS, TargetSource

log = logging.getLogger("infermeter")

MOST_TOLD = 1000
"""Problems remembered as told though they are over: one that comes and goes is told once."""

SHOWN_NAMES = 5
"""Of many targets in one message."""

UNANSWERED_AFTER = timedelta(seconds=3 * LIST_TIMEOUT_SECONDS)
"""A look at a list takes one timeout, several where it has several parts; longer is told."""


def sources(config: Config) -> list[TargetSource]:
    """The lists of a configuration, not looked at yet."""
    found: list[TargetSource] = [FileSd(entry) for entry in config.file_sd]
    found += [HttpSd(entry) for entry in config.http_sd]
    found += [DnsSd(entry) for entry in config.dns_sd]
    found += [PrometheusSd(entry) for entry in config.prometheus_sd]
    found += [KubernetesSd(entry) for entry in config.kubernetes]
    return found


@dataclass
class _Look:
    """Looking at one list again and again: at once where that is cheap, else in a thread at its interval."""

    source: TargetSource
    began: datetime | None = None
    broken: str | None = None
    _thread: threading.Thread | None = None

    def begin(self, now: datetime) -> None:
        """Look now, if it is due and the look before has ended."""
        seconds = self.source.refresh_seconds
        if seconds is None:
            self.source.refresh(now)
        elif not self.running and (self.began is None or now - self.began >= timedelta(seconds=seconds)):
            self.began = now
            # A daemon, so that a list that hangs does not keep the process from ending.
            self._thread = threading.Thread(
                target=self._refresh, args=(now,), daemon=True, name=self.source.title
            )
            self._thread.start()

    @property
    def running(self) -> bool:
        """Whether a look has not ended yet."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Until the look has ended, at most so long."""
        if self._thread is not None and seconds > 0:
            self._thread.join(seconds)

    def _refresh(self, now: datetime) -> None:
        try:
            self.source.refresh(now)
            self.broken = None
        except Exception as error:  # noqa: BLE001 (shown as a problem: this is a thread's top)
            self.broken = (
                f"infermeter could not read this list, please report: {type(error).__name__}: {error}"
            )

    def problems(self, now: datetime | None) -> list[str]:
        """What is wrong with the list, and that it hangs."""
        found = list(self.source.problems)
        title = self.source.title
        if self.broken is not None:
            found.append(f"{title}: {self.broken}")
        if (
            self.running
            and now is not None
            and self.began is not None
            and now - self.began > UNANSWERED_AFTER
        ):
            count = len(self.source.targets)
            kept = f"its last list ({count} targets) stays in use" if count else "it gives no targets"
            since = f"{self.began:%Y-%m-%d %H:%M} UTC"
            found.append(f"{title}: no answer, and no end of asking, since {since}; {kept}")
        return found


@dataclass
class TargetList:
    """Names are unique: a configured target wins over one that was found on this machine, that over one of a
    list, and that over one that a Prometheus-compatible source shows."""

    config: Config
    lists: Sequence[TargetSource]
    found: list[Target] = field(default_factory=list)
    """By discovery, when nothing was configured."""
    targets: list[Target] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    """Name of each target → where it is from: config, discovery, file_sd, http_sd, dns_sd, prometheus_sd,
    kubernetes, or prometheus for what is pulled from a source of that kind."""
    unsettled: frozenset[str] = frozenset()
    """The origins of lists that could not be had since the start: what they lack may still be there."""
    problems: list[str] = field(default_factory=list)
    """What is wrong with a list at the moment, in words. Those of the first refresh are the caller's to
    tell; after it each is logged once."""
    _looks: list[_Look] = field(default_factory=list)
    _pulled: dict[str, dict[str, Target]] = field(default_factory=dict)
    _reported: tuple[list[Target], frozenset[str]] = ([], frozenset())
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: dict[str, None] | None = None

    def __post_init__(self) -> None:
        self._looks = [_Look(source) for source in self.lists]

    def refresh(self, now: datetime, *, wait_seconds: float = 0.0) -> bool:
        """Look at the lists that are due; True when the targets (or `unsettled`) are not as at the refresh
        before.

        Lists that come over the network are asked in threads of their own, and what they say stands in the
        first refresh after they have answered; `wait_seconds` is how long this one waits for them.
        """
        for look in self._looks:
            look.begin(now)
        deadline = time.monotonic() + wait_seconds
        for look in self._looks:
            look.wait(deadline - time.monotonic())
        with self._lock:
            self._put_together(now)
            now_listed = (self.targets, self.unsettled)
            changed = now_listed != self._reported
            self._reported = now_listed
        self._tell()
        return changed

    def unanswered(self) -> list[str]:
        """The titles of the lists that are being asked at the moment."""
        return [look.source.title for look in self._looks if look.running]

    def set_pulled(self, source: str, targets: Mapping[str, Target]) -> None:
        """The targets that the source of that name (a target of kind prometheus) shows now, by name.

        They stand in `targets` at once and in no scrape round; the next `refresh` reports the change. One
        whose name is taken is left out: `origins` says whose a name is. From any thread.
        """
        with self._lock:
            self._pulled[source] = dict(targets)
            self._put_together(None)
        self._tell()

    def _put_together(self, now: datetime | None) -> None:
        # Before the targets are looked at: a list that settles in between must not seem to have lost them.
        self.unsettled = frozenset(source.origin for source in self.lists if not source.settled)
        groups: list[tuple[str, list[Target]]] = [("config", self.config.targets), ("discovery", self.found)]
        groups += [(source.origin, source.targets) for source in self.lists]
        by_name: dict[str, Target] = {}
        origins: dict[str, str] = {}
        problems = [problem for look in self._looks for problem in look.problems(now)]
        for origin, targets in groups:
            doubles = []
            for target in targets:
                other = by_name.setdefault(target.name, target)
                if other is target:
                    origins[target.name] = origin
                elif origin != "discovery":
                    doubles.append(f"{target.name} stands twice; the one at {other.shown_url} is used")
            problems += capped(doubles)
        problems.extend(doubled(by_name.values(), self._pulled))
        for source, pulled in self._pulled.items():
            if taken := pulled.keys() & by_name.keys():
                problems.append(_taken(source, sorted(taken)))
            for name, target in pulled.items():
                if name not in taken:
                    by_name[name], origins[name] = target, PROMETHEUS
        self.targets, self.origins, self.problems = list(by_name.values()), origins, problems

    def _tell(self) -> None:
        now = dict.fromkeys(self.problems)
        if self._told is not None:
            for problem in now:
                if problem not in self._told:
                    log.warning("%s", problem)
            # Those of the moment are remembered, however many there are.
            now = dict.fromkeys([*[told for told in self._told if told not in now][-MOST_TOLD:], *now])
        self._told = now

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
