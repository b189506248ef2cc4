"""nvidia-smi --query-gpu as CSV. Figures of the fixture are its text's; others are by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.gpu.nvidia_smi_csv import COLUMNS, KIND
from collectors.reading import GpuProcess, GpuSample, Reading
from collectors.registry import detect, detect_all
from collectors.source import TargetReader
from tests.shared import SHARED, fixture, needs_shared

MIB = 1048576
UUID = "GPU-00000000-0000-0000-0000-000000000000"


def read(*lines: str) -> Reading:
    return TargetReader(KIND).read("\n".join(lines).encode())


def test_a_table_with_units_is_read_in_full() -> None:
    reading = read(
        "index, uuid, name, driver_version, hostname, utilization.gpu [%], utilization.memory [%], "
        "memory.total [MiB], memory.reserved [MiB], memory.used [MiB], memory.free [MiB], temperature.gpu, "
        "temperature.gpu.tlimit, temperature.memory, power.draw [W], power.limit [W], "
        "enforced.power.limit [W], clocks.current.sm [MHz], clocks.current.memory [MHz], "
        "clocks_event_reasons.active, pstate",
        "1, GPU-a, NVIDIA L40S, 595.80, node-1, 9 %, 2 %, 46068 MiB, 609 MiB, 1235 MiB, 44225 MiB, 54, 34, "
        "N/A, 110.23 W, 400.00 W, 350.00 W, 2520 MHz, 9001 MHz, 0x0000000000000004, P0",
    )
    assert reading.gpus == [
        GpuSample(
            "GPU-a", "", 1, "node-1", "NVIDIA L40S", "595.80", utilization_ratio=0.09,
            memory_controller_ratio=0.02, memory_used_bytes=1235 * MIB, memory_free_bytes=44225 * MIB,
            memory_reserved_bytes=609 * MIB, memory_total_bytes=46068 * MIB, memory_used_ratio=1235 / 45460,
            temperature_celsius=54, power_watts=110.23, power_limit_watts=350,
            sm_clock_hertz=2_520_000_000, memory_clock_hertz=9_001_000_000, throttle_reasons=0x4,
        )
    ]  # fmt: skip
    assert (reading.lines, reading.rejected_lines, reading.notes) == (1, 0, ())
    assert reading.missing == ("memory_temperature_celsius",)
    assert dict(reading.found_names)["memory_used_bytes"] == "memory.used [MiB]"


@pytest.mark.parametrize(
    "lines",
    [
        ("uuid, memory.used [MiB], utilization.gpu [%]", "GPU-a, 1235 MiB, 9 %"),
        ("uuid, memory.used [MiB], utilization.gpu [%]", "GPU-a, 1235, 9"),  # nounits
        ("uuid,memory.used,utilization.gpu", "GPU-a,1235 MiB,9 %"),
        ("uuid,memory.used,utilization.gpu", "GPU-a,1235,9"),
        ('"uuid","memory.used [MiB]","utilization.gpu [%]"', '"GPU-a","1235 MiB","9 %"'),
        ("utilization.gpu [%], memory.used [KiB], uuid", "9, 1264640, GPU-a"),
        ("uuid, memory.used [MiB], utilization.gpu [%]\r", "GPU-a, 1235 MiB, 9 %\r"),
    ],
)
def test_units_stand_in_the_header_or_in_the_cell(lines: tuple[str, ...]) -> None:
    gpu = read(*lines).gpus[0]
    assert (gpu.gpu_uuid, gpu.memory_used_bytes, gpu.utilization_ratio) == ("GPU-a", 1235 * MIB, 0.09)


def test_powershell_writes_utf_16() -> None:
    text = "uuid, power.draw [W]\r\nGPU-a, 97.99 W\r\n"
    body = text.encode("utf-16")
    assert KIND.score(body, {}) > 0
    assert TargetReader(KIND).read(body).gpus[0].power_watts == 97.99


@pytest.mark.parametrize(
    "text",
    ["[N/A]", "N/A", "[Not Supported]", "[Insufficient Permissions]", "[n/a]", "", "[Not Found]",
     "[Requested functionality has been deprecated]"],
)  # fmt: skip
def test_what_stands_for_no_value_is_not_known(text: str) -> None:
    reading = read("uuid, power.draw [W], temperature.gpu", f"GPU-a, {text}, 40")
    assert (reading.gpus[0].power_watts, reading.gpus[0].temperature_celsius) == (None, 40)
    assert (reading.notes, reading.rejected_lines) == ((), 0)
    assert "power_watts" in reading.missing


@pytest.mark.parametrize("text", ["ERR!", "[Unknown Error]", "[GPU is lost]", "[GPU requires reset]"])
def test_what_says_that_the_gpu_is_ill_is_not_known_and_an_event(text: str) -> None:
    """nvidia_gpu_exporter #68, #393."""
    reading = read("uuid, power.draw [W], temperature.gpu", f"GPU-a, {text}, 40")
    assert reading.gpus[0].power_watts is None
    assert reading.notes == (f"GPU-a: nvidia-smi shows {text} in place of a value",)


