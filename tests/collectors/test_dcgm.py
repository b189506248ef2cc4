"""dcgm-exporter, all its names. Numbers of fixtures are what their INDEX says; others are by hand."""

from __future__ import annotations

import pytest

from collectors.gpu.dcgm import KIND
from collectors.reading import GpuSample, Reading
from collectors.source import TargetReader

MIB = 1048576
WHO = 'gpu="0",UUID="GPU-a",modelName="NVIDIA L40S",Hostname="node-1",DCGM_FI_DRIVER_VERSION="595.58"'


def read(*lines: str) -> Reading:
    return TargetReader(KIND).read("\n".join(lines).encode())


def read_one(*lines: str) -> GpuSample:
    reading = read(*lines)
    assert len(reading.gpus) == 1
    return reading.gpus[0]


def of_gpu_0(**values: float) -> list[str]:
    """Lines of one GPU: DCGM_FI_NAME=value."""
    return [f"DCGM_FI_{name}{{{WHO}}} {value}" for name, value in values.items()]


def test_names_of_2_to_4_8_are_read_in_their_units() -> None:
    gpu = read_one(
        *of_gpu_0(
            DEV_SM_CLOCK=660, DEV_MEM_CLOCK=5000, DEV_MEMORY_TEMP=69, DEV_GPU_TEMP=74, DEV_POWER_USAGE=68.244,
            DEV_TOTAL_ENERGY_CONSUMPTION=15152422938, DEV_GPU_UTIL=91, DEV_MEM_COPY_UTIL=73,
            DEV_FB_FREE=9791, DEV_FB_USED=5120, DEV_FB_RESERVED=447, DEV_XID_ERRORS=31,
            PROF_GR_ENGINE_ACTIVE=0.156205, PROF_SM_ACTIVE=0.14, PROF_PIPE_TENSOR_ACTIVE=0.005822,
            PROF_DRAM_ACTIVE=0.092781, DEV_POWER_MGMT_LIMIT=70, DEV_CLOCK_THROTTLE_REASONS=0x44,
        )
    )  # fmt: skip
    assert gpu == GpuSample(
        "GPU-a", "", 0, "node-1", "NVIDIA L40S", "595.58",
        utilization_ratio=0.91, graphics_active_ratio=0.156205, sm_active_ratio=0.14,
        tensor_active_ratio=0.005822, dram_active_ratio=0.092781, memory_controller_ratio=0.73,
        memory_used_bytes=5120 * MIB, memory_free_bytes=9791 * MIB, memory_reserved_bytes=447 * MIB,
        memory_total_bytes=15358 * MIB, memory_used_ratio=5120 / 14911,
        temperature_celsius=74, memory_temperature_celsius=69, power_watts=68.244, power_limit_watts=70,
        energy_joules_total=15152422.938, sm_clock_hertz=660_000_000, memory_clock_hertz=5_000_000_000,
        throttle_reasons=0x44, xid_last=31,
    )  # fmt: skip


def test_names_of_4_9_say_the_same_facts_in_their_units() -> None:
    """gpu.md 1.3: MiB → bytes, % → ratio, mJ → J, MHz → Hz."""
    old = of_gpu_0(
        DEV_SM_CLOCK=1980, DEV_MEM_CLOCK=2619, DEV_MEMORY_TEMP=43, DEV_GPU_TEMP=40, DEV_POWER_USAGE=310.5,
        DEV_TOTAL_ENERGY_CONSUMPTION=5551899000, DEV_GPU_UTIL=87, DEV_MEM_COPY_UTIL=30,
        DEV_FB_TOTAL=81559, DEV_FB_FREE=16440, DEV_FB_USED=64640, DEV_FB_RESERVED=479, DEV_XID_ERRORS=0,
        PROF_GR_ENGINE_ACTIVE=0.8, PROF_SM_ACTIVE=0.7, PROF_PIPE_TENSOR_ACTIVE=0.25, PROF_DRAM_ACTIVE=0.4,
        DEV_ENFORCED_POWER_LIMIT=700, DEV_CLOCK_THROTTLE_REASONS=4,
    )  # fmt: skip
    new = [
        line.replace("DRIVER_VERSION", "SYSTEM_DRIVER_VERSION", 1).replace("Hostname", "hostname")
        for line in of_gpu_0(
            DEV_SM_CLOCK_HERTZ=1980e6, DEV_MEMORY_CLOCK_HERTZ=2619e6, DEV_MEMORY_TEMP_CELSIUS=43,
            DEV_GPU_TEMP_CELSIUS=40, DEV_BOARD_POWER_WATTS=310.5, DEV_GPU_ENERGY_JOULES_TOTAL=5551899,
            DEV_GPU_UTIL_RATIO=0.87, DEV_MEMORY_UTIL_RATIO=0.3, DEV_FB_CAPACITY_BYTES=81559 * MIB,
            DEV_FB_FREE_BYTES=16440 * MIB, DEV_FB_USED_BYTES=64640 * MIB, DEV_FB_RESERVED_BYTES=479 * MIB,
            DEV_XID_ERROR=0, PROF_GR_ENGINE_UTIL_RATIO=0.8, PROF_SM_UTIL_RATIO=0.7,
            PROF_TENSOR_UTIL_RATIO=0.25, PROF_DRAM_UTIL_RATIO=0.4,
            DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS=700, DEV_CLOCKS_EVENT_REASONS=4,
        )
    ]  # fmt: skip
    assert read_one(*new) == read_one(*old)
    assert read_one(*new).driver_version == "595.58"


