"""From summed bucket increases to the percentiles that may be shown. Pure.

A percentile is shown only where enough requests stand behind it and its rank falls into a finite bucket;
else the reason is said in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from app import format as form
from collectors.quantiles import histogram_quantile

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
NEEDED = {"p50": 2, "p95": 20, "p99": 100}
"""Requests a percentile needs: below, less than one of them lies beyond it (n ≥ 1 ÷ (1 − q))."""
KEY = ("target", "replica", "model", "metric")


class Reading(NamedTuple):
    """One percentile as it may be shown. Seconds; `value` None where there is none to show."""

    value: float | None
    low: float | None
    high: float | None
    """Edges of the bucket that holds the true value; both None where nothing is shown."""
    beyond: float | None
    """The last finite edge, where the rank falls past it: the value is more than that."""
    requests: float
    needed: int

    @property
    def text(self) -> str:
        """`1.2 s`, `> 2 560 s`, or `–`."""
        if self.beyond is not None:
            return f">{_SPACE}{form.latency(self.beyond)}"
        return form.latency(self.value)

    @property
    def bounds(self) -> str:
        """`1 – 2.5 s`: between which edges the true value lies; empty where that is not known."""
        if self.low is None or self.high is None:
            return ""
        return f"{form.latency(self.low)} – {form.latency(self.high)}"


_SPACE = "\u00a0"


def read(quantile: str, edges: Sequence[float], increases: Sequence[float]) -> Reading:
    """A percentile (`p50`, `p95`, `p99`) of increases of cumulative buckets."""
    requests = increases[-1] if increases else 0.0
    needed = NEEDED[quantile]
    nothing = Reading(None, None, None, None, requests, needed)
    if requests < needed:
        return nothing
    found = histogram_quantile(QUANTILES[quantile], edges, increases)
    if found.value is None:
        past = found.lo is not None and math.isinf(found.hi)
        return nothing._replace(beyond=found.lo) if past else nothing
    return Reading(found.value, found.lo or 0.0, found.hi, None, requests, needed)


def total(rows: pl.DataFrame) -> dict[tuple[Any, ...], tuple[list[float], list[float]]]:
    """`page_latency` rows added up over their steps: (target, replica, model, metric) → edges, increases.

    An engine that changed its edges within the time is read on the edges that most requests were counted
    on; the others cannot be added to them.
    """
    sums: dict[tuple[Any, ...], dict[tuple[float, ...], list[float]]] = {}
    for row in rows.iter_rows(named=True):
        by_edges = sums.setdefault(tuple(row[name] for name in KEY), {})
        edges = tuple(row["edges_seconds"])
        before = by_edges.get(edges)
        now = row["increases"]
        by_edges[edges] = now if before is None else [a + b for a, b in zip(before, now, strict=True)]
    return {key: _most(by_edges) for key, by_edges in sums.items()}


def _most(by_edges: dict[tuple[float, ...], list[float]]) -> tuple[list[float], list[float]]:
    edges, increases = max(by_edges.items(), key=lambda item: item[1][-1])
    return list(edges), increases


SERIES_SCHEMA = {
    "ts": pl.Datetime,
    "quantile": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "beyond": pl.Float64,
    "requests": pl.Float64,
    "text": pl.String,
}


def series(rows: pl.DataFrame, quantiles: Sequence[str] = tuple(QUANTILES)) -> pl.DataFrame:
    """`page_latency` rows of one engine and metric as a long frame: one row a step and percentile.

    `text` is what a tooltip says: value, bucket range and n, or why there is none. On a log axis a band
    cannot start at 0: the lowest bucket's band starts at half its upper edge.
    """
    found = []
    for (ts,), step in rows.partition_by("ts", as_dict=True, maintain_order=True).items():
        for edges, increases in total(step).values():
            for quantile in quantiles:
                reading = read(quantile, edges, increases)
                low = reading.high / 2 if reading.low == 0 and reading.high else reading.low
                found.append(
                    (
                        ts,
                        quantile,
                        reading.value,
                        low,
                        reading.high,
                        reading.beyond,
                        reading.requests,
                        describe(reading),
                    )
                )
    return pl.DataFrame(found, schema=SERIES_SCHEMA, orient="row").sort("ts", "quantile")


def describe(reading: Reading) -> str:
    """`1.2 s (1 – 2.5 s), n 204`, or `– (n 7, 20 needed)`."""
    n = form.count(reading.requests)
    if reading.value is None and reading.beyond is None:
        if reading.requests < reading.needed:
            return f"{form.UNKNOWN} (n{_SPACE}{n}, {reading.needed} needed)"
        return f"{form.UNKNOWN} (n{_SPACE}{n})"
    bounds = f" ({reading.bounds})" if reading.bounds else ""
    return f"{reading.text}{bounds}, n{_SPACE}{n}"
