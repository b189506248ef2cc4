"""The level of memory in use after an engine has warmed up: what growth is measured against.

The median over `plateau_seconds` that begin `warm_up_seconds` after the engine's start, or after first sight
of an engine already running. Remembered in table `vram_baseline`, so that a restart of infermeter keeps it;
a restart of the engine begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from alerts.settings import VramHighSettings

Key = tuple[str, str]
"""(gpu_uuid, mig_instance)"""

START_TOLERANCE_SECONDS = 1.0
"""Two readings of the same process start may differ by rounding."""

FEWEST_SAMPLES = 5
"""A median of fewer is no level."""

LOADED_SHARE = 0.5
"""A level under half of the reservation is an engine that sleeps or still loads, not its plateau."""


class Baseline(NamedTuple):
    """A row of table `vram_baseline`. `engines`: engine target → process start in Unix seconds, or None."""

    gpu_uuid: str
    mig_instance: str
    engines: Mapping[str, float | None]
    since: datetime
    baseline_bytes: int | None = None
    learned_at: datetime | None = None

    def window(self, parameters: VramHighSettings) -> tuple[datetime, datetime]:
        """From when to when the level is taken."""
        begin = self.since + timedelta(seconds=parameters.warm_up_seconds)
        return begin, begin + timedelta(seconds=parameters.plateau_seconds)

    def due(self, parameters: VramHighSettings, now: datetime) -> bool:
        """Whether the level is unknown and its window is over."""
        return self.baseline_bytes is None and now >= self.window(parameters)[1]


class Plateau(NamedTuple):
    """What the store holds of one window: medians, and how many samples they are of."""

    used_bytes: float | None
    used_ratio: float | None
    samples: int


def renew(
    known: Mapping[Key, Baseline], seen: Mapping[Key, Mapping[str, float | None]], now: datetime
) -> dict[Key, Baseline]:
    """The baselines of all GPUs in `seen` (key → engines as in `Baseline`): kept, begun or begun anew."""
    return {key: _renewed(known.get(key), key, engines, now) for key, engines in seen.items()}


def _renewed(
    before: Baseline | None, key: Key, engines: Mapping[str, float | None], now: datetime
) -> Baseline:
    if before is None or before.engines.keys() != engines.keys():
        return Baseline(*key, engines, now)
    filled = {target: start or before.engines[target] for target, start in engines.items()}
    restarts = [start for target, start in engines.items() if start and _restarted(before, target, start)]
    if restarts:
        start = datetime.fromtimestamp(max(restarts), UTC).replace(tzinfo=None)
        return Baseline(*key, filled, min(start, now))
    return before if filled == before.engines else before._replace(engines=filled)


def _restarted(before: Baseline, target: str, start: float) -> bool:
    earlier = before.engines[target]
    if earlier is None:  # the start was not known: only one after first sight is a restart
        return start > before.since.replace(tzinfo=UTC).timestamp() + START_TOLERANCE_SECONDS
    return abs(start - earlier) > START_TOLERANCE_SECONDS


def learn(baseline: Baseline, plateau: Plateau, reservation_ratio: float, now: datetime) -> Baseline:
    """The baseline with its level, or begun anew when the window holds none: too few samples (infermeter was
    down), or an engine asleep or still loading."""
    loaded = plateau.used_ratio is not None and plateau.used_ratio >= LOADED_SHARE * reservation_ratio
    if plateau.used_bytes is None or plateau.samples < FEWEST_SAMPLES or not loaded:
        return baseline._replace(since=now)
    return baseline._replace(baseline_bytes=round(plateau.used_bytes), learned_at=now)


def engines_of(row: Mapping[str, Any]) -> dict[str, float | None]:
    """`engine_targets` and `process_starts` of a reservations row as in `Baseline.engines`."""
    return dict(zip(row["engine_targets"], row["process_starts"], strict=True))
