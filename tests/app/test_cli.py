"""The command as a person runs it, where something is in the way: one line that says what, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from collectors import recording
from collectors.fetch import Fetched
from collectors.target import Target
from tests.collectors.exposition_samples import dcgm
from tests.shared import REPOSITORY

NODE = Target(name="node-1", kind="dcgm", url="http://node-1:9400/metrics")
COMMAND = f"{sys.executable} -m app.cli"


def shell(folder: Path, script: str) -> tuple[int, str, str]:
    """bash: return code, what came on stdout, what on stderr. `infermeter` is the command."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script.replace("infermeter", COMMAND)],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `vram.gz` (70 of 80 GiB for ten minutes), `gpu.prom` and `c.yaml`."""
    folder = tmp_path_factory.mktemp("cli")
    body = dcgm(used_mib=70 * 1024, free_mib=10 * 1024)
    (folder / "gpu.prom").write_bytes(body)
    (folder / "c.yaml").write_text("targets: [{name: gone, url: 'http://127.0.0.1:9/metrics'}]\n")
    with recording.writer(folder / "vram.gz") as write:
        for i in range(60):
            write(recording.line(1_796_000_000 + 10 * i, NODE, Fetched(200, body, 0.01, None)))
    return folder


def test_a_reader_that_leaves_ends_a_command_silently(folder: Path) -> None:
    assert shell(folder, "infermeter replay vram.gz --json | head -n 1 | wc -l") == (0, "1\n", "")
    assert shell(folder, "infermeter read gpu.prom | true; infermeter check-config c.yaml | true") == (
        0,
        "",
        "",
    )


def test_an_output_that_is_full_is_said_and_not_blamed_on_the_input(folder: Path) -> None:
    full = (1, "", "the output cannot be written: No space left on device\n")
    for command in (
        "read gpu.prom",
        "read gpu.prom --json",
        "replay vram.gz",
        "check-config c.yaml",
        "version",
    ):
        assert shell(folder, f"infermeter {command} >/dev/full") == full, command
    code, _, said = shell(folder, "infermeter --help >/dev/full")
    assert (code, said) == (1, "infermeter cannot go on: No space left on device\n")


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("nowhere/x.gz", "nowhere/x.gz cannot be written: No such file or directory"),
        (".", ". cannot be written: Is a directory"),
        ("vram.gz", "vram.gz exists; give another name, or --force to write over it"),
        ("/dev/full", "/dev/full cannot be written: No space left on device"),
    ],
)
def test_a_recording_that_cannot_be_written_is_one_line(folder: Path, out: str, says: str) -> None:
    before = (folder / "vram.gz").read_bytes()
    code, _, said = shell(folder, f"infermeter record {out} -c c.yaml --for 1s")
    assert (code, said.splitlines()[-1]) == (1, says)
    assert (folder / "vram.gz").read_bytes() == before


def test_record_writes_over_a_file_when_told_so(folder: Path) -> None:
    (folder / "old.jsonl").write_text("x" * 10_000)
    code, _, said = shell(folder, "infermeter record old.jsonl -c c.yaml --for 1s --force")
    assert (code, said.splitlines()[-1]) == (0, "1 answers in old.jsonl")
    assert [answer.name for answer in recording.read(folder / "old.jsonl")] == ["gone"]


def test_a_recording_is_not_lost_with_the_terminal_it_tells(folder: Path) -> None:
    script = "infermeter record told.jsonl -c c.yaml --for 1s 2>&1 | true"
    assert shell(folder, script) == (0, "", "")
    assert len(list(recording.read(folder / "told.jsonl"))) == 1


def test_the_version_of_a_checkout_that_is_not_installed_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("app.cli.package_version", none)
    done = CliRunner().invoke(app, ["version"])
    assert done.exit_code == 0
    assert done.stdout.startswith("infermeter unknown (not installed) (Python 3.")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--port 99999", "--port"),
        ("--port -1", "--port"),
        ("--host 'nonsense host'", "neither an IP address nor a host name"),
        (f"--host {'a' * 70}", "neither an IP address nor a host name"),
    ],
)
def test_an_address_that_cannot_be_is_refused_before_anything_starts(
    folder: Path, options: str, says: str
) -> None:
    for command in ("serve", "demo"):
        code, _, said = shell(folder, f"infermeter {command} {options}")
        assert code == 2
        assert says in " ".join(said.replace("│", " ").split())


def test_what_stdout_cannot_show_is_written_as_an_escape(folder: Path) -> None:
    # Half a pair of UTF-16, as JSON may hold it, and a console that is no UTF-8's.
    (folder / "ollama.json").write_text(
        '{"models": [{"name": "a\\ud800b", "model": "a\\ud800b", "size": 100, "size_vram": 50}]}'
    )
    code, out, _ = shell(folder, "infermeter read ollama.json")
    assert (code, "ollama" in out) == (0, True)
    code, out, _ = shell(folder, "infermeter read ollama.json --json")
    assert (code, json.loads(out)["engine"]) == (0, "ollama")
    code, out, _ = shell(folder, "PYTHONIOENCODING=ascii infermeter read gpu.prom")
    assert (code, "70" in out) == (0, True)
    code, out, _ = shell(folder, "infermeter read - --json < gpu.prom")
    assert (code, json.loads(out)["gpus"][0]["memory_used_bytes"]) == (0, 70 * 2**30)
