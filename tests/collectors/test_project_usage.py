"""What projects used: raw counters → rows, over restarts of engines, gateways and infermeter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.housekeeping import housekeeping
from collectors import usage
from collectors.batch import Scraped
from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.reading import EngineSample, Reading, UsageCounter, UsageKey
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm
from tests.collectors.moments import T0, at, unix

ENGINE = Target(name="llm", url="http://host:8000/metrics", kind="vllm", project="chat", environment="prod")
GATEWAY = Target(name="gate", url="http://host:4000/metrics", project="platform")
SEARCH = UsageKey("search", None, "qwen", "key-1", "litellm")
SUPPORT = UsageKey("support", None, "qwen", "key-2", "litellm")


def fresh(store: Store, *targets: Target) -> Ingest:
    ingest = Ingest(store)
    ingest.restore()
    ingest.sync_targets(targets or (ENGINE, GATEWAY), T0)
    return ingest


def engine(
    ingest: Ingest, seconds: float, prompt: float, generation: float = 0, start: float | None = -1000
) -> None:
    started = unix(start) if start is not None else None
    body = vllm(prompt=prompt, generation=generation, start=started)
    ingest.commit([ingest.read(ENGINE, at(seconds), Fetched(200, body, 0.01, None))])


def gateway(
    ingest: Ingest, seconds: float, *usage: UsageCounter, engines: Sequence[EngineSample] = ()
) -> None:
    """As a kind reads it: usage counters beside the gateway's own engine row."""
    rows = list(engines) or [EngineSample("litellm", "gateway", "", "qwen")]
    reading = Reading("litellm", "gateway", [], rows, [], 1, 0, 0, (), usage=usage)
    ingest.commit([Scraped(GATEWAY, at(seconds), Fetched(200, b"x", 0.01, None), reading, None)])


def rows(store: Store, target: str = "llm") -> list[tuple[float, float, float | None, float | None]]:
    """(seconds, interval, prompt tokens, generated tokens) of each row."""
    found = store.query("usage_rows", target=target).to_dicts()
    return [
        ((r["ts"] - T0).total_seconds(), r["interval_seconds"], r["prompt_tokens"], r["generation_tokens"])
        for r in found
    ]


def prompt_tokens(store: Store, target: str = "llm") -> float:
    return sum(prompt or 0 for _, _, prompt, _ in rows(store, target))


def test_an_engines_tokens_are_its_targets_projects_once_a_minute() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i in range(14):  # 0 to 130 s
        engine(ingest, 10 * i, 1000 + 5 * i, 2000 + 50 * i)
    # First sight at 0 s: its past is nobody's here. Then 6 scrapes of 5 and 50 tokens, twice.
    assert rows(store) == [(60, 60, 30, 300), (120, 60, 30, 300)]
    (first, _) = store.query("usage_rows", target="llm").to_dicts()
    assert (first["project"], first["environment"], first["model"], first["key_alias"], first["source"]) == (
        "chat", "prod", "m", None, "target",
    )  # fmt: skip
    assert first["gateway_spend_usd"] is None


def test_an_idle_hour_has_no_row_and_belongs_to_none() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i in range(361):
        engine(ingest, 10 * i, 0 if i < 360 else 7)
    # The 7 tokens were used in the last 10 seconds.
    assert rows(store) == [(3600, 10, 7, 0)]


def test_an_engine_that_restarts_loses_no_token_of_either_process() -> None:
    store = Store.open()
    ingest = fresh(store)
    engine(ingest, 0, 1000)
    engine(ingest, 10, 1040)
    engine(ingest, 20, 3, start=15)  # at once: what the first had used stands in no counter any more
    engine(ingest, 30, 5, start=15)
    engine(ingest, 80, 9, start=15)
    assert rows(store) == [(20, 20, 43, 0), (80, 60, 6, 0)]


def test_a_restart_without_a_start_time_is_counted_when_it_is_sure() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i, prompt in enumerate([1000, 1040, 3, 5, 8, 8, 8, 8, 8, 8, 10]):
        engine(ingest, 10 * i, prompt, start=None)
    # 40 until the fall and the 8 of the new process, written when it is sure; 2 more at 100 s.
    assert rows(store) == [(40, 40, 48, 0), (100, 10, 2, 0)]


