"""When the monitor says that it cannot be trusted."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime, timedelta

import pytest

from app.config import Config, load_text
from app.monitor import JobState, Monitor, scrape_job
from app.targets import TargetList
from sql.store import Store

T0 = datetime(2026, 11, 30, 12, 0)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def monitor(last_round: float | None, last_judged: float | None, **job_errors: str) -> Monitor:
    """One that runs since T0, with a target every 10 s (timeout 5 s) and rules judged every 10 s."""
    config = load_text("targets: [{name: a, url: 'http://127.0.0.1:9/metrics'}]", "c.yaml")
    targets = TargetList(config, [])
    targets.refresh(T0)
    made = Monitor(Store.open(), config, targets, lambda: T0)
    made.started_at = T0
    made._thread = threading.current_thread()
    for name, last_ok in ((scrape_job(10.0), last_round), ("judge", last_judged)):
        made.jobs[name] = JobState(T0, last_ok=None if last_ok is None else at(last_ok))
    for name, error in job_errors.items():
        made.jobs[name] = JobState(T0, last_error=error)
    return made


def test_a_monitor_that_scrapes_and_judges_has_no_trouble() -> None:
    assert monitor(100, 100).trouble(at(105)) == []


def test_scraping_has_stalled_after_three_intervals_and_a_timeout() -> None:
    assert monitor(100, 134).trouble(at(135)) == []
    assert monitor(100, 136).trouble(at(136)) == [
        "scraping every 10 s has stalled: no round has ended for 36 s (limit 35 s)"
    ]


def test_one_interval_that_stands_still_is_a_trouble_though_another_goes_on() -> None:
    config = load_text(
        "targets: [{name: a, url: 'http://127.0.0.1:9', interval: 5s},"
        " {name: b, url: 'http://127.0.0.1:9', interval: 1s}]",
        "c.yaml",
    )
    made = Monitor(Store.open(), config, TargetList(config, []), lambda: T0)
    made.targets.refresh(T0)
    made.started_at = T0
    made._thread = threading.current_thread()
    for name, last_ok in ((scrape_job(5.0), 10), (scrape_job(1.0), 59), ("judge", 59)):
        made.jobs[name] = JobState(T0, last_ok=at(last_ok))
    assert made.trouble(at(60)) == [
        "scraping every 5 s has stalled: no round has ended for 50 s (limit 20 s)"
    ]


def test_a_start_without_a_first_round_is_given_the_same_time() -> None:
    assert monitor(None, None).trouble(at(30)) == []
    assert "scraping every 10 s has stalled: no round has ended for 40 s (limit 35 s)" in monitor(
        None, None
    ).trouble(at(40))


def test_an_interval_that_is_new_is_given_the_same_time_from_when_it_came() -> None:
    made = monitor(500, 500)
    made.jobs[scrape_job(10.0)] = JobState(at(490))
    assert made.trouble(at(505)) == []


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
    made.jobs["judge"] = JobState(T0, last_ok=at(1000))
    assert made.trouble(at(1001)) == []


def test_a_monitor_that_was_never_started_says_so() -> None:
    config = Config(discover=False)
    made = Monitor(Store.open(), config, TargetList(config, []), lambda: T0)
    assert made.trouble(T0) == ["the monitor is not running"]


def test_two_stops_of_a_monitor_that_does_not_end_wait_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.monitor.STOP_SECONDS", 0.2)
    made = monitor(None, None)
    released = threading.Event()
    made._thread = threading.Thread(target=released.wait, daemon=True)
    made._thread.start()
    made._loop, made._stopping = asyncio.new_event_loop(), asyncio.Event()
    started = time.monotonic()
    made.stop()
    first = time.monotonic() - started
    made.stop()  # the server's end and the process's
    second = time.monotonic() - started - first
    assert first >= 0.2
    assert second < 0.1
    released.set()
    made._thread.join()
    made._loop.close()
