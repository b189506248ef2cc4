"""A process for the kill tests: decides over a store file, says so, and sends until it is killed.

python -m tests.alerts.judge_and_send STORE URL decide|send|deliver
decide: judges until it fires, prints `decided`, sleeps. send: goes on to send. deliver: sends what waits.
"""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import count

import aiohttp

from alerts.outbox import Sender
from alerts.settings import AlertSettings
from sql.store import Store
from tests.alerts.facts import add_target, at, firings, gpu, run


def main(path: str, url: str, mode: str) -> None:
    store = Store.open(path)
    config = AlertSettings.model_validate(
        {"channels": [{"name": "ops", "kind": "slack", "webhook_url": url}], "vram_high": {"for": "20s"}}
    )
    if mode != "deliver":
        add_target(store, "dcgm-1")
        assert firings(run(store, 0, 20, lambda t: ([gpu(ratio=0.9)], []), config))
        print("decided", flush=True)
        if mode == "decide":
            time.sleep(600)

    async def send() -> None:
        ticks = (at(60 + i / 4) for i in count())
        async with aiohttp.ClientSession() as session:
            sender = Sender(store, config.channels, lambda: next(ticks), session)
            for _ in range(3):
                done = await sender.deliver()
                print(f"told {done.told}", flush=True)

    asyncio.run(send())
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
