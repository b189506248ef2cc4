"""dcgm-exporter: real expositions of its versions. Numbers are what the INDEX of the fixtures says."""

from __future__ import annotations

import pytest

from collectors.gpu.dcgm import KIND
from collectors.reading import Reading
from collectors.source import TargetReader
from tests.shared import SHARED, needs_shared

MIB = 1048576


def fixture(name: str) -> Reading:
    return TargetReader(KIND).read((SHARED / "fixtures/gpu" / name).read_bytes())


@needs_shared
def test_busy_t4() -> None:
    gpu = fixture("dcgm4_t4_busy_no_help.txt").gpus[0]
    assert (gpu.utilization_ratio, gpu.graphics_active_ratio) == (0.91, 0.156205)
    assert round((gpu.memory_used_ratio or 0) * 100, 1) == 34.3
    assert (gpu.temperature_celsius, gpu.power_watts, gpu.gpu_model) == (74, 68.244, "Tesla T4")


@needs_shared
def test_idle_l40s() -> None:
    reading = fixture("dcgm4_l40s_full_idle.txt")
    gpu = reading.gpus[0]
    assert gpu.memory_total_bytes == 46067 * MIB
    assert (gpu.memory_temperature_celsius, gpu.xid_last) == (None, None)
    assert "xid_last" in reading.missing


@needs_shared
@pytest.mark.parametrize(
    ("name", "entities"),
    [
        ("dcgm2_a100_mig_and_parent.txt", [("", 0.99563), ("13", 0.995687)]),
        ("dcgm4_l4_kops.txt", [("", 0.0)]),
        ("dcgm4_timeslicing_duplicated_per_pod.txt", [("", 0.714)]),
    ],
)
def test_each_gpu_and_instance_once(name: str, entities: list[tuple[str, float]]) -> None:
    assert [(gpu.mig_instance, gpu.graphics_active_ratio) for gpu in fixture(name).gpus] == entities


@needs_shared
def test_vgpu_has_no_temperature_and_no_power() -> None:
    gpu = fixture("dcgm4_vgpu_grid_a100_10c.txt").gpus[0]
    assert (gpu.temperature_celsius, gpu.memory_temperature_celsius, gpu.power_watts) == (None, None, None)
    assert (gpu.memory_total_bytes, gpu.utilization_ratio) == (10239 * MIB, 0)


@needs_shared
def test_blank_memory_temperature() -> None:
    gpu = fixture("dcgm2_blank_sentinel_memory_temp.txt").gpus[0]
    assert (gpu.sm_clock_hertz, gpu.memory_temperature_celsius) == (139_000_000, None)


@needs_shared
@pytest.mark.parametrize(
    ("name", "gpus", "rejected", "unowned"),
    [
        ("dcgm1x_oldest_gist.txt", 1, 0, 0),
        ("dcgm2_v100_empty_pod_labels.txt", 1, 0, 0),
        ("dcgm3_mig_a30_four_instances.txt", 5, 0, 0),
        ("dcgm3_mixed_mig_and_whole_h100.txt", 5, 0, 0),
        ("dcgm4_l40s_elided_labels_invalid.txt", 2, 18, 0),
        ("dcgm4_mig_wrong_profile_h100nvl.txt", 2, 0, 0),
        ("dcgm4_t4_rafay.txt", 1, 0, 0),
        ("dcgm_1xcompat_names_empty_pod.txt", 1, 0, 0),
        ("dcgm_unparsable_values.txt", 0, 2, 0),
        ("dcgm_xid_sticky_err_labels.txt", 0, 0, 1),
        ("prometheus_exported_pod_labels.txt", 1, 0, 0),
    ],
)
def test_every_dcgm_exposition(name: str, gpus: int, rejected: int, unowned: int) -> None:
    reading = fixture(name)
    assert (len(reading.gpus), reading.rejected_lines, reading.unowned_lines) == (gpus, rejected, unowned)


@needs_shared
def test_the_workload_behind_a_prometheus() -> None:
    gpu = fixture("prometheus_exported_pod_labels.txt").gpus[0]
    assert (gpu.pod, gpu.namespace) == ("pod1,pod2", "default")
    assert gpu.container == "ai-artifactory-control,somecontainer"
