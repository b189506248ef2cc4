"""Lengths of time as people write them: `90s`, `2m`, `1h30m`, `1.5h`, `500ms`, or plain seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator

SECONDS_BY_UNIT = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
"""The units of Prometheus' configuration, save `y`: a year has no fixed length."""

LONGEST_SECONDS = 100 * 365 * 86_400.0
"""A hundred years: longer than any setting can mean, and safe to add to a date."""

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def parse_duration(value: object) -> float:
    """Seconds of `90s`, `2m`, `1h30m`, `1.5h`, `500ms`, `30d`, or of a plain number (seconds).

    Raises ValueError, with the cure, for anything else, for a negative one and for one over 100 years.
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(min(value, 10**300)) if isinstance(value, int) else value
    elif isinstance(value, str) and _NUMBER.fullmatch(text := value.strip()):
        seconds = float(text)
    elif isinstance(value, str) and _WHOLE.fullmatch(text):
        seconds = math.fsum(float(number) * SECONDS_BY_UNIT[unit] for number, unit in _PART.findall(text))
    else:
        raise ValueError(f"{_shown(value)} is not a length of time; write it like 30s, 5m, 1h30m or 500ms")
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError(f"{_shown(value)} is out of range; a length of time is from 0s to 100 years")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest usual writing of a length of time: 90 → `1m30s`, 0.5 → `500ms`, 7200 → `2h`.

    To the millisecond; 0 is `0s`. Weeks are written as days.
    """
    left = round(seconds * 1000)
    parts = []
    for unit, milliseconds in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        whole, left = divmod(left, milliseconds)
        if whole:
            parts.append(f"{whole}{unit}")
    return "".join(parts) or "0s"


def _shown(value: object) -> str:
    """The value as it may stand in a message: quoted text, cut short; other things by their type."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) or abs(value) < 10**15 else "that number"
    return (
        "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else repr(value)[:40]
    )


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""A pydantic field that takes the above and holds seconds."""
