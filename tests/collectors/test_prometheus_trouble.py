"""What an API does wrong is said by name, asked for again where that helps, and doubles nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from collectors.prometheus.api import Api
from collectors.prometheus.fetch import MOST_PARTS, Fetcher
from collectors.prometheus.refusals import ApiError
from collectors.target import Target
from tests.collectors.fake_prometheus import Asked, FakePrometheus, Reply, failure, fake_prometheus, success
from tests.collectors.pulling import (
    Pulled,
    assert_each_once,
    counted,
    go_on,
    prompts,
    pulled_from,
    scrape_past,
    source,
)


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with fake_prometheus() as server:
        yield server


def of_samples(reply: Reply, times: int = 10**6) -> Callable[[Asked], Reply | None]:
    """The reply to the first queries for samples."""
    left = times

    def wrong(asked: Asked) -> Reply | None:
        nonlocal left
        if not asked.seconds or left <= 0:
            return None
        left -= 1
        return reply

    return wrong


def begun(fake: FakePrometheus, **more: Any) -> Pulled:
    pulled = pulled_from(fake, **more)
    pulled.pull()
    go_on(fake, 1)
    pulled.pull()
    go_on(fake, 2)
    return pulled


REFUSED = [
    (failure(422, "execution", "too many samples"), "HTTP 422 (too many samples)"),
    (failure(503, "timeout", "query timed out in expression evaluation"), "HTTP 503 (query timed out"),
    (Reply(500, b"boom"), "HTTP 500 (boom)"),
    (Reply(429, b"slow down"), "HTTP 429 (slow down)"),
    (Reply(400, b'{"status":"error","error":"bad \\"match\\""}'), 'HTTP 400 (bad "match")'),
    (Reply(401, b""), "HTTP 401; give `basic_auth` or `bearer_token`"),
    (Reply(404, b"page not found"), "HTTP 404; is this the base of a Prometheus API?"),
    (
        Reply(302, b"", {"Location": "https://sso.example.com/login?x=y"}),
        "HTTP 302: redirects to a log-in, https://sso.example.com/login; is this the base",
    ),
    (Reply(302, b"", {"Location": "/prom/api/v1/query"}), "HTTP 302: redirects to http://127.0.0.1:"),
    (Reply(301, b""), "HTTP 301: redirects and does not say where to"),
    (
        Reply(200, b"# HELP vllm:num_requests_running x\n"),
        "the answer is not JSON, it starts with '# HELP vllm:num_requests_running x'; this is an exporter",
    ),
    (Reply(200, b"<!DOCTYPE html><html>Sign in"), "the answer is not JSON, it starts with '<!DOCTYPE html"),
    (Reply(200, b""), "the answer is not JSON"),
    (Reply(200, b"[" * 100_000), "the answer is not JSON"),
    (Reply(200, b'{"status":"success"}'), "the answer is JSON, but not what Prometheus' API sends"),
    (Reply(200, b"[1, 2]"), "the answer is JSON, but not what Prometheus' API sends"),
    (success({"resultType": "matrix"}), "the answer to a query is not what Prometheus' API sends"),
    (success({"resultType": "matrix", "result": 5}), "the answer to a query holds no list"),
    (success({"resultType": "matrix", "result": [{"metric": {}}]}), "the answer holds series that are not"),
    (
        success({"result": [{"metric": {"__name__": "vllm:x"}, "values": [["a", "b"]]}]}),
        "the answer holds sam",
    ),
    (
        success(
            {"result": [{"metric": {"__name__": "vllm:x", "instance": "a"}, "values": [[1800000015, 5]]}]}
        ),
        "the answer holds series",
    ),
]


@pytest.mark.parametrize(("reply", "words"), REFUSED, ids=[words[:30] for _, words in REFUSED])
def test_each_is_an_error_of_that_name_and_the_next_pull_takes_all(
    fake: FakePrometheus, reply: Reply, words: str
) -> None:
    pulled = begun(fake)
    fake.wrong = of_samples(reply)
    pulled.pull()
    row = pulled.last_try()
    assert not row["ok"]
    assert row["error"].startswith(words)
    assert prompts(pulled) == [100]
    fake.wrong = lambda _: None
    pulled.pull()
    assert prompts(pulled) == [100, 200]
    assert_each_once(pulled)


@pytest.mark.parametrize("status", [413, 422, 429, 500, 502, 503, 504])
def test_what_may_help_is_tried_in_the_same_pull(fake: FakePrometheus, status: int) -> None:
    pulled = begun(fake)
    fake.wrong = of_samples(Reply(status, b"not now"), times=2)
    pulled.pull()
    assert pulled.last_try()["error"] is None
    assert prompts(pulled) == [100, 200]


def test_too_many_samples_are_asked_for_in_parts(fake: FakePrometheus) -> None:
    count = scrape_past(fake, 1800)
    fake.most_samples = 40  # of 13 a scrape: three scrapes at most
    pulled = pulled_from(fake, backfill="30m")
    pulled.pull()
    for _ in range(40):
        pulled.read_past()
        fake.now += 301
        if not pulled.puller.past.unfinished:
            break
    assert prompts(pulled) == [100.0 * number for number in range(count)]
    assert counted(pulled) == [count - 1, 2 * (count - 1), 3 * (count - 1)]
    assert_each_once(pulled)


def test_one_scrape_that_is_too_much_is_asked_for_by_part_of_its_names(fake: FakePrometheus) -> None:
    pulled = begun(fake)
    fake.most_samples = 8  # of 10 series with vLLM's names
    for _ in range(5):
        pulled.pull()
    assert pulled.last_try()["error"] is None
    assert prompts(pulled) == [100, 200]
    names = [asked.parameters["query"].count("|") + 1 for asked in fake.asked if asked.seconds]
    assert min(names) <= 5


def test_a_partial_answer_is_asked_for_again_and_then_said(fake: FakePrometheus) -> None:
    pulled = begun(fake)
    part = success({"resultType": "matrix", "result": []}, ["store 10.0.0.7 is not there"])
    fake.wrong = of_samples(part, times=1)
    pulled.pull()
    assert prompts(pulled) == [100, 200]
    assert pulled.notes() == []
    go_on(fake, 3)
    fake.wrong = of_samples(part)
    pulled.pull()
    assert pulled.last_try()["error"] is None
    assert pulled.notes() == [
        "the answer is partial: store 10.0.0.7 is not there. It was taken as it is after 3 tries"
    ]
    fake.wrong = lambda _: None
    pulled.pull()
    assert prompts(pulled) == [100, 200, 300]
    assert pulled.notes() == []


@pytest.mark.parametrize("reply", [Reply(hangs=True), Reply(drips=True)], ids=["hangs", "drips"])
def test_an_answer_that_does_not_come_costs_its_time_and_no_more(fake: FakePrometheus, reply: Reply) -> None:
    pulled = begun(fake, timeout="200ms")
    fake.wrong = lambda asked: reply if asked.parameters.get("query") == "time()" else None
    started = time.monotonic()
    pulled.pull()
    assert time.monotonic() - started < 2
    assert pulled.last_try()["error"] == "no whole answer within 0.2 s"


def test_a_thread_that_hangs_for_good_is_left_behind_and_told(fake: FakePrometheus) -> None:
    pulled = begun(fake)
    pulled.puller._thread._limit = 0.1
    fake.wrong = lambda _: Reply(hangs=True)
    pulled.pull()
    assert pulled.last_try()["error"] == "the answer drips or hangs: given up after 0.1 s"
    pulled.pull()
    assert pulled.last_try()["error"] == "the request before is still waiting for its answer"


def test_an_answer_without_end_is_cut_off(fake: FakePrometheus) -> None:
    api = Api(source(fake.url), body_limit=1000)
    fake.wrong = lambda _: Reply(200, b" " * 5000)
    with pytest.raises(ApiError, match=r"^the answer is larger than 0.000953674 MiB$") as caught:
        api.samples("{}", 0, 1000)
    assert caught.value.too_much


def test_nobody_there(fake: FakePrometheus) -> None:
    pulled = Pulled(source("http://127.0.0.1:9", timeout="1s"), clock=fake.clock)
    pulled.pull()
    assert pulled.last_try()["error"].startswith("cannot connect: ")
    assert "Connection refused" in pulled.last_try()["error"]


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("http://prometheus.invalid:9090", {}, "cannot connect: "),
        (
            "https://127.0.0.1:9",
            {"tls": {"ca_file": "/nowhere/ca.pem"}},
            "`tls.ca_file` cannot be read: /nowhere/ca",
        ),
    ],
)
def test_what_is_wrong_before_any_answer_is_named(
    fake: FakePrometheus, url: str, more: dict[str, Any], words: str
) -> None:
    target = Target.model_validate({"kind": "prometheus", "name": "prom", "url": url, **more})
    pulled = Pulled(target, clock=fake.clock)
    pulled.pull()
    assert pulled.last_try()["error"].startswith(words)


@pytest.mark.parametrize("status", [200, 400, 401, 422])
def test_a_server_that_quotes_the_token_shows_it_to_nobody(fake: FakePrometheus, status: int) -> None:
    token = "sk-verysecret-0123456789"
    fake.wrong = lambda asked: Reply(status, f"bad: {asked.headers['authorization']}".encode())
    pulled = pulled_from(fake).again(bearer_token=SecretStr(token))
    pulled.pull()
    assert "bad: " in pulled.last_try()["error"]
    assert token not in pulled.last_try()["error"]
    assert ("refused" in pulled.last_try()["error"]) == (status == 401)


def test_a_proxy_that_takes_no_post_is_asked_by_get(fake: FakePrometheus) -> None:
    fake.wrong = lambda asked: Reply(405, b"no") if asked.method == "POST" else None
    pulled = begun(fake)
    pulled.pull()
    assert prompts(pulled) == [100, 200]
    assert [asked.method for asked in fake.asked].count("POST") == 1


def test_the_paths_of_mimir_and_victoria_metrics_are_kept(fake: FakePrometheus) -> None:
    for base in ("/prometheus", "/select/0/prometheus/", "/prometheus/api/v1"):
        Api(source(fake.url + base)).server_time()
    assert [asked.path for asked in fake.asked] == [
        "/prometheus/api/v1/query",
        "/select/0/prometheus/api/v1/query",
        "/prometheus/api/v1/query",
    ]


def test_credentials_are_sent_and_never_shown(fake: FakePrometheus) -> None:
    target = source(fake.url).model_validate(
        {"kind": "prometheus", "name": "p", "url": fake.url, "bearer_token": "s3cret"}
    )
    Api(target).server_time()
    assert fake.asked[0].headers["authorization"] == "Bearer s3cret"
    fake.wrong = lambda _: Reply(401, b"")
    with pytest.raises(ApiError) as caught:
        Api(target).server_time()
    assert "s3cret" not in str(caught.value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["success", "vllm:x", "up"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "data", "result", "metric", "values", "__name__", "job"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=JSON)
def test_no_answer_makes_it_raise_anything_else(fake: FakePrometheus, payload: Any) -> None:
    wrapped = {"status": "success", "data": {"resultType": "matrix", "result": payload}}
    fake.asked.clear()
    for body in (json.dumps(payload).encode(), json.dumps(wrapped).encode()):
        fake.wrong = lambda _, body=body: Reply(200, body)  # type: ignore[misc]
        fetcher = Fetcher(source(fake.url), Api(source(fake.url)), back_off_seconds=0)
        fetcher._parts = MOST_PARTS
        fetcher._jobs.add("vllm")
        fetcher._named, fetcher._names_wait = (0, 10_000), 3600
        with suppress(ApiError):
            fetcher.stretch(1000, 9000)
        with suppress(ApiError):
            fetcher.server_ms()
