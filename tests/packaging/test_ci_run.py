"""`.ci/run` in real bash, with stand-ins for the programs it calls that write down what they were asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.shared import REPOSITORY

STAND_INS = {
    "dpkg-query": 'case " $INSTALLED " in *" $3 "*) echo installed ;; *) exit 1 ;; esac',
    "apt-get": 'test -x "$POLICY_RC_D" && echo "services may not start" >>"$CALLS"; exit ${APT_EXIT:-0}',
    "python3": "exit ${NO_VENV:-0}",
    "make": """case "$1" in
  venv) mkdir -p build/runtime-only/bin
        printf '#!/bin/sh\\n' | tee build/runtime-only/bin/python >build/runtime-only/bin/infermeter
        chmod +x build/runtime-only/bin/* ;;
  lint) exit ${LINT_EXIT:-0} ;;
  test) echo "no skips: $INFERMETER_NO_SKIPS" >>"$CALLS"; echo "1 passed in 0.01s"; exit ${TEST_EXIT:-0} ;;
esac""",
}
ALL = "chromium gcc git libatomic1 libc6-dev libgomp1 make openssl prometheus python3 victoria-metrics"


class Machine:
    """A checkout with `.ci/run`, and what it would find on a machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".ci").mkdir()
        shutil.copy(REPOSITORY / ".ci/run", folder / ".ci/run")
        (folder / "tools").mkdir()
        for name, body in STAND_INS.items():
            tool = folder / "tools" / name
            tool.write_text(f'#!/bin/sh\necho "{name} $*" >>"$CALLS"\n{body}\n')
            tool.chmod(0o755)
        self.policy = folder / "policy-rc.d"
        self.calls_file = folder / "calls"

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {
            "PATH": f"{self.folder / 'tools'}:{os.environ['PATH']}",
            "CALLS": str(self.calls_file),
            "POLICY_RC_D": str(self.policy),
            "INSTALLED": ALL,
            **environment,
        }
        command = ["bash", str(self.folder / ".ci/run")]
        return subprocess.run(command, cwd="/", env=clean, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[str]:
        lines = self.calls_file.read_text().splitlines()
        return [line for line in lines if not line.startswith(("dpkg-query", "python3"))]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_lint_and_all_tests_run_and_pytest_has_the_last_word(machine: Machine) -> None:
    ran = machine.run()
    assert ran.returncode == 0, ran.stderr
    assert [call.split()[1] for call in machine.calls if call.startswith("make ")] == ["venv", "lint", "test"]
    assert "no skips: 1" in machine.calls
    assert ran.stdout.splitlines()[-1] == "1 passed in 0.01s"


def test_nothing_is_installed_where_all_is_there(machine: Machine) -> None:
    machine.run()
    assert not any(call.startswith("apt-get") for call in machine.calls)


def test_what_is_missing_is_installed_after_an_update_and_starts_no_service(machine: Machine) -> None:
    assert machine.run(INSTALLED=ALL.replace("chromium ", "").replace("prometheus ", "")).returncode == 0
    update, install, services, *_ = machine.calls
    assert update.endswith(" update")
    assert install.endswith("install --yes --no-install-recommends chromium prometheus")
    assert services == "services may not start"
    assert not machine.policy.exists()


def test_a_policy_of_the_machine_stays(machine: Machine) -> None:
    machine.policy.write_text("#!/bin/sh\nexit 101\n")
    machine.run(INSTALLED="")
    assert machine.policy.exists()


def test_debians_venv_is_installed_only_for_a_python_without(machine: Machine) -> None:
    machine.run(NO_VENV="1")
    assert any(call.endswith(" python3-venv") for call in machine.calls)


@pytest.mark.parametrize("step", ["LINT_EXIT", "TEST_EXIT"])
def test_a_failure_of_either_fails_the_run_and_the_tests_run_all_the_same(
    step: str, machine: Machine
) -> None:
    ran = machine.run(**{step: "3"})
    assert ran.returncode == 3
    assert ran.stdout.splitlines()[-1] == "1 passed in 0.01s"


def test_packages_that_cannot_be_installed_end_the_run(machine: Machine) -> None:
    ran = machine.run(INSTALLED="", APT_EXIT="100")
    assert ran.returncode == 100
    assert not machine.policy.exists()
    assert not any(call.startswith("make") for call in machine.calls)
