"""The program that calls `pynvml`: packages that are not what they should be, and GPUs that move."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from collectors.gpu import nvml_gateway
from tests.shared import REPOSITORY

PROGRAM = str(Path(nvml_gateway.__file__))


def asked(folder: Path | None = None, lines: str = "1 5\n") -> list[str]:
    """What the program answers, with modules of `folder` before those that are installed."""
    done = subprocess.run(
        [sys.executable, "-P", PROGRAM], input=lines, capture_output=True, text=True, timeout=60, check=False,
        env={"PYTHONPATH": str(folder or "")},
    )  # fmt: skip
    assert done.returncode == 0
    return done.stdout.splitlines()


def module(folder: Path, text: str) -> Path:
    (folder / "pynvml.py").write_text(text)
    return folder


def test_an_abandoned_pynvml_package_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("")
    assert asked(tmp_path) == ['1 failed {"package":"old"}']


def test_a_missing_package_is_told(tmp_path: Path) -> None:
    assert asked(module(tmp_path, "raise ImportError")) == ['1 failed {"package":"missing"}']


def test_a_fault_of_the_package_is_told_and_not_thrown(tmp_path: Path) -> None:
    answers = asked(
        module(tmp_path, "class NVMLError(Exception): ...\ndef nvmlInit(): raise TypeError('new')\n")
    )
    assert answers == ['1 failed {"fault":"TypeError: new"}']


def test_what_the_library_prints_does_not_stand_between_the_answers(tmp_path: Path) -> None:
    text = "import os\nos.write(1, b'warning\\n')\nprint('noise')\nraise ImportError\n"
    assert asked(module(tmp_path, text)) == ['1 failed {"package":"missing"}']


def test_it_ends_after_a_failure_and_when_nobody_asks(tmp_path: Path) -> None:
    assert asked(module(tmp_path, "raise ImportError"), "1 5\n2 5\n3 5\n") == [
        '1 failed {"package":"missing"}'
    ]
    assert asked(tmp_path, "") == []


class NVMLError(Exception):
    """As the real one: no hash, and equal to nothing but its like."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __eq__(self, other: object) -> bool:
        return bool(self.value == other.value)  # type: ignore[attr-defined]


class Driver(ModuleType):
    """GPUs whose UUIDs can change in the middle of a poll: when GPU 1 is asked for its power."""

    NVMLError = NVMLError

    def __init__(self, uuids: list[str], code: int) -> None:
        super().__init__("pynvml")
        self.uuids = uuids
        self.code = code
        self.then: list[str] | None = None

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index >= len(self.uuids):
            raise NVMLError(2)
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return self.uuids[handle]

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "L4"

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        if handle == 1:
            self.uuids = self.then or self.uuids
            raise NVMLError(self.code)
        return 70000


def polled(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> tuple[str, dict[str, Any]]:
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    return nvml_gateway.Nvml().poll(10)


@pytest.mark.parametrize("then", [["GPU-a", "GPU-c"], ["GPU-a"]])
@pytest.mark.parametrize("code", [2, 6])
def test_a_gpu_that_moves_in_the_middle_of_a_poll_is_left_out_and_a_new_look_asked_for(
    monkeypatch: pytest.MonkeyPatch, then: list[str], code: int
) -> None:
    driver = Driver(["GPU-a", "GPU-b"], code)
    driver.then = then
    word, said = polled(monkeypatch, driver)
    assert word == "renew"
    assert ["values" in gpu for gpu in said["gpus"]] == [True, False]
    assert said["gpus"][1]["code"] in (2, 6)


def test_the_same_error_of_a_gpu_that_stays_costs_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    word, said = polled(monkeypatch, Driver(["GPU-a", "GPU-b"], 2))
    assert word == "ok"
    assert said["gpus"][1]["errors"]["nvmlDeviceGetPowerUsage"] == 2
    assert said["gpus"][0]["values"] == {"nvmlDeviceGetPowerUsage": 70000}


def test_functions_that_the_package_lacks_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = polled(monkeypatch, Driver(["GPU-a"], 3))
    assert said["gpus"][0]["errors"]["nvmlDeviceGetTemperature"] == 13
    assert said["driver"] is None
    json.dumps(said)


def test_only_the_gateway_calls_pynvml_and_it_imports_nothing_of_ours() -> None:
    users = [
        path.name
        for folder in ("alerts", "app", "collectors", "sql")
        for path in (REPOSITORY / folder).rglob("*.py")
        if {"pynvml"} & imported(path)
    ]
    assert users == ["nvml_gateway.py"]
    assert not {"alerts", "app", "collectors", "sql"} & imported(Path(PROGRAM))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found
