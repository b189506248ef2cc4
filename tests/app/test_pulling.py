"""The monitor with a Prometheus among its targets: it pulls, lists what it finds, and waits for nobody."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config import load_text
from app.monitor import Monitor
from app.pulling import Pulling
from app.recorder import record
from app.runtime import utc_now
from app.targets import TargetList
from sql.store import Store
from tests.collectors.exposition_samples import vllm
from tests.collectors.fake_prometheus import EPOCH, Asked, FakePrometheus, Reply, fake_prometheus
from tests.collectors.pulling import rows

DEADLINE_SECONDS = 20


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    """Its clock goes as ours does."""
    with fake_prometheus() as server:

        def tick(_: Asked) -> None:
            server.now = (utc_now() - EPOCH).total_seconds()

        server.wrong = tick
        yield server


def scrape(fake: FakePrometheus, instance: str = "a:8000") -> None:
    fake.scrape("vllm", instance, vllm(), (utc_now() - EPOCH).total_seconds())


@contextmanager
def running(url: str, store: Store, *more: dict[str, Any], **settings: Any) -> Iterator[Monitor]:
    source = {
        "kind": "prometheus",
        "name": "prom",
        "url": url,
        "interval": "200ms",
        "prometheus": {"lag": "300ms"},
    }
    config = load_text(yaml.safe_dump({"targets": [source | settings, *more]}), "c.yaml")
    targets = TargetList(config, [])
    targets.refresh(utc_now())
    monitor = Monitor(store, config, targets, utc_now)
    monitor.start()
    try:
        yield monitor
    finally:
        monitor.stop()
        assert monitor.ended


def wait_until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def names(store: Store) -> dict[str, tuple[str | None, bool]]:
    """Target → where it is from, and whether it is gone."""
    return {row["target"]: (row["origin"], row["gone_at"] is not None) for row in rows(store, "target")}


def tries(store: Store, target: str) -> list[dict[str, Any]]:
    return [row for row in rows(store, "scrape") if row["target"] == target]


def test_what_the_source_shows_is_listed_and_stored_and_not_scraped(fake: FakePrometheus) -> None:
    store = Store.open()
    with running(fake.url, store) as monitor:
        wait_until(lambda: tries(store, "prom"))
        scrape(fake)
        wait_until(lambda: rows(store, "engine_sample"))
        assert names(store) == {"prom": ("config", False), "vllm/a:8000": ("prometheus", False)}
        assert {"pull prom", "back-fill prom"} <= monitor.jobs.keys()
        assert not [name for name in monitor.jobs if name.startswith("scrape")]
        assert monitor.trouble(utc_now()) == []
    store.close()


def test_a_restart_knows_its_targets_before_the_first_pull(fake: FakePrometheus) -> None:
    store = Store.open()
    with running(fake.url, store):
        wait_until(lambda: tries(store, "prom"))
        scrape(fake)
        wait_until(lambda: rows(store, "engine_sample"))
    fake.wrong = lambda _: Reply(503, b"restarting")
    with running(fake.url, store) as monitor:
        wait_until(lambda: tries(store, "prom")[-1]["error"] == "HTTP 503 (restarting)")
        assert [target.name for target in monitor.targets.targets] == ["prom", "vllm/a:8000"]
        assert names(store)["vllm/a:8000"] == ("prometheus", False)
    store.close()


def test_a_source_that_hangs_or_is_not_there_delays_no_other(fake: FakePrometheus) -> None:
    store = Store.open()
    fake.wrong = lambda asked: Reply(hangs=True) if asked.path.startswith("/api") else Reply(200, vllm())
    near = {"kind": "vllm", "name": "near", "url": f"{fake.url}/metrics", "interval": "200ms"}
    nobody = {"kind": "prometheus", "name": "nobody", "url": "http://127.0.0.1:9"}
    with running(fake.url, store, near, nobody, interval="10s", timeout="5s"):
        wait_until(lambda: len([row for row in tries(store, "near") if row["ok"]]) >= 5)
        wait_until(lambda: tries(store, "nobody"))
        assert tries(store, "prom") == []  # still waiting
        (row,) = tries(store, "nobody")
        assert "Connection refused" in row["error"]
    store.close()


def test_a_pull_that_never_ends_is_a_trouble() -> None:
    config = load_text("targets: [{kind: prometheus, name: prom, url: 'http://127.0.0.1:9'}]", "c.yaml")
    targets = TargetList(config, [])
    start = datetime(2026, 11, 30, 12, 0)
    targets.refresh(start)
    store = Store.open()
    made = Monitor(store, config, targets, lambda: start)
    made.started_at = start
    made._thread = threading.current_thread()
    made.pulling = Pulling(targets, None, lambda: start)  # type: ignore[arg-type]  # no round is run
    # Three intervals of 10 s, and what a pull takes until it is given up: 20 timeouts of 5 s.
    assert made.trouble(start + timedelta(seconds=130)) == [
        "alerts have not been judged for 130 s (limit 30 s)"
    ]
    assert made.trouble(start + timedelta(seconds=131))[0] == (
        "pulling from prom has stalled: no pull has ended for 131 s (limit 130 s)"
    )
    store.close()


def test_a_recording_leaves_the_source_out_and_says_so(fake: FakePrometheus, tmp_path: Path) -> None:
    fake.wrong = lambda asked: Reply(200, vllm()) if asked.path == "/metrics" else None
    config = load_text(
        f"targets: [{{kind: prometheus, name: prom, url: '{fake.url}'}}, {{name: near, url: '{fake.url}'}}]",
        "c.yaml",
    )
    targets = TargetList(config, [])
    targets.refresh(utc_now())
    said: list[str] = []
    assert asyncio.run(record(tmp_path / "out.jsonl.gz", targets, 0.1, said.append)) == 1
    assert said == ["prom is left out: what it answers is no target's, record its targets"]
