"""The child that asks the driver: killed, crashed, hung, slow, left behind, renewed; and nothing leaks."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.gpu import nvml_way, nvml_words
from tests.nvml_world import Polls, World, machine, needs_gcc, polling, uuids
from tests.shared import REPOSITORY

pytestmark = [pytest.mark.wide, needs_gcc]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with machine(tmp_path) as world:
        world.gpu(0)
        yield world


def is_gone(process: int) -> bool:
    """Dead, and no zombie."""
    return not Path(f"/proc/{process}").exists()


def test_a_killed_child_is_a_named_error_and_another_takes_over(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        os.kill(polls.child, signal.SIGKILL)
        words = "the program that asks NVML is gone (it was ended by SIGKILL); `nvidia-smi` may say more"
        assert await polls.error() == words
        assert await polls.error() == words
        polls.now += 10
        assert uuids(await polls.reading()) == ["GPU-0"]

    polling(work)


def test_a_crash_in_the_driver_s_library_is_a_named_error(world: World) -> None:
    async def work(polls: Polls) -> None:
        world.set({"nvmlDeviceGetPowerUsage.crash": 1})
        assert "it was ended by SIGSEGV" in await polls.error()
        world.set({"nvmlDeviceGetPowerUsage.crash": None})
        polls.now += 10
        assert uuids(await polls.reading()) == ["GPU-0"]

    polling(work)


def test_a_hang_ends_at_the_deadline_and_the_child_with_it(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        hung = polls.child
        world.set({"nvmlDeviceGetCount_v2.hang": 1})
        assert await polls.error(timeout_seconds=0.1) == nvml_words.HUNG
        assert is_gone(hung)
        world.set({"nvmlDeviceGetCount_v2.hang": None})
        polls.now += 10
        assert uuids(await polls.reading()) == ["GPU-0"]

    polling(work)


def test_one_gpu_that_hangs_is_left_out_until_it_answers_and_the_child_lives_on(world: World) -> None:
    """XID 119: each call to that GPU takes for ever, the others answer."""
    world.gpu(1)
    world.gpu(2)

    async def work(polls: Polls) -> None:
        assert uuids(await polls.reading()) == ["GPU-0", "GPU-1", "GPU-2"]
        first = polls.child
        world.set({"1.hang.nvmlDeviceGetPowerUsage": 1})
        reading = await polls.reading(timeout_seconds=1.5)
        assert uuids(reading) == ["GPU-0", "GPU-2"]
        assert reading.notes == (
            "GPU 1 (GPU-1) hangs in the driver (XID 119 or 120 in `dmesg`, as a rule): reset it, or reboot",
        )
        world.calls()
        assert uuids(await polls.reading()) == ["GPU-0", "GPU-2"]
        assert [call for call in world.calls() if call.startswith("1 ")] == []
        world.set({"1.hang.nvmlDeviceGetPowerUsage": None})
        while len(uuids(await polls.reading())) < 3:
            pass  # its thread has to wake up first
        assert polls.child == first

    polling(work)


def test_gpus_that_all_hang_are_an_error_and_the_child_lives_on(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        first = polls.child
        world.set({"0.hang.nvmlDeviceGetPowerUsage": 1})
        words = "NVML: the NVIDIA driver answers for no GPU; look at `dmesg` (XID 119 or 120: reset them,"
        words += " or reboot)"
        assert await polls.error(timeout_seconds=1.5) == words
        assert await polls.error() == words  # nothing to wait for
        world.set({"0.hang.nvmlDeviceGetPowerUsage": None})
        while (await polls.fetch()).error is not None:
            pass
        assert polls.child == first

    polling(work)


def test_a_child_with_a_gpu_that_hangs_ends_all_the_same(world: World) -> None:
    ended: list[int] = []

    async def work(polls: Polls) -> None:
        await polls.reading()
        ended.append(polls.child)
        world.set({"0.hang.nvmlDeviceGetPowerUsage": 1})
        await polls.error(timeout_seconds=1.5)

    polling(work)
    assert is_gone(ended[0])


def test_the_event_loop_runs_on_while_the_driver_hangs(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        world.set({"nvmlDeviceGetCount_v2.hang": 1})
        asking = asyncio.create_task(polls.error(timeout_seconds=0.3))
        turns = 0
        while not asking.done():
            turns += 1
            await asyncio.sleep(0.01)
        assert turns >= 3

    polling(work)


def test_a_driver_that_is_slow_to_start_is_not_killed_over_it(world: World) -> None:
    """Without persistence mode it takes seconds, each time."""

    async def work(polls: Polls) -> None:
        world.set({"nvmlInitWithFlags.hang": 1})
        assert await polls.error(timeout_seconds=0.1) == nvml_words.STARTING
        first = polls.child
        polls.now += 29
        assert await polls.error(timeout_seconds=0.1) == nvml_words.STARTING
        world.set({"nvmlInitWithFlags.hang": None, "0.temperature": 55})
        reading = await polls.reading()
        # Not the answer to the first question, which lay there: the newest.
        assert (reading.gpus[0].temperature_celsius, polls.child) == (55, first)
        assert polls.way._child is not None
        assert polls.way._child._asked == 3

    polling(work)


def test_a_driver_that_never_starts_is_given_up(world: World) -> None:
    async def work(polls: Polls) -> None:
        world.set({"nvmlInitWithFlags.hang": 1})
        assert await polls.error(timeout_seconds=0.1) == nvml_words.STARTING
        polls.now += 30
        assert await polls.error(timeout_seconds=0.1) == nvml_words.HUNG

    polling(work)


def test_children_that_do_not_die_are_left_behind_but_only_a_few(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in state D: SIGKILL is taken and nothing happens."""
    kept: list[asyncio.subprocess.Process] = []
    monkeypatch.setattr(asyncio.subprocess.Process, "kill", lambda process: kept.append(process))
    monkeypatch.setattr(nvml_way, "END_SECONDS", 0.05)

    async def work(polls: Polls) -> None:
        world.set({"nvmlDeviceGetCount_v2.hang": 1})
        for number in range(3):
            polls.now += 1000
            assert await polls.error(timeout_seconds=0.5) == nvml_words.STARTING
            polls.now += 30
            assert await polls.error(timeout_seconds=0.01) == nvml_words.HUNG, number
        polls.now += 1000
        world.calls()
        assert await polls.error() == f"3 {nvml_words.LEFT_BEHIND}"
        assert world.calls() == {}
        os.kill(kept[0].pid, signal.SIGKILL)
        await kept[0].wait()
        world.set({"nvmlDeviceGetCount_v2.hang": None})
        assert uuids(await polls.reading()) == ["GPU-0"]
        for process in kept[1:]:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGKILL)
                await process.wait()

    polling(work)


