"""AMD device-metrics-exporter. Names, units and traps: gpu.md 6; figures by hand or of the fixtures' text."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.exposition import Nowhere
from collectors.gpu.amd import KIND
from collectors.reading import GpuSample, Reading
from collectors.source import TargetReader
from tests.shared import SHARED, needs_shared

MIB = 1048576
WHO = (
    'card_model="102-G30211-0C",card_series="AMD Instinct MI300X OAM",driver_version="6.12.12",gpu_id="2",'
    'gpu_uuid="ccff74a1-0000-1000-80e0-c6d49f5b0d86",hostname="tw038",namespace="",pod="",serial_number="",'
    'gpu_compute_partition_type="spx",gpu_partition_id="0"'
)
UUID = "ccff74a1-0000-1000-80e0-c6d49f5b0d86"


def read(*lines: str) -> Reading:
    return TargetReader(KIND).read("\n".join(lines).encode())


def of_gpu(prefix: str = "", who: str = WHO, **values: Any) -> list[str]:
    return [f"{prefix}gpu_{name}{{{who}}} {value}" for name, value in values.items()]


def fixture(name: str) -> Reading:
    return TargetReader(KIND).read((SHARED / "fixtures/gpu" / name).read_bytes())


@pytest.mark.parametrize("prefix", ["", "amd_", "site_rocm_"])
def test_every_field_is_read_in_its_unit_whatever_the_prefix(prefix: str) -> None:
    reading = read(
        *of_gpu(
            prefix, used_vram=98304, free_vram=98288, total_vram=196592, gfx_activity=57, umc_activity=29,
            package_power=748, energy_consumed=1.4e12, junction_temperature=76, edge_temperature=0,
            memory_temperature=63, prof_sm_active=40, prof_tensor_active_percent=12.5,
        ),
        f'{prefix}gpu_clock{{{WHO},clock_type="GPU_CLOCK_TYPE_SYSTEM",clock_index="7"}} 2100',
        f'{prefix}gpu_clock{{{WHO},clock_type="GPU_CLOCK_TYPE_SYSTEM",clock_index="0"}} 1533',
        f'{prefix}gpu_clock{{{WHO},clock_type="memory",clock_index="8"}} 1292',
        f'{prefix}gpu_clock{{{WHO},clock_type="video",clock_index="2"}} 900',
    )  # fmt: skip
    assert reading.gpus == [
        GpuSample(
            UUID, "", 2, "tw038", "AMD Instinct MI300X OAM", "6.12.12", utilization_ratio=0.57,
            sm_active_ratio=0.4, tensor_active_ratio=0.125, memory_controller_ratio=0.29,
            memory_used_bytes=98304 * MIB, memory_free_bytes=98288 * MIB,
            # What rocm-smi prints for this card: 206141652992 bytes.
            memory_total_bytes=206141652992, memory_used_ratio=98304 / 196592,
            temperature_celsius=76, memory_temperature_celsius=63, power_watts=748,
            energy_joules_total=1.4e6, sm_clock_hertz=1_533_000_000, memory_clock_hertz=1_292_000_000,
        )
    ]  # fmt: skip
    assert dict(reading.found_names)["sm_clock_hertz"] == f"{prefix}gpu_clock"
    assert (reading.unowned_lines, reading.notes) == (0, ())


def test_power_is_read_by_the_name_that_the_series_of_cards_uses() -> None:
    assert read(*of_gpu(package_power=0, average_package_power=90)).gpus[0].power_watts == 90  # MI2xx
    assert read(*of_gpu(power_usage=34)).gpus[0].power_watts == 34
    assert read(*of_gpu(average_package_power=255)).gpus[0].power_watts == 255  # a real 8-bit maximum (#662)


@pytest.mark.parametrize(
    ("name", "value", "column"),
    [
        ("edge_temperature", 0, "temperature_celsius"),  # MI300 has no edge sensor
        ("energy_consumed", 0, "energy_joules_total"),  # #259: 0 for ever
        ("package_power", 0, "power_watts"),  # partitions but the first
        ("package_power", 65535, "power_watts"),
        ("gfx_activity", 65535, "utilization_ratio"),
        ("memory_temperature", 65535, "memory_temperature_celsius"),
        ("energy_consumed", 18446744073709551615, "energy_joules_total"),
        ("used_vram", 4294967295, "memory_used_bytes"),
    ],
)
def test_no_sensor_and_no_value_are_not_known_and_no_news(name: str, value: Any, column: str) -> None:
    reading = read(*of_gpu(**{name: value}))
    assert getattr(reading.gpus[0], column) is None
    assert not any(note.startswith(column) for note in reading.notes)


def test_without_edge_and_junction_the_other_is_the_temperature() -> None:
    assert read(*of_gpu(edge_temperature=53)).gpus[0].temperature_celsius == 53
    assert read(*of_gpu(junction_temperature=0, edge_temperature=53)).gpus[0].temperature_celsius == 53
    assert read(*of_gpu(junction_temperature=76, edge_temperature=53)).gpus[0].temperature_celsius == 76


def test_an_activity_of_0_is_kept_for_it_is_all_the_exporter_says() -> None:
    """#135, #160: 0 while busy; so nothing is judged by it alone."""
    gpu = read(*of_gpu(gfx_activity=0, package_power=700)).gpus[0]
    assert (gpu.utilization_ratio, gpu.power_watts) == (0, 700)


