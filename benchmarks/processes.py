"""What a process and its children have used, from /proc (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """The process and all living processes under it; empty when it is gone."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        try:
            for thread in Path(f"/proc/{current}/task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.append(current)
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the tree, ended and awaited children included."""
    ticks = 0
    for member in process_tree(pid):
        # The name in brackets may hold spaces; utime, stime, cutime, cstime are fields 14 to 17.
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Resident memory of the tree; memory that members share is counted for each."""
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(
        int(Path(f"/proc/{member}/statm").read_text().split()[1]) * page for member in process_tree(pid)
    )
