"""Putting the process together: targets, store, monitor, server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable

from app import runtime
from app.config import Config
from app.monitor import Monitor
from app.server import listening_socket, serve
from app.targets import TargetList, sources
from collectors.discovery import discover
from sql.store import Store

FIRST_LISTS_SECONDS = 5.0
"""How long the start waits for lists of targets that come over the network; those that take longer are
taken up when they answer."""

CLOSE_SECONDS = 0.5
"""How long a write may take when everything else has ended. It is cut off then, as by a power cut: the store
has all that was committed."""


def target_list(config: Config) -> tuple[TargetList, list[str]]:
    """The targets of a configuration, and what there is to say about them.

    With no target and no list configured, and `discover` on, looks for local exporters.
    """
    targets = TargetList(config, sources(config))
    notes: list[str] = []
    if config.discover:
        discovery = asyncio.run(discover())
        targets.found = discovery.found
        notes.extend(discovery.notes)
    targets.refresh(runtime.utc_now(), wait_seconds=FIRST_LISTS_SECONDS)
    notes.extend(targets.problems)
    notes.extend(f"{title} is still being asked for its targets" for title in targets.unanswered())
    return targets, notes


def serve_forever(
    config: Config | None,
    *,
    host: str | None = None,
    port: int | None = None,
    said: Callable[[str], None],
    listener: socket.socket | None = None,
    before: Callable[[Store], None] | None = None,
) -> None:
    """Run until stopped. Raises StoreError or ListenError when it cannot start.

    `listener`: an address already bound. `before` is called with the open store before anything runs (the
    demo fills in its last hour there).
    """
    # A signal during the start ends it like Ctrl-C, through the `finally` below. This also takes SIGINT back
    # where a shell's `&` has it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    settings = config or Config()
    listen = settings.listen.model_copy(
        update={key: value for key, value in (("host", host), ("port", port)) if value is not None}
    )
    listener = listener or listening_socket(listen.host, listen.port)
    listen = listen.model_copy(update={"port": listener.getsockname()[1]})  # port 0 means any free one
    settings = settings.model_copy(update={"listen": listen})
    store = Store.open(settings.store)
    monitor = None
    try:
        if config is None:
            said("no configuration: looking for exporters on this machine")
        targets, notes = target_list(settings)
        for note in notes:
            said(note)
        if before is not None:
            before(store)
        monitor = Monitor(store, settings, targets, runtime.utc_now)
        runtime.set_current(
            runtime.Runtime(store, settings, simulated=settings.simulated, monitor=monitor, notes=notes)
        )
        said(f"{len(targets.targets)} targets, store {store.location}")
        said(f"infermeter is at {settings.links_base}  (Ctrl-C ends it)")
        serve(listener)
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
        if monitor is not None:
            monitor.stop()
        closed = store.close(CLOSE_SECONDS)
    said("stopped; everything committed is in the store")
    if monitor is not None and (not monitor.ended or not closed or monitor.targets.unanswered()):
        # Something of ours is still busy in a thread (reading a monstrous answer, asking for a list, a write
        # that takes long). Nothing is left to save, and Python would wait for that thread before it ends.
        if not monitor.ended or not closed:
            said("one job did not end in time and is cut off")
        sys.stdout.flush()
        os._exit(0)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
