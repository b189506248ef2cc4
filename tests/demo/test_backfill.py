from __future__ import annotations

import gzip
import json
from pathlib import Path

from app.demo.backfill import recording, write_recording
from app.demo.fleet import Fleet
from collectors.recording import read

START = 1_796_000_000.0


def made() -> Fleet:
    fleet = Fleet(1, START)
    fleet.add_fault("exporter_down@node-1:10+10")
    fleet.add_fault("exporter_hang@node-2:10+10")
    fleet.add_fault("engine_restart@qwen-7b:10+10")
    return fleet


def test_one_line_per_target_and_step_with_what_it_would_have_answered() -> None:
    lines = list(recording(made(), START, START + 30, 10))
    assert len(lines) == 4 * len(made().targets())
    assert [line["t"] for line in lines[:: len(made().targets())]] == [
        START,
        START + 10,
        START + 20,
        START + 30,
    ]
    by_name = {line["target"]["name"]: line for line in lines if line["t"] == START + 10}
    assert set(by_name["node-3"]) == {"t", "target", "status", "body"}
    assert by_name["node-3"]["target"] == {"name": "node-3", "kind": "dcgm", "labels": {"node": "node-3"}}
    assert by_name["node-3"]["body"].encode() == made().render("node-3", START + 10).body
    assert by_name["node-1"]["status"] == 500
    assert (by_name["node-2"]["status"], by_name["node-2"]["error"]) == (None, "no answer in time")
    assert (by_name["qwen-7b"]["status"], by_name["qwen-7b"]["error"]) == (None, "the connection was closed")


def test_a_fleet_goes_on_where_its_recording_ended() -> None:
    fleet = made()
    for _ in recording(fleet, START, START + 60, 10):
        pass
    assert fleet.clock == START + 60
    assert fleet.render("node-1", START + 70).body == made().render("node-1", START + 70).body


def test_the_file_is_read_as_a_recording(tmp_path: Path) -> None:
    file = tmp_path / "demo.jsonl.gz"
    count = write_recording(file, recording(made(), START, START + 20, 10))
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    assert len(lines) == count == 3 * len(made().targets())
    answers = list(read(file))
    assert len(answers) == count
    failed = {(answer.name, answer.fetched.error) for answer in answers if answer.fetched.error}
    assert failed == {
        ("node-1", "HTTP 500"),
        ("node-2", "no answer in time"),
        ("qwen-7b", "the connection was closed"),
    }
