"""rocm-smi --json. Figures of fixtures are those in their text; others are by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.gpu.rocm_smi import COLUMNS, KIND
from collectors.reading import Reading
from collectors.source import TargetReader
from tests.shared import fixture, needs_shared


def read(document: Any) -> Reading:
    return TargetReader(KIND).read(json.dumps(document).encode())


def card(**values: str) -> Any:
    return {"card0": {"Unique ID": "0xa", **values}}


def test_clocks_stand_in_brackets_under_several_keys() -> None:
    speed, level = "(300Mhz)", "0 (300Mhz)"
    for key, text in (("speed:", speed), ("speed", speed), ("level", level)):
        assert read(card(**{f"sclk clock {key}": text})).gpus[0].sm_clock_hertz == 300_000_000


def test_the_first_power_with_a_value_counts() -> None:
    shown = {
        "Average Graphics Package Power (W)": "N/A",
        "Current Socket Graphics Package Power (W)": "151.0",
    }
    assert read(card(**shown)).gpus[0].power_watts == 151


def test_energy_is_in_joules_and_0_is_not_known() -> None:
    assert read(card(**{"Accumulated Energy (uJ)": "2500000.0"})).gpus[0].energy_joules_total == 2.5
    assert read(card(**{"Accumulated Energy (uJ)": "0"})).gpus[0].energy_joules_total is None


def test_how_busy_memory_is_and_how_full_are_two_things() -> None:
    shown = {"GPU Memory Read/Write Activity (%)": "40", "GPU Memory Allocated (VRAM%)": "12"}
    gpu = read(card(**shown, **{"GPU memory use (%)": "99"})).gpus[0]
    assert (gpu.memory_controller_ratio, gpu.memory_used_ratio) == (0.4, 0.12)


def test_warnings_before_the_json_and_words_behind_it_are_passed_over() -> None:
    body = (
        b"WARNING: AMD GPU device(s) is/are in a low-power state\n\n"
        + json.dumps(card(**{"GPU use (%)": "7"})).encode()
    )
    assert KIND.score(body, {}) > 0
    assert TargetReader(KIND).read(body + b"\n\nEnd of ROCm SMI Log\n").gpus[0].utilization_ratio == 0.07


def test_a_warning_may_hold_braces() -> None:
    body = b"ERROR: {unknown} GPU[1]\t: {not supported}\n" + json.dumps(card(**{"GPU use (%)": "7"})).encode()
    assert TargetReader(KIND).read(body).gpus[0].utilization_ratio == 0.07


def test_partitions_that_share_a_unique_id_are_cards_of_their_own() -> None:
    shown = {f"card{number}": {"Unique ID": "0xa", "GPU use (%)": f"{number}"} for number in range(8)}
    reading = read({**shown, "card8": {"Unique ID": "0xb", "GPU use (%)": "8"}})
    names = [f"#gpu{number}" for number in range(8)] + ["0xb"]
    assert [(one.gpu_uuid, one.gpu_index) for one in reading.gpus] == list(zip(names, range(9), strict=True))
    assert [one.utilization_ratio for one in reading.gpus] == [number / 100 for number in range(9)]
    assert reading.notes == ("0xa is shown for 8 cards (partitions?): they are told apart by number",)


def test_a_value_that_is_none_is_said_and_n_a_is_not() -> None:
    reading = read(card(**{"GPU use (%)": "busy", "Temperature (Sensor memory) (C)": "N/A"}))
    assert reading.gpus[0].utilization_ratio is None
    assert reading.notes == ("GPU use (%) of 0xa: 'busy' is no value, it is not known",)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"card0": {"GPU use (%)": "7"', "cut short"),
        (b'{"other": 1}', "shows no card"),
        (b"[1]", "shows no card"),
        (b'{"card0": ' * 20_000, "cannot be read"),
        (b"\xff\xfe", "shows no card"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_in_words(body: bytes, why: str) -> None:
    reading = TargetReader(KIND).read(body)
    assert (reading.gpus, reading.rejected_lines) == ([], 1)
    assert why in reading.notes[0]


def test_a_card_that_is_no_object_is_one_of_the_cards_and_refused() -> None:
    reading = read({"card0": "no object", "card1": {"GPU use (%)": "7"}})
    assert (reading.lines, reading.rejected_lines, len(reading.gpus)) == (2, 1, 1)


def test_a_name_can_be_stored_whatever_it_holds() -> None:
    body = b'{"card0": {"Unique ID": "' + b"a" * 5000 + b'", "Card series": "MI\\ud800"}}'
    (gpu,) = TargetReader(KIND).read(body).gpus
    assert (gpu.gpu_uuid, gpu.gpu_model) == ("a" * 4096, "MI?")


def test_other_json_is_not_taken_for_it() -> None:
    assert KIND.score(b'{"models": []}', {}) == 0
    assert KIND.score(b'{"card0": 1}', {}) == 0


_KEYS = st.sampled_from(
    ["card0", "card1", "card", "system", *(key for _, keys in COLUMNS.values() for key in keys)]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["53.0", "N/A", "(300Mhz)", "-1", "1e400", "٣"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.binary(max_size=100))
def test_whatever_stands_there_a_reading_comes_of_it(document: Any, body: bytes) -> None:
    for gpu in read(document).gpus:
        assert gpu.power_watts is None or 0 <= gpu.power_watts <= 10_000
    KIND.score(body, {})
    TargetReader(KIND).read(body)


@needs_shared
def test_four_mi100() -> None:
    reading = TargetReader(KIND).read(fixture("gpu/rocm_smi_json_mi100_rocm602.txt"))
    assert [(gpu.gpu_uuid, gpu.gpu_index, gpu.power_watts) for gpu in reading.gpus] == [
        ("0x79ccd55167a2124a", 0, 36), ("0x4edfb117a17a07d", 1, 44), ("0xd4a9ec48d03d261d", 2, 43),
        ("0x1b9dd972253c3736", 3, 39),
    ]  # fmt: skip
    gpu = reading.gpus[0]
    assert (gpu.memory_total_bytes, gpu.memory_used_bytes) == (34342961152, 6750208)
    assert gpu.memory_free_bytes == 34342961152 - 6750208
    assert (gpu.temperature_celsius, gpu.memory_temperature_celsius) == (55, 53)  # junction; edge is 53
    assert (gpu.sm_clock_hertz, gpu.memory_clock_hertz) == (300_000_000, 1_200_000_000)
    assert (gpu.power_limit_watts, gpu.utilization_ratio, gpu.memory_controller_ratio) == (290, 0, None)
    assert (gpu.gpu_model, gpu.driver_version) == ("Arcturus GL-XL [Instinct MI100]", "6.3.6")


@needs_shared
def test_a_card_without_a_unique_id() -> None:
    reading = TargetReader(KIND).read(fixture("gpu/rocm_smi_json_rx6700xt_rocm612.txt"))
    (gpu,) = reading.gpus
    assert (gpu.gpu_uuid, gpu.gpu_index) == ("#gpu0", 0)
    assert gpu.memory_used_ratio == pytest.approx(1572745216 / 12868124672)
    assert (gpu.memory_controller_ratio, gpu.power_watts, gpu.sm_clock_hertz) == (0, 6, 0)
    assert any("no unique id" in note for note in reading.notes)
