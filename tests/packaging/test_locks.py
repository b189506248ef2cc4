"""The locks pin every library to hashed files, for each Python and platform that is promised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.lockfile import PLATFORMS, PYTHONS, applying, project, read_lock
from tests.shared import REPOSITORY

RUNTIME = REPOSITORY / "requirements.lock"
DEVELOPMENT = REPOSITORY / "requirements-dev.lock"
LOCKS = pytest.mark.parametrize("lock", [RUNTIME, DEVELOPMENT], ids=lambda path: path.name)


@LOCKS
def test_every_line_is_one_version_with_hashes(lock: Path) -> None:
    pins = read_lock(lock)
    assert len(pins) > 40
    for requirement, hashes in pins:
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), requirement


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: "-".join(platform.values()))
def test_each_python_and_platform_gets_all_dependencies_once(python: str, platform: dict[str, str]) -> None:
    for lock, wanted in ((RUNTIME, runtime_wanted()), (DEVELOPMENT, runtime_wanted() + development_wanted())):
        chosen = applying(read_lock(lock), python, platform)
        names = [canonicalize_name(requirement.name) for requirement in chosen]
        assert len(names) == len(set(names))
        versions = {name: str(found.specifier)[2:] for name, found in zip(names, chosen, strict=True)}
        for requirement in wanted:
            assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def runtime_wanted() -> list[Requirement]:
    # setuptools builds the project itself inside the environment, where nothing unpinned may come in.
    return [Requirement(line) for line in [*project()["dependencies"], "setuptools>=77"]]


def development_wanted() -> list[Requirement]:
    return [Requirement(line) for line in project()["optional-dependencies"]["dev"]]


def test_the_runtime_lock_brings_no_development_tool() -> None:
    runs_with_it = {"numpy", "packaging", "setuptools"}  # Streamlit needs two of them, the build the third
    pinned = {canonicalize_name(pin.requirement.name) for pin in read_lock(RUNTIME)}
    assert pinned & {canonicalize_name(wanted.name) for wanted in development_wanted()} == runs_with_it


def test_the_development_lock_holds_the_runtime_lock() -> None:
    """So that the tests run on the very files that users get."""
    development = {str(pin.requirement): set(pin.hashes) for pin in read_lock(DEVELOPMENT)}
    for pin in read_lock(RUNTIME):
        assert development[str(pin.requirement)] == set(pin.hashes)


@LOCKS
def test_a_lock_holds_no_address(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"(index-url|find-links|trusted-host)", text)
    assert text.splitlines()[1] == "#    make lock"