def test_of_an_old_and_a_new_name_one_is_read_and_nothing_is_added() -> None:
    gpu = read_one(*of_gpu_0(DEV_FB_USED=64640, DEV_FB_USED_BYTES=64640 * MIB, DEV_POWER_USAGE=300,
                             DEV_BOARD_POWER_WATTS=300))  # fmt: skip
    assert (gpu.memory_used_bytes, gpu.power_watts) == (64640 * MIB, 300)


def test_names_of_1_x_and_lower_cased_ones_are_the_same_names() -> None:
    old = read_one('dcgm_gpu_utilization{gpu="0",uuid="GPU-a",pod_name="p",pod_namespace="n"} 40')
    managed = read_one('dcgm_fi_dev_gpu_util{gpu_i_id="",modelname="L4",uuid="GPU-a"} 40')
    assert (old.gpu_uuid, old.utilization_ratio, old.pod, old.namespace) == ("GPU-a", 0.4, "p", "n")
    assert (managed.gpu_uuid, managed.utilization_ratio, managed.gpu_model) == ("GPU-a", 0.4, "L4")


def test_a_total_that_a_gateway_put_on_is_taken_off() -> None:
    gpu = read_one(*of_gpu_0(DEV_TOTAL_ENERGY_CONSUMPTION_total=2000))
    assert gpu.energy_joules_total == 2


@pytest.mark.parametrize(
    ("lines", "ratio"),
    [
        (of_gpu_0(DEV_GPU_UTIL_RATIO=91), 0.91),  # above 1: the percent of DCGM 4.6
        (of_gpu_0(DEV_GPU_UTIL_RATIO=0.4, DEV_FB_USED=1, DEV_FB_FREE=1), 0.4),  # a fraction is no INT64
        (of_gpu_0(DEV_GPU_UTIL_RATIO=1, DEV_FB_USED=1, DEV_FB_FREE=1), 0.01),  # beside MiB: 4.6
        (of_gpu_0(DEV_GPU_UTIL_RATIO=1, DEV_FB_USED_BYTES=1, DEV_FB_FREE_BYTES=1), 1),  # beside bytes: 4.7
        (of_gpu_0(DEV_GPU_UTIL_RATIO=1.0000001), 1),  # a rounded 1, and no percent
        (of_gpu_0(DEV_GPU_UTIL_RATIO=1.5), None),
        (of_gpu_0(DEV_GPU_UTIL_RATIO=2), 0.02),
    ],
)
def test_gpu_util_ratio_is_a_percent_or_a_ratio_by_what_stands_beside_it(
    lines: list[str], ratio: float
) -> None:
    assert read_one(*lines).utilization_ratio == ratio


def test_gpu_util_ratio_is_decided_for_all_gpus_of_an_exporter() -> None:
    reading = read(
        'DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0",UUID="GPU-a"} 1',
        'DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="1",UUID="GPU-b"} 73',
    )
    assert [gpu.utilization_ratio for gpu in reading.gpus] == [0.01, 0.73]
    assert "GPU_UTIL_RATIO is a percent here (DCGM 4.6) and is read as one" in reading.notes


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [
        ("DEV_MEMORY_TEMP", "9223372036854775794", "memory_temperature_celsius"),
        ("DEV_GPU_TEMP", "2147483634", "temperature_celsius"),
        ("PROF_GR_ENGINE_ACTIVE", "140737488355328.0", "graphics_active_ratio"),
        ("PROF_DRAM_ACTIVE", "140737488355330.0", "dram_active_ratio"),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", "9223372036854775792", "energy_joules_total"),
        ("DEV_FB_USED_BYTES", "9223372036854775793", "memory_used_bytes"),
        ("DEV_SM_CLOCK", "9223372036854775794", "sm_clock_hertz"),
        ("DEV_CLOCK_THROTTLE_REASONS", "9223372036854775794", "throttle_reasons"),
        ("DEV_XID_ERRORS", "2147483632", "xid_last"),
        ("DEV_POWER_USAGE", "NaN", "power_watts"),
        ("DEV_POWER_USAGE", "+Inf", "power_watts"),
    ],
)  # fmt: skip
def test_a_blank_value_is_not_known(name: str, text: str, column: str) -> None:
    """gpu.md 1.4: BLANK, NOT_FOUND, NOT_SUPPORTED, NOT_PERMISSIONED of each type."""
    gpu = read_one(f"DCGM_FI_{name}{{{WHO}}} {text}", f"DCGM_FI_DEV_DEC_UTIL{{{WHO}}} 0")
    assert getattr(gpu, column) is None


