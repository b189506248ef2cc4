"""The Makefile, run by real make with a stand-in for Python that writes down what it was asked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.shared import REPOSITORY

STAND_IN = """#!/bin/sh
# Stands for python3 and, copied into the environment, for its python and its infermeter.
echo "$(basename "$0") $*" >> "$CALLS"
case "$1 $2" in
  "-c "*) exit "${TOO_OLD:-0}" ;;
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && cp "$0" "$4/bin/infermeter" ;;
  "-m pip") exit "${PIP_EXIT:-0}" ;;
esac
"""


class Checkout:
    """A folder with what `make` needs, and a PATH on which the only Python is the stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a checkout"
        self.folder.mkdir()
        for name in ("Makefile", "requirements.lock", "requirements-dev.lock", "pyproject.toml"):
            shutil.copy(REPOSITORY / name, self.folder)
        self.tools = folder / "tools"
        self.tools.mkdir()
        for tool in ("sh", "touch", "mkdir", "cp", "basename", "rm", "find", "awk"):
            (self.tools / tool).symlink_to(shutil.which(tool) or tool)
        self.calls_file = folder / "calls"

    def add_python(self, name: str) -> None:
        (self.tools / name).write_text(STAND_IN)
        (self.tools / name).chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run make; `calls` then holds what this run asked of Python, without the looks at its version."""
        self.calls_file.write_text("")
        clean = {"PATH": str(self.tools), "CALLS": str(self.calls_file), **environment}
        make = shutil.which("make") or "make"
        return subprocess.run(
            [make, *arguments], cwd=self.folder, env=clean, capture_output=True, text=True, check=False
        )

    @property
    def calls(self) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if " -c " not in line]

    def touch(self, name: str) -> None:
        """Make a file newer than all others, as a checkout of another commit does."""
        later = time.time() + 10
        os.utime(self.folder / name, (later, later))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    made.add_python("python3")
    return made


def test_make_alone_lists_every_target(checkout: Checkout) -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    listed = checkout.make().stdout
    assert set(re.findall(r"^  make (\w+) ", listed, re.MULTILINE)) == set(phony.group(1).split())
    assert checkout.calls == []


def test_the_first_demo_installs_from_the_lock_with_hashes_and_then_starts(checkout: Checkout) -> None:
    ran = checkout.make("demo", "DEMO_ARGS=--fault memory_creep@node-2")
    assert ran.returncode == 0, ran.stderr
    venv, lock, project, demo = checkout.calls
    assert venv == "python3 -m venv --clear .venv"
    assert lock.endswith("--require-hashes --only-binary :all: -r requirements.lock")
    assert "--no-deps" in lock
    assert project.endswith("--no-build-isolation --editable .")
    assert demo == "infermeter demo --fault memory_creep@node-2"


def test_the_second_demo_only_starts(checkout: Checkout) -> None:
    checkout.make("demo")
    assert checkout.make("demo").returncode == 0
    assert checkout.calls == ["infermeter demo"]


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_changed_lock_is_installed(changed: str, checkout: Checkout) -> None:
    checkout.make("demo")
    checkout.touch(changed)
    checkout.make("demo")
    assert [call.split()[0] for call in checkout.calls] == ["python", "python", "infermeter"]


def test_tests_get_the_development_lock_and_the_demo_then_needs_no_install(checkout: Checkout) -> None:
    checkout.make("test", "PYTEST_ARGS=-x tests/sql")
    assert "-r requirements-dev.lock" in checkout.calls[1]
    assert checkout.calls[-1] == "python -m pytest -x tests/sql"
    checkout.make("demo")
    assert checkout.calls == ["infermeter demo"]


def test_serve_takes_a_configuration(checkout: Checkout) -> None:
    checkout.make("serve", "CONFIG=my.yaml")
    assert checkout.calls[-1] == "infermeter serve --config my.yaml"


def test_a_failed_install_is_tried_again(checkout: Checkout) -> None:
    assert checkout.make("demo", PIP_EXIT="1").returncode != 0
    assert not any(call.startswith("infermeter") for call in checkout.calls)
    assert checkout.make("demo").returncode == 0
    assert [call.split()[0] for call in checkout.calls] == ["python", "python", "infermeter"]


def test_the_newest_python_is_taken(checkout: Checkout) -> None:
    for name in ("python3.11", "python3.13"):
        checkout.add_python(name)
    checkout.make("venv")
    assert checkout.calls[0].startswith("python3.13 -m venv")


def test_without_python_the_message_says_what_to_install(tmp_path: Path) -> None:
    ran = Checkout(tmp_path).make("demo")
    assert ran.returncode != 0
    assert "infermeter needs Python 3.11 or newer with venv and pip, and found none." in ran.stderr
    assert "apt install python3 python3-venv" in ran.stderr


def test_a_python_that_is_too_old_is_refused_by_name(checkout: Checkout) -> None:
    ran = checkout.make("demo", "PYTHON=python3", TOO_OLD="1")
    assert ran.returncode != 0
    assert "PYTHON=python3 is not Python 3.11 or newer" in ran.stderr
    assert checkout.calls == []


def test_a_removed_python_makes_the_environment_anew(checkout: Checkout) -> None:
    checkout.make("venv")
    (checkout.folder / ".venv/bin/python").unlink()
    assert checkout.make("venv").returncode == 0
    assert checkout.calls[0] == "python3 -m venv --clear .venv"
    assert len(checkout.calls) == 3


def test_clean_leaves_data_and_configuration(checkout: Checkout) -> None:
    checkout.make("venv")
    for name in ("infermeter.yaml", "infermeter.duckdb"):
        (checkout.folder / name).write_text("mine")
    assert checkout.make("clean").returncode == 0
    assert not (checkout.folder / ".venv").exists()
    assert (checkout.folder / "infermeter.yaml").read_text() == "mine"
    assert (checkout.folder / "infermeter.duckdb").read_text() == "mine"
