"""Probes against a real endpoint on the loopback: what is sent, what is measured, what goes wrong."""

from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from collectors.fetch import Fetched
from collectors.probe import exchange
from collectors.probe.body import ProbeBody, decode
from tests.collectors.probe_endpoint import (
    DONE,
    GOOD,
    KEY,
    NOW,
    PROMPT,
    ROLE,
    Answering,
    Endpoint,
    chunk,
    probed,
    status,
    stream,
    usage,
)


def probe(*answers: Answering, **settings: Any) -> tuple[ProbeBody, Fetched, Endpoint]:
    endpoint = Endpoint(list(answers))
    (fetched,) = probed(endpoint, **settings)
    body = decode(fetched.body)
    assert body is not None
    return body, fetched, endpoint


def test_a_good_answer_is_timed_and_counted() -> None:
    before = time.perf_counter()
    body, fetched, endpoint = probe(stream(GOOD, gap=0.04))
    _, first, second, _, _, done = endpoint.written_at
    assert body.ttft_seconds is not None
    assert body.e2e_seconds is not None
    assert body.tpot_seconds is not None
    assert body.connect_seconds is not None
    # Between the endpoint's own times of the same clock: from its receiving, and from before all of it.
    assert first - endpoint.received_at <= body.ttft_seconds <= second - before
    assert done - endpoint.received_at <= body.e2e_seconds
    # 4 tokens: 3 intervals. The pieces left 40 ms apart; each was read before the next left.
    assert (second - first) / 3 * 0.3 < body.tpot_seconds < (endpoint.written_at[3] - first) / 3
    assert 0 < body.connect_seconds < before + fetched.duration_seconds
    assert (body.ok, body.error, body.http_status, body.finish_reason) == (True, None, 200, "stop")
    assert (body.prompt_tokens, body.generation_tokens) == (11, 4)
    assert (body.model, body.cost, body.currency) == ("m", None, None)
    assert (fetched.status, fetched.error) == (200, None)


def test_the_request_is_a_streamed_completion_with_usage() -> None:
    _, _, endpoint = probe(stream(GOOD), probe={"max_tokens": 8})
    assert endpoint.asked == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": PROMPT}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "max_tokens": 8,
        }
    ]
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert endpoint.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/inference/v1", "/inference/v1/chat/completions"),
        ("/openai/deployments/d?api-version=1", "/openai/deployments/d/chat/completions?api-version=1"),
        ("/v1/chat/completions", "/v1/chat/completions"),
    ],
)
def test_the_url_is_a_base_to_which_the_path_is_added(path: str, asked: str) -> None:
    assert probe(stream(GOOD), path=path)[2].paths == [asked]


def test_the_key_can_go_into_a_header_of_its_own() -> None:
    _, _, endpoint = probe(stream(GOOD), probe={"api_key_header": "api-key"})
    assert endpoint.headers[0]["api-key"] == KEY
    assert "Authorization" not in endpoint.headers[0]


OPENAI = {
    "error": {
        "message": "Unsupported parameter: 'max_tokens' is not supported with this model."
        " Use 'max_completion_tokens' instead.",
        "type": "invalid_request_error",
        "param": "max_tokens",
        "code": "unsupported_parameter",
    }
}
MISTRAL = {
    "object": "error",
    "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"]}]},
    "type": "invalid_request_error",
}


def test_a_part_that_the_server_refuses_is_left_out_and_that_is_remembered() -> None:
    endpoint = Endpoint([status(400, OPENAI), status(422, MISTRAL), stream(GOOD)])
    first, second = probed(endpoint, 2)
    assert (first.error, second.error) == (None, None)
    assert [sorted(body) for body in endpoint.asked] == [
        ["max_tokens", "messages", "model", "stream", "stream_options", "temperature"],
        ["max_completion_tokens", "messages", "model", "stream", "stream_options", "temperature"],
        ["max_completion_tokens", "messages", "model", "stream", "temperature"],
        ["max_completion_tokens", "messages", "model", "stream", "temperature"],  # the second probe
    ]
    assert endpoint.asked[3]["max_completion_tokens"] == 32


def test_a_server_that_refuses_everything_is_asked_four_times_and_not_more() -> None:
    _, fetched, endpoint = probe(
        status(400, {"error": {"message": "stream_options, max_tokens and temperature are wrong"}})
    )
    assert len(endpoint.asked) == 4
    assert fetched.error == (
        "HTTP 400 (it speaks of `stream_options`, it speaks of `max_tokens`, it speaks of `temperature`)"
    )


