"""`infermeter read`: one answer of a target through the real reader, as JSON or as text.

Pure but for reading the file: no store, no clock, no network.
"""

from __future__ import annotations

import codecs
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from app.read_text import render_text
from collectors.exposition import BodyError, decompress
from collectors.fetch import BODY_LIMIT
from collectors.quantiles import Quantile, histogram_quantile
from collectors.reading import Histogram, Reading, UsageCounter
from collectors.registry import UnknownKindError, detect_all, kind_named
from collectors.source import Kind, TargetReader

_METRICS = ("ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode")
_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WITHOUT_ENGINE = ("gpu", "host")
FILE_LIMIT = 64 * 2**20
"""Bytes of a file, packed or not; an answer of a target is a few MiB at most."""

STDIN = Path("-")

__all__ = ["FILE_LIMIT", "ReadError", "read_payload", "render_text"]


class ReadError(Exception):
    """The answer cannot be read as a whole; the message says why and what to do."""


def read_payload(source: Path | str | bytes, kind: str = "auto") -> dict[str, Any]:
    """What one answer says, ready for JSON: no NaN, no infinity, None where not known.

    `source` is a path (`-`: standard input), or the answer itself; gzip is unpacked. Keys: `source` and
    `engine` (the kind's name; `engine` is None for a GPU or host exporter), `role`, `gpus` and `engines`
    (rows under their canonical names), `histograms` (per metric and model, summed over replicas: `count`,
    `sum_seconds`, `mean_seconds`, `p50_seconds`, `p95_seconds`, `p99_seconds`, and `p50_range_seconds` … as
    [lower, upper bucket edge]),
    `rejected_lines`, `unowned_lines`, `missing`, `notes`, `found_names` (canonical name → the target's); and
    `processes`, `hosts`, `usage`, `probes` where there are any. Raises ReadError, and OSError for the file.
    """
    body = source if isinstance(source, bytes) else _file(Path(source))
    where = "this answer" if isinstance(source, bytes) else source
    try:
        if body.startswith(_GZIP):
            body = decompress(body, BODY_LIMIT)
        if body.startswith(_UTF_16):  # PowerShell's `>`
            body = body.decode("utf-16", "replace").encode()
        kinds = [kind_named(kind)] if kind != "auto" else detect_all(body)
    except (BodyError, UnknownKindError) as error:
        raise ReadError(f"{where}: {error}") from error
    reading = TargetReader(kinds[0]).read(body)
    notes = [*reading.notes, *_other_kinds(kinds)]
    histograms = _histograms(reading.histograms, notes)
    payload: dict[str, Any] = {
        "source": reading.source,
        "engine": None if reading.role in _WITHOUT_ENGINE else reading.source,
        "role": reading.role,
        "gpus": [gpu._asdict() for gpu in reading.gpus],
        "engines": [engine._asdict() for engine in reading.engines],
        "histograms": histograms,
        "rejected_lines": reading.rejected_lines,
        "unowned_lines": reading.unowned_lines,
        "missing": list(reading.missing),
        "notes": notes + _of_nothing(reading) + _better_kinds(reading, body, kind),
        "found_names": dict(reading.found_names),
    }
    further: dict[str, list[dict[str, Any]]] = {
        "processes": [process._asdict() for process in reading.processes],
        "hosts": [host._asdict() for host in reading.hosts],
        "usage": [_usage(counter) for counter in reading.usage],
        "probes": [probe._asdict() for probe in reading.probes],
    }
    payload |= {key: rows for key, rows in further.items() if rows}
    return {key: _finite(value) for key, value in payload.items()}


def _file(path: Path) -> bytes:
    if path == STDIN:
        return _limited(sys.stdin.buffer, "standard input")
    with path.open("rb") as file:
        return _limited(file, path)


def _limited(file: BinaryIO, name: Path | str) -> bytes:
    body = file.read(FILE_LIMIT + 1)
    if len(body) > FILE_LIMIT:
        raise ReadError(
            f"{name}: is larger than {FILE_LIMIT // 2**20} MiB, too much for one answer of one target; "
            "is it the right file? (a recording is read by infermeter replay, a bill by infermeter bill)"
        )
    return body


def _usage(counter: UsageCounter) -> dict[str, Any]:
    """Whose, and how much, side by side."""
    row = counter._asdict()
    del row["key"]
    return counter.key._asdict() | row


def _finite(value: Any) -> Any:
    """The value with every number that JSON cannot write as None, and a decimal as its digits."""
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else None  # not 0E-9
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _other_kinds(kinds: list[Kind]) -> list[str]:
    return [
        f"there are metrics of {other.name} as well: read them with --kind {other.name}"
        for other in kinds[1:]
    ]


def _of_nothing(reading: Reading) -> list[str]:
    if reading.says_something:
        return []
    if not reading.lines:
        return [f"nothing in it says anything of {reading.source}"]
    return [f"none of the {reading.lines} lines says anything of {reading.source}"]


def _better_kinds(reading: Reading, body: bytes, kind: str) -> list[str]:
    """Which kinds an answer is of that says nothing of the one that was asked for."""
    if kind == "auto" or reading.says_something:
        return []
    try:
        found = [other.name for other in detect_all(body)]
    except UnknownKindError:
        return []
    return [f"it looks like an answer of {found[0]}: leave --kind out"] if found[0] != kind else []


def _histograms(found: list[Histogram], notes: list[str]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str | None], list[Histogram]] = {}
    for histogram in found:
        groups.setdefault((histogram.metric, histogram.model), []).append(histogram)
    ordered = sorted(groups.items(), key=lambda item: (_METRICS.index(item[0][0]), item[0][1] or ""))
    return [_summed(metric, model, replicas, notes) for (metric, model), replicas in ordered]


def _summed(metric: str, model: str | None, replicas: list[Histogram], notes: list[str]) -> dict[str, Any]:
    count = _added(histogram.count for histogram in replicas)
    seconds = _added(histogram.sum_seconds for histogram in replicas)
    row: dict[str, Any] = {
        "metric": metric,
        "model": model,
        "count": count,
        "sum_seconds": seconds,
        "mean_seconds": seconds / count if seconds is not None and count else None,
    }
    same_edges = len({histogram.edges_seconds for histogram in replicas}) == 1
    if not same_edges:
        notes.append(f"{metric}: the replicas have different bucket edges, there is no common percentile")
    edges = replicas[0].edges_seconds
    if same_edges and len(edges) == 1:
        notes.append(f"{metric}: a sum and a count without buckets give a mean, and no percentile")
    buckets = (
        [sum(counts) for counts in zip(*(one.buckets for one in replicas), strict=True)] if same_edges else []
    )
    for name, q in _PERCENTILES.items():
        quantile = histogram_quantile(q, edges, buckets) if same_edges else Quantile(None, None, math.inf)
        row[f"{name}_seconds"] = quantile.value
        row[f"{name}_range_seconds"] = _range(quantile)
        if quantile.value is None and quantile.lo is not None:
            notes.append(f"{metric} {name} > {quantile.lo:g} s: it lies beyond the last bucket edge")
    return row


def _range(quantile: Quantile) -> list[float | None] | None:
    if quantile.value is None and quantile.lo is None:
        return None
    return [quantile.lo, quantile.hi if math.isfinite(quantile.hi) else None]


def _added(values: Any) -> float | None:
    known = list(values)
    return None if None in known else float(sum(known))
