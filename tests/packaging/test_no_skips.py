"""INFERMETER_NO_SKIPS=1 turns each kind of skip into a failure that names its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import REPOSITORY

SKIPS = {
    "mark": "@pytest.mark.skipif(True, reason='no browser here')\ndef test_it():\n    assert True\n",
    "call": "def test_it():\n    pytest.skip('no browser here')\n",
    "fixture": "@pytest.fixture\ndef browser():\n    pytest.skip('no browser here')\n\n"
    "def test_it(browser):\n    assert True\n",
    "module": "pytest.skip('no browser here', allow_module_level=True)\n",
}
EXPECTED_FAILURE = "@pytest.mark.xfail(reason='known')\ndef test_it():\n    assert False\n"


def run_pytest(folder: Path, body: str, no_skips: str) -> subprocess.CompletedProcess[str]:
    folder.joinpath("conftest.py").write_text((REPOSITORY / "tests/conftest.py").read_text())
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    folder.joinpath("test_skips.py").write_text(
        f"import pytest\n\n{body}\ndef test_other():\n    assert True\n"
    )
    environment = {**os.environ, "INFERMETER_NO_SKIPS": no_skips}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_skips.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", SKIPS)
def test_a_skip_fails_and_says_why(kind: str, tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, SKIPS[kind], no_skips="1")
    assert ran.returncode != 0
    assert "no browser here" in ran.stdout
    assert "skipped" not in ran.stdout.splitlines()[-1]


@pytest.mark.parametrize("kind", SKIPS)
@pytest.mark.parametrize("no_skips", ["", "0"])
def test_a_skip_stays_a_skip_elsewhere(kind: str, no_skips: str, tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, SKIPS[kind], no_skips)
    assert ran.returncode == (5 if kind == "module" else 0), ran.stdout
    assert "1 skipped" in ran.stdout.splitlines()[-1]


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, EXPECTED_FAILURE, no_skips="1")
    assert ran.returncode == 0
    assert "1 passed, 1 xfailed" in ran.stdout.splitlines()[-1]
