"""`infermeter record` on live targets, and its recording through `replay`."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collectors import recording
from tests.e2e.serving import ROOT, command, until
from tests.e2e.test_serve import Exporter, config, exporter  # noqa: F401 (the fixture)


def infermeter(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, timeout=90, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def test_what_targets_answer_is_recorded_and_replays_to_the_same_incident(
    tmp_path: Path,
    exporter: Exporter,  # noqa: F811
) -> None:
    exporter.memory = {"used_mib": 70_000, "free_mib": 10_000}
    path = config(tmp_path, exporter)
    done = infermeter(tmp_path, "record", "out.jsonl.gz", "--config", str(path), "--for", "4s")
    assert done.returncode == 0, done.stderr
    answers = list(recording.read(tmp_path / "out.jsonl.gz"))
    assert {answer.name for answer in answers} == {"node-1", "llm"}
    assert all(answer.fetched.error is None for answer in answers)
    assert 6 <= len(answers) <= 12, "two targets, one second apart, four seconds"
    assert f"{len(answers)} answers in out.jsonl.gz" in done.stderr
    path.write_text(
        path.read_text().replace("evaluate_interval: 1s", "evaluate_interval: 1s, vram_high: {for: 1s}")
    )
    replayed = infermeter(tmp_path, "replay", "out.jsonl.gz", "--config", str(path), "--json")
    assert replayed.returncode == 0, replayed.stderr
    states = [
        event["state"]
        for event in map(json.loads, replayed.stdout.splitlines())
        if event["kind"] == "incident"
    ]
    assert states == ["pending", "firing"]


@contextmanager
def recording_to(out: str, path: Path, exporter: Exporter) -> Iterator[subprocess.Popen[str]]:  # noqa: F811
    """A `record` that has some answers."""
    process = subprocess.Popen(
        command("record", out, "--config", str(path)), cwd=path.parent, text=True,
        stderr=subprocess.PIPE, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    try:
        until(lambda: exporter.scrapes > 5 or None, what="some scrapes")
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_recording_in_order(
    tmp_path: Path,
    exporter: Exporter,  # noqa: F811
    number: signal.Signals,
) -> None:
    path = config(tmp_path, exporter)
    with recording_to("out.jsonl.gz", path, exporter) as process:
        scrapes = exporter.scrapes
        process.send_signal(number)
        started = time.monotonic()
        _, said = process.communicate(timeout=20)
    assert time.monotonic() - started < 5
    assert process.returncode == 0
    assert "Traceback" not in said
    answers = list(recording.read(tmp_path / "out.jsonl.gz"))
    assert scrapes - 2 <= len(answers) <= exporter.scrapes, "all but what was in flight"
    assert said.splitlines()[-1] == f"{len(answers)} answers in out.jsonl.gz"


def test_kill_9_costs_a_recording_at_most_its_last_seconds(tmp_path: Path, exporter: Exporter) -> None:  # noqa: F811
    path = config(tmp_path, exporter)
    with recording_to("out.jsonl.gz", path, exporter) as process:
        process.kill()
        process.communicate(timeout=20)
    answers: list[recording.Answer] = []
    with pytest.raises(recording.RecordingError, match="the gzip stream is cut or broken"):
        answers.extend(recording.read(tmp_path / "out.jsonl.gz"))
    # Two targets, each once a second; flushed each second.
    assert len(answers) >= exporter.scrapes - 4 >= 2
    assert {answer.name for answer in answers} == {"node-1", "llm"}


def test_a_target_that_fails_is_said_once_and_recorded_as_failed(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "scrape: {interval: 500ms, timeout: 400ms}\ntargets: [{name: gone, url: 'http://127.0.0.1:9/metrics'}]\n"
    )
    done = infermeter(tmp_path, "record", "out.jsonl", "--config", str(path), "--for", "2s")
    assert done.returncode == 0
    assert done.stderr.count("gone: cannot connect: Connection refused") == 1
    assert {answer.fetched.error for answer in recording.read(tmp_path / "out.jsonl")} == {
        "cannot connect: Connection refused"
    }


def test_without_a_configuration_serve_says_what_it_found_and_what_it_did_not(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("serve", "--port", "0"), cwd=tmp_path, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "infermeter is at" in line:
                break
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    text = "".join(lines)
    assert text.startswith("no configuration: looking for exporters on this machine")
    assert "nothing listens on port" in text
    assert "NVML" in text
    assert "write their URLs into infermeter.yaml" in text
    assert "Traceback" not in text + rest
    assert process.returncode == 0
