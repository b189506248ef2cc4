"""Numbers, places and times as words, the same in summaries, messages and reasons."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

GIB = 2**30
_MAKER = re.compile(r"^(NVIDIA|AMD|Tesla|Instinct)\s+", re.IGNORECASE)
_SIZE = re.compile(r"[\s-]+\d+\s?GB\b.*$", re.IGNORECASE)
_BARS = "▁▂▃▄▅▆▇█"


@lru_cache(maxsize=10_000)
def percent(ratio: float) -> str:
    """0.84 → "84 %", 0.796 → "79.6 %", 0.0042 → "0.42 %": one decimal, two digits under 1 %.

    Cut, not rounded: 79.96 % is "79.9 %", so that nothing reads as at a threshold, or full, before it is.
    """
    value = abs(ratio) * 100
    if value >= 1e9:
        return f"{ratio * 100:.3g} %"
    decimals = 1 if value >= 1 or value == 0 else min(1 - math.floor(math.log10(value)), 6)
    cut = math.floor(round(value * 10**decimals, 6)) / 10**decimals  # 0.29 × 100 is 28.999999999999996
    text = f"{cut:.{decimals}f}".rstrip("0").rstrip(".")
    return f"{'-' if ratio < 0 else ''}{text} %"


@lru_cache(maxsize=10_000)
def gib(count: float) -> str:
    """Bytes as GiB with one decimal, under 1 GiB as whole MiB."""
    return f"{count / GIB:.1f} GiB" if abs(count) >= GIB else f"{count / 2**20:.0f} MiB"


def quantity(value: float | None, unit: str) -> str:
    """A value in its unit (`ratio` or `bytes`); "–" for not known."""
    if value is None:
        return "–"
    return percent(value) if unit == "ratio" else gib(value)


@lru_cache(maxsize=1000)
def duration(seconds: float) -> str:
    """45 → "45 s", 120 → "2 min", 5400 → "1 h 30 min", 180000 → "2 d 2 h": two parts at most."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        # The seconds of a long span are noise; those of a short one are not.
        return f"{minutes} min {rest} s" if rest and minutes < 5 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def clock(moment: datetime, now: datetime) -> str:
    """The time of day in UTC, with the date when it is not today's."""
    if moment.date() == now.date():
        return f"{moment:%H:%M} UTC"
    return f"{moment.day} {moment:%b %H:%M} UTC"


def unix(moment: datetime) -> float:
    """The store's UTC without a zone → Unix seconds."""
    return moment.replace(tzinfo=UTC).timestamp()


def short_model(gpu_model: str) -> str:
    """ "NVIDIA H100 80GB HBM3" → "H100"; what is not recognised stays."""
    short = _SIZE.sub("", _MAKER.sub("", gpu_model.strip()))
    return short or gpu_model


def where(labels: Mapping[str, Any]) -> str:
    """ "node-2 GPU 3 (H100)", with the MIG instance if there is one; the UUID where host or index lack."""
    host, index, uuid = labels.get("host"), labels.get("gpu_index"), str(labels.get("gpu_uuid") or "unknown")
    place = f"{host} GPU {index}" if host and index is not None else f"{host or 'GPU'} {uuid}"
    if mig := labels.get("mig_instance"):
        place += f" MIG {mig}"
    if model := labels.get("gpu_model"):
        place += f" ({short_model(str(model))})"
    return place


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """The shape of a series in block characters: the worst of each stretch, scaled to its own range."""
    if len(values) < 2:
        return ""
    width = min(width, len(values))
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    heights = [max(values[a:b]) for a, b in pairwise(edges)]
    low, span = min(heights), max(heights) - min(heights)
    if span == 0:
        return _BARS[3] * width
    return "".join(_BARS[int((height - low) / span * (len(_BARS) - 1))] for height in heights)
