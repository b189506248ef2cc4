"""The real nvidia-ml-py on a stand-in for NVIDIA's library, through the real child: what GPUs say.

No test needs an NVIDIA GPU. Expected values are the world's own, converted by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.reading import GpuProcess, GpuSample
from tests.nvml_world import GIB, OLD_DRIVER, Polls, World, machine, needs_gcc, polling, read_once

pytestmark = [pytest.mark.wide, needs_gcc]

HOST = os.uname().nodename.partition(".")[0].lower()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with machine(tmp_path) as world:
        yield world


def test_everything_a_gpu_says_is_read_in_its_units(world: World) -> None:
    world.gpu(0)
    world.gpu(1, name="NVIDIA L4", utilization=0, power=16123, memory__used=0)
    reading = read_once()
    assert reading.gpus[0] == GpuSample(
        "GPU-0", "", 0, HOST, "NVIDIA H100 80GB HBM3", "580.95.05",
        utilization_ratio=0.87, memory_controller_ratio=0.3,
        memory_used_bytes=72 * GIB, memory_free_bytes=7 * GIB, memory_reserved_bytes=1 * GIB,
        memory_total_bytes=80 * GIB, memory_used_ratio=72 / 79,
        temperature_celsius=40, memory_temperature_celsius=43, power_watts=310.5, power_limit_watts=700,
        energy_joules_total=5551899.25, sm_clock_hertz=1_980_000_000, memory_clock_hertz=2_619_000_000,
        throttle_reasons=4,
    )  # fmt: skip
    second = reading.gpus[1]
    assert (second.gpu_uuid, second.gpu_index, second.gpu_model) == ("GPU-1", 1, "NVIDIA L4")
    assert (second.utilization_ratio, second.power_watts, second.memory_used_bytes) == (0, 16.123, 0)
    assert (reading.source, reading.role, reading.missing, reading.notes) == ("nvml", "gpu", (), ())
    names = dict(reading.found_names)
    assert names["memory_used_bytes"] == "nvmlDeviceGetMemoryInfo_v2.used"
    assert names["temperature_celsius"] == "nvmlDeviceGetTemperatureV"
    assert names["throttle_reasons"] == "nvmlDeviceGetCurrentClocksEventReasons"
    assert names["memory_temperature_celsius"] == "nvmlDeviceGetFieldValues(MEMORY_TEMP)"


def test_an_old_driver_is_read_by_its_older_functions(tmp_path: Path) -> None:
    with machine(tmp_path, OLD_DRIVER) as world:
        world.gpu(0, compute=f"{os.getpid()}:1000:")
        reading = read_once()
    gpu = reading.gpus[0]
    # v1's used holds the reserve: 72 + 1 of 80 GiB.
    assert (gpu.memory_used_bytes, gpu.memory_free_bytes) == (73 * GIB, 7 * GIB)
    assert (gpu.memory_reserved_bytes, gpu.memory_total_bytes) == (None, 80 * GIB)
    assert gpu.memory_used_ratio == 73 / 80
    assert (gpu.temperature_celsius, gpu.throttle_reasons) == (40, 4)
    assert [process.memory_used_bytes for process in reading.processes] == [1000]
    assert reading.missing == ("memory_reserved_bytes",)
    assert reading.notes == (
        (
            "memory_used_bytes of GPU 0 holds what the driver reserves: only NVML's first memory call"
            " works here (a driver before 510, or WSL2)"
        ),
    )
    names = dict(reading.found_names)
    assert names["memory_used_bytes"] == "nvmlDeviceGetMemoryInfo.used"
    assert names["temperature_celsius"] == "nvmlDeviceGetTemperature"
    assert names["throttle_reasons"] == "nvmlDeviceGetCurrentClocksThrottleReasons"


def test_where_the_newer_memory_call_fails_as_on_wsl2_the_older_one_is_read(world: World) -> None:
    """nvitop #30: "unknown error" for v2."""
    world.gpu(0)
    world.error(0, "nvmlDeviceGetMemoryInfo_v2", 999)
    reading = read_once()
    assert reading.gpus[0].memory_used_bytes == 73 * GIB
    assert len(reading.notes) == 1
    assert reading.notes[0].startswith("memory_used_bytes of GPU 0 holds what the driver reserves")


def test_a_gpu_without_memory_of_its_own_has_none_and_it_is_said(world: World) -> None:
    """gpu.md 9, row 31: GB10 supports neither memory call."""
    world.gpu(0, name="NVIDIA GB10", memory__total=None)
    reading = read_once()
    assert reading.gpus[0][12:17] == (None,) * 5
    assert reading.gpus[0].utilization_ratio == 0.87
    assert any("tells no memory of its own" in note for note in reading.notes)


def test_what_is_not_supported_is_not_known_and_asked_once(world: World) -> None:
    world.gpu(0, energy=None, utilization=None)
    world.gpu(1)
    readings = []

    async def work(polls: Polls) -> None:
        readings.extend([await polls.reading(), await polls.reading(), await polls.reading()])

    polling(work)
    calls = world.calls()
    assert [reading.gpus[0].energy_joules_total for reading in readings] == [None] * 3
    assert [reading.gpus[1].energy_joules_total for reading in readings] == [5551899.25] * 3
    assert calls["0 nvmlDeviceGetTotalEnergyConsumption"] == 1
    assert calls["1 nvmlDeviceGetTotalEnergyConsumption"] == 3
    assert (calls["0 nvmlDeviceGetUtilizationRates"], calls["0 nvmlDeviceGetPowerUsage"]) == (1, 3)
    assert calls["- nvmlInitWithFlags"] == 1