def test_workers_that_alternate_use_nothing_that_was_not_seen_to_be_used() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i, prompt in enumerate([1000, 1040, 3, 1050, 4, 1060, 5] + [1070, 6] * 20):
        engine(ingest, 10 * i, prompt, start=None)
    assert rows(store) == []


def test_a_leap_up_to_another_worker_is_not_counted_when_a_fall_tells_of_it_in_time() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i, prompt in enumerate([5, 1000, 1005, 8, 1010, 9]):
        engine(ingest, 10 * i, prompt, start=None)
    assert rows(store) == []


@pytest.mark.parametrize("seconds", [70, 3670])
def test_a_restart_of_infermeter_neither_loses_nor_doubles_a_token(tmp_path: Path, seconds: int) -> None:
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = fresh(store)
    for i in range(10):  # a row of 60 tokens at 60 s; then 30 more that no row holds
        engine(ingest, 10 * i, 1000 + 10 * i)
    store.close()
    store = Store.open(path)
    ingest = fresh(store)
    engine(ingest, 90 + seconds, 1200)
    assert rows(store) == [(60, 60, 60, 0), (90 + seconds, 30 + seconds, 140, 0)]


def test_a_gateways_keys_are_counted_apart_with_spend() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i in range(8):
        search = UsageCounter(SEARCH, 100 + 10 * i, 4 * i, 20 * i, i, 0.25 * i)
        support = UsageCounter(SUPPORT, 50, None, 60, 5, 1.5)
        gateway(ingest, 10 * i, search, support)
    (row,) = store.query("usage_rows", target="gate").to_dicts()  # support used nothing
    assert (row["ts"], row["interval_seconds"], row["project"], row["key_alias"], row["source"]) == (
        at(60), 60, "search", "key-1", "litellm",
    )  # fmt: skip
    used = ("prompt_tokens", "cached_tokens", "generation_tokens", "requests", "gateway_spend_usd")
    assert [row[name] for name in used] == [60, 24, 120, 6, 1.5]


def test_a_key_that_appears_on_a_gateway_read_before_counts_from_0_and_at_first_sight_it_does_not() -> None:
    store = Store.open()
    ingest = fresh(store)
    gateway(ingest, 0, UsageCounter(SEARCH, 1_000_000))
    gateway(ingest, 10, UsageCounter(SEARCH, 1_000_000), UsageCounter(SUPPORT, 30))
    assert rows(store, "gate") == [(10, 10, 30, None)]


def test_the_first_key_of_an_unused_gateway_counts_from_0() -> None:
    store = Store.open()
    ingest = fresh(store)
    gateway(ingest, 0)
    gateway(ingest, 10, UsageCounter(SEARCH, 30))
    assert rows(store, "gate") == [(10, 10, 30, None)]