def test_a_value_that_is_none_is_said() -> None:
    reading = read("uuid, memory.used [MiB], temperature.gpu", "GPU-a, 12 W, hot")
    assert (reading.gpus[0].memory_used_bytes, reading.gpus[0].temperature_celsius) == (None, None)
    assert reading.notes == (
        "memory.used of GPU-a: '12 W' has a unit that does not fit, it is not known",
        "temperature.gpu of GPU-a: 'hot' is no value, it is not known",
    )


def test_what_cannot_be_is_not_known_and_said() -> None:
    reading = read("uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB]", "GPU-a, 250, 900, 800")
    gpu = reading.gpus[0]
    assert (gpu.utilization_ratio, gpu.memory_used_bytes, gpu.memory_total_bytes) == (None, None, 800 * MIB)
    assert reading.notes == (
        "utilization_ratio: 2.5 of GPU-a cannot be (0 to 1), it is not known",
        "GPU-a: used memory is more than the card can give",
    )


def test_unified_memory_is_not_known_and_never_0() -> None:
    """GB10: gpu.md 2."""
    gpu = read("uuid, memory.used [MiB], memory.total [MiB]", "GPU-a, [N/A], [N/A]").gpus[0]
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.memory_used_ratio) == (None, None, None)


def test_the_mask_is_made_of_flags_and_of_the_older_names_too() -> None:
    header = "uuid, clocks_throttle_reasons.gpu_idle, clocks_throttle_reasons.hw_thermal_slowdown"
    assert read(header, "GPU-a, Not Active, Active").gpus[0].throttle_reasons == 0x40
    assert read(header, "GPU-a, Not Active, Not Active").gpus[0].throttle_reasons == 0
    assert read(header, "GPU-a, [N/A], [N/A]").gpus[0].throttle_reasons is None
    assert read("uuid, clocks_throttle_reasons.active", "GPU-a, 0x1").gpus[0].throttle_reasons == 1


def test_the_first_power_with_a_value_counts() -> None:
    header = "uuid, power.draw.instant [W], power.draw [W], power.draw.average [W]"
    assert read(header, "GPU-a, 9.00 W, [N/A], 8.00 W").gpus[0].power_watts == 8


@pytest.mark.parametrize(
    ("header", "row", "uuid"),
    [
        ("index, temperature.gpu", "3, 40", "#gpu3"),
        ("pci.bus_id, temperature.gpu", "00000000:01:00.0, 40", "#00000000:01:00.0"),
        ("temperature.gpu", "40", "#gpu0"),
        ("uuid, index, temperature.gpu", "[GPU is lost], 3, [GPU is lost]", "#gpu3"),
    ],
)
def test_without_a_uuid_a_gpu_is_its_index_its_bus_or_its_row(header: str, row: str, uuid: str) -> None:
    assert [gpu.gpu_uuid for gpu in read(header, row).gpus] == [uuid]


