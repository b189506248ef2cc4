"""The simulated fleet over real HTTP: `python -m app.demo.server --port 0 --seed 1 --fault …`.

The first line on standard output is JSON: `{"url", "port", "recording", "targets"}`; it is written when the
endpoints answer. `POST /faults {"fault": "memory_creep@node-2"}` starts a fault, `DELETE /faults` with the
same body ends it (without a body: all), `GET /faults` lists what is active, coming, and known.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from app.demo.backfill import recording, write_recording
from app.demo.faults import FAULTS, Fault, FaultError, demo_script
from app.demo.fleet import TICK_SECONDS, DemoTarget, Fleet

_HANG_SECONDS = 600.0
_PAST_SECONDS = 600.0
"""Simulated before the start, so that the engines are at work when the first scrape comes."""
_LLAMACPP_HEADERS = {"Process-Start-Time-Unix": "499211188"}
"""Not a unix time in the real server either."""


class DemoServer:
    """The HTTP side of a fleet. `now` gives unix seconds; the fleet follows it."""

    def __init__(self, fleet: Fleet, now: Callable[[], float] = time.time) -> None:
        self.fleet = fleet
        self.now = now
        self.stopping = asyncio.Event()

    def application(self) -> web.Application:
        """The aiohttp application with all routes."""
        app = web.Application()
        for target in self.fleet.targets():
            app.router.add_get(target.path, self._metrics_handler(target))
        app.router.add_get("/", self._index)
        app.router.add_get("/faults", self._list_faults)
        app.router.add_post("/faults", self._start_fault)
        app.router.add_delete("/faults", self._end_fault)
        return app

    async def follow_clock(self) -> None:
        """Keep the fleet up to date, so that no scrape has to wait for the simulation."""
        while True:
            self.fleet.advance_to(self.now())
            await asyncio.sleep(TICK_SECONDS / 2)

    def _metrics_handler(self, target: DemoTarget) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            answer = self.fleet.render(target.name, self.now())
            if answer.status is None:
                if answer.hangs:
                    await self._hang(request, target.name)
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=503)  # never sent: the connection is gone
            headers = {"Content-Type": answer.content_type}
            if target.kind == "llamacpp":
                headers |= _LLAMACPP_HEADERS
            body = answer.body
            if "gzip" in request.headers.get("Accept-Encoding", ""):
                headers["Content-Encoding"] = "gzip"
                body = gzip.compress(body, compresslevel=1, mtime=0)
            return web.Response(status=answer.status, body=body, headers=headers)

        return handle

    async def _hang(self, request: web.Request, name: str) -> None:
        """Give no answer until the client has gone, the fault has ended or the server stops."""
        until = time.monotonic() + _HANG_SECONDS
        while time.monotonic() < until and self.fleet.broken.get(name) == "hang":
            if request.transport is None or request.transport.is_closing() or self.stopping.is_set():
                return
            await asyncio.sleep(0.2)

    async def _index(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {"simulated": True, "targets": [target.path for target in self.fleet.targets()]}
        )

    async def _list_faults(self, _request: web.Request) -> web.Response:
        active = self.fleet.active_faults()
        coming = [fault for fault in self.fleet.faults if fault not in active]
        return web.json_response({
            "active": [_fault_json(fault) for fault in active],
            "coming": [_fault_json(fault) for fault in coming],
            "known": {name: kind.doc for name, kind in FAULTS.items()},
        })  # fmt: skip

    async def _start_fault(self, request: web.Request) -> web.Response:
        try:
            fault = self.fleet.add_fault(await _wanted(request) or "", self.now())
        except FaultError as error:
            return web.json_response({"error": str(error)}, status=400)
        await self._next_tick()
        return web.json_response({"fault": _fault_json(fault)})

    async def _end_fault(self, request: web.Request) -> web.Response:
        try:
            wanted = await _wanted(request)
            if wanted is None:
                ended = bool(self.fleet.faults)
                self.fleet.faults.clear()
            else:
                ended = self.fleet.remove_fault(wanted)
        except FaultError as error:
            return web.json_response({"error": str(error)}, status=400)
        await self._next_tick()
        return web.json_response({"ended": ended})

    async def _next_tick(self) -> None:
        """Return when what was asked for has taken effect."""
        ticks = (self.now() - self.fleet.start) / TICK_SECONDS
        await asyncio.sleep((int(ticks) + 1 - ticks) * TICK_SECONDS + 0.005)
        self.fleet.advance_to(self.now())


async def _wanted(request: web.Request) -> str | None:
    """The fault that a request names, in its body or as ?fault=; None when it names none."""
    text = await request.text()
    if not text.strip():
        return request.query.get("fault")
    try:
        value = json.loads(text)["fault"]
    except (ValueError, KeyError, TypeError):
        value = None
    if not isinstance(value, str):
        raise FaultError('the body must be {"fault": "name@where"}')
    return value


def _fault_json(fault: Fault) -> dict[str, Any]:
    return {
        "fault": str(fault), "start": fault.start, "duration": fault.duration, "period": fault.period,
    }  # fmt: skip


def make_fleet(seed: int, start: float, origin: float, faults: list[str], *, script: bool) -> Fleet:
    """A fleet that began at `start`; faults, and the script's, count from `origin`. Raises FaultError."""
    fleet = Fleet(seed, start, origin=origin)
    for text in faults:
        fleet.add_fault(text)
    if script:
        fleet.faults += demo_script(origin)
    return fleet


async def serve(fleet: Fleet, host: str, port: int, *, path: str | None, until_eof: bool) -> None:
    """Serve until SIGINT, SIGTERM or, with `until_eof`, the end of standard input."""
    server = DemoServer(fleet)
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stopping.set)
    if until_eof:
        loop.add_reader(sys.stdin.fileno(), _stop_at_eof, server.stopping)
    clock = asyncio.create_task(server.follow_clock())
    bound = runner.addresses[0][1]
    started = {
        "url": f"http://{host}:{bound}", "port": bound, "recording": path,
        "targets": [target.name for target in fleet.targets()],
    }  # fmt: skip
    sys.stdout.write(json.dumps(started) + "\n")
    sys.stdout.flush()
    stopped = asyncio.create_task(server.stopping.wait())
    await asyncio.wait({clock, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if clock.done():
        clock.result()  # the simulation failed: say so
    clock.cancel()
    await runner.cleanup()


def _stop_at_eof(stopping: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stopping.set()


def main(arguments: list[str] | None = None) -> int:
    """The command line; 2 when an argument is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m app.demo.server", description="A simulated GPU inference fleet."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", default=[], metavar="NAME@WHERE[:START[+DURATION]]")
    parser.add_argument("--no-script", action="store_true", help="no faults but those given")
    parser.add_argument("--start", type=float, help="unix time the simulation begins at (10 minutes ago)")
    parser.add_argument("--origin", type=float, help="unix time the start of a fault counts from (now)")
    parser.add_argument("--recording", help="a file: what they answered from start to origin")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input is closed")
    options = parser.parse_args(arguments)
    now = time.time()
    start = now - _PAST_SECONDS if options.start is None else options.start
    origin = now if options.origin is None else options.origin
    try:
        fleet = make_fleet(options.seed, start, origin, options.fault, script=not options.no_script)
    except FaultError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if options.recording:
        write_recording(Path(options.recording), recording(fleet, start, origin))
    fleet.advance_to(time.time())
    try:
        asyncio.run(
            serve(fleet, options.host, options.port, path=options.recording, until_eof=options.until_eof)
        )
    except OSError as error:
        sys.stderr.write(f"cannot listen on {options.host}:{options.port}: {error.strerror}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
