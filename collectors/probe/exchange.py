"""One request of a probe and what came of it, timed by the monotonic clock.

Each goes over a new connection: many servers close an idle one long before the next probe, and a request on a
connection that is just being closed would look like a failure of theirs. Setting it up (name, TCP, TLS) is
measured apart and is in no latency: time to first token counts from the request's sending.
"""

from __future__ import annotations

import json
import ssl
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from collectors.fetch import connection_words
from collectors.probe import words
from collectors.probe.answer import Answer, json_object
from collectors.probe.request import Refusal, refusal
from collectors.probe.sse import Event, Events
from collectors.target import Target
from collectors.urls import moved_to

ANSWER_LIMIT = 4 * 1024 * 1024
"""4096 tokens, the most that can be asked for, of 1 KiB each: an event of one token has 200 to 500 bytes."""

HEAD_LIMIT = 64 * 1024
"""What is looked at of an answer that is no stream."""


@dataclass
class Exchange:
    """What is known so far; filled in as it goes, so that a timeout leaves what was measured."""

    answer: Answer = field(default_factory=Answer)
    connecting_at: float | None = None
    """Monotonic."""
    sent_at: float | None = None
    """Monotonic; None until there is a connection."""
    status: int | None = None
    head: bytes = b""
    """The beginning of an answer that is no stream."""
    refused: Refusal = field(default_factory=Refusal)
    retry_after: str | None = None
    """The header, as it came."""
    error: str | None = None

    @property
    def connect_seconds(self) -> float | None:
        """How long the connection took to set up."""
        if self.connecting_at is None or self.sent_at is None:
            return None
        return self.sent_at - self.connecting_at


def new_session() -> aiohttp.ClientSession:
    """A session for probes: no connection is kept, and it is noted when one stands. Bodies come as sent."""
    trace = aiohttp.TraceConfig()

    async def connecting(_session: aiohttp.ClientSession, context: Any, _details: object) -> None:
        context.trace_request_ctx.connecting_at = time.perf_counter()

    async def connected(_session: aiohttp.ClientSession, context: Any, _details: object) -> None:
        context.trace_request_ctx.sent_at = time.perf_counter()

    trace.on_connection_create_start.append(connecting)
    trace.on_connection_create_end.append(connected)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # the target's own holds for all of it
        headers={"Accept-Encoding": "identity", "User-Agent": "infermeter"},
        trace_configs=[trace],
    )


async def send(
    session: aiohttp.ClientSession,
    target: Target,
    url: str,
    headers: dict[str, str],
    body: dict[str, Any] | None,
    exchange: Exchange,
) -> None:
    """POST `body` and listen to the stream, or GET without one; what comes of it goes into `exchange`.

    Raises TimeoutError and TargetSecretError; anything else that goes wrong is `exchange.error`.
    """
    try:
        async with session.request(
            "GET" if body is None else "POST",
            url,
            headers=headers,
            data=None if body is None else json.dumps(body).encode(),
            ssl=target.ssl_context() or True,
            server_hostname=target.tls.server_name,
            allow_redirects=False,
            trace_request_ctx=exchange,
        ) as response:
            exchange.status = response.status if 100 <= response.status <= 999 else None
            if response.status != 200:
                exchange.refused = refusal(await _head(response))
                exchange.retry_after = response.headers.get("Retry-After")
                place = moved_to(url, response.headers.get("Location"))
                exchange.error = words.status_words(response.status, exchange.refused, place)
            elif response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
                exchange.error = "the answer is compressed, which was not asked for"
            elif body is None:
                exchange.head = await _head(response, ANSWER_LIMIT)  # a list of models
            else:
                await _listen(response, exchange)
    except TimeoutError:
        raise
    except aiohttp.ClientConnectorError as error:
        exchange.error = connection_words(error)
    except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
        # The message may quote the answer, so its kind alone is told.
        exchange.error = f"the answer broke off: {type(error).__name__}"


async def _head(response: aiohttp.ClientResponse, limit: int = HEAD_LIMIT) -> bytes:
    head = bytearray()
    while len(head) < limit and (chunk := await response.content.readany()):
        head += chunk
    return bytes(head[:limit])


async def _listen(response: aiohttp.ClientResponse, exchange: Exchange) -> None:
    """Read the stream to its end, noting when what came."""
    answer, events = exchange.answer, Events()
    sent_at = exchange.sent_at or time.perf_counter()
    head = bytearray()
    size = 0
    while not answer.whole and (chunk := await response.content.readany()):
        at = time.perf_counter() - sent_at
        size += len(chunk)
        if size > ANSWER_LIMIT:
            exchange.error = f"the answer is larger than {ANSWER_LIMIT // 1024 // 1024} MiB"
            return
        if not answer.events and len(head) < HEAD_LIMIT:
            head += chunk
        for event in events.feed(chunk):
            answer.take(event, at)
    answer.ended_at = time.perf_counter() - sent_at
    for event in events.end():
        answer.take(event, answer.ended_at)
    in_one_piece = False
    if answer.events == 0 and (message := json_object(bytes(head))) is not None:
        in_one_piece = isinstance(message.get("choices"), list)
        if in_one_piece or message.get("error"):  # its usage and its error count; it has no first token
            answer.take(Event("", json.dumps({**message, "choices": []})), answer.ended_at)
            answer.whole = in_one_piece
    exchange.error = words.stream_trouble(answer, response.headers.get("Content-Type"), in_one_piece)
