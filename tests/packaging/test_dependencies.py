"""What the code imports is declared, and each declared library has its reason in docs/architecture.md."""

from __future__ import annotations

import re
import sys
from importlib.metadata import packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.lockfile import project
from tests.shared import REPOSITORY
from tests.test_house_rules import PACKAGES, imported_modules, python_files

COMES_WITH = {
    "annotated-types": "pydantic",
    "pydantic-core": "pydantic",
    "requests": "prometheus-api-client",
    "urllib3": "prometheus-api-client",
}
"""Distributions whose types stand in what another one takes and raises, which needs them itself."""


def declared(*extras: str) -> set[str]:
    lines = list(project()["dependencies"])
    for extra in extras:
        lines += project()["optional-dependencies"][extra]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def imported_distributions(*folders: str) -> set[str]:
    """The distributions that the folders' files import, by the names they are installed under."""
    modules = {name.split(".")[0] for path in python_files(*folders) for name in imported_modules(path)}
    foreign = modules - set(sys.stdlib_module_names) - {*PACKAGES, "tests", "benchmarks"}
    known = packages_distributions()
    names = {canonicalize_name(known[module][0]) if module in known else module for module in foreign}
    return {COMES_WITH.get(name, name) for name in names}


def test_what_the_program_imports_is_declared() -> None:
    assert imported_distributions(*PACKAGES) - declared("kubernetes") == set()


def test_what_the_tests_import_is_declared() -> None:
    assert imported_distributions("tests", "benchmarks") - declared("dev") == set()


def test_each_dependency_has_its_reason() -> None:
    architecture = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    section = architecture.split("\n## Dependencies\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section, re.MULTILINE)
    assert {canonicalize_name(name) for name, _ in rows} == declared("dev")
    assert all(len(reason.split()) >= 3 for _, reason in rows)
