from __future__ import annotations

from random import Random

import pytest

from app.demo.gpu import A100, AMBIENT_CELSIUS, H100, L40S, Gpu, MigInstance


def gpu(card: object = H100) -> Gpu:
    return Gpu("node-x", 0, card, Random(1), [])  # type: ignore[arg-type]


def run(one: Gpu, seconds: int, busy: float, compute: float) -> None:
    rng = Random(2)
    for _ in range(seconds):
        one.clear()
        one.add_load(busy, compute)
        one.advance(1.0, rng)


@pytest.mark.parametrize(
    ("card", "total_mib", "reserved_mib"),
    # Board size and driver reserve as real cards report them.
    [(H100, 81_559, 479), (A100, 81_920, 869), (L40S, 46_067, 608)],
)
def test_used_free_and_reserved_make_the_total(card: object, total_mib: int, reserved_mib: int) -> None:
    one = gpu(card)
    for held in (0, 1000, 40_000, 10**6):
        one.held_mib = held
        assert one.used_mib + one.free_mib + one.reserved_mib == one.total_mib == total_mib
        assert one.reserved_mib == reserved_mib
        assert one.free_mib >= 0


def test_an_idle_card_shows_idle_values() -> None:
    one = gpu()
    run(one, 300, 0.0, 0.0)
    assert one.power_watts == pytest.approx(69.9, rel=0.02)
    assert (one.sm_mhz, one.utilization_percent, one.reasons) == (345, 0, 1)


def test_a_loaded_but_quiet_card_keeps_its_clocks_up() -> None:
    one = gpu()
    one.held_mib = 70_000
    run(one, 300, 0.0, 0.0)
    assert one.sm_mhz == 1980
    assert 60 < one.power_watts < 125


def test_energy_is_the_integral_of_power() -> None:
    one = gpu()
    one.held_mib = 70_000
    run(one, 100, 0.9, 0.4)
    before, powers = one.energy_joules, []
    for _ in range(200):
        run(one, 1, 0.9, 0.4)
        powers.append(one.power_watts)
    assert one.energy_joules - before == pytest.approx(sum(powers), rel=0.01)
    assert max(powers) <= 700


def test_temperature_follows_power_with_a_lag() -> None:
    one = gpu()
    one.held_mib = 70_000
    cold = one.temperature
    run(one, 5, 1.0, 0.9)
    soon = one.temperature
    run(one, 600, 1.0, 0.9)
    hot = one.temperature
    assert cold < soon < hot
    assert soon - cold < (hot - cold) / 4
    assert AMBIENT_CELSIUS < hot < 85


def test_decoding_is_memory_bound_and_prompts_are_compute_bound() -> None:
    decoding, prompts = gpu(), gpu()
    run(decoding, 5, 1.0, 0.0)
    run(prompts, 5, 1.0, 1.0)
    assert decoding.dram_active > 0.5 > prompts.dram_active
    assert prompts.tensor_active > 0.5 > decoding.tensor_active


def test_throttling_lowers_clocks_and_says_why() -> None:
    one = gpu()
    one.held_mib = 70_000
    run(one, 100, 1.0, 0.5)
    rng = Random(3)
    one.throttled = True
    for _ in range(200):
        one.clear()
        one.add_load(1.0, 0.5)
        one.advance(1.0, rng)
    assert one.sm_mhz < 0.7 * 1980
    assert one.reasons & 0x40
    assert one.reasons & 0x8
    assert one.temperature > 80


def test_a_card_works_as_much_as_its_instances_by_their_slices() -> None:
    half = MigInstance(1, "3g.40gb", 3, 40_192)
    one = Gpu("node-x", 0, A100, Random(1), [half, MigInstance(2, "4g.40gb", 4, 40_192)])
    half.add_load(0.7, 0.0)
    one.advance(1.0, Random(2))
    assert one.busy == pytest.approx(0.7 * 3 / 7)
    assert half.graphics_active == pytest.approx(0.7, rel=0.02)
