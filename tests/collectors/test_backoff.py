"""A target that cannot be reached is asked less and less, and at full pace once it can."""

from __future__ import annotations

import asyncio
import socket
import time
from datetime import datetime, timedelta

import pytest

from app.pages import states
from collectors.backoff import Backoff, pause_seconds
from collectors.batch import Scraped
from collectors.fetch import Fetched, new_session
from collectors.ingest import Ingest
from collectors.rounds import Rounds
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm
from tests.collectors.test_hostile_targets import sends, serving, whole

T0 = datetime(2026, 11, 30, 12, 0)


def target(port: int = 1, interval: float = 10.0) -> Target:
    return Target(
        name="llm", url=f"http://127.0.0.1:{port}/metrics", interval_seconds=interval, timeout_seconds=1.0
    )


def tries(interval: float, rounds: int) -> list[int]:
    """The rounds at which a dead target is asked."""
    backoff, dead, asked = Backoff(), target(interval=interval), []
    for i in range(rounds):
        if backoff.is_due(dead, i * interval):
            asked.append(i)
            backoff.failed(dead, i * interval + 0.2)  # its place within the round moves
    return asked


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (10.0, [0, 1, 2, 3, 4, 6, 10, 16, 22, 28]),  # 10 s; then 20, 40, 60 s
        (1.0, [0, 1, 2, 3, 4, 6, 10, 16, 22, 28]),  # six intervals are the longest
        (25.0, [0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28]),  # 50 s
        (60.0, list(range(30))),  # its own interval is a minute
    ],
)
def test_after_five_failures_in_a_row_the_pause_doubles_up_to_a_minute(
    interval: float, expected: list[int]
) -> None:
    assert tries(interval, 30) == expected


@pytest.mark.parametrize("interval", [0.5, 1, 5, 15, 30, 45, 60, 300])
def test_no_pause_is_longer_than_a_minute_or_the_interval(interval: float) -> None:
    pauses = [pause_seconds(failures, interval) for failures in range(1, 100)]
    assert max(pauses) <= max(60, interval)
    assert pauses == sorted(pauses)


def test_an_answer_or_another_entry_in_the_list_ends_the_pause_at_once() -> None:
    for end in ("answer", "entry"):
        backoff, one = Backoff(), target()
        for i in range(8):
            backoff.failed(one, 60.0 * i)
        assert not backoff.is_due(one, 430.0)
        assert not backoff.is_due(target(), 430.0), "the same entry, read again"
        if end == "answer":
            backoff.reached(one)
        else:
            one = target(port=2)
        assert backoff.is_due(one, 430.0)
        assert backoff.failed(one, 430.0) is None, "patience begins anew"


def test_what_left_the_list_long_ago_is_forgotten() -> None:
    backoff = Backoff()
    for i in range(3000):
        backoff.failed(Target(name=f"pod-{i}", url="http://10.0.0.1:1/metrics"), 10.0 * i)
    assert len(backoff.waiting) < 1100


def test_a_dead_target_is_asked_ever_less_says_so_and_comes_back_at_full_pace() -> None:
    store = Store.open()
    clock = [0.0]

    async def go() -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        one = target(port)
        async with new_session() as session:
            ingest = Ingest(store)
            ingest.sync_targets([one], T0)
            rounds = Rounds(ingest, session, lambda: T0 + timedelta(seconds=clock[0]), timer=lambda: clock[0])
            for _ in range(17):  # 0 to 160 s
                await rounds.run([one], 10.0)
                clock[0] += 10
            assert rounds.stats.left_alone == 17 - 8
            server = await asyncio.start_server(_answers, "127.0.0.1", port)
            async with server:
                for _ in range(8):  # 170 to 240 s
                    await rounds.run([one], 10.0)
                    clock[0] += 10

    asyncio.run(go())
    rows = store.query("scrape_rows", target="llm").to_dicts()
    seconds = [(row["ts"] - T0).total_seconds() for row in rows]
    assert seconds == [0, 10, 20, 30, 40, 60, 100, 160, 220, 230, 240]
    errors = [row["error"] for row in rows]
    refused = "cannot connect: Connection refused"
    told = [f"{refused}; asked again in {pause} s" for pause in (20, 40, 60, 60)]
    assert errors == [*[refused] * 4, *told, None, None, None]


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65_536)
    await sends(whole(vllm()))(writer)
    writer.close()


def test_a_target_in_a_pause_is_failing_and_since_when_is_known() -> None:
    store = Store.open()
    one = target()
    ingest = Ingest(store)
    ingest.sync_targets([one], T0)
    answers: list[tuple[float, Fetched]] = [(0, Fetched(200, vllm(), 0.01, None))]
    answers += [(s, Fetched(None, b"", 1.0, "cannot connect: x", True)) for s in (10, 20, 80, 140)]
    scraped: list[Scraped] = [ingest.read(one, T0 + timedelta(seconds=s), answer) for s, answer in answers]
    ingest.commit(scraped)
    as_of = T0 + timedelta(seconds=199)  # 59 s after the last try: six intervals
    found = store.query("page_targets", as_of=as_of, look_back=900.0, project=None, environment=None)
    assert states.target_states(found, as_of)["state"].to_list() == ["failing"]
    (since,) = store.query("page_failing_since", targets=["llm"], as_of=as_of, look_back=900.0).to_dicts()
    assert since["failing_since"] == T0 + timedelta(seconds=10)


def test_a_target_that_answers_with_an_error_is_asked_at_full_pace() -> None:
    """It is there: what it says may change at any moment, and asking costs it little."""
    store = Store.open()

    async def go() -> None:
        async with serving(sends(whole(b"oh", status="500 Oh"))) as port, new_session() as session:
            one = target(port)
            rounds = Rounds(Ingest(store), session, lambda: T0, timer=lambda: 0.0)
            rounds.ingest.sync_targets([one], T0)
            for _ in range(8):
                await rounds.run([one], 10.0)
            assert rounds.backoff.waiting == {}

    asyncio.run(go())
    assert store.query("scrape_rows", target="llm").height == 8


def test_thousands_of_dead_targets_cost_no_more_than_each_its_own_failure() -> None:
    dead = [Target(name=f"pod-{number}", url=f"http://pod-{number}:1") for number in range(10_000)]
    backoff = Backoff()
    started = time.process_time()
    for number in range(2):
        for one in dead:
            backoff.failed(one, 10.0 * number)
    assert time.process_time() - started < 2  # of the CPU; looking through all at each took 10 s
    assert len(backoff.waiting) == 10_000
