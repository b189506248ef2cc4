"""Retention: what is older than the configured span goes, and the file is folded together."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from sql.store import Store

AGED = ("gpu_sample", "engine_sample", "engine_histogram", "scrape")


class Retention(Protocol):
    """The part of the settings that is needed here."""

    @property
    def raw(self) -> float:
        """How long raw rows are kept, seconds."""


def housekeeping(store: Store, retention: Retention, now: datetime) -> None:
    """Delete raw rows past retention, superseded histogram bases, and checkpoint."""
    before = now - timedelta(seconds=retention.raw)
    for table in AGED:
        with store.write() as writer:
            writer.run(f"expire_{table}", before=before)
    with store.write() as writer:
        writer.run("expire_histogram_base")
    store.checkpoint()
