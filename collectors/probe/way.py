"""How a probe is sent: a streamed completion on a connection of its own, timed by the monotonic clock.

Each probe opens a new connection: half of all servers close an idle one long before the next probe, and a
request on a connection that is just being closed would look like a failure of theirs. Setting it up (name,
TCP, TLS) is measured apart and is in no latency: time to first token counts from the request's sending.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aiohttp

from collectors.fetch import Fetched
from collectors.probe import words
from collectors.probe.answer import Answer, json_object
from collectors.probe.body import ProbeBody, encode
from collectors.probe.request import (
    Refusal,
    chat_request,
    chat_url,
    models_url,
    refusal,
    retry_at,
    served_model,
)
from collectors.probe.settings import ProbeSettings
from collectors.probe.spending import Spending, cap_words, day_start
from collectors.probe.sse import Event, Events
from collectors.target import Target, TargetSecretError
from sql.store import Store

ANSWER_LIMIT = 4 * 1024 * 1024
"""4096 tokens, the most that can be asked for, of 1 KiB each: an event of one token has 200 to 500 bytes."""

HEAD_LIMIT = 64 * 1024
"""What is looked at of an answer that is no stream, and of a list of models."""

TRIES = 4
"""A request, and one more for each part of it that a server may refuse."""


def _utc_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass
class Exchange:
    """One request and what came of it so far; filled in as it goes: a timeout leaves what is known."""

    answer: Answer = field(default_factory=Answer)
    connecting_at: float | None = None
    sent_at: float | None = None
    """Monotonic; None until there is a connection."""
    status: int | None = None
    refused: Refusal = field(default_factory=Refusal)
    retry_at: datetime | None = None
    error: str | None = None

    @property
    def connect_seconds(self) -> float | None:
        """How long the connection took to set up."""
        if self.connecting_at is None or self.sent_at is None:
            return None
        return self.sent_at - self.connecting_at


@dataclass
class _Memory:
    """What is remembered of one target between probes."""

    url: str
    model: str | None = None
    """As the endpoint listed it, where the configuration names none."""
    refused: tuple[str, ...] = ()
    """Parts of the request that this server does not take."""
    wait_until: datetime | None = None
    wait_status: int | None = None
    spending: Spending | None = None


class ProbeWay:
    """The way of the kind `probe`. `clock` gives UTC without a zone."""

    def __init__(
        self, session: aiohttp.ClientSession, store: Store | None, clock: Callable[[], datetime] = _utc_now
    ) -> None:
        del session  # it keeps connections and has no trace of them; probes need their own
        self._store = store
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._memories: dict[str, _Memory] = {}

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def fetch(self, target: Target) -> Fetched:
        """Send one probe within the target's timeout, or say why none is sent.

        A probe that failed has both a body, with what was measured, and an error. Never raises for what the
        endpoint does.
        """
        settings = target.probe or ProbeSettings()
        memory = self._memory(target)
        now = self._clock()
        if memory.wait_until is not None and now < memory.wait_until:
            return Fetched(None, b"", 0.0, words.waiting_words(memory.wait_status, memory.wait_until))
        largest, cap, prices = settings.largest_cost, settings.spend_per_day, settings.prices
        if largest is None or cap is None or prices is None:
            fetched, _ = await self._probe(target, settings, memory)
            return fetched
        spending = await self._spending(target, memory, prices.currency, largest, now)
        if not spending.may_send(largest, cap, now):
            note = cap_words(cap, prices.currency)
            body = ProbeBody(sent=False, note=note, model=target.model or memory.model)
            return Fetched(None, encode(body), 0.0, None)
        spending.reserve(largest)
        fetched, cost = await self._probe(target, settings, memory)
        spending.settle(now.date(), largest, cost)
        return fetched

    async def _probe(
        self, target: Target, settings: ProbeSettings, memory: _Memory
    ) -> tuple[Fetched, Decimal | None]:
        """What came of one request, and what it cost (None: not known)."""
        started = time.perf_counter()
        try:
            model, exchange = await self._within_timeout(target, settings, memory)
        except TargetSecretError as error:
            return Fetched(None, b"", time.perf_counter() - started, str(error)), Decimal(0)
        cost = _cost(exchange, model, settings)
        body = _body(exchange, model, cost, settings)
        return Fetched(exchange.status, encode(body), time.perf_counter() - started, body.error), cost

    def _memory(self, target: Target) -> _Memory:
        memory = self._memories.get(target.name)
        if memory is None or memory.url != target.url:
            spending = memory.spending if memory is not None else None
            memory = self._memories[target.name] = _Memory(target.url, spending=spending)
        return memory

    async def _spending(
        self, target: Target, memory: _Memory, currency: str, largest: Decimal, now: datetime
    ) -> Spending:
        if memory.spending is None:
            spent = Decimal(0)
            if self._store is not None:
                rows = await asyncio.to_thread(
                    self._store.query_rows,
                    "probe_spent",
                    target=target.name,
                    since=day_start(now),
                    currency=currency,
                )
                known, unknown = rows[0]
                spent = Decimal(known) + unknown * largest
            memory.spending = Spending(now.date(), spent)
        return memory.spending

    async def _within_timeout(
        self, target: Target, settings: ProbeSettings, memory: _Memory
    ) -> tuple[str | None, Exchange]:
        """The model that was asked and the last exchange. Raises TargetSecretError."""
        headers = _headers(target, settings)
        exchange = Exchange()
        model = target.model or memory.model
        try:
            async with asyncio.timeout(target.timeout_seconds):
                if model is None:
                    await self._ask(target, "GET", models_url(target.url), headers, None, exchange)
                    model = memory.model
                    if model is None:
                        return None, exchange
                refused = memory.refused
                for _ in range(TRIES):
                    exchange = Exchange()
                    body = chat_request(settings, model, refused)
                    await self._ask(target, "POST", chat_url(target.url), headers, body, exchange)
                    again = [name for name in exchange.refused.names if name not in refused]
                    if exchange.status not in (400, 422) or not again:
                        break
                    refused = (*refused, again[0])
                if exchange.status == 200:
                    memory.refused = refused
                elif exchange.status == 404:
                    memory.model = None  # another one may be served now
                if exchange.status in (429, 503):
                    memory.wait_until, memory.wait_status = exchange.retry_at, exchange.status
        except TimeoutError:
            exchange.error = words.timeout_words(
                exchange.sent_at is not None, exchange.status, exchange.answer, target.timeout_seconds
            )
        return model, exchange

    async def _ask(
        self,
        target: Target,
        method: str,
        url: str,
        headers: dict[str, str],
        body: dict[str, Any] | None,
        exchange: Exchange,
    ) -> None:
        """One request; what comes of it goes into `exchange`. Raises TimeoutError and TargetSecretError."""
        if self._session is None:
            self._session = _new_session()
        try:
            async with self._session.request(
                method,
                url,
                headers=headers,
                data=None if body is None else json.dumps(body).encode(),
                ssl=target.ssl_context() or True,
                server_hostname=target.tls.server_name,
                allow_redirects=False,
                trace_request_ctx=exchange,
            ) as response:
                exchange.status = response.status
                if response.status != 200:
                    exchange.refused = refusal(await _head(response))
                    exchange.retry_at = retry_at(response.headers.get("Retry-After"), self._clock())
                    location = response.headers.get("Location")
                    exchange.error = words.status_words(response.status, exchange.refused, location)
                elif method == "GET":
                    self._learn_model(target, await _head(response), exchange)
                else:
                    await _listen(response, exchange)
        except aiohttp.ClientConnectorCertificateError as error:
            exchange.error = (
                f"the TLS certificate was refused: {error.certificate_error}; see `tls:` in the docs"
            )
        except aiohttp.ClientConnectorError as error:
            exchange.error = words.connection_words(error.os_error)
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            # The message may quote the answer, so its kind alone is told.
            exchange.error = f"the answer broke off: {type(error).__name__}"

    def _learn_model(self, target: Target, body: bytes, exchange: Exchange) -> None:
        model, count = served_model(body)
        if model is None:
            exchange.error = (
                f"the endpoint lists {count} models; set `model` to the one that is to be probed"
                if count
                else "the endpoint does not say which model it serves; set `model`"
            )
        self._memory(target).model = model


def _new_session() -> aiohttp.ClientSession:
    """Its own connections, none kept; traced, to know when a connection stands."""
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
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        headers={"Accept-Encoding": "identity", "User-Agent": "infermeter"},
        trace_configs=[trace],
    )


def _headers(target: Target, settings: ProbeSettings) -> dict[str, str]:
    """Raises TargetSecretError."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    authorization = target.authorization()
    if authorization is not None and settings.api_key_header is not None:
        headers[settings.api_key_header] = authorization.removeprefix("Bearer ")
    elif authorization is not None:
        headers["Authorization"] = authorization
    return headers


