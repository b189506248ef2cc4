"""An OpenAI-compatible endpoint that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aiohttp import web

from collectors.fetch import Fetched, new_session
from collectors.probe.way import ProbeWay
from collectors.target import Target
from sql.store import Store
from tests.web_server import serving

NOW = datetime(2026, 12, 1, 12, 0, 0)
KEY = "sk-S3cr3t-key"
PROMPT = "A prompt that nobody may see"

Answering = Callable[["Endpoint", web.Request], Awaitable[web.StreamResponse]]


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream, as OpenAI's API sends it."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "c-1", "object": "chat.completion.chunk", "choices": choices, **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def usage(prompt: int, generated: int) -> bytes:
    """The event with the token counts."""
    return chunk(usage={"prompt_tokens": prompt, "completion_tokens": generated})


ROLE = chunk({"role": "assistant", "content": ""})
DONE = b"data: [DONE]\n\n"
GOOD = [ROLE, chunk({"content": "One"}), chunk({"content": " two"}), chunk({}, "stop"), usage(11, 4), DONE]


@dataclass
class Endpoint:
    """`answers` are used one after the other; the last one again and again."""

    answers: list[Answering]
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of the POSTs."""
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    received_at: float = 0.0
    written_at: list[float] = field(default_factory=list)
    """When each piece of the last stream was written, by the same clock as the probe's."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.received_at = time.perf_counter()
        self.paths.append(request.path_qs)
        self.headers.append(dict(request.headers))
        if request.method == "POST":
            self.asked.append(await request.json())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(self, request)


def stream(
    pieces: Sequence[bytes], *, gap: float = 0.0, hold: float = 0.0, break_off: bool = False
) -> Answering:
    """A stream of these pieces, `gap` seconds between two; `hold`: how long it stays open after the last."""

    async def answer(endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        endpoint.written_at = []
        for piece in pieces:
            await asyncio.sleep(gap)
            endpoint.written_at.append(time.perf_counter())
            await response.write(piece)
        if hold:
            await asyncio.sleep(hold)
        if break_off:
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


def status(code: int, body: Any = None, **headers: str) -> Answering:
    """An answer that is no stream."""

    async def answer(_endpoint: Endpoint, _request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body if body is not None else {}, status=code, headers=named)

    return answer


def probed(
    endpoint: Endpoint,
    times: int = 1,
    *,
    scheme: str = "http",
    path: str = "",
    store: Store | None = None,
    clock: Callable[[], datetime] = lambda: NOW,
    **settings: Any,
) -> list[Fetched]:
    """What `times` probes of the endpoint give, by one way."""

    async def go() -> list[Fetched]:
        async with serving(endpoint.handle) as url, new_session() as session:
            way = ProbeWay(session, store, clock)
            target = Target.model_validate(
                {"name": "p", "kind": "probe", "url": url.replace("http", scheme, 1) + path, "model": "m",
                 "bearer_token": KEY, "timeout": 5, **settings,
                 "probe": {"prompt": PROMPT, **settings.get("probe", {})}}
            )  # fmt: skip
            try:
                return [await way.fetch(target) for _ in range(times)]
            finally:
                await way.aclose()

    return asyncio.run(go())
