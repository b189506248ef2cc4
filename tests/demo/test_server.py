"""The demo over real HTTP: one server in this process, and the command in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from app.demo.fleet import Fleet
from app.demo.server import DemoServer
from tests.demo.exposition import samples
from tests.shared import REPOSITORY

START = 1_796_000_000.0


class Clock:
    """A clock that stands where the test puts it, or (`runs`) goes on from there."""

    def __init__(self, now: float, *, runs: bool = False) -> None:
        self.now = now
        self._began = time.monotonic() if runs else None

    def __call__(self) -> float:
        return self.now if self._began is None else self.now + time.monotonic() - self._began


@contextlib.asynccontextmanager
async def serving(fleet: Fleet, clock: Clock) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    runner = web.AppRunner(DemoServer(fleet, clock).application(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield f"http://127.0.0.1:{port}", session
    await runner.cleanup()


def test_every_target_answers_with_its_page_and_gzip_only_when_asked() -> None:
    async def check() -> None:
        fleet = Fleet(1, START)
        async with serving(fleet, Clock(START + 30)) as (url, session):
            for target in fleet.targets():
                plain = {"Accept-Encoding": "identity"}
                async with session.get(url + target.path, headers=plain) as answer:
                    assert answer.status == 200
                    body = await answer.read()
                    assert "Content-Encoding" not in answer.headers
                    assert answer.headers["Content-Type"] == fleet.render(target.name, 0).content_type
                assert len(samples(body.decode())) > 10
                async with session.get(url + target.path, headers={"Accept-Encoding": "gzip"}) as answer:
                    assert answer.headers["Content-Encoding"] == "gzip"
                    assert int(answer.headers["Content-Length"]) < len(body) / 2

    asyncio.run(check())


def test_the_page_is_there_in_less_than_20_ms() -> None:
    async def check() -> None:
        fleet = Fleet(1, START)
        clock = Clock(START + 60)
        async with serving(fleet, clock) as (url, session):
            took = []
            for _ in range(20):
                clock.now += 1
                began = time.perf_counter()
                async with session.get(f"{url}/engines/llama-70b/metrics") as answer:
                    await answer.read()
                took.append(time.perf_counter() - began)
            # The best of many: other work on the machine may delay any one of them.
            assert sorted(took)[2] < 0.020

    asyncio.run(check())


def test_faults_are_started_listed_and_ended_by_request() -> None:
    async def check() -> None:
        fleet = Fleet(1, START)
        async with serving(fleet, Clock(START + 10.7, runs=True)) as (url, session):
            wanted = {"fault": "exporter_down@node-2"}
            async with session.post(f"{url}/faults", json=wanted) as answer:
                assert (await answer.json())["fault"]["fault"] == "exporter_down@node-2"
            async with session.get(f"{url}/node-2/dcgm/metrics") as answer:
                assert answer.status == 500
            async with session.get(f"{url}/faults") as answer:
                listed = await answer.json()
                assert [fault["fault"] for fault in listed["active"]] == ["exporter_down@node-2"]
                assert "memory_creep" in listed["known"]
            async with session.delete(f"{url}/faults", json=wanted) as answer:
                assert (await answer.json()) == {"ended": True}
            async with session.get(f"{url}/node-2/dcgm/metrics") as answer:
                assert answer.status == 200

    asyncio.run(check())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"fault": "memory_creep@node-9"}', "node-1, node-2, node-3, node-4"),
        (b'{"fault": "nothing@node-1"}', "the faults are: memory_creep"),
        (b'{"fault"', 'the body must be {"fault": "name@where"}'),
        (b'["x"]', 'the body must be {"fault": "name@where"}'),
        (b"", "is not a fault"),
    ],
)
def test_a_wrong_fault_is_answered_with_400_and_the_cure(body: bytes, says: str) -> None:
    async def check() -> None:
        async with (
            serving(Fleet(1, START), Clock(START)) as (url, session),
            session.post(f"{url}/faults", data=body) as answer,
        ):
            assert answer.status == 400
            assert says in (await answer.json())["error"]

    asyncio.run(check())


def test_a_hanging_endpoint_gives_no_answer_and_a_restarting_engine_closes_the_connection() -> None:
    async def check() -> None:
        fleet = Fleet(1, START)
        fleet.add_fault("exporter_hang@node-1")
        fleet.add_fault("engine_restart@qwen-7b:0+60")
        async with serving(fleet, Clock(START + 5)) as (url, session):
            short = aiohttp.ClientTimeout(total=0.3)
            with pytest.raises(TimeoutError):
                await session.get(f"{url}/node-1/dcgm/metrics", timeout=short)
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await session.get(f"{url}/engines/qwen-7b/metrics")

    asyncio.run(check())


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "app.demo.server", *arguments]


def test_the_command_says_where_it_listens_and_stops_when_its_input_ends() -> None:
    arguments = command("--port", "0", "--seed", "2", "--until-eof", "--fault", "exporter_down@node-4")
    with subprocess.Popen(
        arguments, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        assert started["url"] == f"http://127.0.0.1:{started['port']}"
        assert len(started["targets"]) == 11

        async def check() -> None:
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{started['url']}/node-1/dcgm/metrics") as answer:
                    assert len(samples(await answer.text())) > 100
                async with session.get(f"{started['url']}/node-4/dcgm/metrics") as answer:
                    assert answer.status == 500

        asyncio.run(check())
        process.stdin.close()
        assert process.wait(10) == 0


def test_the_command_refuses_an_unknown_fault_in_one_line() -> None:
    done = subprocess.run(
        command("--fault", "memory_crep@node-2"), cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "did you mean memory_creep?" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_command_says_that_a_port_is_taken() -> None:
    async def check() -> None:
        async with serving(Fleet(1, START), Clock(START)) as (url, _):
            port = url.rsplit(":", 1)[1]
            process = await asyncio.create_subprocess_exec(
                *command("--port", port), cwd=REPOSITORY, stderr=asyncio.subprocess.PIPE
            )
            _, stderr = await process.communicate()
            assert process.returncode == 1
            assert f"cannot listen on 127.0.0.1:{port}" in stderr.decode()
            assert len(stderr.decode().splitlines()) == 1

    asyncio.run(check())
