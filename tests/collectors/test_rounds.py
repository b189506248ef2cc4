"""Scrape rounds against real servers: one commit a round, and nobody waits for a hung target."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from aiohttp import web

from app.runtime import utc_now
from collectors.batch import Scraped
from collectors.fetch import new_session
from collectors.ingest import Ingest
from collectors.rounds import Rounds
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import dcgm, vllm
from tests.web_server import serving


async def metrics(request: web.Request) -> web.StreamResponse:
    if "hang" in request.path:
        await asyncio.sleep(5)
    if "dcgm" in request.path:
        return web.Response(body=dcgm())
    return web.Response(body=vllm())


def with_rounds(work: Callable[[Rounds, str], Awaitable[None]]) -> Store:
    store = Store.open()

    async def go() -> None:
        async with serving(metrics) as base, new_session() as session:
            await work(Rounds(Ingest(store), session, utc_now), base)

    asyncio.run(go())
    return store


def after_commit(rounds: Rounds, look: Callable[[], None]) -> None:
    """Look after each transaction of the rounds."""
    commit = rounds.ingest.commit

    def watched(batch: Iterable[Scraped]) -> None:
        commit(batch)
        look()

    rounds.ingest.commit = watched  # type: ignore[method-assign, assignment]


def test_a_round_of_good_targets_is_one_commit() -> None:
    commits: list[int] = []

    async def work(rounds: Rounds, base: str) -> None:
        after_commit(rounds, lambda: commits.append(len(rounds.ingest.store.query_rows("scraped_targets"))))
        targets = [Target(name=f"llm-{i}", url=f"{base}/vllm/{i}") for i in range(5)]
        targets.append(Target(name="node", url=f"{base}/dcgm"))
        rounds.ingest.sync_targets(targets, utc_now())
        await rounds.run(targets, 10.0)
        assert (rounds.stats.rounds, rounds.stats.scrapes_ok, rounds.stats.scrapes_failed) == (1, 6, 0)

    with_rounds(work)
    assert commits == [6]


def test_a_hung_target_does_not_hold_back_the_others() -> None:
    committed_at: list[tuple[datetime, int]] = []

    async def work(rounds: Rounds, base: str) -> None:
        after_commit(
            rounds,
            lambda: committed_at.append((utc_now(), len(rounds.ingest.store.query_rows("scraped_targets")))),
        )
        hung = Target(name="hung", url=f"{base}/hang", interval_seconds=10, timeout_seconds=1.5)
        good = Target(name="good", url=f"{base}/vllm")
        rounds.ingest.sync_targets([hung, good], utc_now())
        started = utc_now()
        await rounds.run([hung, good], 10.0)
        assert [count for _, count in committed_at] == [1, 2]
        assert (committed_at[0][0] - started).total_seconds() < 1.4

    store = with_rounds(work)
    (row,) = store.query("scrape_rows", target="hung").to_dicts()
    assert row["error"] == "no whole answer within 1.5 s"


def test_a_target_still_busy_with_the_scrape_before_is_left_out_and_counted() -> None:
    async def work(rounds: Rounds, base: str) -> None:
        hung = Target(name="hung", url=f"{base}/hang", interval_seconds=10, timeout_seconds=0.5)
        rounds.ingest.sync_targets([hung], utc_now())
        first = asyncio.create_task(rounds.run([hung], 10.0))
        await asyncio.sleep(0.05)
        await rounds.run([hung], 10.0)
        assert rounds.stats.skipped == 1
        await first

    store = with_rounds(work)
    assert store.query("scrape_rows", target="hung").height == 1


def test_a_fault_of_ours_in_reading_one_target_is_stored_and_the_others_go_on() -> None:
    async def work(rounds: Rounds, base: str) -> None:
        read = rounds.ingest.read

        def broken(target: Target, *rest: object) -> object:
            if target.name == "bad":
                raise ZeroDivisionError("oh")
            return read(target, *rest)  # type: ignore[arg-type]

        rounds.ingest.read = broken  # type: ignore[method-assign, assignment]
        targets = [Target(name=name, url=f"{base}/vllm") for name in ("bad", "good")]
        rounds.ingest.sync_targets(targets, utc_now())
        await rounds.run(targets, 10.0)

    store = with_rounds(work)
    assert store.query("scrape_rows", target="good")["ok"].to_list() == [True]
    (row,) = store.query("scrape_rows", target="bad").to_dicts()
    assert row["error"] == "infermeter could not read this, please report: ZeroDivisionError: oh"
