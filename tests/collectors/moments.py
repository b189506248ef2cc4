"""The time that tests of counters begin at, and seconds from there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

T0 = datetime(2026, 11, 30, 12, 0)


def at(seconds: float) -> datetime:
    """UTC without a zone, as the store has it."""
    return T0 + timedelta(seconds=seconds)


def unix(seconds: float) -> float:
    """The same in Unix seconds, as a process tells its start."""
    return at(seconds).replace(tzinfo=UTC).timestamp()
