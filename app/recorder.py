"""Recording live targets: scrape as configured, keep the raw answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from app.targets import TargetList
from collectors import recording
from collectors.fetch import Fetched, fetch, new_session
from collectors.target import Target


async def record(path: Path, targets: TargetList, seconds: float | None, said: Callable[[str], None]) -> int:
    """Scrape each target at its interval for `seconds` (None: until cancelled); the answers recorded.

    The file is written line by line and is readable up to the last whole line however this ends.
    """
    queue: asyncio.Queue[tuple[float, Target, Fetched]] = asyncio.Queue()
    deadline = None if seconds is None else time.monotonic() + seconds

    async with new_session() as session:

        async def follow(target: Target) -> None:
            while deadline is None or time.monotonic() < deadline:
                started, t = time.monotonic(), time.time()
                await queue.put((t, target, await fetch(session, target)))
                await asyncio.sleep(max(0.0, started + target.interval_seconds - time.monotonic()))

        count = 0
        tasks = [asyncio.create_task(follow(target)) for target in targets.targets]
        with recording.writer(path) as write:
            try:
                while not queue.empty() or any(not task.done() for task in tasks):
                    try:
                        t, target, fetched = await asyncio.wait_for(queue.get(), 0.5)
                    except TimeoutError:
                        if deadline is not None and time.monotonic() > deadline and queue.empty():
                            break
                        continue
                    write(recording.line(t, target, fetched))
                    count += 1
                    if fetched.error:
                        said(f"{target.name}: {fetched.error}")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    return count
