"""One GET of one target: a body, or what went wrong in words."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import NamedTuple

import aiohttp

from collectors.exposition import BodyError, decompress
from collectors.hiding import hide, secrets_of
from collectors.target import Target, TargetSecretError
from collectors.urls import moved_to

BODY_LIMIT = 16 * 1024 * 1024
"""vllm #44691: a label of hundreds of KB in one series; nothing sane comes near 16 MiB."""

_WORDS_CAP = 160
"""Characters of an error that are shown."""

_ACCEPT = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"


class Fetched(NamedTuple):
    """What came of one request."""

    status: int | None
    body: bytes
    duration_seconds: float
    error: str | None
    """None when `body` is a 200's body."""
    unreachable: bool = False
    """No connection, or no whole answer in time: asking again soon is of little use."""


def new_session() -> aiohttp.ClientSession:
    """A session for scraping: no cookies, no redirects followed blindly, no limit but ours."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        # Each target has its own timeout; aiohttp's would cost 0.03 ms of CPU a request beside it.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        headers={"Accept": _ACCEPT, "Accept-Encoding": "identity", "User-Agent": "infermeter"},
    )


async def fetch(
    session: aiohttp.ClientSession, target: Target, *, body_limit: int = BODY_LIMIT, close: bool = False
) -> Fetched:
    """GET the target's URL within its timeout.

    `close` ends the connection afterwards: llama.cpp's server can hang on kept-alive scrapes
    (llama.cpp #29104). Never raises for what a target does.
    """
    started = time.perf_counter()
    status: int | None = None

    def failed(error: str, *, unreachable: bool = False) -> Fetched:
        return Fetched(status, b"", time.perf_counter() - started, error, unreachable)

    def quoted(words: object) -> str:
        """Words of the target: it may quote what it was sent."""
        return _short(hide(str(words)[:1000], secrets_of(authorization)))

    authorization: str | None = None
    try:
        headers = {}
        if authorization := target.authorization():
            headers["Authorization"] = authorization
        if close:
            headers["Connection"] = "close"
        async with asyncio.timeout(target.timeout_seconds):
            async with session.get(
                target.url,
                headers=headers,
                ssl=target.ssl_context() or True,
                server_hostname=target.tls.server_name,
                allow_redirects=False,
            ) as response:
                status = response.status
                if status != 200:
                    return failed(await _why_not_200(response, target.url, quoted))
                body = await _limited(response, body_limit)
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            shown = encoding[:40] if encoding.isprintable() else "something"
            return failed(f"the answer is compressed with {shown}, which was not asked for")
        if encoding.endswith("gzip") or body[:2] == b"\x1f\x8b":
            body = decompress(body, body_limit)
    except TimeoutError:
        return failed(f"no whole answer within {target.timeout_seconds:g} s", unreachable=True)
    except BodyError as error:
        return failed(str(error))
    except TargetSecretError as error:
        return failed(str(error))
    except aiohttp.ClientConnectorError as error:
        return failed(connection_words(error), unreachable=not isinstance(error, aiohttp.ClientSSLError))
    except aiohttp.ServerDisconnectedError as error:
        if isinstance(error.message, str):
            return failed("the connection was closed without an answer")
        return failed(f"the answer is not HTTP: {quoted(error.message)}")
    except aiohttp.ClientResponseError as error:
        return failed(f"the answer is not HTTP: {quoted(error.message)}")
    except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
        return failed(f"the answer broke off: {type(error).__name__}: {quoted(error)}")
    if not body or body.isspace():
        return failed("the answer is empty (200 with no metrics)")
    return Fetched(status, body, time.perf_counter() - started, None)


def _short(words: object) -> str:
    """One line, without what a target could fill a page with."""
    line = " ".join(str(words).split())
    return line if len(line) <= _WORDS_CAP else line[:_WORDS_CAP] + "…"


def connection_words(error: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection: `cannot connect: Connection refused`."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the TLS certificate was refused: {error.certificate_error}; see `tls:` in the docs"
    if isinstance(error, aiohttp.ClientSSLError):
        why = getattr(error.os_error, "reason", None) or _system_words(error.os_error)
        return f"no TLS connection: {why}; does this port speak https?"
    return f"cannot connect: {_system_words(error.os_error)}"


def _system_words(error: OSError) -> str:
    """`Connection refused`, not asyncio's `Connect call failed (…)`."""
    if isinstance(error, socket.gaierror) or not error.errno or error.errno < 0:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _too_large(limit: int) -> BodyError:
    return BodyError(f"the answer is larger than {limit / 1024 / 1024:g} MiB")


async def _limited(response: aiohttp.ClientResponse, limit: int) -> bytes:
    declared = response.content_length
    if declared is not None and declared > limit:
        raise _too_large(limit)
    chunks = []
    size = 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


async def _why_not_200(response: aiohttp.ClientResponse, url: str, quoted: Callable[[object], str]) -> str:
    """The status in words, with the cure where one is known (`docs/troubleshooting.md`)."""
    status = response.status
    if 300 <= status < 400:
        place = moved_to(url, response.headers.get("Location"))
        where = f"to {quoted(place)}; put that into `url`" if place else "and does not say where to"
        return f"HTTP {status}: redirects {where}"
    start = (await response.content.read(300)).decode("utf-8", "replace")
    words = quoted(" ".join(start.split()))[:120]
    cure = {
        401: "; give `basic_auth` or `bearer_token`",
        403: "; the credentials are not allowed to read metrics",
        404: "; is this the metrics path? SGLang needs --enable-metrics",
        501: "; llama.cpp's server needs --metrics",
    }.get(status, "")
    return f"HTTP {status}{cure}" + (f" ({words})" if words else "")
