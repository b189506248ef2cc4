"""Recording live targets: scrape as configured, keep the raw answers."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.targets import TargetList
from collectors import recording
from collectors.fetch import Fetched, new_session
from collectors.target import PROMETHEUS, Target
from collectors.ways import Ways

LOOK_SECONDS = 0.5
"""How often the end and the file are looked after while no answer comes."""


async def record(
    path: Path,
    targets: TargetList,
    seconds: float | None,
    said: Callable[[str], None],
    *,
    overwrite: bool = False,
) -> int:
    """Scrape each target at its interval for `seconds` (None: until told to end); the answers recorded.

    Ctrl-C, SIGTERM and SIGHUP end it in order. A file that is cut short by a `kill -9` can be read up to
    the last second. Raises OSError when the file cannot be written, FileExistsError when it is there and
    not to be overwritten.
    """
    queue: asyncio.Queue[tuple[float, Target, Fetched]] = asyncio.Queue()
    count = 0
    with recording.writer(path, overwrite=overwrite) as write, _end_signals() as ended:
        end = math.inf if seconds is None else time.monotonic() + seconds

        async with new_session() as session:
            ways = Ways(session)

            async def follow(target: Target) -> None:
                while (started := time.monotonic()) < end:
                    t = time.time()
                    await queue.put((t, target, await ways.fetch(target)))
                    next_at = min(started + target.interval_seconds, end)
                    await asyncio.sleep(max(0.0, next_at - time.monotonic()))

            tasks = []
            for target in targets.targets:
                if target.kind == PROMETHEUS:
                    said(f"{target.name} is left out: what it answers is no target's, record its targets")
                else:
                    tasks.append(asyncio.create_task(follow(target)))
            try:
                while not (ended.is_set() or all(task.done() for task in tasks)) or not queue.empty():
                    try:
                        t, target, fetched = await asyncio.wait_for(queue.get(), LOOK_SECONDS)
                    except TimeoutError:
                        write.flush_when_due()
                        continue
                    write(recording.line(t, target, fetched))
                    count += 1
                    if fetched.error:
                        said(f"{target.name}: {fetched.error}")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await ways.aclose()
            for task in tasks:
                if not task.cancelled():
                    task.result()  # what broke one of them is nobody's mistake but ours: show it
    return count


@contextmanager
def _end_signals() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C, SIGTERM and SIGHUP set, instead of breaking off what runs."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    taken = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` means to go on
        taken.append(signal.SIGHUP)
    for number in taken:
        loop.add_signal_handler(number, ended.set)
    try:
        yield ended
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
