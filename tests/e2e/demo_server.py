"""The simulated fleet over HTTP with a clock that can be stopped, for comparing two scrapers exactly.

While the clock stands, every scrape of a target gives the same values, so it does not matter that two
scrapers ask at different moments. When it goes on, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from app.demo.server import DemoServer, make_fleet

REPOSITORY = Path(__file__).resolve().parents[2]
PAST_SECONDS = 300.0
"""Simulated before the start, so that the engines are at work."""


class Demo(NamedTuple):
    """The running fleet."""

    url: str

    def stop_clock(self) -> float:
        """Values no longer change; returns the unix time from which a scrape shows the standing values."""
        self._send("POST")
        return time.time()

    def start_clock(self) -> None:
        """Go on where the clock stopped."""
        self._send("DELETE")

    def _send(self, method: str) -> None:
        request = urllib.request.Request(f"{self.url}/stopped-clock", method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()


@contextmanager
def demo_server(seed: int = 1) -> Iterator[Demo]:
    """Run the fleet in a process of its own, without faults."""
    command = [sys.executable, "-m", "tests.e2e.demo_server", "--seed", str(seed)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield Demo(json.loads(child.stdout.readline())["url"])
        finally:
            child.stdin.close()


class Clock:
    """Unix time that can be stopped."""

    def __init__(self) -> None:
        self._behind = 0.0
        self._stopped_at: float | None = None

    def now(self) -> float:
        return time.time() - self._behind if self._stopped_at is None else self._stopped_at

    async def stop(self, _request: web.Request) -> web.Response:
        self._stopped_at = self.now()
        return web.json_response({"stopped": True})

    async def start(self, _request: web.Request) -> web.Response:
        if self._stopped_at is not None:
            self._behind = time.time() - self._stopped_at
            self._stopped_at = None
        return web.json_response({"stopped": False})


async def serve(seed: int) -> None:
    """Print the URL, serve until standard input ends."""
    now = time.time()
    fleet = make_fleet(seed, now - PAST_SECONDS, now, [], script=False)
    fleet.advance_to(time.time())
    clock = Clock()
    server = DemoServer(fleet, clock.now)
    application = server.application()
    application.router.add_post("/stopped-clock", clock.stop)
    application.router.add_delete("/stopped-clock", clock.start)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps({"url": f"http://127.0.0.1:{runner.addresses[0][1]}"}), flush=True)
    following = asyncio.create_task(server.follow_clock())
    await asyncio.to_thread(sys.stdin.read)
    following.cancel()
    await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(serve(parser.parse_args().seed))
