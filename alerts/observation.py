"""What a finding says about one subject at one moment, and the names of the reasons for a judgement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple


class Reason(StrEnum):
    """Why a state is what it is. Stored, shown and tested by name."""

    BELOW = "below_threshold"
    PENDING = "pending"
    PENDING_ANEW = "pending_anew_after_gap"
    NOT_HELD = "not_held"
    OVER = "over_threshold"
    HELD = "held_between_thresholds"
    CLEARED = "cleared"
    NO_DATA = "no_data"
    PREALLOCATED = "preallocated"
    WARMING_UP = "warming_up"
    NOT_APPLICABLE = "not_applicable"
    RULE_OFF = "rule_off"


class Stated(NamedTuple):
    """Why a check is stated and not judged: it cannot fire, and ends an incident that is open."""

    reason: Reason
    text: str


class Observation(NamedTuple):
    """One check of one subject. `value` None means "not known": it never fires and never resolves."""

    name: str
    """The finding: `vram_high`, …"""
    check: str
    subject: str
    value: float | None = None
    unit: str = "ratio"
    """`ratio` (0 to 1) or `bytes`."""
    fire_at: float = 0.0
    """A value at or beyond this fires."""
    clear_at: float = 0.0
    """A value strictly on the good side of this clears."""
    worse: Literal["higher", "lower"] = "higher"
    hold_seconds: float = 0.0
    """How long every value must fire before the incident does."""
    ts: datetime | None = None
    """Time of the newest sample, also of one too old to be a value."""
    stale_after_seconds: float = 45.0
    """Without a value for longer than this, a pending time does not count on."""
    severity: str = "warning"
    title: str = ""
    """A few words: "VRAM high"."""
    what: str = ""
    """The measure in words: "VRAM 84 % of 79.6 GiB"."""
    limit: str = ""
    """The rule in words: "over 80 % for 2 min"."""
    evidence: Mapping[str, Any] = {}
    labels: Mapping[str, Any] = {}
    stated: Stated | None = None

    def fires(self) -> bool:
        """Whether the value is at or beyond the fire threshold."""
        if self.value is None:
            return False
        return self.value >= self.fire_at if self.worse == "higher" else self.value <= self.fire_at

    def clears(self) -> bool:
        """Whether the value is strictly on the good side of the clear threshold."""
        if self.value is None:
            return False
        return self.value < self.clear_at if self.worse == "higher" else self.value > self.clear_at

    def worst(self, peak: float | None) -> float | None:
        """The worse of the value and an earlier peak; None when neither is known."""
        known = [value for value in (self.value, peak) if value is not None]
        if not known:
            return None
        return max(known) if self.worse == "higher" else min(known)
