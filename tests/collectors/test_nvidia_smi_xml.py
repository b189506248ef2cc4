"""nvidia-smi -q -x. Figures of fixtures are those in their text; others are by hand."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.gpu.nvidia_smi_xml import KIND, TAGS_CAP
from collectors.reading import GpuProcess, Reading
from collectors.source import TargetReader
from tests.shared import fixture, needs_shared

MIB = 1048576


def read(text: str) -> Reading:
    return TargetReader(KIND).read(text.encode())


def log(*gpus: str, attached: int | None = None) -> str:
    shown = "" if attached is None else f"<attached_gpus>{attached}</attached_gpus>"
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
        f"<nvidia_smi_log><driver_version>535.54.03</driver_version>{shown}{''.join(gpus)}</nvidia_smi_log>"
    )


def gpu(inside: str, uuid: str = "GPU-a") -> str:
    return f'<gpu id="00000000:01:00.0"><uuid>{uuid}</uuid>{inside}</gpu>'


def memory(total: int, reserved: int, used: int, free: int) -> str:
    return (
        f"<fb_memory_usage><total>{total} MiB</total><reserved>{reserved} MiB</reserved>"
        f"<used>{used} MiB</used><free>{free} MiB</free></fb_memory_usage>"
    )


def test_instances_stand_beside_their_card() -> None:
    instance = (
        "<mig_device><gpu_instance_id>{}</gpu_instance_id><compute_instance_id>{}</compute_instance_id>{}"
    )
    devices = "".join(
        instance.format(number, part, memory(19968, 0, used, 19967 - used)) + "</mig_device>"
        for number, part, used in ((3, 0, 12), (5, 0, 100), (5, 1, 100))
    )
    reading = read(log(gpu(f"<mig_devices>{devices}</mig_devices>" + memory(81920, 869, 50, 80999))))
    assert [(one.gpu_uuid, one.mig_instance, one.memory_used_bytes) for one in reading.gpus] == [
        ("GPU-a", "", 50 * MIB), ("GPU-a", "3", 12 * MIB), ("GPU-a", "5", 100 * MIB),
    ]  # fmt: skip


def test_processes_say_their_kind_and_their_instance() -> None:
    process = (
        "<process_info><gpu_instance_id>{}</gpu_instance_id><pid>{}</pid><type>{}</type>"
        "<process_name>{}</process_name><used_memory>{}</used_memory></process_info>"
    )
    shown = (
        process.format("N/A", 675, "G", "Xorg", "22 MiB")
        + process.format("3", 5762, "C", "python", "1005 MiB")
        + process.format("N/A", 8, "C+G", "[Insufficient Permissions]", "N/A")
        + process.format("N/A", "none", "C", "x", "1 MiB")
    )
    reading = read(log(gpu(f"<processes>{shown}</processes>")))
    assert reading.processes == (
        GpuProcess("GPU-a", "", 675, "Xorg", 22 * MIB, "graphics"),
        GpuProcess("GPU-a", "3", 5762, "python", 1005 * MIB, "compute"),
        GpuProcess("GPU-a", "", 8, None, None, "compute"),
    )
    assert (reading.rejected_lines, reading.lines) == (1, 5)


@pytest.mark.parametrize(
    ("element", "word"), [("clocks_event_reasons", "event"), ("clocks_throttle_reasons", "throttle")]
)
def test_reasons_become_the_mask(element: str, word: str) -> None:
    def flag(reason: str, text: str) -> str:
        name = f"clocks_{word}_reason_{reason}"
        return f"<{name}>{text}</{name}>"

    flags = (
        flag("gpu_idle", "Not Active")
        + flag("sw_power_cap", "Active")
        + flag("display_clocks_setting", "Active")
    )
    assert read(log(gpu(f"<{element}>{flags}</{element}>"))).gpus[0].throttle_reasons == 0x104
    unknown = flag("gpu_idle", "N/A")
    assert read(log(gpu(f"<{element}>{unknown}</{element}>"))).gpus[0].throttle_reasons is None


def test_power_stands_under_the_names_of_each_schema() -> None:
    v13 = (
        "<gpu_power_readings><average_power_draw>8.81 W</average_power_draw><instant_power_draw>8.44 W"
        "</instant_power_draw><current_power_limit>70.00 W</current_power_limit></gpu_power_readings>"
        "<module_power_readings><average_power_draw>400 W</average_power_draw></module_power_readings>"
    )
    old = (
        "<power_readings><power_draw>26.78 W</power_draw><power_limit>90.00 W</power_limit>"
        "<enforced_power_limit>70.00 W</enforced_power_limit></power_readings>"
    )
    for text, power in ((v13, 8.81), (old, 26.78)):
        found = read(log(gpu(text))).gpus[0]
        assert (found.power_watts, found.power_limit_watts) == (power, 70)


def test_the_index_is_known_when_all_gpus_are_there() -> None:
    both = [gpu("", "GPU-a"), gpu("", "GPU-b")]
    assert [one.gpu_index for one in read(log(*both, attached=2)).gpus] == [0, 1]
    assert [one.gpu_index for one in read(log(*both, attached=4)).gpus] == [None, None]
    lost = read(log(gpu("", "GPU is lost"), attached=1))
    assert [one.gpu_uuid for one in lost.gpus] == ["#gpu0"]
    assert lost.notes == ("#gpu0: nvidia-smi shows GPU is lost in place of a value",)


def test_an_ill_gpu_is_an_event_and_its_values_are_not_known() -> None:
    reading = read(
        log(gpu("<temperature><gpu_temp>ERR!</gpu_temp></temperature><fan_speed>ERR!</fan_speed>"))
    )
    assert reading.gpus[0].temperature_celsius is None
    assert reading.notes == ("GPU-a: nvidia-smi shows ERR! in place of a value",)


def test_what_is_shown_as_not_available_is_missing() -> None:
    reading = read(log(gpu("<utilization><gpu_util>N/A</gpu_util></utilization>")))
    assert "utilization_ratio" in reading.missing
    assert reading.found_names == ()


BILLION_LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>"
)
OUTSIDE = (
    '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    "<nvidia_smi_log><driver_version>&x;</driver_version></nvidia_smi_log>"
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BILLION_LAUGHS, "defines entities"),
        (OUTSIDE, "defines entities"),
        (log(gpu(memory(1, 1, 1, 1)))[:200], "cut short"),
        (log(gpu("&undefined;")), "cannot be read"),
        ("<other/>", "not of nvidia-smi"),
        ("<nvidia_smi_log>" + "<a/>" * TAGS_CAP + "</nvidia_smi_log>", "tags"),
        ("<nvidia_smi_log>" + "<a>" * 100_000, "cut short"),
        ("", "not of nvidia-smi"),
    ],
    ids=["billion laughs", "file", "cut", "entity", "other root", "many tags", "deep", "empty"],
)
def test_a_document_that_cannot_be_read_is_refused_in_words(text: str, why: str) -> None:
    reading = read(text)
    assert (reading.gpus, reading.rejected_lines) == ([], 1)
    assert why in reading.notes[0]


WARNING = "WARNING: infoROM is corrupted at gpu 0000:00:1E.0"
LOST = "Unable to determine the device handle for GPU 0000:0A:00.0: GPU is lost."


def test_what_stands_around_the_document_is_passed_on() -> None:
    reading = read(f"{LOST}\n{log(gpu(memory(100, 10, 30, 60)))}\n{WARNING}\n")
    assert [(one.gpu_uuid, one.memory_used_bytes) for one in reading.gpus] == [("GPU-a", 30 * MIB)]
    assert reading.notes == (f"nvidia-smi says: {LOST}", f"nvidia-smi says: {WARNING}")


def test_of_several_documents_the_last_whole_one_counts() -> None:
    first, second = (log(gpu(memory(100, 10, used, 90 - used))) for used in (30, 40))
    assert [one.memory_used_bytes for one in read(first + "\n" + second).gpus] == [40 * MIB]
    cut = first + "\n" + second + "\n" + first[:-40]
    assert [one.memory_used_bytes for one in read(cut).gpus] == [40 * MIB]


def test_a_gpu_that_is_cut_short_costs_no_other() -> None:
    whole = log(gpu(memory(100, 10, 30, 60), "GPU-a"), gpu(memory(100, 10, 40, 50), "GPU-b"), attached=2)
    reading = read(whole[: whole.rindex("</fb_memory_usage>")])
    assert [(one.gpu_uuid, one.gpu_index) for one in reading.gpus] == [("GPU-a", 0)]
    assert (reading.lines, reading.rejected_lines) == (2, 1)
    assert reading.notes[0] == "the XML is cut short: what is whole of it is read"


@pytest.mark.parametrize("tag", ["<gpu ", "<gpu>", "<process_name>", "<nvidia_smi_log>"])
def test_tags_that_never_end_cost_no_time(tag: str) -> None:
    began = time.process_time()
    read("<nvidia_smi_log><gpu>" + tag * 30_000)
    assert time.process_time() - began < 5  # 0.3 s; minutes if each looked for its end up to the last


@pytest.mark.parametrize("name", ["a & b <c>", "python &amp; co", "x\x01y"])
def test_a_process_may_call_itself_anything(name: str) -> None:
    process = f"<process_info><pid>7</pid><process_name>{name}</process_name></process_info>"
    reading = read(log(gpu(f"<processes>{process}</processes>")))
    assert [one.name for one in reading.processes] == [name.replace("&amp;", "&").replace("\x01", "\ufffd")]


def test_entities_are_refused_in_other_encodings_too() -> None:
    body = BILLION_LAUGHS.encode("utf-16")
    assert KIND.score(body, {}) > 0
    assert "defines entities" in TargetReader(KIND).read(body).notes[0]
    named = log(gpu("")).replace('version="1.0"', 'version="1.0" encoding="UTF-7"').encode()
    assert len(TargetReader(KIND).read(named).gpus) == 1  # what the document says of itself is not followed


_TAGS = st.sampled_from(
    ["gpu", "uuid", "fb_memory_usage", "used", "total", "free", "mig_devices", "mig_device",
     "gpu_instance_id", "processes", "process_info", "pid", "used_memory", "temperature", "gpu_temp"]
)  # fmt: skip
_TEXTS = st.sampled_from(["GPU-a", "12 MiB", "N/A", "ERR!", "-5", "1e400", "٣", "99999999999999999999"])
_NODES = st.recursive(
    _TEXTS,
    lambda inner: st.tuples(_TAGS, st.lists(inner, max_size=4)).map(
        lambda node: f"<{node[0]}>{''.join(node[1])}</{node[0]}>"
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(_NODES, max_size=5))
def test_whatever_nodes_there_are_a_reading_comes_of_them(nodes: list[str]) -> None:
    reading = read(log(*nodes))
    assert all(one.memory_used_ratio is None or 0 <= one.memory_used_ratio <= 1 for one in reading.gpus)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.text(max_size=100))
def test_whatever_bytes_there_are_a_reading_comes_of_them(body: bytes, text: str) -> None:
    KIND.score(body, {})
    TargetReader(KIND).read(body)
    TargetReader(KIND).read(b"<nvidia_smi_log>" + body + b"</nvidia_smi_log>")
    read(log(text))


@needs_shared
def test_a100_with_four_instances() -> None:
    reading = TargetReader(KIND).read(fixture("gpu/nvidia_smi_xml_v12_a100_sxm4.txt"))
    card, *instances = reading.gpus
    uuid = "GPU-513536b6-7d19-9063-b049-1e69664bb298"
    assert (card.gpu_uuid, card.mig_instance, card.gpu_index) == (uuid, "", None)  # 1 of 4 GPUs is shown
    assert (card.memory_total_bytes, card.memory_reserved_bytes) == (81920 * MIB, 869 * MIB)
    assert (card.memory_used_bytes, card.memory_free_bytes) == (50 * MIB, 80999 * MIB)
    assert (card.utilization_ratio, card.memory_controller_ratio) == (None, None)
    assert (card.temperature_celsius, card.memory_temperature_celsius) == (27, 44)
    assert (card.power_watts, card.power_limit_watts, card.throttle_reasons) == (67.03, 500, 0)
    assert (card.sm_clock_hertz, card.memory_clock_hertz) == (1_275_000_000, 1_593_000_000)
    assert [(one.gpu_uuid, one.mig_instance) for one in instances] == [(uuid, n) for n in "3456"]
    assert {
        (one.memory_total_bytes, one.memory_reserved_bytes, one.memory_used_bytes, one.memory_free_bytes)
        for one in instances
    } == {(19968 * MIB, 0, 12 * MIB, 19955 * MIB)}
    assert {one.gpu_model for one in reading.gpus} == {"NVIDIA A100-SXM4-80GB"}


@needs_shared
def test_v13() -> None:
    reading = TargetReader(KIND).read(fixture("gpu/nvidia_smi_xml_v13_rtx4000sff_ada.txt"))
    (card,) = reading.gpus
    assert (card.gpu_uuid, card.gpu_index) == ("GPU-37037c3f-65c8-ec4d-24a9-420204ad8026", 0)
    assert (card.memory_used_bytes, card.memory_reserved_bytes) == (3534 * MIB, 460 * MIB)
    assert (card.power_watts, card.power_limit_watts) == (8.81, 70)
    assert (card.utilization_ratio, card.memory_controller_ratio) == (0, 0.37)
    assert (card.throttle_reasons, card.temperature_celsius) == (0x1, 38)
    assert [(one.pid, one.kind, one.memory_used_bytes) for one in reading.processes] == [
        (1842, "graphics", 410 * MIB), (3190, "graphics", 451 * MIB),
        (4937, "compute", 160 * MIB), (34626, "compute", 183 * MIB),
    ]  # fmt: skip


@needs_shared
def test_old_schemas() -> None:
    t4 = TargetReader(KIND).read(fixture("gpu/nvidia_smi_xml_tesla_t4.txt"))
    (card,) = t4.gpus
    assert (card.memory_total_bytes, card.memory_reserved_bytes) == (15360 * MIB, 388 * MIB)
    assert (card.power_watts, card.power_limit_watts, card.throttle_reasons) == (26.78, 70, 0)
    assert [(one.pid, one.kind) for one in t4.processes] == [(675, "graphics"), (5762, "compute")]
    (card,) = TargetReader(KIND).read(fixture("gpu/nvidia_smi_xml_quadro_p400.txt")).gpus
    assert (card.memory_used_bytes, card.memory_free_bytes, card.memory_reserved_bytes) == (
        0,
        1998 * MIB,
        None,
    )
    assert (card.power_watts, card.throttle_reasons, card.driver_version) == (None, 0x1, "418.43")
