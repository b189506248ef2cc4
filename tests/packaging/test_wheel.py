"""A built wheel holds the program, with its SQL, and nothing of the tests."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from tests.shared import REPOSITORY
from tests.test_house_rules import PACKAGES, repository_files

needs_setuptools = pytest.mark.skipif(
    Version(importlib.metadata.version("setuptools")) < Version("77"),
    reason="setuptools 77 builds the wheel; the lock has it",
)


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel, built from a copy so that no build output is left in the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for path in repository_files():
        target = copy / path.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    build = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", "dist", "."], cwd=copy, check=True, capture_output=True)
    (wheel,) = (copy / "dist").glob("infermeter-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@needs_setuptools
def test_the_wheel_holds_every_file_of_the_packages(wheel_names: set[str]) -> None:
    ours = {
        path.relative_to(REPOSITORY).as_posix()
        for path in repository_files()
        if path.relative_to(REPOSITORY).parts[0] in PACKAGES
    }
    assert "sql/migrations/0001_samples.sql" in ours
    assert ours - wheel_names == set()


@needs_setuptools
def test_the_wheel_holds_nothing_else(wheel_names: set[str]) -> None:
    top = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)


def test_pyproject_lists_each_package() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    found = {
        path.parent.relative_to(REPOSITORY).as_posix().replace("/", ".")
        for package in PACKAGES
        for path in Path(REPOSITORY / package).rglob("__init__.py")
    }
    assert set(settings["tool"]["setuptools"]["packages"]) == found
