"""One GET of one target, against a real server on the loopback."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest
from aiohttp import web

from collectors.fetch import Fetched, fetch, new_session
from collectors.target import Target
from tests.web_server import Handler, serving

BODY = b"up 1\n"


def fetched(handler: Handler, *, body_limit: int = 1024, **settings: Any) -> Fetched:
    async def go() -> Fetched:
        async with serving(handler) as url, new_session() as session:
            target = Target(name="t", url=f"{url}/metrics", **settings)
            return await fetch(session, target, body_limit=body_limit)

    return asyncio.run(go())


async def ok(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=BODY)


def test_a_200_gives_its_body_and_how_long_it_took() -> None:
    answer = fetched(ok)
    assert (answer.status, answer.body, answer.error) == (200, BODY, None)
    assert 0 < answer.duration_seconds < 5


def test_a_gzipped_answer_is_unpacked_though_none_was_asked_for() -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(BODY), headers={"Content-Encoding": "gzip"})

    assert fetched(handler).body == BODY


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, br"])
def test_another_compression_is_named(encoding: str) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\x0b\x02\x80up 1\n\x03", headers={"Content-Encoding": encoding})

    answer = fetched(handler)
    assert answer.error == f"the answer is compressed with {encoding}, which was not asked for"
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("encoding", ["X-GZIP", " gzip "])
def test_gzip_is_known_by_its_other_names(encoding: str) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(BODY), headers={"Content-Encoding": encoding})

    assert fetched(handler).body == BODY


def test_a_gzip_bomb_costs_no_more_than_the_limit() -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(b"0" * 50_000_000), headers={"Content-Encoding": "gzip"})

    answer = fetched(handler, body_limit=100_000)
    assert answer.body == b""
    assert answer.error is not None
    assert "larger than" in answer.error


@pytest.mark.parametrize("chunked", [False, True])
def test_an_answer_over_the_limit_is_refused(chunked: bool) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if not chunked:
            return web.Response(body=b"x" * 2048)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(64):
            await response.write(b"x" * 64)
        return response

    assert fetched(handler, body_limit=1024).error == "the answer is larger than 0.000976562 MiB"


def test_an_endless_answer_ends_at_the_limit_and_a_dripping_one_at_the_timeout() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(10_000):
            await response.write(b"x" * 4096)
        return response

    async def dripping(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"x")
            await asyncio.sleep(0.02)
        return response

    assert "larger than" in (fetched(endless).error or "")
    assert fetched(dripping, timeout=0.2).error == "no whole answer within 0.2 s"


def test_a_hanging_target_ends_at_its_timeout() -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3)
        return web.Response()

    answer = fetched(handler, timeout=0.1)
    assert answer.error == "no whole answer within 0.1 s"
    assert answer.duration_seconds < 1


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "HTTP 401; give `basic_auth` or `bearer_token`"),
        (404, "HTTP 404; is this the metrics path? SGLang needs --enable-metrics"),
        (500, "HTTP 500 (it broke)"),
        (501, "HTTP 501; llama.cpp's server needs --metrics"),
    ],
)
def test_another_status_is_said_with_the_cure(status: int, says: str) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="it  broke\n" if status == 500 else "")

    answer = fetched(handler)
    assert (answer.status, answer.error) == (status, says)


def test_a_redirect_is_not_followed_and_its_goal_is_shown_without_its_query() -> None:
    asked = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "http://elsewhere:1/login?token=abc"})

    answer = fetched(handler)
    assert answer.error == "HTTP 302: redirects to http://elsewhere:1/login; put that into `url`"
    assert asked == ["/metrics"]


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("/new/metrics", "to http://127.0.0.1:PORT/new/metrics; put that into `url`"),
        ("//u:pw@elsewhere/m?x=1", "to http://elsewhere/m; put that into `url`"),
        ("http://[", "and does not say where to"),
        ("", "and does not say where to"),
    ],
)
def test_where_a_redirect_leads_is_said_whole_and_without_credentials(location: str, says: str) -> None:
    port = []

    async def handler(request: web.Request) -> web.StreamResponse:
        port.append(request.host.rpartition(":")[2])
        return web.Response(status=301, headers={"Location": location})

    error = fetched(handler).error
    assert error == "HTTP 301: redirects " + says.replace("PORT", port[0])


def test_a_key_that_the_target_quotes_is_not_shown() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text=f"{request.headers['Authorization']} may not")

    error = fetched(handler, bearer_token="sk-0123456789").error
    assert error == "HTTP 403; the credentials are not allowed to read metrics (Bearer … may not)"


def test_a_password_that_is_an_ordinary_word_hides_none_of_our_own() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="no metrics for ann")

    error = fetched(handler, basic_auth={"username": "ann", "password": "metrics"}).error
    assert error == "HTTP 404; is this the metrics path? SGLang needs --enable-metrics (no … for ann)"


def test_an_empty_200_is_an_error_and_not_zero_metrics() -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=" \n")

    assert fetched(handler).error == "the answer is empty (200 with no metrics)"


def test_a_refused_connection_is_said_in_words() -> None:
    async def go() -> Fetched:
        async with new_session() as session:
            return await fetch(session, Target(name="t", url="http://127.0.0.1:9/metrics"))

    answer = asyncio.run(go())
    assert answer.status is None
    assert answer.error == "cannot connect: Connection refused"


def test_an_answer_that_breaks_off_is_an_error() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"up 1\n")
        assert request.transport is not None
        request.transport.close()
        return response

    assert (fetched(handler).error or "").startswith("the answer broke off")


def test_credentials_go_into_the_header_and_nowhere_else() -> None:
    seen = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=500)

    answer = fetched(handler, bearer_token="s3cret")
    assert seen == ["Bearer s3cret"]
    assert "s3cret" not in repr(answer)
    fetched(handler, basic_auth={"username": "u", "password": "p"})
    assert seen[1] == "Basic dTpw"


def test_an_unreadable_token_file_is_named(tmp_path: Any) -> None:
    answer = fetched(ok, bearer_token_file=str(tmp_path / "none"))
    assert answer.error == f"{tmp_path}/none cannot be read: No such file or directory"
