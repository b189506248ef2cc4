"""A recording through the whole pipeline, by the command a person would use."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from collectors import recording
from collectors.fetch import Fetched
from collectors.target import Target
from tests.collectors.exposition_samples import dcgm, vllm

START = 1_796_000_000.0
NODE = Target(name="node-1", kind="dcgm", url="http://node-1:9400/metrics")
ENGINE = Target(name="llm", kind="vllm", url="http://node-1:8000/metrics")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def recorded(path: Path, answers: list[tuple[float, Target, bytes]]) -> Path:
    with recording.writer(path) as write:
        for seconds, target, body in answers:
            write(recording.line(START + seconds, target, Fetched(200, body, 0.01, None)))
    return path


def vram(levels: list[tuple[int, int]]) -> list[tuple[float, Target, bytes]]:
    """(GiB used of 80 usable, for how many 10 s scrapes) one after the other."""
    used = [gib for gib, scrapes in levels for _ in range(scrapes)]
    return [
        (10.0 * i, NODE, dcgm(used_mib=gib * 1024, free_mib=(80 - gib) * 1024)) for i, gib in enumerate(used)
    ]


def events(result: Any) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_85_percent_for_2_minutes_fires_and_70_percent_resolves_at_the_recordings_own_times(
    tmp_path: Path,
) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(40, 6), (68, 30), (62, 6), (56, 6)]))
    found = events(run("replay", str(path), "--json"))
    assert {"t", "kind", "name", "subject", "state", "reason", "evidence"} == set(found[0])
    incidents = [event for event in found if event["kind"] == "incident"]
    assert [event["state"] for event in incidents] == ["pending", "firing", "resolved"]
    assert {event["name"] for event in incidents} == {"vram_high"}
    assert {event["subject"] for event in incidents} == {"gpu:GPU-1"}
    pending, firing, resolved = (event["t"] - START for event in incidents)
    # 68 of 80 GiB from second 60 on; 56 of 80 (70 %) from second 420 on; judged every 10 s.
    assert 60 <= pending <= 80
    assert firing - pending == pytest.approx(120, abs=10)
    assert 420 <= resolved <= 440


def test_a_preallocating_engine_does_not_fire_where_the_configuration_says_which_gpu_it_has(
    tmp_path: Path,
) -> None:
    answers = vram([(72, 60)])
    answers += [(10.0 * i + 1, ENGINE, vllm(reservation="0.9")) for i in range(60)]
    path = recorded(tmp_path / "r.jsonl.gz", sorted(answers, key=lambda answer: answer[0]))
    config = tmp_path / "c.yaml"
    config.write_text("targets: [{name: llm, url: 'http://node-1:8000', gpus: [node-1/0]}]\n")
    with_config = events(run("replay", str(path), "--config", str(config), "--json"))
    assert [event for event in with_config if event["kind"] == "incident"] == []
    assert any("preallocated" in event["reason"] for event in with_config if event["kind"] == "finding")
    without = events(run("replay", str(path), "--json"))
    assert "firing" in [event["state"] for event in without if event["kind"] == "incident"]


def test_a_replay_tells_nobody(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(72, 30)]))
    config = tmp_path / "c.yaml"
    config.write_text("alerts: {channels: [{name: ops, kind: slack, webhook_url: 'http://127.0.0.1:9/x'}]}\n")
    store = tmp_path / "kept.duckdb"
    result = run("replay", str(path), "--config", str(config), "--store", str(store), "--json")
    assert "firing" in [event["state"] for event in events(result)]
    from sql.store import Store

    assert Store.open(store).query_rows("outbox_states") == []


def test_a_store_that_exists_is_not_written_over(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(40, 2)]))
    kept = tmp_path / "kept.duckdb"
    kept.write_text("precious")
    result = run("replay", str(path), "--store", str(kept))
    assert result.exit_code == 1
    assert "exists; a replay needs a new file" in result.stderr
    assert kept.read_text() == "precious"


def test_a_broken_recording_ends_with_its_line_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("not json\n")
    result = run("replay", str(path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{path} line 1: not a line of a recording" in result.stderr


def test_a_missing_recording_is_said_in_one_line(tmp_path: Path) -> None:
    result = run("replay", str(tmp_path / "none.gz"))
    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path}/none.gz cannot be read: No such file or directory\n"


def lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def test_answers_out_of_order_by_less_than_a_timeout_change_nothing(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(40, 6), (68, 30), (50, 30)]))
    expected = run("replay", str(path), "--json").stdout
    mixed = tmp_path / "mixed.jsonl"
    # Each three lines the other way round: at most 20 s behind.
    mixed.write_bytes(b"".join(b for i in range(0, 66, 3) for b in reversed(lines(path)[i : i + 3])))
    result = run("replay", str(mixed), "--json")
    assert (result.stdout, result.stderr) == (expected, "")
    assert expected


def test_answers_far_out_of_order_are_skipped_and_the_first_of_them_is_named(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(40, 6), (68, 30), (50, 30)]))
    expected = run("replay", str(path), "--json").stdout
    twice = tmp_path / "twice.jsonl"
    twice.write_bytes(b"".join([*lines(path), *lines(path)[:40]]))
    result = run("replay", str(twice), "--json")
    assert (result.exit_code, result.stdout) == (0, expected)
    # Line 67 is the first again: the last of 66 lines is 65 × 10 s after it.
    assert result.stderr == (
        f"{twice}: line 67 is 10m50s older than a line before it;"
        " 40 answers skipped: sort the recording by t\n"
    )


def test_the_same_answer_twice_is_no_fault(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(40, 6), (68, 30)]))
    doubled = tmp_path / "doubled.jsonl"
    doubled.write_bytes(b"".join(line + line for line in lines(path)))
    states = [[event["state"] for event in events(run("replay", str(p), "--json"))] for p in (path, doubled)]
    assert states[0] == states[1] == ["pending", "pending", "firing", "firing"]


def test_a_cut_recording_is_judged_up_to_where_it_is_cut_then_said_to_be(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(68, 30)]))
    expected = run("replay", str(path), "--json").stdout
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines(path)) + b'{"t": 1796')
    result = run("replay", str(cut), "--json")
    assert (result.exit_code, result.stdout) == (1, expected)
    assert result.stderr == f"{cut} line 31: the recording is cut off within this line\n"


@pytest.mark.parametrize("change", [{"t": 1e300}, {"t": float("nan")}, {"status": "abc"}, {"body": 1}])
def test_a_value_that_no_answer_has_ends_with_its_line(tmp_path: Path, change: dict[str, Any]) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(40, 1)]))
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps({**json.loads(lines(path)[0]), **change}) + "\n")
    result = run("replay", str(bad))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        f"{bad} line 1: not a line of a recording ('{next(iter(change))}' must be"
    )


def test_the_same_recording_gives_the_same_events(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.jsonl.gz", vram([(40, 6), (68, 30), (50, 6)]))
    first, second = (run("replay", str(path), "--json").stdout for _ in range(2))
    assert first == second
    assert first
