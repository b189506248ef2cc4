"""The monitor's part that pulls from Prometheus-compatible sources: a puller per target of that kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from app.targets import TargetList
from collectors.prometheus.derived import Names
from collectors.prometheus.pull import STUCK_TIMEOUTS, Puller
from collectors.rounds import Rounds
from collectors.target import PROMETHEUS, Target

BACKFILL_EVERY_SECONDS = 5.0
"""How often it is looked whether there is something of the past to be read, or read again after an error."""


def pull_job(source: str) -> str:
    """The name of the job that pulls a source."""
    return f"pull {source}"


def backfill_job(source: str) -> str:
    """The name of the job that reads the past of a source."""
    return f"back-fill {source}"


def pull_limit_seconds(source: Target) -> float:
    """The longest that a pull takes which is not stuck."""
    return STUCK_TIMEOUTS * source.timeout_seconds


@dataclass
class Pulling:
    """The pullers of the sources that stand in the target list."""

    targets: TargetList
    rounds: Rounds
    clock: Callable[[], datetime]
    pullers: dict[str, Puller] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = Names(lambda name: self.targets.origins.get(name, PROMETHEUS) != PROMETHEUS)

    def sources(self) -> list[Target]:
        """The sources in the target list."""
        return [target for target in self.targets.targets if target.kind == PROMETHEUS]

    def update(self) -> None:
        """Bring the pullers to the list: a new source goes on where it was on this store. Reads the store."""
        wanted = {source.name: source for source in self.sources()}
        for name, puller in list(self.pullers.items()):
            if wanted.get(name) != puller.source:
                puller.close()
                del self.pullers[name]
                if name not in wanted:
                    self.targets.set_pulled(name, {})
        for name, source in wanted.items():
            if name not in self.pullers:
                puller = Puller(
                    source, self.rounds.ingest, self.rounds.committing, self.clock, self._names,
                    partial(self._listed, name),
                )  # fmt: skip
                puller.restore()
                self.pullers[name] = puller
                self.targets.set_pulled(name, puller.intake.targets)

    async def pull(self, source: str) -> None:
        """Pull a source once."""
        if puller := self.pullers.get(source):
            await puller.pull()

    async def backfill(self, source: str) -> None:
        """Read what is left of its past."""
        if puller := self.pullers.get(source):
            await puller.past.read()

    def close(self) -> None:
        """Let what waits in threads end soon."""
        for puller in self.pullers.values():
            puller.close()

    async def _listed(self, source: str, now: Mapping[str, Target], gone: Mapping[str, Target]) -> None:
        self.targets.set_pulled(source, now)
        ingest, at = self.rounds.ingest, self.clock()
        async with self.rounds.committing:
            listed, origins = self.targets.targets, self.targets.origins
            unsettled = self.targets.unsettled
            if unlisted := [target for name, target in gone.items() if name not in origins]:
                of_past = dict.fromkeys(gone, PROMETHEUS)
                # Listed once, and marked gone by what follows.
                await asyncio.to_thread(
                    ingest.sync_targets, [*listed, *unlisted], at, of_past | origins, unsettled
                )
            await asyncio.to_thread(ingest.sync_targets, listed, at, origins, unsettled)