def test_words_between_rows_cost_their_line_alone() -> None:
    """prometheus-slurm-exporter #34: the parser died on them."""
    lost = "Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system"
    reading = read("uuid, temperature.gpu", "GPU-a, 40", lost, "GPU-b, 41")
    assert [gpu.temperature_celsius for gpu in reading.gpus] == [40, 41]
    assert (reading.rejected_lines, reading.notes) == (1, (f"nvidia-smi says: {lost}",))


@pytest.mark.parametrize(
    "said",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "No devices were found",
    ],
)
def test_the_reason_why_there_is_no_table_is_told(said: str) -> None:
    assert [kind.name for kind in detect_all(said.encode())] == ["nvidia_smi_csv"]
    reading = read(said)
    assert (reading.gpus, reading.rejected_lines) == ([], 1)
    assert f"nvidia-smi says: {said}" in reading.notes


def test_without_a_header_the_cure_is_told() -> None:
    reading = read("0, GPU-a, 9 %, 1235 MiB")
    assert reading.gpus == []
    assert "without noheader" in reading.notes[0]


def test_of_a_gpu_that_stands_twice_the_last_row_counts() -> None:
    reading = read("uuid, temperature.gpu", "GPU-a, 40", "GPU-b, 50", "GPU-a, 41", "GPU-b, 51")
    assert [(gpu.gpu_uuid, gpu.temperature_celsius) for gpu in reading.gpus] == [("GPU-a", 41), ("GPU-b", 51)]
    assert reading.notes == ("GPUs stand several times: of each the last row counts",)


def test_processes_are_those_of_the_last_table_of_them() -> None:
    header = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
    reading = read(
        header, "GPU-a, 7, gone, 1 MiB", "", header, "GPU-a, 8, /opt/a, b/run, 538 MiB",
        "GPU-a, 9, [Insufficient Permissions], [N/A]", "GPU-a, ?, x, 1 MiB",
    )  # fmt: skip
    assert reading.processes == (
        GpuProcess("GPU-a", "", 8, "/opt/a, b/run", 538 * MIB, "compute"),
        GpuProcess("GPU-a", "", 9, None, None, "compute"),
    )
    assert (reading.rejected_lines, reading.says_something) == (1, True)


def test_other_csv_and_expositions_are_not_taken_for_it() -> None:
    assert KIND.score(b"BilledCost,ChargePeriodStart,Tags\n1,2026-10-01,{}\n", {}) == 0
    assert KIND.score(b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 91\n', {}) == 0
    assert KIND.score(b"index, name, uuid_of_something\n", {}) == 0


_CELLS = st.sampled_from(
    ["GPU-a", "1235 MiB", "9 %", "[N/A]", "ERR!", "0x4", "Active", "-1", "1e999 W", "", "\x00", '"', "٣ MiB"]
) | st.text(max_size=12)
_FIELDS = sorted({field for _, fields in COLUMNS.values() for field in fields})
_HEADERS = st.sampled_from([*_FIELDS, "uuid", "pid", "used_gpu_memory [MiB]", "index", "process_name"])
_LINES = (
    st.lists(_CELLS, max_size=6).map(", ".join)
    | st.lists(_HEADERS, min_size=1, max_size=6).map(", ".join)
    | st.text(max_size=40)
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_LINES, max_size=12).map("\n".join))
def test_whatever_stands_there_a_reading_comes_of_it(text: str) -> None:
    reading = read(text)
    assert reading.rejected_lines <= reading.lines + text.count("\n") + 1
    for gpu in reading.gpus:
        assert gpu.memory_used_ratio is None or 0 <= gpu.memory_used_ratio <= 1
        assert gpu.power_watts is None or 0 <= gpu.power_watts <= 10_000


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_whatever_bytes_there_are_a_reading_comes_of_them(body: bytes) -> None:
    KIND.score(body, {})
    TargetReader(KIND).read(body)
    TargetReader(KIND).read(b"uuid, temperature.gpu\n" + body)


