"""GPUs of this machine from the driver to the store: `infermeter serve`, `record` and `replay`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from collectors.discovery import discover
from collectors.fetch import new_session
from collectors.ingest import Ingest
from collectors.recording import read as read_recording
from collectors.rounds import Rounds
from sql.store import Store
from tests.nvml_world import GIB, NVML, World, machine, needs_gcc

pytestmark = [pytest.mark.wide, needs_gcc]

START = datetime(2026, 11, 30, 12)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with machine(tmp_path) as world:
        world.gpu(0, compute=f"4194304:{9 * GIB}:")
        world.gpu(1)
        yield world


def test_rounds_store_gpus_processes_and_errors(world: World) -> None:
    store = Store.open()
    store_times = iter(START + timedelta(seconds=10 * number) for number in range(100))

    async def go() -> None:
        async with new_session() as session:
            rounds = Rounds(Ingest(store), session, lambda: next(store_times))
            rounds.ingest.sync_targets([NVML], START)
            try:
                await rounds.run([NVML], 10.0)
                world.set({"0.power": 100000, "1.error.nvmlDeviceGetHandleByIndex_v2": 15})
                await rounds.run([NVML], 10.0)
                world.set({"0.error.nvmlDeviceGetHandleByIndex_v2": 15})
                await rounds.run([NVML], 10.0)
            finally:
                await rounds.aclose()

    asyncio.run(go())
    scrapes = store.query("scrape_rows", target="nvml")
    assert scrapes["ok"].to_list() == [True, True, False]
    assert scrapes["http_status"].to_list() == [200, 200, None]
    assert scrapes["error"][2].startswith("NVML: GPU 0 has fallen off the bus")
    newest = store.query("api_gpus", since=START, project=None, environment=None, host=None)
    assert newest.select("gpu_uuid", "power_watts").rows() == [("GPU-0", 100.0), ("GPU-1", 310.5)]
    assert newest["ts"][0] > newest["ts"][1]
    processes = store.query("process_rows", target="nvml")
    assert set(processes.select("gpu_uuid", "pid", "memory_used_bytes", "kind").rows()) == {
        ("GPU-0", 4194304, 9 * GIB, "compute")
    }
    target = store.query("target_rows")
    assert target.select("target", "found_kind", "role", "url").rows() == [
        ("nvml", "nvml", "gpu", "nvml://localhost")
    ]
    assert json.loads(target["found_names"][0])["power_watts"] == "nvmlDeviceGetPowerUsage"


def test_a_recording_of_the_driver_replays_to_the_same_incident(world: World, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("targets: [{kind: nvml, interval: 200ms}]\n")
    out = tmp_path / "r.jsonl"
    world.gpu(1, memory__used=20 * GIB, memory__free=59 * GIB)
    ran = CliRunner().invoke(app, ["record", str(out), "--config", str(config), "--for", "2s"])
    assert ran.exit_code == 0, ran.output
    answers = list(read_recording(out))
    assert len(answers) >= 2
    assert {(answer.name, answer.kind, answer.fetched.error) for answer in answers} == {
        ("nvml", "nvml", None)
    }
    # The last answer again and again, as if it had gone on for ten minutes.
    entry = json.loads(out.read_text().splitlines()[-1])
    lines = [json.dumps({**entry, "t": entry["t"] + 10 * number}) + "\n" for number in range(60)]
    out.write_text("".join(lines))
    ran = CliRunner().invoke(app, ["replay", str(out), "--json"])
    assert ran.exit_code == 0, ran.output
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    firing = {event["subject"] for event in events if event["state"] == "firing"}
    assert firing == {"gpu:GPU-0"}  # 72 of 79 GiB; GPU-1 has 20


def test_discovery_finds_the_gpus_of_this_machine(world: World) -> None:
    found = asyncio.run(discover([]))
    assert [(target.name, target.kind, target.url) for target in found.found] == [
        ("nvml", "nvml", "nvml://localhost")
    ]
    assert found.notes[0] == "found nvml: 2 GPUs, read from NVIDIA's driver"
