"""A cumulative histogram as an engine's metrics library keeps it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

# Bucket edges of vLLM 0.9 to 0.32 (vllm/v1/metrics/buckets.py), seconds; +Inf is implied.
TTFT_EDGES = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_GAP_EDGES = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_EDGES = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
# Tokens or counts.
ITERATION_EDGES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHOICES_EDGES = (1, 2, 5, 10, 20)
PREEMPTION_EDGES = (1, 2, 3, 4, 5, 10, 20)
# prometheus-fastapi-instrumentator, seconds.
HTTP_FINE_EDGES = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0,
    30.0, 60.0,
)  # fmt: skip
HTTP_COARSE_EDGES = (0.1, 0.5, 1.0)


def token_edges(max_model_len: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, … up to the longest sequence: vLLM's edges of token counts."""
    edges: list[int] = []
    decade = 1
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * decade > max_model_len:
                return tuple(edges)
            edges.append(mantissa * decade)
        decade *= 10


class Histogram:
    """Counts per bucket (not cumulative inside), the sum, and the count."""

    __slots__ = ("count", "counts", "edges", "sum")

    def __init__(self, edges: Iterable[float]) -> None:
        self.edges = tuple(float(edge) for edge in edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.sum = 0.0
        self.count = 0

    def observe(self, value: float, times: int = 1) -> None:
        """Add `value`, `times` times. A value on an edge belongs to the bucket of that edge."""
        self.counts[bisect_left(self.edges, value)] += times
        self.sum += value * times
        self.count += times

    def observe_ramp(self, first: float, growth: float, steps: int, times: int) -> None:
        """Add first, first + growth, … (`steps` values, growth ≥ 0), each `times` times."""
        last = first + growth * (steps - 1)
        low = bisect_left(self.edges, first)
        high = bisect_left(self.edges, last)
        done = 0
        for bucket in range(low, high):
            upto = min(steps, int((self.edges[bucket] - first) / growth) + 1)
            self.counts[bucket] += (upto - done) * times
            done = upto
        self.counts[high] += (steps - done) * times
        self.sum += (first + last) / 2 * steps * times
        self.count += steps * times

    def cumulative(self) -> list[int]:
        """Counts up to each edge; the last is +Inf and equals the count."""
        return list(accumulate(self.counts))
