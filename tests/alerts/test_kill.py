"""kill -9 between deciding and sending, and in the middle of sending: the message comes, at most twice."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from sql.store import Store
from tests.alerts.facts import rows
from tests.alerts.slack_server import SlackServer, slack_server
from tests.shared import REPOSITORY


async def start(path: Path, server: SlackServer, mode: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.alerts.judge_and_send", str(path), server.url, mode,
        cwd=REPOSITORY, stdout=PIPE,
    )  # fmt: skip


async def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL


async def finish(process: Process) -> list[str]:
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return out.decode().splitlines()


def states(path: Path) -> list[tuple[str, str, int]]:
    store = Store.open(path)
    try:
        return [(row["event"], row["state"], row["attempts"]) for row in rows(store, "outbox")]
    finally:
        store.close()


async def line(process: Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


def test_killed_between_deciding_and_sending_the_message_still_comes_once(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"

    async def main() -> None:
        async with slack_server() as (server, _):
            process = await start(path, server, "decide")
            assert await line(process) == "decided"
            await kill(process)
            assert server.received == []
            assert states(path) == [("fired", "waiting", 0)]
            assert (await finish(await start(path, server, "deliver")))[0] == "told 1"
            assert len(server.received) == 1
            assert server.received[0]["text"].startswith("▲ WARNING node-2 GPU 3 (H100): VRAM 90 %")
            assert states(path) == [("fired", "sent", 1)]

    asyncio.run(main())


def test_killed_while_slack_is_answering_the_message_comes_at_most_twice(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"

    async def main() -> None:
        async with slack_server() as (server, _):
            server.hold = True
            process = await start(path, server, "send")
            await asyncio.wait_for(server.arrived.wait(), 60)
            await kill(process)
            assert states(path) == [("fired", "sending", 1)]
            server.hold = False
            assert (await finish(await start(path, server, "deliver")))[0] == "told 1"
            assert len(server.received) == 2
            assert server.received[0] == server.received[1]
            assert states(path) == [("fired", "sent", 2)]
            assert await finish(await start(path, server, "deliver")) == ["told 0"] * 3
            assert len(server.received) == 2

    asyncio.run(main())
