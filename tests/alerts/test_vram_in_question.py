"""GPUs that are plainly well are left out of a judgement; nothing that comes of it may differ by that."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from alerts.findings import vram_high
from alerts.findings.vram_high import in_question
from alerts.gather import Remembered, vram_high_now
from alerts.judge import Event, judge
from sql.store import Store
from tests.alerts.facts import START, Round, add, add_target, at, gpu, rows, settings, vllm

QUICK = settings(vram_high={"for": "20s", "warm_up": "20s", "plateau": "60s", "reservation_valid": "60s"})
TABLES = ("judgement", "incident", "incident_change", "finding", "outbox", "vram_baseline")


def random_rounds(chance: random.Random) -> list[Round]:
    """A fleet that fills and empties, falls silent, is preallocated in part, and has MIG instances."""
    levels = {f"GPU-{number}": chance.choice((0.3, 0.6, 0.78, 0.85)) for number in range(12)}
    rounds = []
    for _ in range(30):
        samples = []
        for number, (uuid, level) in enumerate(levels.items()):
            if chance.random() < 0.15:
                levels[uuid] = chance.choice((0.3, 0.6, 0.74, 0.75, 0.78, 0.79999, 0.8, 0.9, 0.99))
            if chance.random() < 0.1:
                continue
            ratio = None if chance.random() < 0.07 else level
            own: dict[str, Any] = {"gpu_index": number, "host": "node-1", "target": f"dcgm-{1 + number % 2}"}
            samples.append(gpu(uuid, ratio, **own))
            if number in (3, 4):
                samples.append(gpu(uuid, chance.choice((0.5, 0.9)), **own | {"mig_instance": "7"}))
            if number == 5:  # a second exporter shows it too, at the same time
                samples.append(gpu(uuid, chance.choice((0.5, 0.9, None)), **own | {"target": "dcgm-3"}))
        engines = [vllm(f"vllm-{n}") for n in (1, 2) if chance.random() < 0.7]
        rounds.append((samples, engines))
    return rounds


def judged(rounds: list[Round], *, with_engines: bool) -> tuple[list[Event], dict[str, list[dict[str, Any]]]]:
    store = Store.open()
    for name, interval in (("dcgm-1", 10.0), ("dcgm-2", 15.0), ("dcgm-3", 10.0)):
        add_target(store, name, interval_seconds=interval)
    if with_engines:
        add_target(store, "vllm-1", "vllm", gpus=["node-1/1"])
        add_target(store, "vllm-2", "vllm", gpus=["GPU-4/7"])
    events = []
    for number, (samples, engines) in enumerate(rounds):
        # One pause is long enough that samples go stale before they fall out of sight.
        seconds = 10 * number + (60 if number > 20 else 0)
        add(store, seconds, samples, engines)
        for later in (0, 40) if number == 20 else (0,):
            events += judge(store, QUICK, at(seconds + later))
    return events, {table: sorted(rows(store, table), key=str) for table in TABLES}


@pytest.mark.parametrize("seed", range(6))
def test_leaving_them_out_changes_no_event_and_no_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = random_rounds(random.Random(seed))
    with_engines = seed % 3 > 0
    short = judged(rounds, with_engines=with_engines)
    monkeypatch.setattr(vram_high, "in_question", lambda samples, *_: samples)
    whole = judged(rounds, with_engines=with_engines)
    assert short == whole
    assert {event.state for event in short[0]} >= {"pending", "firing", "resolved", "inactive"}
    assert any(event.reason == "no_data" for event in short[0])
    assert with_engines == any(event.reason == "preallocated" for event in short[0])


def test_of_a_fleet_that_is_well_nothing_is_observed_and_of_a_full_gpu_it_alone_is() -> None:
    store = Store.open()
    add_target(store, "dcgm-1")
    add(store, 0, [gpu(f"GPU-{number}", 0.5) for number in range(9)] + [gpu("GPU-9", 0.8)])
    gathered = vram_high_now(store, settings(), at(1), Remembered())
    assert gathered is not None
    assert [o.subject for o in gathered.observations] == ["gpu:GPU-9"]


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, False),
        ({"memory_used_ratio": 0.79999}, False),
        ({"memory_used_ratio": 0.8}, True),
        ({"memory_used_ratio": None}, True),
        ({"ts": START - timedelta(seconds=30)}, False),
        ({"ts": START - timedelta(seconds=31)}, True),
        ({"gpu_uuid": "GPU-remembered"}, True),
        ({"gpu_uuid": "GPU-remembered", "mig_instance": "2"}, False),
        ({"gpu_uuid": "GPU-parted", "mig_instance": "1"}, True),
        ({"gpu_uuid": "GPU-parted", "mig_instance": ""}, False),
        ({"gpu_uuid": "GPU-reserved"}, True),
        ({"gpu_uuid": "GPU-reserved", "mig_instance": "5"}, True),
    ],
)
def test_what_is_in_question(change: dict[str, Any], kept: bool) -> None:
    well: dict[str, Any] = {"ts": START, "gpu_uuid": "GPU-1", "mig_instance": ""}
    well |= {"memory_used_ratio": 0.5, "interval_seconds": 10.0}
    samples = pl.DataFrame([well | change], schema_overrides={"memory_used_ratio": pl.Float64})
    reservations = pl.DataFrame({"gpu_uuid": ["GPU-reserved"]})
    remembered = {"gpu:GPU-remembered", "gpu:GPU-parted/1"}
    found = in_question(samples, reservations, remembered, settings().vram_high, START)
    assert found.height == kept
