"""Where the wide sample data lies, for tests that check against more than the repository holds."""

from __future__ import annotations

import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

REPOSITORY: Path = Path(__file__).resolve().parent.parent
SHARED: Path = REPOSITORY.parent / "shared"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the wide sample data is not here ({SHARED} is no folder)"
)


def fixture(name: str) -> bytes:
    """The bytes of one file below `fixtures/`, such as `gpu/dcgm4_l40s_full_idle.txt`."""
    return (SHARED / "fixtures" / name).read_bytes()


def lacks_library(name: str) -> bool:
    """Whether a system library that some wheels expect on Linux is missing; elsewhere they bring it along."""
    return sys.platform == "linux" and find_library(name) is None