LEAK = {"error": {"message": f"{PROMPT} {KEY} Hidden answer", "type": "bad_thing", "code": f"{KEY} x"}}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(401, {"error": {"code": "invalid_api_key"}}),
         ("HTTP 401: the endpoint does not take the key; give `bearer_token` or `bearer_token_file`"
          " (invalid_api_key)")),
        (status(402), "HTTP 402: the account has no credit left"),
        (status(404, {"error": {"code": "model_not_found"}}),
         "HTTP 404: there is no such model or no such path; check `model` and `url` (model_not_found)"),
        (status(408), "HTTP 408: the endpoint gave up waiting"),
        (status(429, {"error": {"type": "insufficient_quota"}}),
         "HTTP 429: the endpoint's limit of requests or tokens is reached (insufficient_quota)"),
        (status(500, LEAK), "HTTP 500: the endpoint failed (bad_thing)"),
        (status(503), "HTTP 503: the endpoint is overloaded or not ready"),
        (status(418, LEAK), "HTTP 418 (bad_thing)"),
        (status(307, {}, Location="https://user:pw@else.where/v1/x?key=abc"),
         "HTTP 307: redirects to https://else.where/v1/x; put that into `url`"),
        (status(308, {}, Location="https://else.where/v1/chat/completions"),
         "HTTP 308: redirects to https://else.where/v1; put that into `url`"),
        (status(302, {}), "HTTP 302: redirects and does not say where to"),
        (status(401, {"error": {"code": KEY, "type": f"bad-{KEY[:9]}"}}),
         "HTTP 401: the endpoint does not take the key; give `bearer_token` or `bearer_token_file` (…, …)"),
        (stream([b'data: {"error": {"code": "' + KEY.encode() + b'"}}\n\n']),
         "the endpoint sent an error within the stream (…)"),
        (status(307, {}, Location=f"https://else.where/{KEY}/v1"),
         "HTTP 307: redirects to https:…; put that into `url`"),
        (status(200, {"choices": [{"message": {"content": "Hidden answer"}}], "usage":
                      {"prompt_tokens": 3, "completion_tokens": 2}}),
         "the endpoint answers in one piece and not as a stream; time to first token cannot be measured"),
        (status(200, LEAK), "the endpoint sent an error within the stream (bad_thing)"),
        (status(200, {"models": []}), "the answer is no stream of events but application/json; check `url`"),
        (status(200, {}, Content_Encoding="gzip"), "the answer is compressed, which was not asked for"),
        (stream([ROLE, chunk({}, "content_filter"), DONE]),
         "the stream held no token (finish_reason content_filter)"),
        (stream([ROLE, chunk({"content": "Hidden answer"})]), "the stream broke off before the answer's end"),
        (stream([ROLE, chunk({"content": "Hidden answer"})], break_off=True),
         "the answer broke off: ClientPayloadError"),
        (stream([ROLE, b"data: " + json.dumps(LEAK).encode() + b"\n\n"]),
         "the endpoint sent an error within the stream (bad_thing)"),
        (stream([b"\x00garbage"]), "the answer is no stream of events but text/event-stream; check `url`"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said_and_nothing_of_the_texts_or_the_key(answer: Answering, error: str) -> None:
    body, fetched, _ = probe(answer)
    assert (fetched.error, body.error, body.ok) == (error, error, False)
    assert body.http_status == fetched.status
    assert not [secret for secret in (PROMPT, KEY, "Hidden") if secret in repr(fetched)]


def test_a_stream_may_end_without_done_when_it_said_how_it_finished() -> None:
    assert probe(stream([chunk({"content": "a"}, "length")]))[0].ok


def test_a_stream_that_stays_open_after_done_ends_there() -> None:
    body, fetched, _ = probe(stream(GOOD, hold=3), timeout=2)
    assert body.ok
    assert fetched.duration_seconds < 2


@pytest.mark.parametrize(
    ("answer", "error", "has_first_token"),
    [
        (stream([ROLE, chunk({"content": "a"}), usage(7, 1)], hold=3), "no whole answer within 1 s", True),
        (stream([ROLE], hold=3), "no token within 1 s", False),
        (stream([ROLE], gap=3), "no token within 1 s", False),
    ],
)
def test_at_the_timeout_what_was_measured_is_kept(
    answer: Answering, error: str, has_first_token: bool
) -> None:
    body, fetched, _ = probe(answer, timeout=1)
    assert (body.error, body.ok, body.e2e_seconds) == (error, False, None)
    assert (body.ttft_seconds is not None) == has_first_token
    assert body.prompt_tokens == (7 if has_first_token else None)
    assert 1 <= fetched.duration_seconds < 3


def test_a_server_that_never_answers_is_said_to_give_no_answer() -> None:
    async def hang(_endpoint: Endpoint, _request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3)
        return web.Response()

    body, _, _ = probe(hang, timeout=1)
    assert (body.error, body.http_status) == ("no answer within 1 s", None)


def test_an_endless_answer_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "ANSWER_LIMIT", 1024 * 1024)
    body, _, _ = probe(stream([chunk({"content": "x" * 50_000})] * 30))
    assert body.error == "the answer is larger than 1 MiB"
    assert body.ttft_seconds is not None


