"""A server as a process of its own, for the length of a block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS = 20
"""Time that it has to end in order, before it is killed."""


@contextmanager
def running(
    command: Sequence[str], log_path: Path, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run it until the block ends; what it prints goes into the log."""
    with log_path.open("w") as log:
        child = subprocess.Popen(command, cwd=cwd, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
