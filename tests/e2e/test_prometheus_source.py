"""What is pulled from a real Prometheus or VictoriaMetrics is what a direct scrape gives, row for row.

One server plays the same answers to each of them and to us. Rows must be equal but for their times and the
target's name; the i-th scrape is compared with the i-th.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.runtime import utc_now
from collectors.fetch import fetch, new_session
from collectors.ingest import Ingest
from collectors.registry import UnknownKindError, detect
from collectors.source import ExpositionKind
from collectors.target import Target
from sql.store import Store
from tests.collectors.pulling import Pulled, rows, source
from tests.e2e.played_server import STEPS, Played, bodies, played_server
from tests.e2e.prometheus_server import needs_prometheus, prometheus_server
from tests.e2e.victoria_server import needs_victoria, victoria_server
from tests.shared import SHARED, needs_shared

pytestmark = pytest.mark.wide

DEADLINE_SECONDS = 40
TABLES = ("gpu_sample", "engine_sample", "engine_histogram", "host_sample")
OF_THE_WAY = ("ts", "target", "interval_seconds")
"""What may differ: when it was read and by which name."""
EXPORTERS_OWN = {
    "pod": "dcgm-exporter-x7",
    "namespace": "gpu-operator",
    "container": "exporter",
    "node": "n1",
}


def scrape_configs(played: Played) -> list[dict[str, Any]]:
    """A job per path; the GPU exporter's with the labels that Kubernetes discovery gives its own pod."""
    place = played.url.removeprefix("http://")
    return [
        {
            "job_name": path.removeprefix("/"),
            "metrics_path": path,
            "static_configs": [{"targets": [place], "labels": labels_of(path)}],
        }
        for path in played.bodies
    ]


def labels_of(path: str) -> dict[str, str]:
    return EXPORTERS_OWN if path == "/dcgm" else {"project": "search", "zone": "a"}


def scraped_directly(played: Played, steps: int = STEPS) -> Store:
    """A store with all answers of the server, asked by ourselves."""
    store = Store.open()
    ingest = Ingest(store)
    targets = [
        Target.model_validate({"name": path, "url": played.url + path, "kind": "auto"})
        for path in played.bodies
    ]
    ingest.sync_targets(targets, utc_now())

    async def scrape() -> None:
        async with new_session() as session:
            for step in range(steps):
                at = utc_now() + timedelta(seconds=step)
                ingest.commit([ingest.read(one, at, await fetch(session, one)) for one in targets])

    asyncio.run(scrape())
    return store