def test_energy_and_clocks_larger_than_an_int32_are_real() -> None:
    gpu = read_one(*of_gpu_0(DEV_TOTAL_ENERGY_CONSUMPTION=5551899580, DEV_SM_CLOCK_HERTZ=2520000000))
    assert (gpu.energy_joules_total, gpu.sm_clock_hertz) == (5551899.58, 2520000000)


def test_an_unreadable_value_costs_its_line_alone() -> None:
    reading = read(
        f"DCGM_FI_DEV_GPU_TEMP{{{WHO}}} ERROR - FAILED TO CONVERT TO STRING", *of_gpu_0(DEV_POWER_USAGE=40)
    )
    assert reading.rejected_lines == 1
    assert (reading.gpus[0].temperature_celsius, reading.gpus[0].power_watts) == (None, 40)


def test_no_memory_sensor_reads_as_not_known() -> None:
    gpu = read_one(*of_gpu_0(DEV_MEMORY_TEMP=0, DEV_GPU_TEMP=0))
    assert (gpu.memory_temperature_celsius, gpu.temperature_celsius) == (None, 0)


def test_a_mig_instance_stands_beside_its_parent_and_has_no_gpu_util() -> None:
    reading = read(
        *of_gpu_0(DEV_GPU_UTIL=0, DEV_FB_USED=30000, DEV_FB_FREE=10000),
        f'DCGM_FI_DEV_GPU_UTIL{{{WHO},GPU_I_PROFILE="1g.5gb",GPU_I_ID="13"}} 0',
        f'DCGM_FI_DEV_FB_USED{{{WHO},GPU_I_PROFILE="1g.5gb",GPU_I_ID="13"}} 3000',
        f'DCGM_FI_DEV_FB_FREE{{{WHO},GPU_I_PROFILE="1g.5gb",GPU_I_ID="13"}} 1000',
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{WHO},GPU_I_PROFILE="1g.5gb",GPU_I_ID="13"}} 0.9',
    )
    parent, instance = reading.gpus
    assert (parent.gpu_uuid, parent.mig_instance) == ("GPU-a", "")
    assert (instance.gpu_uuid, instance.mig_instance) == ("GPU-a", "13")
    assert (parent.utilization_ratio, instance.utilization_ratio) == (None, None)  # 0 is how "no" is printed
    assert (parent.memory_used_ratio, instance.memory_used_ratio) == (0.75, 0.75)
    assert (parent.graphics_active_ratio, instance.graphics_active_ratio) == (None, 0.9)


def test_one_masked_uuid_for_several_gpus_merges_none() -> None:
    reading = read(
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-***",GPU_I_ID="1"} 43',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-***",GPU_I_ID="2"} 44',
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-***"} 42',
    )
    assert [(gpu.gpu_uuid, gpu.mig_instance, gpu.temperature_celsius) for gpu in reading.gpus] == [
        ("#gpu0", "1", 43), ("#gpu0", "2", 44), ("#gpu1", "", 42),
    ]  # fmt: skip
    assert any("masked" in note for note in reading.notes)


def test_without_a_uuid_a_gpu_is_its_index_on_its_host() -> None:
    reading = read(
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="n1"} 43',
        'DCGM_FI_DEV_GPU_TEMP{device="nvidia0",Hostname="n2"} 42',
    )
    assert [(gpu.gpu_uuid, gpu.gpu_index) for gpu in reading.gpus] == [("n1#gpu0", 0), ("n2#gpu0", 0)]


