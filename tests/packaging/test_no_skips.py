"""INFERMETER_NO_SKIPS=1 turns each kind of skip into a failure that names its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import REPOSITORY

ONE_OF_EACH = {
    "mark": "@pytest.mark.skipif(True, reason='skipped by a mark')\ndef test_it():\n    assert True\n",
    "call": "def test_it():\n    pytest.skip('skipped by a call')\n",
    "fixture": "@pytest.fixture\ndef browser():\n    pytest.skip('skipped by a fixture')\n\n"
    "def test_it(browser):\n    assert True\n",
    "module": "pytest.skip('skipped by a module', allow_module_level=True)\n",
    "xfail": "@pytest.mark.xfail(reason='known')\ndef test_it():\n    assert False\n",
}


def run_pytest(folder: Path, no_skips: str) -> subprocess.CompletedProcess[str]:
    folder.joinpath("conftest.py").write_text((REPOSITORY / "tests/conftest.py").read_text())
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    for kind, body in ONE_OF_EACH.items():
        folder.joinpath(f"test_{kind}.py").write_text(f"import pytest\n\n{body}")
    environment = {**os.environ, "INFERMETER_NO_SKIPS": no_skips}
    options = ["-p", "no:cacheprovider", "--continue-on-collection-errors", "-rs"]
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_skip_fails_and_says_why(tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, no_skips="1")
    assert ran.returncode == 1
    assert "1 failed, 1 xfailed, 3 errors in" in ran.stdout.splitlines()[-1]
    for how in ("mark", "call", "fixture", "module"):
        assert f"skipped by a {how}" in ran.stdout


@pytest.mark.parametrize("no_skips", ["", "0"])
def test_a_skip_stays_a_skip_where_none_asked_for_more(no_skips: str, tmp_path: Path) -> None:
    ran = run_pytest(tmp_path, no_skips)
    assert ran.returncode == 0
    assert "4 skipped, 1 xfailed in" in ran.stdout.splitlines()[-1]
