"""A puller with a store of its own, as the monitor has one, and an engine that a fake Prometheus scrapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from app.runtime import utc_now
from collectors.ingest import Ingest
from collectors.prometheus.derived import Names
from collectors.prometheus.pull import Puller
from collectors.target import PROMETHEUS, Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm
from tests.collectors.fake_prometheus import FakePrometheus

STEP = 10.0
"""Seconds between two scrapes of the fake Prometheus."""

KEYS = ("ts", "target", "gpu_uuid", "replica", "model", "metric")


@dataclass
class Pulled:
    """One source pulled into one store. `again` is the same after a restart of infermeter."""

    source: Target
    store: Store = field(default_factory=Store.open)
    clock: Callable[[], datetime] = utc_now
    listings: list[dict[str, Target]] = field(default_factory=list)
    """What the target list was told, each time."""

    def __post_init__(self) -> None:
        self.ingest = Ingest(self.store)
        self.ingest.restore()
        self.puller = Puller(
            self.source, self.ingest, asyncio.Lock(), lambda: self.clock(), Names(), self._listed,
            back_off_seconds=0.01,
        )  # fmt: skip
        self.puller.restore()
        self._sync(self.puller.intake.targets)

    def again(self, **changed: Any) -> Pulled:
        """A new process on the same store."""
        self.puller.close()
        source = self.source.model_copy(update=changed)
        return Pulled(source, self.store, self.clock)

    async def _listed(self, now: Mapping[str, Target], gone: Mapping[str, Target]) -> None:
        self.listings.append(dict(now))
        if gone:
            self._sync({**now, **gone})
        self._sync(now)

    def _sync(self, targets: Mapping[str, Target]) -> None:
        origins = {self.source.name: "config", **dict.fromkeys(targets, PROMETHEUS)}
        self.ingest.sync_targets([self.source, *targets.values()], self.clock(), origins)

    def pull(self) -> None:
        """One live pull."""
        asyncio.run(self.puller.pull())

    def read_past(self) -> None:
        """What is left of the past."""
        asyncio.run(self.puller.past.read())

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table, oldest first."""
        return rows(self.store, table)

    def last_try(self) -> dict[str, Any]:
        """The newest scrape row of the source itself."""
        return [row for row in self.rows("scrape") if row["target"] == self.source.name][-1]

    def notes(self) -> list[str]:
        """What Sources says of the source."""
        (row,) = [row for row in self.rows("target") if row["target"] == self.source.name]
        return list(row["notes"] or [])


def rows(store: Store, table: str) -> list[dict[str, Any]]:
    """A table of a store, oldest first."""
    frame = store._cursor().sql(f"SELECT * FROM {table}").pl()
    assert isinstance(frame, pl.DataFrame)
    keys = [
        key
        for key in ("ts", "target", "replica", "model", "metric", "gpu_uuid", "mig_instance")
        if key in frame
    ]
    return frame.sort(keys).to_dicts()


def source(url: str, **settings: Any) -> Target:
    """A source at a URL; `settings` of its `prometheus:` group, and `interval` and `timeout`."""
    pace = {key: settings.pop(key) for key in ("interval", "timeout") if key in settings}
    return Target.model_validate(
        {"kind": PROMETHEUS, "name": "prom", "url": url, "prometheus": settings, "interval": "10s", **pace}
    )


def engine(number: int) -> bytes:
    """What vLLM says at its n-th scrape: 3 requests more each time, 1 of them within 0.1 s, 2 within 1 s."""
    return vllm(
        running=number % 4,
        prompt=100.0 * number,
        ttft={"0.1": 1.0 * number, "1.0": 2.0 * number, "+Inf": 3.0 * number},
        ttft_sum=0.5 * number,
    )


def scrape_past(fake: FakePrometheus, seconds: float, target: str = "a:8000") -> int:
    """Scrapes every 10 s up to now; how many."""
    count = int(seconds / STEP)
    for number in range(count):
        fake.scrape("vllm", target, engine(number), fake.now - seconds + STEP * (number + 1))
    return count


def go_on(fake: FakePrometheus, first: int, count: int = 1, target: str = "a:8000") -> None:
    """`count` scrapes more, the first as the engine's `first`, and the clock with them."""
    for number in range(first, first + count):
        fake.now += STEP
        fake.scrape("vllm", target, engine(number))


def pulled_from(fake: FakePrometheus, **settings: Any) -> Pulled:
    """A puller of it, by its clock."""
    return Pulled(source(fake.url, **{"lag": "0s", "timeout": "1s", **settings}), clock=fake.clock)


def assert_each_once(pulled: Pulled) -> None:
    """No row stands there twice."""
    for table in ("scrape", "gpu_sample", "engine_sample", "engine_histogram"):
        seen = [tuple(row.get(key) for key in KEYS) for row in pulled.rows(table) if row["target"] != "prom"]
        assert len(seen) == len(set(seen)), table


def prompts(pulled: Pulled) -> list[float]:
    """Prompt tokens of each row: `engine(n)` has 100 n."""
    return [row["prompt_tokens_total"] for row in pulled.rows("engine_sample")]


def counted(pulled: Pulled) -> list[float]:
    """Requests counted over all rows, per bucket."""
    increases = [row["increases"] for row in pulled.rows("engine_histogram") if row["increases"] is not None]
    return [sum(column) for column in zip(*increases, strict=True)]