def test_partitions_are_rows_of_their_card_and_idle_is_not_read_into_their_zeros() -> None:
    def of_partition(gpu: int, partition: int, **values: Any) -> list[str]:
        who = WHO.replace('"spx"', '"cpx"').replace('gpu_id="2"', f'gpu_id="{gpu}"')
        return of_gpu(who=who.replace('partition_id="0"', f'partition_id="{partition}"'), **values)

    reading = read(
        *of_partition(8, 0, package_power=310, used_vram=1000, gfx_activity=40, junction_temperature=50),
        *of_partition(9, 1, package_power=0, used_vram=2000, gfx_activity=0),
    )
    assert [
        (gpu.gpu_uuid, gpu.mig_instance, gpu.gpu_index, gpu.power_watts, gpu.utilization_ratio)
        for gpu in reading.gpus
    ] == [(UUID, "0", 8, 310, None), (UUID, "1", 9, None, None)]
    assert [gpu.memory_used_bytes for gpu in reading.gpus] == [1000 * MIB, 2000 * MIB]
    assert not any("masked" in note for note in reading.notes)


@pytest.mark.parametrize("partition", ["NA", "4294967295", "0", ""])
def test_a_card_that_is_not_partitioned_is_whole(partition: str) -> None:
    who = f'gpu_id="0",gpu_uuid="a1",gpu_partition_id="{partition}",gpu_compute_partition_type="none"'
    assert read(*of_gpu(who=who, used_vram=1)).gpus[0].mig_instance == ""


def test_a_uuid_of_zeros_is_none_and_empty_labels_say_nothing() -> None:
    """#233, #171: virtual machines."""
    who = (
        'gpu_id="0",gpu_uuid="00000000-0000-0000-0000-000000000000",hostname="vm1",card_model="",pod="",'
        'card_series=""'
    )
    gpu = read(*of_gpu(who=who, used_vram=1)).gpus[0]
    assert (gpu.gpu_uuid, gpu.gpu_index, gpu.gpu_model, gpu.pod) == ("vm1#gpu0", 0, None, None)


def test_the_pod_is_the_workload_and_never_the_exporter() -> None:
    job = read(*of_gpu(who='gpu_id="0",gpu_uuid="a1",pod="job",namespace="ml"', used_vram=1)).gpus[0]
    assert (job.pod, job.namespace) == ("job", "ml")
    own = read(*of_gpu(who='gpu_id="0",gpu_uuid="a1",pod="amdgpu-metrics-exporter-x"', used_vram=1)).gpus[0]
    assert own.pod is None


def test_names_of_other_exporters_are_not_taken_for_amds() -> None:
    place = KIND.place("xgpu_used_vram", {"gpu_id": "0"})
    assert place is Nowhere.UNWANTED
    assert KIND.place("gpu_clock", {"gpu_id": "0", "clock_type": "video"}) is Nowhere.UNWANTED
    assert KIND.place("gpu_used_vram", {}) is Nowhere.UNOWNED
    assert KIND.wants("amd_gpu_clock")
    assert not KIND.wants("gpu_ecc_correct_total")


@needs_shared
def test_mi300x_in_a_virtual_machine() -> None:
    in_vm, whole = fixture("amd_dme_mi300x_vf_k8s.txt").gpus
    assert (in_vm.gpu_uuid, in_vm.host) == ("17ff74b5-0000-1000-805c-37b0fbe69430", "master-1")
    assert in_vm.gpu_model == "Aqua Vanjaram [Instinct MI300X VF]"
    assert in_vm.temperature_celsius is None
    assert (whole.gpu_index, whole.utilization_ratio, whole.mig_instance) == (2, 0, "")


@needs_shared
def test_radeon_without_uuid_and_energy() -> None:
    reading = fixture("amd_dme_radeon_zero_energy.txt")
    gpu = reading.gpus[0]
    assert (gpu.gpu_uuid, gpu.host, gpu.gpu_model) == ("cb76105c40d0#gpu0", "cb76105c40d0", None)
    assert (gpu.memory_free_bytes, gpu.energy_joules_total) == (24534 * MIB, None)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes, reading.rejected_lines) == (None, None, 0)
