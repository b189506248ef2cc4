"""From summed bucket increases to the percentiles that may be shown. Pure.

A percentile is shown only where enough requests stand behind it and its rank falls into a finite bucket;
else the reason is said in its place. An engine that counts requests and their seconds but no buckets has a
mean and no percentile: the mean is shown and named as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    mean: float | None = None
    """In place of a percentile, where there are no buckets to read one from."""

    @property
    def text(self) -> str:
        """`1.2 s`, `> 2 560 s`, `avg 1.2 s`, or `–`."""
        if self.mean is not None:
            return f"avg{_SPACE}{form.latency(self.mean)}"
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


class Sums(NamedTuple):
    """Requests of one engine and metric, added up."""

    edges: list[float]
    increases: list[float]
    """Of the cumulative buckets, one per edge."""
    seconds: float | None = None
    """What `timed` requests took together; None where that is not known of any."""
    timed: float | None = None

    @property
    def mean_only(self) -> bool:
        """Whether there are no buckets but the one that holds all."""
        return len(self.edges) == 1

    @property
    def mean(self) -> float | None:
        """Seconds a request; None without requests whose time is known."""
        return self.seconds / self.timed if self.seconds is not None and self.timed else None


def read(quantile: str, sums: Sums) -> Reading:
    """A percentile (`p50`, `p95`, `p99`) of increases of cumulative buckets; the mean where the only bucket
    is +Inf."""
    requests = sums.increases[-1] if sums.increases else 0.0
    needed = NEEDED[quantile]
    nothing = Reading(None, None, None, None, requests, needed)
    if sums.mean_only:
        return nothing._replace(mean=sums.mean)
    if requests < needed:
        return nothing
    found = histogram_quantile(QUANTILES[quantile], sums.edges, sums.increases)
    if found.value is None:
        past = found.lo is not None and math.isinf(found.hi)
        return nothing._replace(beyond=found.lo) if past else nothing
    return Reading(found.value, found.lo or 0.0, found.hi, None, requests, needed)


def total(rows: pl.DataFrame) -> dict[tuple[Any, ...], Sums]:
    """`page_latency` rows added up over their steps, by (target, replica, model, metric).

    An engine that changed its edges within the time is read on the edges that most requests were counted
    on; the others cannot be added to them.
    """
    sums: dict[tuple[Any, ...], dict[tuple[float, ...], Sums]] = {}
    for row in rows.iter_rows(named=True):
        by_edges = sums.setdefault(tuple(row[name] for name in KEY), {})
        now = sums_of(row)
        before = by_edges.get(tuple(now.edges))
        by_edges[tuple(now.edges)] = now if before is None else _added(before, now)
    return {key: max(by_edges.values(), key=lambda one: one.increases[-1]) for key, by_edges in sums.items()}


def sums_of(row: Mapping[str, Any]) -> Sums:
    """One row of `page_latency`."""
    return Sums(row["edges_seconds"], row["increases"], row["sum_seconds"], row["timed"])


def _added(a: Sums, b: Sums) -> Sums:
    increases = [one + other for one, other in zip(a.increases, b.increases, strict=True)]
    return Sums(a.edges, increases, _known_sum(a.seconds, b.seconds), _known_sum(a.timed, b.timed))


def _known_sum(a: float | None, b: float | None) -> float | None:
    return a if b is None else b if a is None else a + b


def means(rows: pl.DataFrame) -> pl.DataFrame:
    """`page_latency` rows of one engine and metric: the mean per step (`ts`, `mean` in seconds)."""
    found = [
        (ts, sums.mean)
        for (ts,), step in rows.partition_by("ts", as_dict=True, maintain_order=True).items()
        for sums in total(step).values()
    ]
    return pl.DataFrame(found, schema={"ts": pl.Datetime, "mean": pl.Float64}, orient="row").sort("ts")


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
        for sums in total(step).values():
            for quantile in quantiles:
                reading = read(quantile, sums)
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
    if reading.mean is not None:
        return f"{reading.text}, n{_SPACE}{n}"
    if reading.value is None and reading.beyond is None:
        if reading.requests < reading.needed:
            return f"{form.UNKNOWN} (n{_SPACE}{n}, {reading.needed} needed)"
        return f"{form.UNKNOWN} (n{_SPACE}{n})"
    bounds = f" ({reading.bounds})" if reading.bounds else ""
    return f"{reading.text}{bounds}, n{_SPACE}{n}"
