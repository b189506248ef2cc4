"""When the monitor says that it cannot be trusted."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta

from app.config import Config, load_text
from app.monitor import JobState, Monitor
from app.targets import TargetList
from collectors.fetch import new_session
from collectors.ingest import Ingest
from collectors.rounds import Rounds
from sql.store import Store

T0 = datetime(2026, 11, 30, 12, 0)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def monitor(last_commit: float | None, last_judged: float | None, **job_errors: str) -> Monitor:
    """One that runs since T0, with a target every 10 s (timeout 5 s) and rules judged every 10 s."""
    config = load_text("targets: [{name: a, url: 'http://127.0.0.1:9/metrics'}]", "c.yaml")
    targets = TargetList(config, [])
    targets.refresh(T0)
    store = Store.open()
    made = Monitor(store, config, targets, lambda: T0)
    made.started_at = T0
    made._thread = threading.current_thread()

    async def rounds() -> Rounds:
        async with new_session() as session:
            return Rounds(Ingest(store), session, lambda: T0)

    made.rounds = asyncio.run(rounds())
    made.rounds.stats.last_commit = None if last_commit is None else at(last_commit)
    made.jobs["judge"] = JobState(last_ok=None if last_judged is None else at(last_judged))
    for name, error in job_errors.items():
        made.jobs[name] = JobState(last_error=error)
    return made


def test_a_monitor_that_scrapes_and_judges_has_no_trouble() -> None:
    assert monitor(100, 100).trouble(at(105)) == []


def test_scraping_has_stalled_after_three_intervals_and_a_timeout() -> None:
    assert monitor(100, 134).trouble(at(135)) == []
    assert monitor(100, 136).trouble(at(136)) == [
        "scraping has stalled: nothing written for 36 s (limit 35 s)"
    ]


def test_a_start_without_a_first_commit_is_given_the_same_time() -> None:
    assert monitor(None, None).trouble(at(30)) == []
    assert "scraping has stalled: nothing written for 40 s (limit 35 s)" in monitor(None, None).trouble(
        at(40)
    )


def test_rules_that_are_not_judged_are_a_trouble_though_scraping_goes_on() -> None:
    assert monitor(200, 160).trouble(at(200)) == ["alerts have not been judged for 40 s (limit 30 s)"]


def test_a_failing_job_is_named_with_its_error() -> None:
    assert monitor(100, 100, housekeeping="IOException: No space left on device").trouble(at(101)) == [
        "job housekeeping: IOException: No space left on device"
    ]


def test_a_monitor_without_targets_has_nothing_to_stall() -> None:
    config = Config(discover=False)
    made = Monitor(Store.open(), config, TargetList(config, []), lambda: T0)
    made.started_at = T0
    made._thread = threading.current_thread()
    made.jobs["judge"] = JobState(last_ok=at(1000))
    assert made.trouble(at(1001)) == []


def test_a_monitor_that_was_never_started_says_so() -> None:
    config = Config(discover=False)
    made = Monitor(Store.open(), config, TargetList(config, []), lambda: T0)
    assert made.trouble(T0) == ["the monitor is not running"]
