"""What probes may cost: prices, the cap of a day, and that a restart does not begin it anew."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.probe.body import ProbeBody, decode
from collectors.probe.settings import ProbePrices, ProbeSettings
from collectors.probe.spending import Spending
from collectors.target import Target
from sql.store import Store
from tests.collectors.probe_endpoint import (
    GOOD,
    NOW,
    Answering,
    Endpoint,
    chunk,
    probed,
    status,
    stream,
)

# GOOD has 11 prompt and 4 generated tokens: 11 × 10 + 4 × 30 = 230 millionths. The prompt is 4 bytes, so
# the most that a probe may cost is (4 + 256) × 10 + 20 × 30 = 3200 millionths.
PRICES = {"prompt_per_million": "10", "generation_per_million": "30", "currency": "EUR"}
DAY = datetime(NOW.year, NOW.month, NOW.day)
COST, LARGEST = Decimal("0.00023"), Decimal("0.0032")
PROBE = {"prompt": "1234", "max_tokens": 20, "prices": PRICES}
CAPPED = "spend cap of 0.01 EUR for today reached; next probe after 00:00 UTC"


def probe(fetched: Fetched) -> ProbeBody:
    body = decode(fetched.body)
    assert body is not None
    return body


def capped(answers: list[Answering], times: int, cap: str = "0.01", **more: Any) -> list[ProbeBody]:
    settings = {**PROBE, "spend_per_day": cap}
    return [probe(fetched) for fetched in probed(Endpoint(answers), times, probe=settings, **more)]


def test_cost_is_prices_times_tokens() -> None:
    assert ProbeSettings.model_validate(PROBE).largest_cost == LARGEST
    (body,) = capped([stream(GOOD)], 1)
    assert (body.cost, body.currency) == (COST, "EUR")


@given(st.integers(0, 10_000_000), st.integers(0, 10_000_000), st.decimals(0, 1_000_000, places=6))
def test_any_cost_fits_the_column(prompt: int, generated: int, price: Decimal) -> None:
    prices = ProbePrices(prompt_per_million=price, generation_per_million=price)
    cost = prices.cost(prompt, generated)
    assert abs(cost - price * (prompt + generated) / 1_000_000) <= Decimal("0.0000000005")
    assert len(cost.as_tuple().digits) <= 18
    assert cost.as_tuple().exponent == -9


def test_no_probe_is_sent_that_could_pass_the_cap() -> None:
    # n have cost 0.00023 n; the next may be sent while 0.00023 n + 0.0032 <= 0.01: n <= 29.56, so 30 are.
    bodies = capped([stream(GOOD)], 33)
    assert [body.sent for body in bodies] == [True] * 30 + [False] * 3
    assert {body.note for body in bodies[30:]} == {CAPPED}
    assert bodies[32].model == "m"


def test_a_request_whose_tokens_nobody_knows_counts_as_the_most_it_could_have_cost() -> None:
    # 3 × 0.0032 = 0.0096; a fourth could pass 0.01.
    assert [body.sent for body in capped([status(500)], 5)] == [True, True, True, False, False]


def test_a_refused_request_costs_nothing() -> None:
    bodies = capped([status(401)], 6)
    assert [(body.sent, body.cost) for body in bodies] == [(True, Decimal(0))] * 6


def test_a_new_day_begins_at_nothing() -> None:
    midnight = datetime(2026, 12, 2)
    times = iter([midnight - timedelta(seconds=seconds) for seconds in (50, 40, 30, 20, 10, 0)])
    bodies = capped([status(500)], 6, clock=lambda: next(times))
    assert [body.sent for body in bodies] == [True, True, True, False, False, True]


def test_a_cost_that_comes_after_midnight_is_not_of_the_new_day() -> None:
    spending = Spending(NOW.date(), Decimal(0))
    spending.reserve(LARGEST)
    assert spending.may_send(LARGEST, Decimal("0.01"), NOW + timedelta(days=1))
    spending.settle(NOW.date(), LARGEST, COST)
    assert spending.spent == 0


def test_a_clock_that_is_put_back_over_midnight_begins_no_day() -> None:
    spending = Spending(NOW.date(), Decimal("0.009"))
    assert not spending.may_send(LARGEST, Decimal("0.01"), NOW - timedelta(days=1))
    assert (spending.day, spending.spent) == (NOW.date(), Decimal("0.009"))
    # One that was far ahead and is set right must not keep probes back until then.
    assert spending.may_send(LARGEST, Decimal("0.01"), NOW - timedelta(days=2))


def stored(store: Store, target: Target, fetched: list[Fetched], since: datetime) -> None:
    ingest = Ingest(store)
    ingest.sync_targets([target], since)
    for number, one in enumerate(fetched):
        ingest.commit([ingest.read(target, since + timedelta(seconds=number), one)])


def test_a_restart_goes_on_with_what_the_day_has_cost(tmp_path: Path) -> None:
    settings = {**PROBE, "spend_per_day": "0.01"}
    target = Target.model_validate(
        {"name": "p", "kind": "probe", "url": "http://h", "model": "m", "probe": settings}
    )
    answers = [stream(GOOD), status(500), status(401), stream(GOOD)]
    before = probed(Endpoint(answers), 4, probe=settings)
    with_store = Store.open(tmp_path / "s.duckdb")
    stored(with_store, target, before, NOW)
    # The day before does not count.
    stored(with_store, target, [before[1]] * 3, NOW - timedelta(days=1))
    with_store.close()
    again = Store.open(tmp_path / "s.duckdb")
    try:
        # 2 × 0.00023 and one of 0.0032 not known: 0.00366. One more makes 0.00686, and a third 0.01006.
        after = probed(Endpoint([status(500)]), 3, store=again, probe=settings)
        assert [probe(one).sent for one in after] == [True, False, False]
    finally:
        again.close()


def opened(path: Path, answers: list[Answering], times: int, **more: Any) -> list[bool]:
    """Whether each probe of a new process was sent; no result is stored."""
    store = Store.open(path)
    try:
        settings = {**PROBE, "spend_per_day": "0.01"}
        fetched = probed(Endpoint(answers), times, store=store, probe=settings, **more)
        return [bool(one.body) and probe(one).sent for one in fetched]
    finally:
        store.close()


def test_what_was_spent_is_kept_though_no_result_was_stored(tmp_path: Path) -> None:
    # Nothing is ever written to table probe here, as when each process is killed right after its answer.
    path = tmp_path / "s.duckdb"
    assert opened(path, [status(500)], 2) == [True, True]  # 2 × 0.0032
    assert opened(path, [status(500)], 2) == [True, False]  # 3 × 0.0032 = 0.0096
    assert opened(path, [status(500)], 1) == [False]
    assert opened(path, [status(500)], 1, clock=lambda: NOW + timedelta(days=1)) == [True]


def test_a_request_in_flight_is_booked_before_it_is_sent(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.duckdb")
    booked: list[Any] = []

    async def looks(endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        booked.extend(store.query_rows("probe_spent", target="p", since=DAY, currency="EUR"))
        return await stream(GOOD)(endpoint, request)

    try:
        probed(Endpoint([looks]), 1, store=store, probe={**PROBE, "spend_per_day": "0.01"})
        booked.extend(store.query_rows("probe_spent", target="p", since=DAY, currency="EUR"))
    finally:
        store.close()
    assert [row[2] for row in booked] == [LARGEST, COST]


def test_nothing_is_sent_that_cannot_be_booked() -> None:
    store = Store.open()
    store.close()
    endpoint = Endpoint([stream(GOOD)])
    (fetched,) = probed(endpoint, 1, store=store, probe={**PROBE, "spend_per_day": "0.01"})
    assert endpoint.asked == []
    assert fetched.error is not None
    assert fetched.error.startswith("not asked: what it may cost cannot be booked (")


def test_counts_of_an_answer_that_broke_off_are_not_its_cost() -> None:
    # vLLM's continuous_usage_stats: each event counts so far; more may have been generated.
    so_far = {"prompt_tokens": 11, "completion_tokens": 1}
    broken = stream([chunk({"content": "One"}, usage=so_far)])
    whole = stream(
        [chunk({"content": "One"}, usage=so_far), chunk({"content": "two"}, "length", usage=so_far)]
    )
    assert [body.cost for body in capped([broken, whole], 2)] == [None, Decimal("0.00014")]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"spend_per_day": 1},
         "`spend_per_day` needs `prices`: without them nobody knows what a probe costs"),
        ({**PROBE, "spend_per_day": "0.003"},
         ("`spend_per_day` of 0.003 EUR is less than one probe may cost (0.0032); raise it, or take a smaller"
          " `max_tokens` or `prompt`")),
    ],
)  # fmt: skip
def test_a_cap_that_cannot_hold_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Target.model_validate({"kind": "probe", "url": "http://h", "probe": settings})
    (error,) = caught.value.errors()
    assert str(error["ctx"]["error"]) == words
