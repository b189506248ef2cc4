"""A stand-in for Slack on 127.0.0.1 that answers as told and keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, web

SECRET = "T0SECRETT/B0SECRETB/sEcReTsEcReT"


@dataclass
class SlackServer:
    """`answers`: (status, body, headers) for the next requests, in order; then `ok`."""

    answers: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    delay_seconds: float = 0.0
    hold: bool = False
    """Answer nothing before the end."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    end: asyncio.Event = field(default_factory=asyncio.Event)

    def answer(self, status: int, body: str = "", **headers: str) -> None:
        """Add one answer; header names with _ for -."""
        self.answers.append((status, body, {name.replace("_", "-"): text for name, text in headers.items()}))

    async def handle(self, request: web.Request) -> web.Response:
        self.received.append(await request.json())
        self.arrived.set()
        if self.hold:
            await self.end.wait()
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        status, body, headers = self.answers.pop(0) if self.answers else (200, "ok", {})
        return web.Response(status=status, text=body, headers=headers)


@asynccontextmanager
async def slack_server() -> AsyncIterator[tuple[SlackServer, ClientSession]]:
    """The server, and a client session to reach it with."""
    server = SlackServer()
    app = web.Application()
    app.router.add_route("*", "/services/{secret:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}/services/{SECRET}"
    try:
        async with ClientSession() as session:
            yield server, session
    finally:
        server.end.set()
        await runner.cleanup()