def test_a_fresh_child_takes_over_every_hour_and_finds_what_was_added(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        first = polls.child
        polls.now += 3599
        await polls.reading()
        assert polls.way._renewing is None
        polls.now += 1
        await polls.reading()
        await polls.renewed()
        await polls.reading()
        assert polls.child != first
        assert is_gone(first)

    polling(work)


def test_a_fresh_child_that_fails_leaves_the_old_one_at_work(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        first = polls.child
        world.set(init=999)
        polls.now += 3600
        await polls.reading()
        await polls.renewed()
        assert uuids(await polls.reading()) == ["GPU-0"]
        assert polls.child == first

    polling(work)


def open_files(process: int | str = "self") -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def test_a_thousand_polls_leak_nothing(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        before, child = open_files(), polls.child
        in_child = open_files(child)
        for _ in range(1000):
            fetched = await polls.fetch()
            assert fetched.error is None
        assert open_files() == before
        assert open_files(child) == in_child
        assert polls.child == child

    polling(work)


def test_children_that_die_leave_no_zombies_and_no_open_files(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        before = open_files()
        for _ in range(5):
            ended = polls.child
            os.kill(ended, signal.SIGKILL)
            await polls.error()
            assert is_gone(ended)
            polls.now += 1000
            await polls.reading()
        assert open_files() == before

    polling(work)


def flood(child: int) -> None:
    """Into what the child writes its answers to: a line that does not end, and more than is ever read."""
    pipes = Path(f"/proc/{child}/fd").iterdir()
    (out,) = (end for end in pipes if end.name > "2" and "pipe" in str(end.readlink()))
    end = os.open(out, os.O_WRONLY | os.O_NONBLOCK)
    os.write(end, b"z" * 60_000)
    os.close(end)


def test_a_child_that_says_too_much_is_ended_and_leaves_no_open_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_way, "BODY_LIMIT", 1000)

    async def work(polls: Polls) -> None:
        await polls.reading()
        before = open_files()
        for _ in range(3):
            flood(polls.child)
            words = "the program that asks NVML is gone (it said something that is no answer); `nvidia-smi`"
            assert (await polls.error()).startswith(words)
            polls.now += 1000
            await polls.reading()
        assert open_files() == before

    polling(work)


def test_the_child_ends_when_its_parent_is_killed(world: World) -> None:
    program = (
        "import asyncio, sys\n"
        "from tests.nvml_world import Polls\n"
        "async def go():\n"
        "    polls = Polls()\n"
        "    await polls.reading()\n"
        "    print(polls.child, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(go())\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        watch = os.pidfd_open(child)
        parent.kill()
        try:
            assert select.select([watch], [], [], 10)[0], "the child lives on"
        finally:
            os.close(watch)
