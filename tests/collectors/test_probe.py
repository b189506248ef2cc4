"""The kind `probe`: what probes say in rows, through rounds, recordings and replays."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config import load_text
from app.replay import replay
from collectors import recording
from collectors.fetch import Fetched, new_session
from collectors.ingest import Ingest
from collectors.probe.body import ProbeBody, decode, encode
from collectors.probe.kind import EDGES_SECONDS, KIND
from collectors.quantiles import histogram_quantile
from collectors.reading import Reading
from collectors.registry import detect
from collectors.rounds import Rounds
from collectors.target import Target
from sql.store import Store
from tests.collectors.probe_endpoint import GOOD, KEY, NOW, PROMPT, Endpoint, probed, status, stream
from tests.web_server import serving

TARGET = Target.model_validate({"name": "p", "kind": "probe", "url": "http://h", "model": "m"})


def good(ttft: float = 0.2, **more: Any) -> ProbeBody:
    facts = {
        "model": "m", "http_status": 200, "ttft_seconds": ttft, "tpot_seconds": 0.01, "e2e_seconds": 0.5,
        "prompt_tokens": 10, "generation_tokens": 20, "finish_reason": "length", **more,
    }  # fmt: skip
    return ProbeBody(sent=True, ok=True, **facts)


def failed(code: int | None, **more: Any) -> ProbeBody:
    return ProbeBody(sent=True, ok=False, model="m", http_status=code, error="it failed", **more)


def read(*bodies: ProbeBody) -> list[Reading]:
    reader = KIND.reader()
    return [reader(encode(body)) for body in bodies]


def test_counters_add_up_as_an_engines_do() -> None:
    *_, last = read(
        good(), good(finish_reason="stop", generation_tokens=5), failed(429), failed(503), failed(None),
        good(finish_reason="tool_calls", prompt_tokens=None),
    )  # fmt: skip
    (engine,) = last.engines
    assert (engine.engine, engine.role, engine.replica, engine.model) == ("probe", "probe", "0", "m")
    assert (engine.prompt_tokens_total, engine.generation_tokens_total) == (20, 45)
    assert (engine.finished_stop_total, engine.finished_length_total, engine.finished_error_total) == (
        1,
        1,
        3,
    )
    assert (engine.http_4xx_total, engine.http_5xx_total) == (1, 1)
    assert (engine.requests_running, engine.requests_waiting, engine.finished_abort_total) == (
        None,
        None,
        None,
    )


def test_tokens_that_no_answer_tells_are_not_known() -> None:
    (reading,) = read(good(prompt_tokens=None, generation_tokens=None))
    (engine,) = reading.engines
    assert (engine.prompt_tokens_total, engine.generation_tokens_total) == (None, None)
    assert reading.missing == ("prompt_tokens_total", "generation_tokens_total")
    (reading,) = read(failed(500))
    assert reading.missing == ()  # one that failed says nothing of what the endpoint can tell
    (reading,) = read(good())
    assert (reading.missing, dict(reading.found_names)["prompt_tokens_total"]) == ((), "usage.prompt_tokens")


def test_histograms_hold_the_probes_that_went_well() -> None:
    *_, last = read(good(0.1), failed(503, ttft_seconds=9.0), good(0.1001), good(300.0, tpot_seconds=None))
    found = {histogram.metric: histogram for histogram in last.histograms}
    assert {metric: one.count for metric, one in found.items()} == {"ttft": 3, "tpot": 2, "e2e": 3}
    ttft = found["ttft"]
    assert ttft.sum_seconds == pytest.approx(300.2001)
    at = dict(zip(ttft.edges_seconds, ttft.buckets, strict=True))
    # 0.1 is an edge and belongs to its own bucket, as `le` says; 300 s are beyond the last edge of 120 s.
    assert (at[0.08913], at[0.1], at[0.1122], at[120.0], at[math.inf]) == (0, 1, 2, 2, 3)


def test_the_edges_go_up_from_a_tenth_of_a_millisecond_to_two_minutes_in_small_steps() -> None:
    assert (EDGES_SECONDS[0], EDGES_SECONDS[-2], EDGES_SECONDS[-1]) == (1e-4, 120.0, math.inf)
    assert all(1 < upper / lower < 1.1225 for lower, upper in pairwise(EDGES_SECONDS[:-1]))


@given(st.lists(st.floats(1e-4, 120), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_a_percentile_is_off_by_no_more_than_a_bucket(seconds: list[float]) -> None:
    *_, last = read(*(good(one) for one in seconds))
    ttft = next(histogram for histogram in last.histograms if histogram.metric == "ttft")
    for q in (0.5, 0.95, 0.99):
        true = sorted(seconds)[math.ceil(q * len(seconds)) - 1]
        value = histogram_quantile(q, ttft.edges_seconds, ttft.buckets).value
        assert value is not None
        assert true > 1e-4 or value <= 1e-4
        assert true <= 1e-4 or abs(value / true - 1) < 0.1225


def test_another_model_is_another_engine_and_an_unknown_one_is_none() -> None:
    unknown = ProbeBody(sent=True, ok=False, http_status=401, error="HTTP 401")
    first, second, third = read(unknown, good(), good(model="other"))
    assert (first.engines, first.says_something) == ([], True)
    assert (second.engines[0].finished_error_total, second.engines[0].http_4xx_total) == (1, 1)
    assert (third.engines[0].model, third.engines[0].prompt_tokens_total) == ("other", 10)


def test_a_probe_that_the_cap_kept_back_is_a_note_and_no_probe() -> None:
    held = ProbeBody(sent=False, note="spend cap of 1.00 USD for today reached", model="m")
    _, last = read(good(), held)
    assert (last.notes, list(last.probes)) == (("spend cap of 1.00 USD for today reached",), [])
    assert last.engines[0].prompt_tokens_total == 10
    (alone,) = read(held)
    assert alone.says_something


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
@settings(max_examples=100, deadline=None)
def test_what_is_no_probe_is_one_line_that_cannot_be_read(body: bytes) -> None:
    reading = KIND.reader()(body)
    assert (reading.says_something, reading.lines, reading.rejected_lines) == (False, 1, 1)


@pytest.mark.parametrize(
    "changed",
    [
        '"ttft_seconds":-1',
        '"ttft_seconds":1e999',
        '"cost":"1e30"',
        '"prompt_tokens":1e12',
        '"model":"\\ud800"',
    ],
)
def test_values_that_cannot_be_are_no_probe(changed: str) -> None:
    assert decode(f'{{"infermeter_probe":{{"sent":true,{changed}}}}}'.encode()) is None


def test_the_kind_is_known_from_the_body() -> None:
    assert detect(encode(good())) is KIND


# Through the store


def stored(fetched: Sequence[Fetched]) -> Store:
    store = Store.open()
    ingest = Ingest(store)
    ingest.sync_targets([TARGET], NOW)
    for number, one in enumerate(fetched):
        ingest.commit([ingest.read(TARGET, NOW + timedelta(minutes=number), one)])
    return store


def test_a_failed_probe_is_a_failed_scrape_whose_measurements_are_kept() -> None:
    fetched = [
        Fetched(200, encode(good(cost=Decimal("0.000230000"), currency="EUR")), 0.6, None),
        Fetched(503, encode(failed(503)), 0.1, "it failed"),
        Fetched(None, b"", 0.0, "not asked: after HTTP 503 …"),
        Fetched(None, encode(ProbeBody(sent=False, model="m", note="spend cap of …")), 0.0, None),
    ]
    store = stored(fetched)
    scrapes = store.query("scrape_rows", target="p")
    assert scrapes["ok"].to_list() == [True, False, False, True]
    assert scrapes["error"].to_list() == [None, "it failed", "not asked: after HTTP 503 …", None]
    assert store.query_rows("probe_spent", target="p", since=NOW, currency="EUR") == [
        (Decimal("0.00023"), 1, 0)
    ]
    assert store.query_rows("probe_spent", target="p", since=NOW, currency="USD") == [(Decimal(0), 1, 0)]
    ttft = [row for row in store.query("histogram_rows", target="p").to_dicts() if row["metric"] == "ttft"]
    assert [row["count"] for row in ttft] == [1, 1, 1]  # the third had no body
    assert [row["increases"][-1] for row in ttft[1:]] == [0, 0]
    (row,) = store.query("target_rows").to_dicts()
    assert (row["found_kind"], row["role"], row["notes"]) == ("probe", "probe", ["spend cap of …"])


def test_recordings_hold_probes_and_replay_to_the_same_rows(tmp_path: Path) -> None:
    config = {"prices": {"prompt_per_million": 10, "generation_per_million": 30}, "max_tokens": 20,
              "spend_per_day": "0.0070"}  # fmt: skip
    fetched = probed(Endpoint([stream(GOOD), status(500), stream(GOOD)]), 4, probe=config)
    assert [(one.status, one.error is None) for one in fetched][-1] == (None, True)  # held back by the cap
    path = tmp_path / "r.jsonl.gz"
    with recording.writer(path) as write:
        for number, one in enumerate(fetched):
            write(recording.line(1_764_590_400.0 + 60 * number, TARGET, one))
    assert not [secret for secret in (PROMPT, KEY, "One") if secret in repr(list(recording.read(path)))]
    store = Store.open()
    text = "targets: [{name: p, kind: probe, url: 'http://h', model: m}]"
    list(replay(recording.read(path), load_text(text, "c"), store))
    live = stored(fetched)
    columns = ["ok", "http_status", "error"]
    assert (
        store.query("scrape_rows", target="p").select(columns).rows()
        == live.query("scrape_rows", target="p").select(columns).rows()
    )
    since = NOW - timedelta(days=10_000)
    spent = [one.query_rows("probe_spent", target="p", since=since, currency="USD") for one in (store, live)]
    assert spent[0] == spent[1] == [(Decimal("0.00023"), 1, 0)]


def test_a_long_probe_does_not_hold_back_the_round() -> None:
    store = Store.open()
    slow = stream([GOOD[0], GOOD[1]], hold=3)
    seen: list[int] = []

    async def go() -> None:
        async with (
            serving(Endpoint([stream(GOOD)]).handle) as url,
            serving(Endpoint([slow]).handle) as other,
            new_session() as session,
        ):
            rounds = Rounds(Ingest(store), session, lambda: NOW)
            common = {"kind": "probe", "model": "m", "timeout": 1.6}
            targets = [
                Target.model_validate({"name": name, "url": base, **common})
                for name, base in (("quick", url), ("slow", other))
            ]
            rounds.ingest.sync_targets(targets, NOW)
            running = asyncio.create_task(rounds.run(targets, 60.0))
            await asyncio.sleep(1.4)
            seen.extend(store.query("scrape_rows", target=target.name).height for target in targets)
            await running
            await rounds.aclose()

    asyncio.run(go())
    assert seen == [1, 0]
    (row,) = store.query("scrape_rows", target="slow").to_dicts()
    assert row["error"] == "no whole answer within 1.6 s"


# Settings


def test_a_probe_has_its_own_pace_and_path() -> None:
    target = Target.model_validate({"kind": "probe", "url": "https://api.example.com"})
    assert (target.interval_seconds, target.timeout_seconds) == (60, 30)
    assert (target.url, target.name) == ("https://api.example.com/v1", "api.example.com")
    text = "scrape: {interval: 5s}\ntargets: [{kind: probe, url: 'http://h'}, {url: 'http://i'}]"
    assert [target.interval_seconds for target in load_text(text, "c").targets] == [60, 5]
    assert (
        Target.model_validate({"kind": "probe", "url": "http://h", "interval": "20s"}).timeout_seconds == 20
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": "vllm"}, "`probe` needs `kind: probe`"),
        ({"kind": "probe"}, "`probe.api_key_header` needs the key: `bearer_token` or `bearer_token_file`"),
    ],
)
def test_probe_settings_in_the_wrong_place_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Target.model_validate({"url": "http://h", "probe": {"api_key_header": "api-key"}, **wrong})


@pytest.mark.parametrize("header", ["Authorization", "content-type", "two words", "a\nb", ""])
def test_a_header_for_the_key_must_be_free(header: str) -> None:
    with pytest.raises(ValueError, match="api_key_header"):
        Target.model_validate(
            {"kind": "probe", "url": "http://h", "bearer_token": "k", "probe": {"api_key_header": header}}
        )