def test_no_permission_is_not_known_with_one_note(world: World) -> None:
    for number in (0, 1):
        world.gpu(number)
        world.error(number, "nvmlDeviceGetComputeRunningProcesses_v3", 4)
        world.error(number, "nvmlDeviceGetPowerUsage", 4)
    reading = read_once()
    assert [gpu.power_watts for gpu in reading.gpus] == [None, None]
    assert reading.notes == (
        (
            "no permission for nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetPowerUsage:"
            " what they say is not known"
        ),
    )


@pytest.mark.parametrize("code", [10, 19, 21, 27])
def test_an_error_that_passes_costs_one_value_at_one_poll(world: World, code: int) -> None:
    world.gpu(0)
    seen = []

    async def work(polls: Polls) -> None:
        for error in (None, code, None):
            world.error(0, "nvmlDeviceGetPowerUsage", error)
            reading = await polls.reading()
            seen.append((reading.gpus[0].power_watts, reading.gpus[0].temperature_celsius, reading.notes))

    polling(work)
    assert seen == [(310.5, 40, ()), (None, 40, ()), (310.5, 40, ())]


def test_numbers_that_mean_no_value_and_values_that_cannot_be_are_not_known(world: World) -> None:
    world.gpu(0, power=0xFFFFFFFF, energy=0xFFFFFFFFFFFFFFFF, utilization=255, field__82=0)
    reading = read_once()
    gpu = reading.gpus[0]
    assert (gpu.power_watts, gpu.energy_joules_total, gpu.utilization_ratio) == (None, None, None)
    assert gpu.memory_temperature_celsius is None  # 0: no sensor, as on T4 and L4
    assert reading.notes == ("utilization_ratio: 2.55 of GPU 0 cannot be (0 to 1), it is not known",)


def test_a_name_or_uuid_that_is_no_text_costs_nothing_else(world: World) -> None:
    world.gpu(0, name="NVIDIA \udcff\udcfe")
    world.gpu(1, uuid="GPU-\udcff")
    world.gpu(2, uuid="")
    gpus = read_once().gpus
    model = "NVIDIA H100 80GB HBM3"
    assert [(gpu.gpu_uuid, gpu.gpu_model, gpu.memory_used_bytes) for gpu in gpus] == [
        ("GPU-0", None, 72 * GIB),
        (f"{HOST}#gpu1", model, 72 * GIB),
        (f"{HOST}#gpu2", model, 72 * GIB),
    ]


def test_processes_are_told_with_their_names_and_memory(world: World) -> None:
    own = os.getpid()
    world.gpu(0, compute=f"{own}:{10 * GIB}:,4194304:na:", graphics=f"{own}:4096:")
    reading = read_once()
    # In a container the driver's numbers are of other processes.
    own_world = Path("/proc/self/ns/pid").readlink() == Path("pid:[4026531836]")
    name = Path(f"/proc/{own}/comm").read_text().strip() if own_world else None
    assert reading.processes == [
        GpuProcess("GPU-0", "", own, name, 10 * GIB, "compute"),
        GpuProcess("GPU-0", "", 4194304, None, None, "compute"),  # past the largest process id there is
        GpuProcess("GPU-0", "", own, name, 4096, "graphics"),
    ]


def test_mig_instances_are_rows_of_their_own_and_the_gpu_has_no_utilisation(world: World) -> None:
    """Holes in the numbering do not end the search; two devices may share an instance's memory."""
    world.gpu(0, mig=1, mig_devices=7, utilization=None)
    for number, instance in ((1, 9), (4, 11), (5, 11)):
        world.set(
            {
                f"0.mig.{number}.{key}": value
                for key, value in {
                    "uuid": f"MIG-{number}", "gpu_instance": instance, "compute_instance": number - 4,
                    "memory.total": 10 * GIB, "memory.reserved": GIB, "memory.free": 3 * GIB,
                    "memory.used": 6 * GIB, "compute": f"{4194304 + instance}:{6 * GIB}:{instance}",
                }.items()
            }
        )  # fmt: skip
    reading = read_once()
    assert [(gpu.gpu_uuid, gpu.mig_instance) for gpu in reading.gpus] == [
        ("GPU-0", ""),
        ("GPU-0", "9"),
        ("GPU-0", "11"),
    ]
    whole, *instances = reading.gpus
    assert (whole.utilization_ratio, whole.memory_used_bytes) == (None, 72 * GIB)
    for part in instances:
        assert (part.gpu_index, part.gpu_model) == (0, "NVIDIA H100 80GB HBM3")
        assert (part.memory_used_bytes, part.memory_total_bytes) == (6 * GIB, 10 * GIB)
        assert part.memory_used_ratio == 6 / 9
        assert (part.utilization_ratio, part.power_watts) == (None, None)
    assert [(process.mig_instance, process.pid) for process in reading.processes] == [
        ("9", 4194313),
        ("11", 4194315),
    ]


def test_mig_that_is_turned_on_between_two_polls_is_seen(world: World) -> None:
    world.gpu(0, mig_devices=7)
    seen = []

    async def work(polls: Polls) -> None:
        seen.append([gpu.mig_instance for gpu in (await polls.reading()).gpus])
        world.set({"0.mig": 1, "0.mig.2.gpu_instance": 7, "0.mig.2.memory.total": GIB})
        seen.append([gpu.mig_instance for gpu in (await polls.reading()).gpus])

    polling(work)
    assert seen == [[""], ["", "7"]]


def test_an_argument_that_one_call_refuses_costs_that_value_alone(world: World) -> None:
    world.gpu(0)
    world.error(0, "nvmlDeviceGetClockInfo", 2)
    reading = read_once()
    assert (reading.gpus[0].sm_clock_hertz, reading.gpus[0].power_watts) == (None, 310.5)
    assert [name for name, _ in reading.found_names].count("sm_clock_hertz") == 0
    assert len(reading.notes) == 2  # one for each clock