def test_a_wanted_line_that_names_no_gpu_is_counted_and_others_are_not() -> None:
    reading = read(
        'DCGM_FI_DEV_XID_ERRORS{err_code="45",job="dcgm-exporter"} 45',
        'DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{nvlink="0",gpu="0",gpu_uuid="GPU-a"} 12',
        'DCGM_FI_DEV_GPU_TEMP{nvswitch="0"} 30',
        'DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="0"} 0.1',
    )
    assert (reading.gpus, reading.lines, reading.unowned_lines, reading.rejected_lines) == ([], 4, 1, 0)


def copies(name: str, *values: float) -> list[str]:
    who = 'gpu="0",UUID="GPU-a",namespace="ml",container="c"'
    return [f'DCGM_FI_{name}{{{who},vgpu="{n}",pod="pod-{n}"}} {value}' for n, value in enumerate(values)]


def test_copies_of_a_shared_gpu_are_one_sample_with_all_its_pods() -> None:
    gpu = read_one(
        *copies("PROF_GR_ENGINE_ACTIVE", 0.714, 0.714, 0.714), *copies("DEV_POWER_USAGE", 80, 80, 80)
    )
    assert (gpu.graphics_active_ratio, gpu.power_watts) == (0.714, 80)
    assert (gpu.pod, gpu.namespace, gpu.container) == ("pod-0,pod-1,pod-2", "ml", "c")


def test_copies_that_differ_are_of_single_processes_and_not_known_for_the_device() -> None:
    """dcgm-exporter #594: GPU_UTIL and FB_USED from 4.8.2 on; the rest stays device-wide."""
    reading = read(
        *copies("DEV_GPU_UTIL", 20, 35),
        *copies("DEV_FB_USED", 2000, 6000),
        *copies("DEV_FB_FREE", 14000, 14000),
    )
    gpu = reading.gpus[0]
    assert (gpu.utilization_ratio, gpu.memory_used_bytes, gpu.memory_used_ratio) == (None, None, None)
    assert gpu.memory_free_bytes == 14000 * MIB
    assert {note.split(":")[0] for note in reading.notes} >= {"utilization_ratio", "memory_used_bytes"}


@pytest.mark.parametrize("used", [(2000, 6000), (3000, 3000)])
def test_used_memory_of_a_shared_gpu_is_worked_out_where_the_total_is_known(used: tuple[int, int]) -> None:
    reading = read(
        *copies("DEV_FB_USED", *used), *copies("DEV_FB_FREE", 14000, 14000),
        *copies("DEV_FB_RESERVED", 470, 470), *copies("DEV_FB_TOTAL", 23034, 23034),
    )  # fmt: skip
    gpu = reading.gpus[0]
    assert gpu.memory_used_bytes == (23034 - 470 - 14000) * MIB
    assert gpu.memory_used_ratio == 8564 / 22564
    assert not any("memory_used_bytes" in note for note in reading.notes)


def test_the_same_series_twice_counts_once_and_the_last_value_wins() -> None:
    gpu = read_one(*of_gpu_0(DEV_GPU_UTIL=10), *of_gpu_0(DEV_GPU_UTIL=30))
    assert gpu.utilization_ratio == 0.3


def test_an_xid_with_a_new_code_is_the_same_gpu() -> None:
    lines = [f'DCGM_FI_DEV_XID_ERRORS{{{WHO},err_code="{code}",err_msg="m"}} {code}' for code in (31, 79)]
    assert read_one(*lines).xid_last == 79


