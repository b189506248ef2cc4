"""Rules of the code that no linter knows; docs/development.md says why each is there."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.shared import REPOSITORY

PACKAGES = ("alerts", "app", "collectors", "sql")
MAY_IMPORT = {
    "sql": (),
    "collectors": ("sql",),
    # Settings and durations are written alike in a rule and in a target, so alerts may use their types.
    "alerts": ("sql", "collectors.durations", "collectors.settings"),
    "app": ("sql", "collectors", "alerts"),
}
LONGEST_FILE_LINES = 400
MADE_BY_TOOLS = {
    ".git",
    ".venv",
    "build",
    "dist",
    "infermeter.egg-info",
    "__pycache__",
    ".duckdb",
    ".wal",
} | {f".{tool}" for tool in ("mypy_cache", "ruff_cache", "pytest_cache", "hypothesis")}

# Put together from pieces, so that this file does not hold what it looks for.
REGISTRY_HOSTS = ["py" + "pi.org", "python" + "hosted.org", "registry.npm" + "js", "deb.deb" + "ian.org"]
MACHINE_PATHS = [f"/{top}/{rest}" for top, rest in (("work", "main"), ("work", "shared"), ("work", ".lib"))]
MACHINE_PATHS += [f"/{folder}/" for folder in ("root", "tmp/w")]

SQL_TEXT = re.compile(
    r"\s*(SELECT\s.+\sFROM|INSERT\s+(OR \w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM"
    r"|(CREATE|ALTER|DROP)\s+(OR REPLACE\s+)?(TABLE|VIEW|INDEX)|WITH\s+\w+\s+AS\s*\()",
    re.IGNORECASE | re.DOTALL,
)


def repository_files() -> list[Path]:
    """What git holds or would take: neither build output nor anybody's own configuration.

    Without git, or outside a clone: all files but those in folders that only tools make.
    """
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    try:
        listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        paths = [path for path in REPOSITORY.rglob("*") if not MADE_BY_TOOLS & {*path.parts, path.suffix}]
    else:
        paths = [REPOSITORY / name for name in listed.split("\0") if name]
    return sorted(path for path in paths if path.is_file())


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (REPOSITORY / folder).rglob("*.py"))


def short(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def imported_modules(path: Path) -> set[str]:
    """Full names of what a file imports; for `from a import b` both `a` and `a.b`, as either may be meant."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{short(path)}:{node.lineno} imports relatively; write the full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def sql_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (REPOSITORY / "sql" / folder).glob("*.sql"))


def header_of(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    end = next((index for index, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return "\n".join(lines[:end])


def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in repository_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{short(path)}: {word}" for word in (*REGISTRY_HOSTS, *MACHINE_PATHS) if word in text]
    assert found == []


def test_no_python_file_is_longer_than_a_person_reads_in_one_go() -> None:
    lengths = {
        short(path): path.read_bytes().count(b"\n") for path in repository_files() if path.suffix == ".py"
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE_LINES} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    allowed = (package, *MAY_IMPORT[package])
    wrong = [
        f"{short(path)} imports {module}"
        for path in python_files(package)
        for module in sorted(imported_modules(path))
        if module.split(".")[0] in (*PACKAGES, "tests", "benchmarks")
        and not any(module == name or module.startswith(f"{name}.") for name in allowed)
    ]
    assert wrong == []


def test_sql_text_stands_in_sql_files_only() -> None:
    found = []
    for path in python_files("alerts", "app", "collectors"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = [
            node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        found += [f"{short(path)}:{node.lineno}" for node in strings if SQL_TEXT.match(str(node.value))]
    assert found == []


@pytest.mark.parametrize("path", sql_files("queries", "commands"), ids=short)
def test_a_sql_file_says_what_it_is_for_and_holds_one_statement(path: Path) -> None:
    header = header_of(path)
    assert re.search(r"^-- purpose: \S", header), f"{short(path)} must begin with '-- purpose: …'"
    statements = duckdb.extract_statements(path.read_text(encoding="utf-8"))
    assert len(statements) == 1
    unexplained = [name for name in statements[0].named_parameters if not re.search(rf"\b{name}\b", header)]
    assert unexplained == [], f"{short(path)}: parameters the header does not name"


@pytest.mark.parametrize("path", sql_files("queries"), ids=short)
def test_a_query_says_its_grain(path: Path) -> None:
    assert re.search(r"^-- grain: \S", header_of(path), re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("path", sql_files("queries", "commands"), ids=short)
def test_a_sql_file_is_used(path: Path) -> None:
    name = re.compile(rf"[\"']{re.escape(path.stem)}[\"']")
    if path.stem.startswith("expire_"):
        return  # named by table: housekeeping runs one for each table that has an end
    assert any(name.search(file.read_text(encoding="utf-8")) for file in python_files(*PACKAGES, "tests"))


@pytest.mark.parametrize("path", sql_files("migrations"), ids=short)
def test_a_migration_says_what_it_brings(path: Path) -> None:
    assert len(header_of(path).removeprefix("-- ")) > 20


def test_each_kind_of_target_has_documentation_and_tests() -> None:
    from collectors.registry import KINDS

    documentation = "\n".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").rglob("*.md")
    )
    undocumented = [name for name in KINDS if not re.search(rf"`{re.escape(name)}`", documentation)]
    untested = [
        name for name in KINDS if not list((REPOSITORY / "tests/collectors").rglob(f"test_*{name}*.py"))
    ]
    assert (undocumented, untested) == ([], [])


def test_each_finding_and_channel_has_documentation_and_tests() -> None:
    from alerts.channels import KINDS

    findings = [
        path.stem
        for path in (REPOSITORY / "alerts/findings").glob("*.py")
        if f'NAME = "{path.stem}"' in path.read_text(encoding="utf-8")
    ]
    assert findings
    documentation = "\n".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").rglob("*.md")
    )
    names = [*findings, *KINDS]
    undocumented = [name for name in names if not re.search(rf"\b{re.escape(name)}\b", documentation)]
    untested = [name for name in names if not list((REPOSITORY / "tests/alerts").rglob(f"test_*{name}*.py"))]
    assert (undocumented, untested) == ([], [])