@needs_shared
def test_l40s_under_load() -> None:
    """The capture holds an idle and a load section: the load is the later one."""
    reading = TargetReader(KIND).read(fixture("gpu/nvidia_smi_csv_capture_l40s_595.txt"))
    (gpu,) = reading.gpus
    assert (gpu.gpu_uuid, gpu.gpu_index, gpu.gpu_model, gpu.host) == (UUID, 0, "NVIDIA L40S", None)
    assert (gpu.memory_total_bytes, gpu.memory_reserved_bytes) == (46068 * MIB, 609 * MIB)
    assert (gpu.memory_used_bytes, gpu.memory_free_bytes) == (1235 * MIB, 44225 * MIB)
    assert (gpu.utilization_ratio, gpu.memory_controller_ratio) == (0.09, 0.02)
    assert (gpu.temperature_celsius, gpu.memory_temperature_celsius) == (54, None)
    assert (gpu.power_watts, gpu.power_limit_watts, gpu.throttle_reasons) == (110.23, 350, 0)
    assert (gpu.sm_clock_hertz, gpu.memory_clock_hertz) == (2_520_000_000, 9_001_000_000)
    assert [(one.pid, one.name, one.memory_used_bytes) for one in reading.processes] == [
        (20037, "ffmpeg", 538 * MIB), (20038, "ffmpeg", 681 * MIB),
    ]  # fmt: skip
    assert reading.rejected_lines == 0


@needs_shared
def test_l40s_idle() -> None:
    text = (SHARED / "fixtures/gpu/nvidia_smi_csv_capture_l40s_595.txt").read_text()
    (gpu,) = read(text.partition("# load ::")[0]).gpus
    assert (gpu.memory_used_bytes, gpu.memory_free_bytes, gpu.memory_used_ratio) == (0, 45460 * MIB, 0)
    assert (gpu.utilization_ratio, gpu.power_watts, gpu.temperature_celsius) == (1.0, 144.97, 63)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# gpu    pwr  gtemp\n# Idx      W      C\n    0    120     40\n", "nvidia-smi dmon or pmon"),
        ("#gpu, pwr, gtemp\n#Idx, W, C\n0, 120, 40\n", "nvidia-smi dmon or pmon"),
        ("Mon Nov 30 22:00:00 2026\n+---+\n| NVIDIA-SMI 550.90.07   Driver |\n", "without options"),
        ("\n==============NVSMI LOG==============\n\nTimestamp    : Mon\n", "the output of nvidia-smi -q"),
        ("GPU 0: NVIDIA H100 (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444444)\n", "nvidia-smi -L"),
        ("0, GPU-aaaaaaaa-1111-2222-3333-444444444444, 97 %\n", "a table without its header"),
        ("GPU-aaaaaaaa-1111-2222-3333-444444444444, 97 %\n", "a table without its header"),
    ],
)
def test_another_output_of_nvidia_smi_is_told_from_a_riddle(text: str, words: str) -> None:
    assert detect(text.encode()) is KIND
    (note,) = read(text).notes
    assert words in note
    assert note.endswith(
        "run nvidia-smi --query-gpu=… with --format=csv and without noheader, or nvidia-smi -q -x"
    )


def test_trouble_that_stands_outside_of_the_table_is_passed_on() -> None:
    lost = "Unable to determine the device handle for GPU 0000:0A:00.0: GPU is lost."
    reading = read(f"{lost}\nindex, uuid, memory.used [MiB]\n0, GPU-a, 7 MiB\n")
    assert [gpu.gpu_uuid for gpu in reading.gpus] == ["GPU-a"]
    assert reading.notes[0] == f"nvidia-smi says: {lost}"


def test_a_process_of_a_pci_address_is_of_the_gpu_at_that_address() -> None:
    processes = "gpu_bus_id, pid, used_gpu_memory [MiB]\n00000000:0A:00.0, 1234, 70 MiB\n"
    gpus = "uuid, pci.bus_id, memory.used [MiB]\nGPU-a, 00000000:0A:00.0, 71 MiB\n"
    assert [process.gpu_uuid for process in read(processes + "\n" + gpus).processes] == ["GPU-a"]
    # Alone, the address stands for a GPU of this target, as an index does.
    assert [process.gpu_uuid for process in read(processes).processes] == ["#00000000:0A:00.0"]
