"""nvidia_gpu_exporter, and mindprince's. Figures of fixtures are those in their text; others are by hand."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from collectors.gpu.dcgm import KIND as DCGM
from collectors.gpu.nvidia_gpu_exporter import KIND, PROCESSES_CAP
from collectors.reading import GpuProcess, GpuSample, Reading
from collectors.source import TargetReader
from tests.shared import SHARED, needs_shared

BARE = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"
UUID = f"GPU-{BARE}"
WHO = f'uuid="{BARE}"'
INFO = (
    'nvidia_smi_gpu_info{driver_version="590.48.01",index="3",name="NVIDIA H100 80GB HBM3",serial="[N/A]",'
    f"{WHO}}} 1"
)


def read(*lines: str) -> Reading:
    return TargetReader(KIND).read("\n".join(lines).encode())


def of_gpu(**values: float) -> list[str]:
    """Lines of one GPU: nvidia_smi_name=value."""
    return [f"nvidia_smi_{name}{{{WHO}}} {value}" for name, value in values.items()]


def test_without_free_and_reserved_memory_the_ratio_is_not_known() -> None:
    # With a list of fields of one's own. Of 81559 MiB the driver keeps 479: 76000 of 81080, not of 81559.
    mib = 1048576
    of_two = of_gpu(memory_used_bytes=76000 * mib, memory_total_bytes=81559 * mib)
    gpu = read(INFO, *of_two).gpus[0]
    assert (gpu.memory_free_bytes, gpu.memory_used_ratio) == (None, None)
    assert "memory_free_bytes" in read(INFO, *of_two).missing
    of_three = [*of_two, *of_gpu(memory_reserved_bytes=479 * mib)]
    assert read(INFO, *of_three).gpus[0].memory_used_ratio == 76000 / 81080


def fixture(name: str) -> Reading:
    return TargetReader(KIND).read((SHARED / "fixtures/gpu" / name).read_bytes())


def test_every_field_is_read_in_its_unit_and_the_info_says_what_the_gpu_is() -> None:
    reading = read(
        INFO,
        *of_gpu(
            utilization_gpu_ratio=0.91, utilization_memory_ratio=0.3, memory_total_bytes=85520809984,
            memory_used_bytes=11665408000, memory_free_bytes=73354182656, memory_reserved_bytes=502267904,
            temperature_gpu=53, temperature_gpu_tlimit=24, temperature_memory=59, power_draw_watts=433.78,
            power_draw_instant_watts=447.35, power_limit_watts=650, enforced_power_limit_watts=600,
            energy_joules_total=5551899.5, clocks_current_sm_clock_hz=1.98e9, clocks_max_sm_clock_hz=2e9,
            clocks_current_memory_clock_hz=2.619e9, clocks_event_reasons_active=4,
        ),
    )  # fmt: skip
    assert reading.gpus == [
        GpuSample(
            UUID, "", 3, None, "NVIDIA H100 80GB HBM3", "590.48.01", utilization_ratio=0.91,
            memory_controller_ratio=0.3, memory_used_bytes=11665408000, memory_free_bytes=73354182656,
            memory_reserved_bytes=502267904, memory_total_bytes=85520809984,
            memory_used_ratio=11665408000 / (11665408000 + 73354182656), temperature_celsius=53,
            memory_temperature_celsius=59, power_watts=433.78, power_limit_watts=600,
            energy_joules_total=5551899.5, sm_clock_hertz=1_980_000_000, memory_clock_hertz=2_619_000_000,
            throttle_reasons=4,
        )
    ]  # fmt: skip
    assert (reading.rejected_lines, reading.unowned_lines) == (0, 0)
    assert dict(reading.found_names)["memory_used_bytes"] == "nvidia_smi_memory_used_bytes"


def test_the_uuid_is_the_one_that_dcgm_exporter_shows() -> None:
    of_dcgm = TargetReader(DCGM).read(f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="{UUID}"}} 40'.encode())
    assert read(*of_gpu(temperature_gpu=40)).gpus[0].gpu_uuid == of_dcgm.gpus[0].gpu_uuid


def test_where_the_mask_is_not_shown_it_is_made_of_the_flags() -> None:
    """gpu.md 3.2: 0x4 sw_power_cap, 0x40 hw_thermal."""
    flags = of_gpu(
        clocks_event_reasons_gpu_idle=0, clocks_event_reasons_sw_power_cap=1,
        clocks_event_reasons_hw_thermal_slowdown=1, clocks_event_reasons_sync_boost=0,
    )  # fmt: skip
    assert read(*flags).gpus[0].throttle_reasons == 0x44
    older = [line.replace("event", "throttle") for line in flags]
    assert read(*older).gpus[0].throttle_reasons == 0x44
    assert read(*older, *of_gpu(clocks_throttle_reasons_active=0x204)).gpus[0].throttle_reasons == 0x204
    assert read(*of_gpu(clocks_event_reasons_gpu_idle=0)).gpus[0].throttle_reasons == 0
    assert read(*of_gpu(temperature_gpu=40)).gpus[0].throttle_reasons is None


def test_processes_are_those_with_a_compute_context() -> None:
    app = f'pid="21180",process_name="/opt/tools/memhog",{WHO}'
    reading = read(
        *of_gpu(temperature_gpu=40),
        f"nvidia_smi_compute_app_info{{{app}}} 1",
        f"nvidia_smi_compute_app_used_memory_bytes{{{app}}} 2407530496",
        f'nvidia_smi_compute_app_info{{pid="7",process_name="C:\\\\a.exe",{WHO}}} 1',
        f'nvidia_smi_compute_app_info{{pid="8",process_name="b",gpu_instance_id="2",{WHO}}} 1',
        f'nvidia_smi_compute_app_info{{pid="x",process_name="c",{WHO}}} 1',
    )
    assert reading.processes == [
        GpuProcess(UUID, "", 21180, "/opt/tools/memhog", 2407530496, "compute"),
        GpuProcess(UUID, "", 7, "C:\\a.exe", None, "compute"),
        GpuProcess(UUID, "2", 8, "b", None, "compute"),
    ]
    assert len(reading.gpus) == 1  # a process makes no GPU


def test_processes_end_at_a_number() -> None:
    count = PROCESSES_CAP + 3
    reading = read(*(f'nvidia_smi_compute_app_info{{pid="{n}",{WHO}}} 1' for n in range(count)))
    assert len(reading.processes) == PROCESSES_CAP
    assert reading.notes == (f"processes past the first {PROCESSES_CAP} are left out",)


def test_a_mig_instance_is_a_row_beside_its_card() -> None:
    """Names of the NVML backend; A100 figures of gpu.md."""
    mib = 1048576
    instance = f'{WHO},gpu_instance_id="3"'
    reading = read(
        INFO,
        *of_gpu(memory_total_bytes=81920 * mib, memory_used_bytes=50 * mib, memory_free_bytes=80999 * mib,
                memory_reserved_bytes=869 * mib),
        f'nvidia_smi_mig_info{{{WHO},gpu_instance_id="3",mig_uuid="MIG-1",profile="1g.20gb"}} 1',
        f"nvidia_smi_mig_memory_total_bytes{{{instance}}} {19968 * mib}",
        f"nvidia_smi_mig_memory_used_bytes{{{instance}}} {12 * mib}",
        f"nvidia_smi_mig_memory_free_bytes{{{instance}}} {19955 * mib}",
        f"nvidia_smi_mig_graphics_activity_ratio{{{instance}}} 0.5",
        f"nvidia_smi_mig_sm_activity_ratio{{{instance}}} 0.4",
        f"nvidia_smi_mig_tensor_activity_ratio{{{instance}}} 0.1",
    )  # fmt: skip
    card, mig = reading.gpus
    assert (card.mig_instance, card.memory_total_bytes, card.graphics_active_ratio) == ("", 81920 * mib, None)
    assert (mig.gpu_uuid, mig.mig_instance, mig.memory_total_bytes) == (UUID, "3", 19968 * mib)
    assert (mig.gpu_index, mig.gpu_model) == (card.gpu_index, card.gpu_model)  # told of the card alone
    assert mig.gpu_model is not None
    assert (mig.graphics_active_ratio, mig.sm_active_ratio, mig.tensor_active_ratio) == (0.5, 0.4, 0.1)
    assert mig.memory_used_ratio == 12 / 19967


def xid(code: int, when: float | None, count: int = 1) -> list[str]:
    labels = f'{WHO},xid="{code}"'
    lines = [f"nvidia_smi_xid_errors_total{{{labels}}} {count}"]
    return lines if when is None else [*lines, f"nvidia_smi_xid_last_timestamp_seconds{{{labels}}} {when}"]


def test_the_last_xid_is_the_one_with_the_newest_time() -> None:
    gpu = of_gpu(temperature_gpu=40)
    both = read(*gpu, *xid(79, 1.7e9), *xid(31, 1.7e9 + 60))
    assert (both.gpus[0].xid_last, "xid_last" in both.missing) == (31, False)
    assert dict(both.found_names)["xid_last"].startswith("nvidia_smi_xid_")
    assert read(*gpu, *xid(79, None)).gpus[0].xid_last == 79
    assert read(*gpu, *xid(79, None), *xid(31, None)).gpus[0].xid_last is None  # which came last?
    none = read(*gpu)
    assert (none.gpus[0].xid_last, "xid_last" in none.missing) == (None, True)


def test_values_that_are_old_are_said_to_be() -> None:
    gpu = of_gpu(temperature_gpu=40)
    assert read(*gpu, "nvidia_smi_last_collect_success 1", "nvidia_smi_command_exit_code 0").notes == ()
    assert read(
        *gpu, "nvidia_smi_last_collect_success 0", "nvidia_smi_command_exit_code 15",
        "nvidia_smi_compute_apps_last_collect_success 0",
    ).notes == (
        "the exporter's last collection failed: what it shows is old (nvidia_smi_last_collect_success is 0)",
        "the exporter could not read the GPUs: nvidia_smi_command_exit_code is 15",
        (
            "the exporter's last collection of processes failed: those it shows are old "
            "(nvidia_smi_compute_apps_last_collect_success is 0)"
        ),
    )  # fmt: skip


def test_collections_that_failed_between_two_scrapes_are_said() -> None:
    read_target = TargetReader(KIND).read
    lines = "\n".join(of_gpu(temperature_gpu=40))
    seen = [
        read_target(f"{lines}\nnvidia_smi_failed_scrapes_total {count}".encode()).notes
        for count in (7, 7, 9, 9)
    ]
    grown = "collections of the exporter failed since the last scrape (nvidia_smi_failed_scrapes_total grows)"
    assert seen == [(), (), (grown,), ()]


def test_an_exporter_without_a_gpu_has_no_rows_and_says_why() -> None:
    reading = read("nvidia_smi_nvml_return_code 9", "nvidia_smi_last_collect_success 0")
    assert (reading.gpus, reading.unowned_lines, len(reading.notes)) == ([], 0, 2)


def test_a_label_of_whoever_scrapes_may_say_the_host() -> None:
    line = f'nvidia_smi_temperature_gpu{{{WHO},node="n1",pod="nvidia-gpu-exporter-x",exported_pod="job"}} 40'
    gpu = read(line).gpus[0]
    assert (gpu.host, gpu.pod) == ("n1", "job")


def test_the_exporter_of_mindprince_is_read_too() -> None:
    who = 'minor_number="1",name="Tesla P4",uuid="GPU-9bb57e8e"'
    gpu = read(
        f"nvidia_gpu_memory_used_bytes{{{who}}} 1000000000",
        f"nvidia_gpu_memory_total_bytes{{{who}}} 8000000000",
        f"nvidia_gpu_duty_cycle{{{who}}} 57",
        f"nvidia_gpu_power_usage_milliwatts{{{who}}} 23500",
        f"nvidia_gpu_temperature_celsius{{{who}}} 45",
        f"nvidia_gpu_fanspeed_percent{{{who}}} 33",
        "nvidia_gpu_num_devices 1",
    ).gpus[0]
    assert gpu == GpuSample(
        "GPU-9bb57e8e", "", 1, None, "Tesla P4", utilization_ratio=0.57, memory_used_bytes=1000000000,
        memory_free_bytes=7000000000, memory_total_bytes=8000000000, memory_used_ratio=0.125,
        temperature_celsius=45, power_watts=23.5,
    )  # fmt: skip


@needs_shared
def test_idle_h100() -> None:
    reading = fixture("nge_h100_590_idle.txt")
    gpu = reading.gpus[0]
    assert (gpu.gpu_index, gpu.driver_version, gpu.utilization_ratio) == (0, "590.48.01", 0)
    assert (gpu.memory_used_bytes, gpu.memory_used_ratio) == (0, 0)
    assert (gpu.temperature_celsius, gpu.power_watts, gpu.sm_clock_hertz) == (41, 69.85, 345_000_000)
    assert (gpu.throttle_reasons, gpu.xid_last) == (0x1, None)
    assert (reading.processes, reading.notes, reading.rejected_lines) == ([], (), 0)


@needs_shared
def test_h100_in_mig_mode_has_memory_and_processes_and_no_utilization() -> None:
    reading = fixture("nge_h100_mig_590_load.txt")
    gpu = reading.gpus[0]
    assert gpu.memory_total_bytes == 85520809984  # the three others are 1 MiB over it
    assert gpu.memory_used_bytes == 11665408000
    assert gpu.memory_reserved_bytes == 502267904
    assert gpu.memory_free_bytes == 73354182656
    assert gpu.memory_used_ratio == pytest.approx(0.13721, abs=1e-5)
    assert (gpu.utilization_ratio, gpu.memory_controller_ratio) == (None, None)
    assert {"utilization_ratio", "memory_controller_ratio"} <= set(reading.missing)
    assert [
        (one.pid, PurePosixPath(one.name or "").name, one.memory_used_bytes) for one in reading.processes
    ] == [(21180, "memhog", 2407530496), (21181, "memhog", 1333788672), (21198, "gpu_burn", 7847542784)]


@needs_shared
def test_consumer_cards() -> None:
    linux = fixture("nge_rtx4080super_595_load.txt").gpus[0]
    assert (linux.memory_temperature_celsius, linux.gpu_model) == (None, "NVIDIA GeForce RTX 4080 SUPER")
    windows = fixture("nge_windows_rtx2080super_610_load.txt")
    assert (windows.gpus[0].utilization_ratio, windows.gpus[0].power_watts) == (0.07, 97.99)
    assert len(windows.processes) == 21
    assert {one.memory_used_bytes for one in windows.processes} == {None}
    assert "C:\\Windows\\explorer.exe" in {one.name for one in windows.processes}
