"""Gauges that stand still: requests run, the scrape is good, and no token is counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.pages import states
from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm

T0 = datetime(2026, 11, 30, 12, 0)
TARGET = Target(name="llm", kind="vllm", url="http://host:8000/metrics")


def engine(scrapes: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """What the pages ask of an engine scraped every 10 s: (requests running, generated tokens) a scrape."""
    store = Store.open()
    ingest = Ingest(store)
    ingest.sync_targets([TARGET], T0)
    for i, (running, generation) in enumerate(scrapes):
        body = vllm(running=running, generation=generation, prompt=0)
        ts = T0 + timedelta(seconds=10 * i)
        ingest.commit([ingest.read(TARGET, ts, Fetched(200, body, 0.01, None))])
    as_of = T0 + timedelta(seconds=10 * len(scrapes))
    (row,) = store.query(
        "page_engines", as_of=as_of, look_back=300.0, project=None, environment=None
    ).to_dicts()
    return row


@pytest.mark.parametrize(
    ("scrapes", "seconds", "frozen"),
    [
        ([(4, 100.0 + i) for i in range(20)], 0, False),
        ([(4, 100.0)] * 3 + [(4, 200.0)] * 13, 120, True),
        ([(4, 100.0)] * 3 + [(4, 200.0)] * 12, 110, False),
        ([(0, 100.0)] * 30, 0, False),
        ([(4, 100.0)] * 20 + [(0, 100.0)], 0, False),
        ([(4, 500.0)] * 3 + [(4, 0.0)] * 6, 30, False),
    ],
    ids=[
        "working",
        "frozen for two minutes",
        "not yet two minutes",
        "idle",
        "ended",
        "restarted (held for two scrapes)",
    ],
)
def test_an_engine_is_frozen_when_requests_run_for_two_minutes_without_a_token(
    scrapes: list[tuple[float, float]], seconds: float, frozen: bool
) -> None:
    row = engine(scrapes)
    assert row["frozen_seconds"] == seconds
    assert states.is_frozen(row) is frozen


def test_a_slowly_scraped_engine_needs_three_scrapes() -> None:
    assert not states.is_frozen({"frozen_seconds": 170.0, "interval_seconds": 60.0})
    assert states.is_frozen({"frozen_seconds": 180.0, "interval_seconds": 60.0})


def test_without_a_counter_nothing_is_known_to_be_frozen() -> None:
    assert not states.is_frozen({"frozen_seconds": None, "interval_seconds": 10.0})
