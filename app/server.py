"""The one process: Streamlit's ASGI app, our own routes, and the monitor in its lifespan."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import streamlit as st
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from streamlit.runtime.pages_manager import PagesManager

from app import api, runtime
from app.telemetry import exposition

MAIN_SCRIPT = Path(__file__).with_name("main.py")
GRACEFUL_SECONDS = 1
"""How long open browser tabs may hold up the end."""

log = logging.getLogger("infermeter")


class ListenError(Exception):
    """The address cannot be listened on; the message says why and what to do."""


async def healthz(_request: Request) -> Response:
    """200 when scraping and judging go on, 503 with the reasons when they do not."""
    now_running = runtime.current()
    if now_running.monitor is None:
        reasons = ["the monitor is not running"]
    else:
        reasons = now_running.monitor.trouble(now_running.clock())
    return JSONResponse(
        {"status": "failing" if reasons else "ok", "reasons": reasons},
        status_code=503 if reasons else 200,
        headers={"Cache-Control": "no-store"},
    )


async def metrics(_request: Request) -> Response:
    """Our own telemetry as a Prometheus exposition."""
    body, content_type = await asyncio.to_thread(exposition, runtime.current())
    return Response(body, media_type=content_type)


@asynccontextmanager
async def _lifespan(_app: st.App) -> AsyncIterator[dict[str, Any] | None]:
    now_running = runtime.current()
    monitor = now_running.monitor
    assert monitor is not None
    # Streamlit sets its own log level on every logger there is when its settings are read.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
    await asyncio.to_thread(monitor.start)
    try:
        yield None
    finally:
        await asyncio.to_thread(monitor.stop)


def build() -> st.App:
    """The ASGI app. `runtime.set_current` must have been called."""
    # Until a script has called st.navigation, Streamlit takes a folder `pages` beside it for its own pages:
    # a link to /gpus, opened first after a start, would run app/pages/gpus.py alone and show nothing.
    PagesManager.uses_pages_directory = False
    return st.App(
        MAIN_SCRIPT,
        lifespan=_lifespan,
        routes=[Route("/healthz", healthz), Route("/metrics", metrics), *api.routes()],
    )


def listening_socket(host: str, port: int) -> socket.socket:
    """Bind early, so that a taken port is said before anything is started. Raises ListenError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)  # a browser that comes before we are ready waits, it is not refused
    except OSError as error:
        listener.close()
        raise ListenError(
            f"cannot listen on {host}:{port}: {error.strerror}; stop what uses it, or set another port"
            " (listen: {port: …} in the configuration, or --port)"
        ) from error
    return listener


def serve(listener: socket.socket) -> None:
    """Run until SIGINT or SIGTERM."""
    _raise_open_files()
    # Scraping allocates much and makes few cycles; the usual thresholds cost 0.09 ms of CPU a scrape.
    gc.set_threshold(50_000, 20, 20)
    config = uvicorn.Config(
        build(),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        ws_max_size=64 * 1024 * 1024,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn takes both signals while it runs and raises them again when it has ended; by then there is
    # nothing left to interrupt, and the store still has to be closed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    asyncio.run(server.serve(sockets=[listener]))


def _raise_open_files() -> None:
    """Thousands of targets need as many sockets; the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
