"""Reads a requirements lock as pip reads it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from tests.shared import REPOSITORY

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (
    {"sys_platform": "linux", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_machine": "aarch64"},
    {"sys_platform": "darwin", "platform_machine": "arm64"},
)


class Pin(NamedTuple):
    """One line of a lock: what is pinned, and to which files."""

    requirement: Requirement
    hashes: tuple[str, ...]


def read_lock(path: Path) -> list[Pin]:
    """All pins of a lock, in order. Raises when a line is not a pin with options that pip knows."""
    pins = []
    text = re.sub(r"\\\n", " ", path.read_text(encoding="utf-8"))
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        requirement, *options = re.split(r"\s--", line)
        pins.append(
            Pin(Requirement(requirement), tuple(option.removeprefix("hash=").strip() for option in options))
        )
    return pins


def applying(pins: list[Pin], python: str, platform: dict[str, str]) -> list[Requirement]:
    """The requirements that apply to a Python (3.12) on a platform, by their markers."""
    environment = {**platform, "python_version": python, "python_full_version": f"{python}.1"}
    return [
        pin.requirement
        for pin in pins
        if pin.requirement.marker is None or pin.requirement.marker.evaluate(environment)
    ]


def project() -> dict[str, Any]:
    """`[project]` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return table
