"""What every list of targets has in common: it is looked at again and again, and keeps its last good state.

A list consists of parts (files, DNS names, namespaces, or the list itself), so that a part that breaks does
not cost the others their news.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import Field, field_validator

from collectors.durations import Duration
from collectors.target import NVML, Target, TargetSettings
from collectors.target_groups import ListError, capped

LIST_TIMEOUT_SECONDS = 10.0
"""How long one part of a list may take that comes over the network. Nothing waits for it but the list."""


class ListSettings(TargetSettings):
    """What holds for all targets of a list."""

    @field_validator("kind")
    @classmethod
    def _over_the_network(cls, value: str) -> str:
        if value == NVML:
            raise ValueError("the GPUs of this machine are in no list; write `kind: nvml` under `targets`")
        return value


class NetworkListSettings(ListSettings):
    """A list that comes over the network, and what holds for all targets in it."""

    refresh_interval_seconds: Duration = Field(default=60.0, ge=5, validation_alias="refresh_interval")
    """Time between two looks at the list."""


class Changes(NamedTuple):
    """How a list differs from what it was at the refresh before."""

    added: list[Target]
    removed: list[Target]
    changed: list[Target]
    """Same name, other settings: as they are now."""

    def any(self) -> bool:
        """Whether there is any difference."""
        return bool(self.added or self.removed or self.changed)


class Part(NamedTuple):
    """One part of a list as last seen."""

    targets: list[Target]
    """The last good ones."""
    problems: list[str]
    broken_since: datetime | None = None
    doubted: bool = False
    """It was empty after an error, and that is not believed yet."""
    ever_read: bool = True
    """Whether it was good once since the start."""


class PartGoneError(Exception):
    """A part that was there a moment ago is gone, and its targets with it."""


class TargetSource(ABC):
    """The targets of one list. One thread at a time refreshes it; any may read `targets` and `problems`."""

    origin: str
    """What the setting is called; stands beside each of its targets."""
    part: str = "part"
    """What people call one of its parts."""
    refresh_seconds: float | None = None
    """Time between two looks, where a look waits for the network; None: it is cheap, and done each time."""

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.problems: list[str] = []
        """What is wrong at the moment, in words, each naming its part."""
        self.settled = False
        """Whether all of it was good once since the start. Until then, what it lacks may still be there."""
        self._parts: dict[str, Part] = {}

    @property
    @abstractmethod
    def title(self) -> str:
        """What messages call the list as a whole; holds no secret."""

    @abstractmethod
    def parts(self) -> tuple[Sequence[str], list[str]]:
        """The names of its parts as messages call them, and what is wrong with the list of them."""

    @abstractmethod
    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        """The targets of one part, and what is wrong with single ones.

        Raises ListError, without naming the part, and PartGoneError.
        """

    def refresh(self, now: datetime) -> Changes:
        """Look again. Never raises for what a list says or does not say.

        A part that is broken keeps its last good targets and says so in `problems`; the targets of a part
        that is gone are removed.
        """
        names, problems = self.parts()
        looked = {name: self._looked_at(name, now) for name in names}
        self._parts = {name: part for name, part in looked.items() if part is not None}
        before = {target.name: target for target in self.targets}
        after: dict[str, Target] = {}
        for name, part in self._parts.items():
            problems += part.problems
            doubles = [
                f"{name}: {target.name} stands in another {self.part} too; that one is used"
                for target in part.targets
                if after.setdefault(target.name, target) is not target
            ]
            problems += capped(doubles)
        self.targets, self.problems = list(after.values()), problems
        self.settled = all(part.ever_read for part in self._parts.values())
        return Changes(
            added=[target for name, target in after.items() if name not in before],
            removed=[target for name, target in before.items() if name not in after],
            changed=[target for name, target in after.items() if name in before and before[name] != target],
        )

    def _looked_at(self, name: str, now: datetime) -> Part | None:
        """The part as it is now; None when it is gone."""
        last = self._parts.get(name)
        try:
            targets, problems = self.read(name, now)
        except PartGoneError:
            return None
        except ListError as error:
            since = last.broken_since if last is not None and last.broken_since is not None else now
            return _kept(name, str(error), last, since)
        if not targets and last is not None and self._doubtful(last):
            reason = "it came back empty after an error, which the next look must confirm"
            return _kept(name, reason, last, last.broken_since or now)._replace(doubted=True)
        return Part(targets, [f"{name}: {problem}" for problem in problems])

    def _doubtful(self, last: Part) -> bool:
        """Whether an empty list is not to be believed yet: a server that has just come back may not know all
        there is. A file says what it says."""
        lost = bool(last.targets) and last.broken_since is not None
        return self.refresh_seconds is not None and lost and not last.doubted


def _kept(name: str, reason: str, last: Part | None, since: datetime) -> Part:
    targets = last.targets if last is not None else []
    kept = f"its last good list ({len(targets)} targets) stays in use" if targets else "it gives no targets"
    told = f"{name}: {reason}; {kept} (since {since:%Y-%m-%d %H:%M} UTC)"
    return Part(targets, [told], since, ever_read=last is not None and last.ever_read)
