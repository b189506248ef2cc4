"""Retention: what is older than the configured span goes, and the file is folded together."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from sql.store import Store

RAW = (
    "gpu_sample", "gpu_process", "engine_sample", "engine_histogram", "host_sample", "probe", "scrape",
    "engine_gpu", "pull_progress", "target",
)  # fmt: skip
"""`engine_gpu` and `pull_progress` go by when they last were of use, a target by when it was gone."""

TOLD = ("finding", "outbox", "incident_change", "incident")

USED = ("project_usage",)

TOLD_SECONDS = 400 * 86_400.0
"""What was judged and told, and what projects used, is small and is kept for thirteen months, as long as a
year's comparison needs."""


class Retention(Protocol):
    """The part of the settings that is needed here."""

    @property
    def raw(self) -> float:
        """How long raw rows are kept, seconds."""


def housekeeping(store: Store, retention: Retention, now: datetime) -> None:
    """Delete rows past their retention and superseded bases of counters, and checkpoint.

    A transaction per table, so that no scrape round waits for all of them.
    """
    ages = dict.fromkeys(RAW, retention.raw) | dict.fromkeys((*TOLD, *USED), max(TOLD_SECONDS, retention.raw))
    for table, seconds in ages.items():
        with store.write() as writer:
            writer.run(f"expire_{table}", before=now - timedelta(seconds=seconds))
    with store.write() as writer:
        writer.run("expire_histogram_base", before=now - timedelta(seconds=retention.raw))
    with store.write() as writer:
        writer.run("expire_usage_base", before=now - timedelta(seconds=max(TOLD_SECONDS, retention.raw)))
    store.checkpoint()
