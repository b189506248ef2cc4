"""Percentiles from cumulative buckets, as Prometheus computes them (promql/quantile.go), said honestly.

Where the rank falls into the +Inf bucket Prometheus answers the highest finite edge, a number that looks
like a measurement (vllm #15167: "60 s" while the truth was far higher). Here that is no value but a lower
bound. Every answer carries the bucket it comes from: its width is the error.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

_SMALL_DELTA = 1e-12
"""Counts that differ by less, relative to their sum, are the same (promql `smallDeltaTolerance`)."""


class Quantile(NamedTuple):
    """A percentile and the bucket its rank falls into, in the unit of the edges."""

    value: float | None
    """None when there is no observation, no way to tell, or only a lower bound (`hi` is +Inf)."""
    lo: float | None
    """Lower edge of the bucket: "more than this". None when nothing can be said."""
    hi: float
    """Upper edge of the bucket."""


NOTHING = Quantile(None, None, math.inf)


def histogram_quantile(q: float, edges: Sequence[float], buckets: Sequence[float]) -> Quantile:
    """The q-quantile (0 to 1) of cumulative `buckets`, one per ascending upper edge, linear in its bucket.

    `NOTHING` without observations, without a +Inf bucket, or with fewer than two buckets. Raises
    ValueError when q is not within 0 to 1 or the lengths differ.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile is asked for between 0 and 1, not {q}")
    found = _find(q, edges, buckets)
    if found is None:
        return NOTHING
    lo, hi, share = found
    if math.isinf(hi):
        return Quantile(None, lo, hi)
    if math.isinf(lo):  # a first edge that is not positive has no lower one
        return Quantile(hi, None, hi)
    value = lo + (hi - lo) * share
    return Quantile(None if math.isnan(value) else value, lo, hi)


def prometheus_value(q: float, edges: Sequence[float], buckets: Sequence[float]) -> float:
    """What `histogram_quantile()` of Prometheus answers: NaN, ±Inf and the highest finite edge included."""
    if math.isnan(q):
        return math.nan
    if q < 0:
        return -math.inf
    if q > 1:
        return math.inf
    found = _find(q, edges, buckets)
    if found is None:
        return math.nan
    lo, hi, share = found
    if math.isinf(hi):
        return lo
    return hi if math.isinf(lo) else lo + (hi - lo) * share


def _find(q: float, edges: Sequence[float], buckets: Sequence[float]) -> tuple[float, float, float] | None:
    """Lower edge, upper edge and how far between them; None when nothing can be said."""
    if len(edges) != len(buckets):
        raise ValueError(f"{len(edges)} edges and {len(buckets)} buckets")
    if len(edges) < 2 or edges[-1] != math.inf:
        return None
    counts = _ascending(buckets)
    total = counts[-1]
    if not total > 0:
        return None
    rank = q * total
    at = bisect_left(counts, rank, hi=len(counts) - 1)
    hi = edges[at]
    if at == len(counts) - 1:
        return edges[-2], hi, 1.0
    if at == 0:
        return (-math.inf if hi <= 0 else 0.0), hi, _share(rank, counts[0])
    return edges[at - 1], hi, _share(rank - counts[at - 1], counts[at] - counts[at - 1])


def _share(rank: float, count: float) -> float:
    return rank / count if count else math.nan


def _ascending(buckets: Sequence[float]) -> list[float]:
    """Counts made monotone: a decrease, or a difference too small to be one, takes the count before."""
    counts: list[float] = []
    before = -math.inf
    for count in buckets:
        if count < before or _almost_equal(before, count):
            count = before
        counts.append(count)
        before = count
    return counts


def _almost_equal(a: float, b: float) -> bool:
    if a == b:
        return True
    if math.isinf(a) or a == 0 or b == 0:
        return False
    return abs(a - b) / (abs(a) + abs(b)) < _SMALL_DELTA