def test_a_refused_connection_is_said_in_words_and_costs_nothing() -> None:
    endpoint = Endpoint([stream(GOOD)])
    prices = {"prices": {"prompt_per_million": 1, "generation_per_million": 1}}
    (fetched,) = probed(endpoint, url="http://127.0.0.1:9", probe=prices)
    assert fetched.error == "cannot connect: Connection refused"
    body = decode(fetched.body)
    assert body is not None
    assert (body.cost, body.http_status) == (Decimal(0), None)


def test_a_port_that_speaks_no_tls_is_told_as_such() -> None:
    (fetched,) = probed(Endpoint([stream(GOOD)]), scheme="https")
    assert fetched.error is not None
    assert re.fullmatch(r"no TLS connection: .+; does this port speak https\?", fetched.error)


def test_an_unreadable_key_is_our_own_trouble_and_no_probe() -> None:
    endpoint = Endpoint([stream(GOOD)])
    (fetched,) = probed(endpoint, bearer_token=None, bearer_token_file="/none")
    assert (fetched.error, fetched.body) == ("/none cannot be read: No such file or directory", b"")
    assert endpoint.asked == []


@pytest.mark.parametrize(
    ("listed", "error"),
    [
        ([{"id": "one"}], None),
        ([{"id": "one"}, {"id": "two"}],
         "the endpoint lists 2 models; set `model` to the one that is to be probed"),
        ([], "the endpoint does not say which model it serves; set `model`"),
    ],
)  # fmt: skip
def test_without_a_model_the_endpoint_is_asked_which_one_it_serves(
    listed: list[Any], error: str | None
) -> None:
    endpoint = Endpoint([status(200, {"object": "list", "data": listed}), stream(GOOD)])
    first, *_ = probed(endpoint, 2 if error is None else 1, model=None)
    assert first.error == error
    if error is None:
        assert [body["model"] for body in endpoint.asked] == ["one", "one"]
        assert endpoint.paths == ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"]


def test_a_model_that_went_away_is_asked_for_anew() -> None:
    models = [status(200, {"data": [{"id": name}]}) for name in ("old", "new")]
    endpoint = Endpoint([models[0], status(404), models[1], stream(GOOD)])
    first, second = probed(endpoint, 2, model=None)
    assert ((first.error or "")[:8], second.error) == ("HTTP 404", None)
    assert [body["model"] for body in endpoint.asked] == ["old", "new"]


def test_after_retry_after_nothing_is_sent_before_that_time() -> None:
    endpoint = Endpoint([status(429, {}, Retry_After="90"), stream(GOOD)])
    times = iter([NOW, NOW, NOW + timedelta(seconds=60), NOW + timedelta(seconds=90)])
    refused, waiting, again = probed(endpoint, 3, clock=lambda: next(times))
    assert refused.error == "HTTP 429: the endpoint's limit of requests or tokens is reached"
    until = "no request before 2026-12-01 12:01:30 UTC (Retry-After)"
    assert waiting == Fetched(None, b"", 0.0, f"not asked: after HTTP 429 the endpoint wants {until}")
    assert again.error is None
    assert len(endpoint.asked) == 2


def test_where_the_list_of_models_has_moved_to_is_told_as_a_base_url() -> None:
    fetched = probed(Endpoint([status(301, {}, Location="/v2/models")]), model=None)[0]
    assert fetched.error is not None
    assert re.search(r"HTTP 301: redirects to http://127\.0\.0\.1:\d+/v2; put that into `url`", fetched.error)
