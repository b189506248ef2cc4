"""The target list as it is now: the configured ones, file_sd lists, what discovery found."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from app.config import Config
from collectors.file_sd import FileSd
from collectors.target import Target

log = logging.getLogger("infermeter")

MOST_TOLD = 1000
"""Problems remembered as told: more than there can be at once, but not all that ever were."""


@dataclass
class TargetList:
    """Names are unique: a configured target wins over one of a list with the same name."""

    config: Config
    lists: list[FileSd]
    found: list[Target] = field(default_factory=list)
    """By discovery, when nothing was configured."""
    targets: list[Target] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is wrong with a list at the moment, in words. Those of the first refresh are the caller's to
    tell; after it each is logged once."""
    _told: deque[str] | None = None

    def refresh(self, now: datetime) -> bool:
        """Read the lists again where they changed; True when the target list changed."""
        by_name = {target.name: target for target in (*self.config.targets, *self.found)}
        problems = []
        for file_list in self.lists:
            file_list.refresh(now)
            problems.extend(file_list.problems)
            for target in file_list.targets:
                other = by_name.setdefault(target.name, target)
                if other is not target:
                    problems.append(f"{target.name} stands twice; the one at {other.shown_url} is used")
        self.problems = problems
        self._tell()
        targets = list(by_name.values())
        changed = targets != self.targets
        self.targets = targets
        return changed

    def _tell(self) -> None:
        if self._told is None:
            self._told = deque(self.problems, maxlen=MOST_TOLD)
            return
        for problem in self.problems:
            if problem not in self._told:
                self._told.append(problem)
                log.warning("%s", problem)

    def by_interval(self) -> dict[float, list[Target]]:
        """The targets of each scrape round."""
        rounds: dict[float, list[Target]] = {}
        for target in self.targets:
            rounds.setdefault(target.interval_seconds, []).append(target)
        return rounds