def test_a_value_that_appears_at_its_first_use_counts_from_0_unless_infermeter_is_new(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = fresh(store)
    gateway(ingest, 0, UsageCounter(SEARCH, 100))
    gateway(ingest, 60, UsageCounter(SEARCH, 110, 5))
    store.close()
    # The next infermeter reads spend as well: what was spent by then is no news.
    store = Store.open(path)
    ingest = fresh(store)
    gateway(ingest, 120, UsageCounter(SEARCH, 120, 8, None, None, 400.0))
    gateway(ingest, 180, UsageCounter(SEARCH, 130, 9, None, None, 401.5))
    found = store.query("usage_rows", target="gate").to_dicts()
    assert [(r["prompt_tokens"], r["cached_tokens"], r["gateway_spend_usd"]) for r in found] == [
        (10, 5, None), (10, 3, None), (10, 1, 1.5),
    ]  # fmt: skip


def test_a_gateway_that_restarts_gives_no_negative_use() -> None:
    """litellm #27519: spend resets to 0."""
    store = Store.open()
    ingest = fresh(store)
    spent = [10.0, 10.5, 0.0, 0.25, 0.5, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75]
    for i, usd in enumerate(spent):
        gateway(ingest, 10 * i, UsageCounter(SEARCH, 100 * usd, spend_usd_total=usd))
    gateway(ingest, 120, UsageCounter(SEARCH, 75.0, spend_usd_total=0.75))
    found = store.query("usage_rows", target="gate").to_dicts()
    # Until the fall, and what the new process has counted two scrapes later; the rest of it.
    assert [r["gateway_spend_usd"] for r in found] == [1.0, 0.25]
    assert [r["prompt_tokens"] for r in found] == [100, 25]


def test_a_key_whose_series_are_gone_after_a_gateways_restart_comes_back_from_0() -> None:
    store = Store.open()
    ingest = fresh(store)
    gateway(ingest, 0, UsageCounter(SEARCH, 1000), UsageCounter(SUPPORT, 70))
    for i, search in enumerate([None, None, None, 25, 26, 27]):
        shown = [UsageCounter(SUPPORT, 1.0 + min(i, 1))]
        if search is not None:
            shown.append(UsageCounter(SEARCH, search))
        gateway(ingest, 10 + 10 * i, *shown)
    gateway(ingest, 200, UsageCounter(SUPPORT, 2.0), UsageCounter(SEARCH, 30))
    assert prompt_tokens(store, "gate") == 2 + 30


def test_an_engine_and_the_gateway_before_it_stand_side_by_side_and_are_not_added() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i in range(8):
        engine(ingest, 10 * i, 10 * i, 10 * i)
        own = EngineSample("litellm", "gateway", "", "qwen", prompt_tokens_total=10 * i)
        gateway(ingest, 10 * i, UsageCounter(SEARCH, 10.0 * i), engines=[own])
    assert rows(store) == [(60, 60, 60, 60)]
    found = store.query("usage_rows", target="gate").to_dicts()
    assert [(r["source"], r["prompt_tokens"]) for r in found] == [("litellm", 60)]


@pytest.mark.parametrize(
    ("told", "requests"),
    [
        ({"finished_stop_total": 7, "finished_length_total": 2, "finished_error_total": 1}, 10),
        ({"finished_stop_total": 7, "finished_abort_total": 3}, 10),
        ({"finished_abort_total": 3, "finished_error_total": 1}, None),  # SGLang, TGI, Dynamo
        ({}, None),
    ],
)
def test_what_failed_alone_is_not_what_was_asked_for(told: dict[str, float], requests: float | None) -> None:
    row = EngineSample("e", "engine", "0", "m", prompt_tokens_total=5, **told)
    reading = Reading("e", "engine", [], [row], [], 1, 0, 0, ())
    (replicas,) = usage.counters(reading, reading.engines, own=False).values()
    assert replicas["0"].requests == requests


def test_a_target_that_gets_a_project_begins_there() -> None:
    store = Store.open()
    nobody = ENGINE.model_copy(update={"project": None})
    ingest = fresh(store, nobody)
    for i in range(20):
        target = nobody if i < 5 else ENGINE
        body = vllm(prompt=1000 + 10 * i, generation=0)
        ingest.commit([ingest.read(target, at(10 * i), Fetched(200, body, 0.01, None))])
    assert rows(store) == [(110, 60, 60, 0), (170, 60, 60, 0)]


def test_data_parallel_replicas_are_one_row() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i in range(7):
        body = vllm(engine="0", prompt=10 * i) + vllm(engine="1", prompt=500 + i, start=None)
        ingest.commit([ingest.read(ENGINE, at(10 * i), Fetched(200, body, 0.01, None))])
    assert rows(store) == [(60, 60, 66, 0)]


class Retention:
    raw = 3600.0


def test_keys_that_are_gone_for_an_hour_are_forgotten_and_idle_ones_are_not(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = fresh(store)
    gateway(ingest, 0, UsageCounter(SEARCH, 1000), UsageCounter(SUPPORT, 70))
    for i in range(1, 9):
        gateway(ingest, 900 * i, UsageCounter(SUPPORT, 70))
        ingest.forget()
    assert {key.project for _, key in ingest.accounts} == {"support"}
    store.close()
    store = Store.open(path)
    housekeeping(store, Retention(), at(7300))
    ingest = fresh(store)
    ingest.forget()  # before the first answer: an idle key's last row is hours old
    gateway(ingest, 7300, UsageCounter(SUPPORT, 75))
    assert [prompt for _, _, prompt, _ in rows(store, "gate")] == [5]


def test_rows_are_kept_thirteen_months_and_only_the_newest_base() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i in range(30):
        engine(ingest, 60 * i, 10 * i)
    housekeeping(store, Retention(), at(86_400.0 * 390))
    assert len(rows(store)) == 29
    assert len(store.query_rows("usage_bases", since=None, until=None)) == 1
    housekeeping(store, Retention(), at(86_400.0 * 401))
    assert rows(store) == []


RESTARTS = st.sampled_from(["", "", "", "engine", "infermeter", "both"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(RESTARTS, st.integers(0, 9)), min_size=2, max_size=25))
def test_every_token_is_counted_once_whatever_restarts(steps: list[tuple[str, int]]) -> None:
    """The engine tells when it started; it restarts right after a scrape, so no token is used unseen. Where
    both restart at once, what no row holds yet is in no counter any more: then a row is waited for."""
    store = Store.open()
    ingest = fresh(store)
    value, start, total, seconds = 500.0, -1000.0, 0, 0.0
    engine(ingest, 0, value, start=start)
    for restarts, gained in steps:
        if restarts == "both":
            seconds += 60
            engine(ingest, seconds, value, start=start)
        if restarts in ("engine", "both"):
            value, start = 0.0, seconds + 3
        if restarts in ("infermeter", "both"):
            ingest = fresh(store)  # as after a kill: what is pending stands in the counter alone
        seconds += 10
        value += gained
        total += gained
        engine(ingest, seconds, value, start=start)
    engine(ingest, seconds + 60, value, start=start)
    assert prompt_tokens(store) == total


def test_parts_added_up_in_another_order_are_no_fall() -> None:
    assert (0.1 + 0.2) + 0.3 > 0.1 + (0.2 + 0.3)
    store = Store.open()
    ingest = fresh(store)
    for i, usd in enumerate([(0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3), 1.6]):
        gateway(ingest, 30 * i, UsageCounter(SEARCH, spend_usd_total=usd))
    (row,) = store.query("usage_rows", target="gate").to_dicts()
    assert (row["interval_seconds"], row["gateway_spend_usd"]) == (30, pytest.approx(1.0))
    assert "multi-worker" not in str(store.query("target_rows")["notes"].to_list())


def test_a_sum_that_loses_a_part_is_not_counted_again() -> None:
    """One of a key's series is shown no more; the process says that it is the same."""
    store = Store.open()
    ingest = fresh(store)
    row = EngineSample("litellm", "gateway", "", "qwen", process_start_time_seconds=unix(-1000))
    for i, prompt in enumerate(
        [1_000_000, 1_000_010, 900_000, 900_000, 900_000, 900_007, 900_007, 900_007, 900_009]
    ):
        gateway(ingest, 10 * i, UsageCounter(SEARCH, prompt), engines=[row])
    gateway(ingest, 200, UsageCounter(SEARCH, 900_010), engines=[row])
    assert prompt_tokens(store, "gate") == 10 + 10


@pytest.mark.parametrize("primed", [True, False])
def test_what_follows_a_row_is_counted_on_from_it_when_the_past_is_read(primed: bool) -> None:
    store = Store.open()
    before = fresh(store)
    for i in range(9):
        gateway(before, 10 * i, UsageCounter(SEARCH, 1000 + i))
    assert prompt_tokens(store, "gate") < 8  # what was used last stands in no row yet
    of_past = Ingest(store, describes=False)
    if primed:
        engine_row = EngineSample("litellm", "gateway", "", "qwen")
        usage = (UsageCounter(SEARCH, 1008),)
        reading = Reading("litellm", "gateway", [], [engine_row], [], 1, 0, 0, (), usage=usage)
        of_past.prime([Scraped(GATEWAY, at(80), Fetched(200, b"x", 0.01, None), reading, None)])
    of_past.resume_usage(at(80))
    gateway(of_past, 300, UsageCounter(SEARCH, 1020))
    assert prompt_tokens(store, "gate") == 20
