"""How the kind `probe` is asked: whether a request is due, which one, and what came of it as JSON."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import aiohttp
import duckdb

from collectors.fetch import Fetched
from collectors.hiding import hide, secrets_of, whole_word
from collectors.probe import words
from collectors.probe.body import ProbeBody, encode
from collectors.probe.exchange import Exchange, new_session, send
from collectors.probe.request import chat_request, chat_url, models_url, retry_at, served_model
from collectors.probe.settings import ProbeSettings
from collectors.probe.spending import Spending, cap_words, day_start
from collectors.target import Target, TargetSecretError
from sql.store import Store

TRIES = 4
"""A request, and one more for each part of it that a server may refuse."""


def _utc_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


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
        del session  # it keeps connections and does not tell when one stands: probes have their own
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
        try:
            spending = await self._spending(target, memory, prices.currency, largest, now)
        except duckdb.Error as error:
            return Fetched(None, b"", 0.0, words.unbooked_words(str(error)))
        if not spending.may_send(largest, cap, now):
            note = cap_words(cap, prices.currency)
            body = ProbeBody(sent=False, note=note, model=target.model or memory.model)
            return Fetched(None, encode(body), 0.0, None)
        spending.reserve(largest)
        try:  # before anything is sent: a process that is killed meanwhile must find it when it starts again
            await self._book(target, prices.currency, spending)
        except duckdb.Error as error:
            spending.settle(now.date(), largest, Decimal(0))
            return Fetched(None, b"", 0.0, words.unbooked_words(str(error)))
        fetched, cost = await self._probe(target, settings, memory)
        spending.settle(now.date(), largest, cost)
        with suppress(duckdb.Error):  # what is booked is the most it may have cost; the next try says why
            await self._book(target, prices.currency, spending)
        return fetched

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
                known, unknown, booked = rows[0]
                spent = max(Decimal(known) + unknown * largest, Decimal(booked))
            memory.spending = Spending(now.date(), spent)
        return memory.spending

    async def _book(self, target: Target, currency: str, spending: Spending) -> None:
        """Keep what the day has cost so far. Raises duckdb.Error."""
        if self._store is not None:
            await asyncio.to_thread(_write_spending, self._store, target.name, currency, spending)

    async def _probe(
        self, target: Target, settings: ProbeSettings, memory: _Memory
    ) -> tuple[Fetched, Decimal | None]:
        """What came of one request, and what it cost (None: not known)."""
        started = time.perf_counter()
        try:
            authorization = target.authorization()
            headers = _headers(authorization, settings)
            model, exchange = await self._exchange(target, settings, memory, headers)
        except TargetSecretError as error:
            return Fetched(None, b"", time.perf_counter() - started, str(error)), Decimal(0)
        cost = _cost(exchange, model, settings)
        body = _body(exchange, model, cost, settings, secrets_of(authorization))
        return Fetched(exchange.status, encode(body), time.perf_counter() - started, body.error), cost

    async def _exchange(
        self, target: Target, settings: ProbeSettings, memory: _Memory, headers: dict[str, str]
    ) -> tuple[str | None, Exchange]:
        """The model that was asked and the last exchange. Raises TargetSecretError."""
        if self._session is None:
            self._session = new_session()
        model = target.model or memory.model
        exchange = Exchange()
        try:
            async with asyncio.timeout(target.timeout_seconds):
                if model is None:
                    await send(self._session, target, models_url(target.url), headers, None, exchange)
                    model = memory.model = _learned(exchange)
                    if model is None:
                        self._remember_wait(memory, exchange)
                        return None, exchange
                refused = memory.refused
                for _ in range(TRIES):
                    exchange = Exchange()
                    body = chat_request(settings, model, refused)
                    await send(self._session, target, chat_url(target.url), headers, body, exchange)
                    again = [name for name in exchange.refused.names if name not in refused]
                    if exchange.status not in (400, 422) or not again:
                        break
                    refused = (*refused, again[0])
        except TimeoutError:
            exchange.error = words.timeout_words(
                exchange.sent_at is not None, exchange.status, exchange.answer, target.timeout_seconds
            )
            return model, exchange
        if exchange.status == 200:
            memory.refused = refused
        elif exchange.status == 404:
            memory.model = None  # another one may be served now
        self._remember_wait(memory, exchange)
        return model, exchange

    def _remember_wait(self, memory: _Memory, exchange: Exchange) -> None:
        if exchange.status in (429, 503):
            memory.wait_until = retry_at(exchange.retry_after, self._clock())
            memory.wait_status = exchange.status


def _write_spending(store: Store, target: str, currency: str, spending: Spending) -> None:
    with store.write() as writer:
        writer.run(
            "put_probe_spending", target=target, currency=currency, day=spending.day, spent=spending.spent
        )


def _learned(exchange: Exchange) -> str | None:
    """The model that /models told, or None and why in `exchange.error`."""
    if exchange.error is not None:
        exchange.error = f"which model is served cannot be asked: {exchange.error}; or set `model`"
        return None
    model, count = served_model(exchange.head)
    if model is None:
        exchange.error = (
            f"the endpoint lists {count} models; set `model` to the one that is to be probed"
            if count
            else "the endpoint does not say which model it serves; set `model`"
        )
    return model


def _headers(authorization: str | None, settings: ProbeSettings) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    if authorization is not None and settings.api_key_header is not None:
        headers[settings.api_key_header] = authorization.removeprefix("Bearer ")
    elif authorization is not None:
        headers["Authorization"] = authorization
    return headers


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
    if not answer.whole and answer.finish_reason is None:  # counts so far (vLLM's continuous_usage_stats)
        return None
    return settings.prices.cost(answer.prompt_tokens, answer.generation_tokens)


def _body(
    exchange: Exchange,
    model: str | None,
    cost: Decimal | None,
    settings: ProbeSettings,
    secrets: tuple[str, ...],
) -> ProbeBody:
    answer, error = exchange.answer, exchange.error
    if error is not None:  # the endpoint may quote the key, and a prompt that is one word
        error = whole_word(hide(error, secrets), settings.prompt)[:500]
    return ProbeBody(
        sent=True,
        connect_seconds=exchange.connect_seconds,
        model=None if model is None else hide(model, secrets),
        ok=exchange.error is None,
        http_status=exchange.status,
        ttft_seconds=answer.first_token_at,
        tpot_seconds=answer.tpot_seconds,
        e2e_seconds=answer.ended_at,
        prompt_tokens=answer.prompt_tokens,
        generation_tokens=answer.generation_tokens,
        cost=cost,
        currency=settings.prices.currency if settings.prices is not None else None,
        finish_reason=None if answer.finish_reason is None else hide(answer.finish_reason, secrets),
        error=error,
    )
