"""Which memory figures hold. MiB figures of real cards: gpu.md 2."""

from __future__ import annotations

from collectors.gpu.memory import MIB, memory


def test_the_used_ratio_is_dcgms_own_definition_either_way() -> None:
    """T4: 5120 used, 9791 free, 447 reserved: 5120 ÷ (15358 − 447) = 34.3 %."""
    full = memory(5120, 9791, 447, 15358, None)
    assert full.used_ratio == 5120 / (15358 - 447)
    assert memory(5120, None, 447, 15358, None).used_ratio == full.used_ratio
    assert memory(5120, 9791, None, None, None).used_ratio == full.used_ratio


def test_the_total_is_what_is_given_or_the_three_parts() -> None:
    assert memory(0, 45459, 608, None, None).total == 46067
    assert memory(0, 45459, 608, 46068, None).total == 46068
    assert memory(0, 45459, None, None, None).total is None


def test_where_nothing_is_reserved_the_rest_is_free() -> None:
    """NVML v1, rocm-smi: used + free = total."""
    found = memory(6750208, None, None, 34342961152, None, nothing_reserved=True)
    assert (found.free, found.used_ratio) == (34336210944, 6750208 / 34342961152)


def test_a_card_that_is_empty_and_full_tells_nothing() -> None:
    assert memory(0, 0, 0, 0, 0.0) == (None, None, None, None, None, None)


def test_reserved_as_large_as_the_total_is_a_fault() -> None:
    found = memory(10, 20, 16384, 16384, None)
    assert (found.used, found.used_ratio, found.reserved) == (None, None, None)
    assert found.fault == "reserved memory is not less than the total"


def test_more_used_than_there_is_is_a_fault_and_rounding_is_none() -> None:
    assert memory(17000 * MIB, None, 470 * MIB, 16384 * MIB, None).fault is not None
    assert memory(15916 * MIB, None, 470 * MIB, 16384 * MIB, None).fault is None  # 2 MiB over: whole MiB


def test_a_ratio_given_is_used_only_where_none_can_be_worked_out_and_only_within_0_to_1() -> None:
    assert memory(None, None, None, None, 0.4).used_ratio == 0.4
    assert memory(1, 3, None, None, 0.4).used_ratio == 0.25
    assert memory(None, None, None, None, 34.3).used_ratio is None


def test_used_of_single_processes_is_replaced_by_the_difference() -> None:
    assert memory(None, 14000 * MIB, 470 * MIB, 23034 * MIB, None, used_is_shared=True).used == 8564 * MIB
    assert (
        memory(3000 * MIB, 14000 * MIB, 470 * MIB, 23034 * MIB, None, used_is_shared=True).used == 8564 * MIB
    )
    # The device's own value, short by the rounding of four whole MiB, stays as it is.
    assert (
        memory(8562 * MIB, 14000 * MIB, 470 * MIB, 23034 * MIB, None, used_is_shared=True).used == 8562 * MIB
    )
    assert memory(None, 14000 * MIB, None, 23034 * MIB, None, used_is_shared=True).used is None