async def _head(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of an answer, at most `HEAD_LIMIT`."""
    head = bytearray()
    while len(head) < HEAD_LIMIT and (chunk := await response.content.readany()):
        head += chunk
    return bytes(head[:HEAD_LIMIT])


async def _listen(response: aiohttp.ClientResponse, exchange: Exchange) -> None:
    """Read the stream to its end, noting when what came."""
    answer, events = exchange.answer, Events()
    content_type = response.headers.get("Content-Type")
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        exchange.error = "the stream is compressed, which was not asked for"
        return
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
        if in_one_piece or message.get("error"):
            answer.take(Event("", json.dumps({**message, "choices": []})), answer.ended_at)
    exchange.error = words.stream_trouble(answer, content_type, in_one_piece)


def _cost(exchange: Exchange, model: str | None, settings: ProbeSettings) -> Decimal | None:
    """What the request cost: 0 when it was refused or never sent, None when nobody knows."""
    if settings.prices is None:
        return None
    if model is None or exchange.sent_at is None:  # without a model nothing but /models was asked
        return Decimal(0)
    if exchange.status is not None and 300 <= exchange.status < 500:
        return Decimal(0)
    answer = exchange.answer
    if answer.prompt_tokens is None or answer.generation_tokens is None:
        return None
    return settings.prices.cost(answer.prompt_tokens, answer.generation_tokens)


def _body(exchange: Exchange, model: str | None, cost: Decimal | None, settings: ProbeSettings) -> ProbeBody:
    answer = exchange.answer
    return ProbeBody(
        sent=True,
        connect_seconds=exchange.connect_seconds,
        model=model,
        ok=exchange.error is None,
        http_status=exchange.status,
        ttft_seconds=answer.first_token_at,
        tpot_seconds=answer.tpot_seconds,
        e2e_seconds=answer.ended_at,
        prompt_tokens=answer.prompt_tokens,
        generation_tokens=answer.generation_tokens,
        cost=cost,
        currency=settings.prices.currency if settings.prices is not None else None,
        finish_reason=answer.finish_reason,
        error=None if exchange.error is None else exchange.error[:500],
    )
