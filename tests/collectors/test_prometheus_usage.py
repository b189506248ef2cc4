"""What projects use is counted once, to the token, over the seams of live pulling and the past."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.collectors.exposition_samples import vllm
from tests.collectors.fake_prometheus import FakePrometheus, fake_prometheus
from tests.collectors.pulling import STEP, Pulled, assert_each_once, counted, pulled_from

SEARCH = {"project": "search"}
UNWRITTEN = 5
"""Scrapes at the end of a test that may stand in no row yet: a row is written once a minute."""


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with fake_prometheus() as server:
        yield server


def scrape(fake: FakePrometheus, number: int, at: float | None = None, start: float | None = None) -> None:
    """100 prompt tokens and 2 requests a number."""
    ttft = {"0.1": 1.0 * number, "+Inf": 2.0 * number}
    body = vllm(prompt=100.0 * number, ttft=ttft, start=start)
    fake.scrape("vllm", "a:8000", body, at, labels=SEARCH)


def past(fake: FakePrometheus, numbers: list[int]) -> None:
    """A scrape every 10 s up to now."""
    for place, number in enumerate(numbers, start=1 - len(numbers)):
        scrape(fake, number, fake.now + STEP * place)


def live(fake: FakePrometheus, pulled: Pulled | None, *numbers: int) -> None:
    for number in numbers:
        fake.now += STEP
        scrape(fake, number)
        if pulled is not None:
            pulled.pull()


def used(pulled: Pulled) -> float:
    """All prompt tokens, in hundreds."""
    return sum(row["prompt_tokens"] or 0.0 for row in pulled.rows("project_usage")) / 100


def killed_after(pulled: Pulled, stretches: int) -> Pulled:
    """A new process, after the old one was killed when it had read so much of the past."""
    take, taken = pulled.puller.past._take, 0

    async def take_some(*arguments: Any) -> None:
        nonlocal taken
        await take(*arguments)
        taken += 1
        if taken == stretches:
            raise KeyboardInterrupt

    past_of_it = pulled.puller.past
    past_of_it._take = take_some  # type: ignore[assignment, method-assign]
    with pytest.raises(KeyboardInterrupt):
        pulled.read_past()
    return pulled.again()


def test_what_was_used_last_in_the_past_is_counted(fake: FakePrometheus) -> None:
    past(fake, list(range(100)))
    pulled = pulled_from(fake, backfill="900s")
    pulled.pull()
    pulled.read_past()
    assert used(pulled) == 90  # 900 s are the scrapes 10 to 99, counted from the one before
    live(fake, pulled, *range(100, 107))
    assert 90 + 7 - UNWRITTEN <= used(pulled) <= 90 + 7


def test_back_filling_that_is_killed_again_and_again_loses_nothing(fake: FakePrometheus) -> None:
    past(fake, list(range(360)))
    pulled = pulled_from(fake, backfill="1h")
    pulled.pull()
    for number in range(5):
        pulled = killed_after(pulled, 1)
        live(fake, pulled, 360 + number)
    pulled.read_past()
    live(fake, pulled, *range(365, 372))
    assert 371 - UNWRITTEN <= used(pulled) <= 371
    assert counted(pulled)[-1] == 2 * 371
    assert_each_once(pulled)


def test_what_was_not_used_since_the_seam_is_not_counted_from_the_middle_of_the_past(
    fake: FakePrometheus,
) -> None:
    past(fake, [*range(200), *[200] * 160])  # 1 h, idle for its last 1600 s
    pulled = pulled_from(fake, backfill="1h")
    pulled.pull()
    live(fake, pulled, 200, 200)
    pulled = killed_after(pulled, 3)
    live(fake, pulled, 200, 201)
    pulled.read_past()
    live(fake, pulled, *range(202, 209))
    assert 208 - UNWRITTEN <= used(pulled) <= 208


@pytest.mark.parametrize("restarted_at", [None, 60])
def test_a_pause_of_ours_is_counted_once_though_the_engine_restarts_in_it(
    fake: FakePrometheus, restarted_at: int | None
) -> None:
    pulled = pulled_from(fake)
    pulled.pull()
    live(fake, pulled, *range(1, 21))
    pulled.puller.close()
    numbers = list(range(21, 121))  # 1000 s without us
    if restarted_at is not None:
        numbers = [*numbers[:restarted_at], *range(1, 101 - restarted_at)]
    live(fake, None, *numbers)
    pulled = pulled.again()
    last = numbers[-1]
    live(fake, pulled, *range(last + 1, last + 4))
    pulled.read_past()
    live(fake, pulled, *range(last + 4, last + 18))
    whole = 19 + 100 + 17  # of the first one, the past is not known
    assert whole - UNWRITTEN <= used(pulled) <= whole
    assert counted(pulled)[-1] == 2 * whole
    assert_each_once(pulled)


def test_a_target_that_prometheus_has_no_more_was_used_up_to_its_end(fake: FakePrometheus) -> None:
    pulled = pulled_from(fake)
    pulled.pull()
    live(fake, pulled, *range(1, 10))
    for _ in range(70):
        fake.now += STEP
        fake.scrape("vllm", "b:8000", vllm())
        pulled.pull()
    assert [name for name in pulled.listings[-1] if name != "prom"] == ["vllm/b:8000"]
    assert used(pulled) == 8
