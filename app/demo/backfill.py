"""What the demo's endpoints would have answered in the past, as the lines of a recording."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from app.demo.fleet import Fleet


def recording(fleet: Fleet, start: float, end: float, step_seconds: float = 10.0) -> Iterator[dict[str, Any]]:
    """One line per target and step from `start` to `end` (unix seconds, both included).

    `{"t", "target": {"name", "kind", "labels"}, "status", "body"}`, with `"error"` where there was no answer
    (then `"status"` is null). The fleet's clock moves with it, so `start` must not lie before that.
    """
    targets = fleet.targets()
    step = 0
    while (t := start + step * step_seconds) <= end:
        for target in targets:
            answer = fleet.render(target.name, t)
            line: dict[str, Any] = {
                "t": round(t, 3),
                "target": {"name": target.name, "kind": target.kind, "labels": target.labels},
                "status": answer.status,
                "body": answer.body.decode(),
            }
            if answer.status is None:
                line["error"] = "no answer in time" if answer.hangs else "the connection was closed"
            yield line
        step += 1


def write_recording(path: Path, lines: Iterable[dict[str, Any]]) -> int:
    """Write the lines to a gzipped file, fast rather than small; the number of lines."""
    count = 0
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for line in lines:
            stream.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            count += 1
    return count
