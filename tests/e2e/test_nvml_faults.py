"""What goes wrong with NVIDIA's driver, and what then happens: the real child on the stand-in library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nvml_world import Polls, World, machine, needs_gcc, polling, uuids

pytestmark = [pytest.mark.wide, needs_gcc]

OFF_THE_BUS = "has fallen off the bus (XID 79 in `dmesg`, as a rule): drain and reboot the machine"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with machine(tmp_path) as world:
        world.gpu(0)
        yield world


def test_a_lost_gpu_is_left_alone_while_the_others_go_on_and_comes_back(world: World) -> None:
    world.gpu(1)
    world.gpu(2)

    async def work(polls: Polls) -> None:
        assert uuids(await polls.reading()) == ["GPU-0", "GPU-1", "GPU-2"]
        # Nobody looks for it yet: what the process does that saw the loss is what counts here.
        polls.way._renewals, polls.way._renewed_at = 1, polls.now
        world.error(1, "nvmlDeviceGetTemperatureV", 15)
        world.error(1, "nvmlDeviceGetHandleByIndex_v2", 15)
        first_child = polls.child
        world.calls()
        for _ in range(2):
            reading = await polls.reading()
            assert uuids(reading) == ["GPU-0", "GPU-2"]
            assert reading.notes == (f"GPU 1 (GPU-1) {OFF_THE_BUS}",)
        calls = world.calls()
        assert {call: times for call, times in calls.items() if call.startswith("1 ")} == {
            "1 nvmlDeviceGetHandleByIndex_v2": 1
        }
        polls.now += 60
        await polls.reading()
        await polls.renewed()
        assert polls.child != first_child
        reading = await polls.reading()  # another process, which cannot know the UUID
        assert (uuids(reading), reading.notes) == (["GPU-0", "GPU-2"], (f"GPU 1 {OFF_THE_BUS}",))
        world.error(1, "nvmlDeviceGetTemperatureV", None)
        world.error(1, "nvmlDeviceGetHandleByIndex_v2", None)
        polls.now += 120
        await polls.reading()
        await polls.renewed()
        reading = await polls.reading()
        assert (uuids(reading), reading.notes) == (["GPU-0", "GPU-1", "GPU-2"], ())

    polling(work)


@pytest.mark.parametrize(
    ("code", "words"),
    [(15, OFF_THE_BUS), (16, "must be reset: `nvidia-smi --gpu-reset`, or reboot the machine")],
)
def test_a_gpu_that_is_lost_in_the_middle_of_a_poll_gives_no_half_row(
    world: World, code: int, words: str
) -> None:
    world.gpu(1)

    async def work(polls: Polls) -> None:
        await polls.reading()
        world.error(1, "nvmlDeviceGetTemperatureV", code)
        reading = await polls.reading()
        assert (uuids(reading), reading.notes) == (["GPU-0"], (f"GPU 1 (GPU-1) {words}",))

    polling(work)


def test_a_lone_gpu_that_is_lost_is_the_error_of_the_scrape(world: World) -> None:
    async def work(polls: Polls) -> None:
        await polls.reading()
        world.error(0, "nvmlDeviceGetMemoryInfo_v2", 15)
        assert await polls.error() == f"NVML: GPU 0 {OFF_THE_BUS}"

    polling(work)


@pytest.mark.parametrize(
    ("code", "words", "pause"),
    [
        (9, "NVML: the NVIDIA kernel module is not loaded; `nvidia-smi` says why", 300),
        (12, "NVML: no NVIDIA driver on this machine", 300),
        (18, "NVML: the NVIDIA driver was upgraded and is not running yet; reboot this machine", 300),
        (4, "NVML: no permission to see the GPUs; run infermeter as a user who can run `nvidia-smi`", 10),
        (27, "NVML: error 27; `nvidia-smi` says more", 10),
        (
            999,
            (
                "NVML: this container has lost its GPUs (`systemctl daemon-reload` on the host does that;"
                " nvidia-smi: Unknown Error); restart the container. What ran on the GPUs may go on using"
                " them, or run on the CPU"
            ),
            10,
        ),
    ],
)
def test_a_driver_that_cannot_be_used_is_told_with_the_cure_and_tried_again(
    world: World, code: int, words: str, pause: int
) -> None:
    async def work(polls: Polls) -> None:
        world.set(init=code)
        assert await polls.error() == words
        world.set(init=None)
        world.calls()
        polls.now += pause - 1
        assert await polls.error() == words
        assert world.calls() == {}
        polls.now += 1
        assert uuids(await polls.reading()) == ["GPU-0"]

    polling(work)


def test_a_machine_without_gpus_is_told(world: World) -> None:
    world.set(count=0)

    async def work(polls: Polls) -> None:
        assert await polls.error() == (
            "NVML: there is no GPU here that it can see; `nvidia-smi -L` lists them"
        )

    polling(work)


def test_a_driver_that_is_loaded_anew_is_initialised_anew(world: World) -> None:
    """Uninitialized (1) and Unknown (999) from every GPU: nothing of the old process is used again."""

    async def work(polls: Polls) -> None:
        await polls.reading()
        first = polls.child
        world.error(0, "nvmlDeviceGetUUID", 1)
        words = "the NVIDIA driver was unloaded or loaded anew meanwhile; it is asked again in a moment"
        assert await polls.error() == f"NVML: {words}"
        world.error(0, "nvmlDeviceGetUUID", None)
        world.gpu(1)
        polls.now += 10
        assert uuids(await polls.reading()) == ["GPU-0", "GPU-1"]
        assert polls.child != first

    polling(work)


def test_pauses_grow_while_it_fails_and_are_forgotten_when_it_works(world: World) -> None:
    async def work(polls: Polls) -> None:
        world.set(init=27)
        for pause in (10, 20, 40, 80, 160, 300, 300):
            await polls.error()
            world.calls()
            polls.now += pause - 1
            await polls.error()
            assert world.calls() == {}, f"asked before {pause} s had passed"
            polls.now += 1
        world.set(init=None)
        await polls.reading()
        assert polls.way._failures == 0

    polling(work)