def by_path(store: Store, table: str, path_of: Callable[[str], str]) -> dict[str, list[list[dict[str, Any]]]]:
    """Path → its scrapes, each the rows of one time without what may differ."""
    edges = {row["edge_set_id"]: row["edges_seconds"] for row in rows(store, "edge_set")}
    found: dict[str, dict[Any, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(store, table):
        kept = {key: value for key, value in row.items() if key not in OF_THE_WAY}
        if "edge_set_id" in kept:
            kept["edge_set_id"] = edges[kept["edge_set_id"]]
        if "gpu_uuid" in kept:  # a GPU without a UUID is known by its target
            kept["gpu_uuid"] = kept["gpu_uuid"].removeprefix(row["target"])
        found[path_of(row["target"])][row["ts"]].append(kept)
    return {path: [times[ts] for ts in sorted(times)] for path, times in found.items()}


def assert_equal_rows(direct: Store, pulled: Store, exact: bool = True) -> None:
    for table in TABLES:
        ours = by_path(direct, table, lambda target: target)
        theirs = by_path(pulled, table, lambda target: "/" + target.partition("/")[0])
        assert ours.keys() == theirs.keys()
        for path, scrapes in ours.items():
            assert len(scrapes) == STEPS
            for step, wanted in enumerate(scrapes):
                got = theirs[path][step]
                assert len(got) == len(wanted), (table, path, step)
                for one, other in zip(wanted, got, strict=True):
                    assert_same(one, other, (table, path, step), exact)


def assert_same(one: Mapping[str, Any], other: Mapping[str, Any], where: object, exact: bool) -> None:
    for column, value in one.items():
        if not exact and isinstance(value, float):
            assert math.isclose(value, other[column], rel_tol=1e-12), (where, column)
        else:
            assert other[column] == value, (where, column)


def pull_until(pulled: Pulled, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        assert time.monotonic() < deadline, pulled.last_try()
        time.sleep(0.3)
        pulled.pull()
        assert pulled.last_try()["error"] is None


def has_steps(pulled: Pulled, steps: int) -> bool:
    counts: dict[str, set[Any]] = defaultdict(set)
    for row in pulled.rows("scrape"):
        if row["ok"] and row["target"] != "prom":
            counts[row["target"]].add(row["ts"])
    return len(counts) == len(bodies()) and min(map(len, counts.values())) >= steps


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    with played_server(bodies()) as server:
        yield server


@pytest.fixture(scope="module")
def direct(played: Played) -> Iterator[Store]:
    store = scraped_directly(played)
    yield store
    store.close()


@pytest.fixture(scope="module")
def prometheus(played: Played, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus_server([], folder, scrape_configs=scrape_configs(played)) as server:
        yield server.url


@needs_prometheus
class TestPrometheus:
    def test_rows_pulled_live_with_a_restart_are_those_of_a_direct_scrape(
        self, played: Played, direct: Store, prometheus: str
    ) -> None:
        # From the very first scrape on: the past that was before the first pull is asked for.
        pulled = Pulled(source(prometheus, lag="0s", backfill="10m"))
        pulled.pull()
        pulled.read_past()
        pull_until(pulled, lambda: has_steps(pulled, 3))
        restarted = pulled.again()
        pull_until(restarted, lambda: has_steps(restarted, STEPS + 2))
        assert_equal_rows(direct, restarted.store)
        assert_no_row_twice(restarted.store)

    def test_a_backfill_alone_gives_the_rows_too(
        self, played: Played, direct: Store, prometheus: str
    ) -> None:
        wait_until(lambda: played.all_have("Prometheus", STEPS + 1), "scrapes by Prometheus")
        pulled = Pulled(source(prometheus, lag="0s", backfill="10m"))
        pulled.pull()
        assert pulled.notes()[-1].startswith("back-filled 0s of 10m")
        pulled.read_past()
        pull_until(pulled, lambda: has_steps(pulled, STEPS + 2))
        assert_equal_rows(direct, pulled.store)
        assert_no_row_twice(pulled.store)

    def test_derived_targets_bear_the_labels_of_their_target(self, prometheus: str, played: Played) -> None:
        wait_until(lambda: played.all_have("Prometheus", 1), "scrapes by Prometheus")
        pulled = Pulled(source(prometheus, lag="0s", backfill="1m"))
        pull_until(pulled, lambda: has_steps(pulled, 1))
        place = played.url.removeprefix("http://")
        targets = pulled.puller.intake.targets
        assert sorted(targets) == sorted(f"{path.removeprefix('/')}/{place}" for path in played.bodies)
        assert targets[f"vllm/{place}"].project == "search"
        assert targets[f"vllm/{place}"].labels == {"zone": "a", "job": "vllm", "instance": place}
        assert targets[f"dcgm/{place}"].labels == {**EXPORTERS_OWN, "job": "dcgm", "instance": place}


@needs_prometheus
@needs_shared
def test_real_answers_come_back_from_prometheus_as_they_were(tmp_path: Path) -> None:
    with played_server(real_answers()) as played:
        configs = scrape_configs(played)
        direct = scraped_directly(played, steps=1)
        with prometheus_server([], tmp_path, scrape_configs=configs) as server:
            wait_until(lambda: len(server.instant("up")) == len(configs), "a scrape of each")
            refused = {f"/{series.labels['job']}" for series in server.instant("up == 0")}
            pulled = Pulled(source(server.url, lag="0s", backfill="1m"))
            pulled.pull()
            pulled.read_past()
    compared = 0
    for table in TABLES:
        ours = by_path(direct, table, lambda target: target)
        theirs = by_path(pulled.store, table, lambda target: "/" + target.rpartition("/")[0])
        for path, (wanted, *_) in ours.items():
            if path in refused:
                continue
            for one, other in zip(wanted, theirs[path][0], strict=True):
                assert_same(one, other, (table, path, 0), exact=True)
                compared += 1
    assert compared > 60
    # What Prometheus takes for no exposition, ours reads in part.
    assert len(refused) <= 4, refused


def real_answers() -> dict[str, list[bytes | None]]:
    """Those of `../shared` that are expositions."""
    found: dict[str, list[bytes | None]] = {}
    for path in sorted((SHARED / "fixtures").glob("[eg]*/*.txt")):
        body = path.read_bytes()
        try:
            if isinstance(detect(body), ExpositionKind):
                found[f"/{path.stem}"] = [body]
        except UnknownKindError:
            continue
    return found


@needs_victoria
def test_rows_pulled_from_victoria_metrics_are_those_of_a_direct_scrape(
    played: Played, direct: Store, tmp_path: Path
) -> None:
    with victoria_server(scrape_configs(played), tmp_path) as url:
        wait_until(lambda: played.all_have("vm_promscrape", STEPS + 1), "scrapes by VictoriaMetrics")
        pulled = Pulled(source(url, lag="0s", backfill="10m"))
        pulled.pull()
        pulled.read_past()
        pull_until(pulled, lambda: has_steps(pulled, STEPS + 1))
        # It stores decimals: a value can differ in its 16th digit.
        assert_equal_rows(direct, pulled.store, exact=False)
        assert_no_row_twice(pulled.store)


def assert_no_row_twice(store: Store) -> None:
    for table in (*TABLES, "scrape"):
        seen = [
            tuple(
                row.get(key)
                for key in ("ts", "target", "gpu_uuid", "mig_instance", "replica", "model", "metric")
            )
            for row in rows(store, table)
        ]
        assert len(seen) == len(set(seen)), table


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.1)
