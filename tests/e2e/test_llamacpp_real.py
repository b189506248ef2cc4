"""A real llama.cpp server under load: what is stored and served is what the server said."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from app import api, runtime
from app.config import Config
from collectors.fetch import new_session
from collectors.ingest import Ingest
from collectors.rounds import Rounds
from collectors.target import Target
from sql.store import Store
from tests.e2e.llama_server import (
    complete,
    completions,
    llama_server,
    metric_values,
    metrics_text,
    needs_llama,
    write_tiny_model,
)

pytestmark = [pytest.mark.wide, needs_llama]

SLOTS, REQUESTS, TOKENS = 2, 8, 1500
RUNNING, WAITING = "llamacpp:requests_processing", "llamacpp:requests_deferred"
COUNTERS = {
    "prompt_tokens_total": "llamacpp:prompt_tokens_total",
    "generation_tokens_total": "llamacpp:tokens_predicted_total",
    "prefix_cache_hits_total": "llamacpp:prompt_tokens_cached_total",
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def server(tiny_model: Path) -> Iterator[str]:
    with llama_server(tiny_model, slots=SLOTS, context_tokens=SLOTS * 2048) as base_url:
        yield base_url


@dataclass
class Seen:
    """One scrape of ours between two by hand."""

    asked_before: float
    before: dict[str, float]
    stored: dict[str, Any]
    after: dict[str, float]
    answered_after: float


class Collection:
    """Our collection of one target into a store, a scrape when told to."""

    def __init__(self, base_url: str, store: Store, rounds: Rounds) -> None:
        self.base_url = base_url
        self.store = store
        self._rounds = rounds
        self._target = Target(name="llama", url=f"{base_url}/metrics", model="tiny-random")

    async def scrape(self) -> Seen:
        asked = time.time()
        before = metric_values(await asyncio.to_thread(metrics_text, self.base_url))
        await self._rounds.run([self._target], 10.0)
        after = metric_values(await asyncio.to_thread(metrics_text, self.base_url))
        return Seen(asked, before, self.newest(), after, time.time())

    def newest(self) -> dict[str, Any]:
        long_ago = runtime.utc_now() - timedelta(hours=1)
        found = self.store.query(
            "api_engines", since=long_ago, project=None, environment=None, target="llama"
        ).to_dicts()
        assert len(found) == 1
        return found[0]


@asynccontextmanager
async def collection(base_url: str) -> AsyncIterator[Collection]:
    store = Store.open(":memory:")
    try:
        async with new_session() as session:
            ingest = Ingest(store)
            made = Collection(base_url, store, Rounds(ingest, session, runtime.utc_now))
            ingest.sync_targets([made._target], runtime.utc_now())
            yield made
    finally:
        store.close()


@asynccontextmanager
async def served_api(store: Store) -> AsyncIterator[str]:
    """Our HTTP API on the store; yields its address."""
    runtime.set_current(runtime.Runtime(store, Config(discover=False)))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=api.routes()), log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        runtime.set_current(None)


def get_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def assert_counters_equal(seen: Seen) -> None:
    for column, name in COUNTERS.items():
        assert seen.before[name] == seen.stored[column] == seen.after[name], column


def test_idle_server_counters_are_stored_as_it_says_them(server: str) -> None:
    async def scenario() -> Seen:
        async with collection(server) as ours:
            await asyncio.to_thread(complete, server, "hello", 7)
            return await ours.scrape()

    seen = asyncio.run(scenario())
    assert_counters_equal(seen)
    assert seen.stored["generation_tokens_total"] == 7
    assert seen.stored["requests_running"] == 0
    assert seen.stored["requests_waiting"] == 0
    assert (seen.stored["engine"], seen.stored["model"]) == ("llamacpp", "tiny-random")
    # llama.cpp does not say these: not known is not 0.
    assert seen.stored["kv_cache_used_ratio"] is None
    assert seen.stored["finished_stop_total"] is None


def test_loaded_server_is_stored_and_served_as_it_says(server: str) -> None:
    async def scenario() -> tuple[Seen, list[Seen], Seen, list[dict[str, Any]], dict[str, Any]]:
        async with collection(server) as ours:
            idle = await ours.scrape()
            with completions(server, REQUESTS, TOKENS) as running:
                loaded = []
                while not all(request.done() for request in running):
                    loaded.append(await ours.scrape())
                answers = [request.result() for request in running]
            idle_again = await ours.scrape()
            async with served_api(ours.store) as base_url:
                rows = (await asyncio.to_thread(get_json, f"{base_url}/api/v1/engines"))["rows"]
            assert [answer["tokens_predicted"] for answer in answers] == [TOKENS] * REQUESTS
            series = ours.store.query(
                "page_engine_series", target="llama", replica=idle.stored["replica"], model="tiny-random",
                from_ts=idle.stored["ts"] + timedelta(microseconds=1), to_ts=idle_again.stored["ts"],
                step=86_400, lead=60,
            ).to_dicts()  # fmt: skip
            return idle, loaded, idle_again, rows, series[-1]

    idle, loaded, idle_again, rows, series = asyncio.run(scenario())

    for seen in loaded:
        # Nobody else asks anything of this server: what does not change between the scrapes by hand is
        # what ours saw, and the rest lies between.
        for column, name in {**COUNTERS, "requests_running": RUNNING}.items():
            low, high = sorted((seen.before[name], seen.after[name]))
            assert low <= seen.stored[column] <= high, column
        assert min(seen.before[WAITING], seen.after[WAITING]) <= seen.stored["requests_waiting"]
        if seen.before[WAITING] >= seen.after[WAITING]:  # from the moment all have been sent
            assert seen.stored["requests_waiting"] <= seen.before[WAITING]
    settled = [
        seen for seen in loaded if all(seen.before[name] == seen.after[name] for name in (RUNNING, WAITING))
    ]
    full = [seen for seen in settled if seen.before[WAITING] == REQUESTS - SLOTS]
    assert full, "the server was never seen with every slot taken and the rest waiting"
    assert {seen.stored["requests_running"] for seen in full} == {SLOTS}
    assert {seen.stored["requests_waiting"] for seen in full} == {REQUESTS - SLOTS}
    assert all(
        (seen.stored["requests_running"], seen.stored["requests_waiting"])
        == (seen.before[RUNNING], seen.before[WAITING])
        for seen in settled
    )

    assert_counters_equal(idle)
    assert_counters_equal(idle_again)
    generated = (
        idle_again.after[COUNTERS["generation_tokens_total"]]
        - idle.before[COUNTERS["generation_tokens_total"]]
    )
    assert generated == REQUESTS * TOKENS

    # The rate over the load: the server's tokens over our clock, and that within the clock of the hand.
    seconds = (idle_again.stored["ts"] - idle.stored["ts"]).total_seconds()
    rate = series["generation_tokens_per_second"]
    assert rate == pytest.approx(generated / seconds, rel=1e-9)
    assert generated / (idle_again.answered_after - idle.asked_before) < rate
    assert series["running_max"] == SLOTS
    assert series["waiting_max"] == REQUESTS - SLOTS

    (row,) = rows
    for column, name in COUNTERS.items():
        assert row[column] == idle_again.after[name], column
    assert (row["requests_running"], row["requests_waiting"]) == (0, 0)
    assert row["kv_cache_used_ratio"] is None
    scraped = datetime.fromisoformat(row["ts"]).astimezone(UTC).timestamp()
    assert idle_again.asked_before - 0.001 <= scraped <= idle_again.answered_after