def test_a_pod_that_changes_is_followed() -> None:
    reader = TargetReader(KIND)
    seen = [
        reader.read(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",pod="{pod}"}} 5'.encode()).gpus[0].pod
        for pod in ("one", "one", "two", "")
    ]
    assert seen == ["one", "one", "two", None]


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ('exported_pod="job",exported_namespace="ml",exported_container="c",pod="dcgm-exporter-78z52"',
         ("job", "ml", "c")),
        ('exported_pod="job",pod="dcgm-exporter-78z52",namespace="gpu-operator",container="exporter"',
         ("job", None, None)),
        ('pod="nvidia-dcgm-exporter-x",namespace="gpu-operator",container="exporter"', (None, None, None)),
        ('pod="",namespace="",container=""', (None, None, None)),
        ('pod="job",namespace="ml",container="c"', ("job", "ml", "c")),
    ],
)  # fmt: skip
def test_the_pod_is_the_workload_and_never_the_exporter(labels: str, owner: tuple[str | None, ...]) -> None:
    gpu = read_one(f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-a",{labels}}} 40')
    assert (gpu.pod, gpu.namespace, gpu.container) == owner


def test_the_exporters_own_pod_name_is_no_host() -> None:
    reading = read('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",Hostname="dcgm-exporter-6ldbb"} 40')
    assert reading.gpus[0].host is None
    assert any(note.startswith("host is not known") for note in reading.notes)


def test_the_total_is_not_guessed_without_the_reserve() -> None:
    """A100-8C: used + free 7531 of 8192 MiB. The used ratio needs no total."""
    reading = read(*of_gpu_0(DEV_FB_USED=531, DEV_FB_FREE=7000))
    assert reading.gpus[0].memory_total_bytes is None
    assert reading.gpus[0].memory_used_ratio == 531 / 7531
    assert "memory_total_bytes" in reading.missing
    assert any(note.startswith("memory_total_bytes is not known") for note in reading.notes)


def test_used_percent_is_a_ratio_and_stands_in_where_memory_is_not_shown() -> None:
    assert read_one(*of_gpu_0(DEV_FB_USED_PERCENT=0.31)).memory_used_ratio == 0.31
    assert read_one(*of_gpu_0(DEV_FB_USED_RATIO=0.31)).memory_used_ratio == 0.31


def test_memory_that_cannot_be_is_not_known_and_said() -> None:
    reading = read(*of_gpu_0(DEV_FB_USED=50000, DEV_FB_TOTAL=46068, DEV_FB_RESERVED=608))
    assert (reading.gpus[0].memory_used_bytes, reading.gpus[0].memory_used_ratio) == (None, None)
    assert reading.notes == ("GPU-a: used memory is more than the card can give",)


def test_missing_names_what_some_version_shows_and_this_answer_does_not() -> None:
    missing = read(*of_gpu_0(DEV_FB_USED=1, DEV_FB_FREE=1, DEV_FB_RESERVED=1, DEV_GPU_TEMP=40)).missing
    assert "power_limit_watts" in missing
    assert not {"memory_used_ratio", "memory_total_bytes", "temperature_celsius", "pod", "host"} & set(
        missing
    )


def test_rows_follow_the_values_while_the_series_stay() -> None:
    reader = TargetReader(KIND)
    seen = [
        reader.read("\n".join(of_gpu_0(DEV_GPU_UTIL=value)).encode()).gpus[0].utilization_ratio
        for value in (1, 2)
    ]
    assert seen == [0.01, 0.02]


def test_a_name_is_said_as_the_target_spells_it() -> None:
    found = dict(
        read(
            'dcgm_fi_dev_gpu_util{gpu="0",uuid="GPU-a"} 40',
            'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{gpu="0",UUID="GPU-a"} 2000',
            'DCGM_FI_DEV_FB_USED_BYTES{gpu="0",UUID="GPU-a"} 1',
            'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 1',
        ).found_names
    )
    assert found == {
        "utilization_ratio": "dcgm_fi_dev_gpu_util",
        "energy_joules_total": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total",
        "memory_used_bytes": "DCGM_FI_DEV_FB_USED_BYTES",  # the one that is read
    }


def test_what_a_mig_instance_cannot_have_is_missing_and_found_under_no_name() -> None:
    reading = read('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",GPU_I_ID="3"} 0')
    assert (reading.found_names, "utilization_ratio" in reading.missing) == ((), True)


def util_ratio(*values: float) -> str:
    """A scrape of as many GPUs, without any name that tells the units apart."""
    return "\n".join(
        f'DCGM_FI_DEV_GPU_UTIL_RATIO{{gpu="{gpu}",UUID="GPU-{gpu}"}} {value}'
        for gpu, value in enumerate(values)
    )


def test_a_percent_proven_once_stays_one_at_the_next_scrapes() -> None:
    """gpu.md 1.3: a value of exactly 1 is 1 % or 100 %; another above 1 decides for the exporter."""
    read_target = TargetReader(KIND).read
    scrapes = [(1, 1), (73, 1), (1, 1), (1, 1, 1)]  # the last has one GPU more: another set of series
    seen = [read_target(util_ratio(*values).encode()).gpus[0].utilization_ratio for values in scrapes]
    assert seen == [1, 0.73, 0.01, 0.01]
    assert TargetReader(KIND).read(util_ratio(1).encode()).gpus[0].utilization_ratio == 1  # another target


def test_a_fraction_proves_that_the_exporter_has_been_upgraded() -> None:
    read_target = TargetReader(KIND).read
    seen = [read_target(util_ratio(one).encode()).gpus[0].utilization_ratio for one in (73, 0.4, 1)]
    assert seen == [0.73, 0.4, 1]


def test_copies_that_all_say_0_where_0_is_unknown_do_not_differ() -> None:
    reading = read(*copies("DEV_MEMORY_TEMP", 0, 0), *copies("DEV_GPU_TEMP", 40, 40))
    assert (reading.gpus[0].memory_temperature_celsius, reading.notes) == (None, ())
