"""Percentiles from buckets: by hand, by Prometheus itself, and what must hold for all."""

from __future__ import annotations

import math
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.quantiles import NOTHING, Quantile, histogram_quantile, prometheus_value

INF = math.inf
VLLM_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, INF)


def all_in_one_bucket(edges: tuple[float, ...], upper: float, count: float) -> list[float]:
    return [count if edge >= upper else 0.0 for edge in edges]


def test_a_constant_time_looks_as_wide_as_its_bucket() -> None:
    """1.05 s, always, on vLLM's edges: p50 1.75 s, p99 2.49 s (1 + 1.5 × 0.5 and 1 + 1.5 × 0.99)."""
    buckets = all_in_one_bucket(VLLM_TTFT, 2.5, 1000)
    assert histogram_quantile(0.5, VLLM_TTFT, buckets) == Quantile(1.75, 1.0, 2.5)
    assert histogram_quantile(0.99, VLLM_TTFT, buckets).value == pytest.approx(2.485)


def test_linear_within_the_bucket_of_the_rank() -> None:
    """100 observations: rank 95 lies 5 of 20 into the bucket from 2 to 4."""
    assert histogram_quantile(0.95, (1, 2, 4, INF), (50, 90, 110, 110)).value == pytest.approx(
        2 + 2 * 14.5 / 20
    )
    assert (
        histogram_quantile(0.5, (1, 2, 4, INF), (50, 90, 100, 100)).value == 1.0
    )  # rank 50: the edge itself
    assert histogram_quantile(0.25, (1, 2, 4, INF), (50, 90, 100, 100)) == Quantile(0.5, 0.0, 1)


def test_beyond_the_last_edge_there_is_a_lower_bound_and_no_value() -> None:
    """vllm #15167: p99 "60 s" while the truth was far higher."""
    assert histogram_quantile(0.99, (30, 60, INF), (90, 95, 100)) == Quantile(None, 60, INF)
    assert prometheus_value(0.99, (30, 60, INF), (90, 95, 100)) == 60


@pytest.mark.parametrize(
    ("edges", "buckets"),
    [
        ((1.0, 2.0, INF), (0.0, 0.0, 0.0)),
        ((1.0, 2.0), (1.0, 2.0)),
        ((INF,), (5.0,)),
        ((), ()),
        ((1.0, INF), (math.nan, math.nan)),
    ],
    ids=["no observation", "no +Inf", "one bucket", "none", "no numbers"],
)
def test_where_nothing_can_be_said_nothing_is(edges: tuple[float, ...], buckets: tuple[float, ...]) -> None:
    assert histogram_quantile(0.5, edges, buckets) == NOTHING
    assert math.isnan(prometheus_value(0.5, edges, buckets))


def test_counts_that_fall_are_levelled() -> None:
    """A scrape in the middle of an update: 3, 2, 4 reads as 3, 3, 4; rank 3 is in the first bucket."""
    assert histogram_quantile(0.75, (1, 2, 4, INF), (3, 2, 4, 4)).value == 1.0


def test_a_first_edge_that_is_not_positive_is_its_own_answer() -> None:
    assert histogram_quantile(0.5, (0.0, 1.0, INF), (8, 10, 10)) == Quantile(0.0, None, 0.0)


def test_a_quantile_outside_0_to_1_is_a_mistake_here_and_infinite_in_prometheus() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, not 95"):
        histogram_quantile(95, (1, INF), (1, 1))
    assert prometheus_value(-0.1, (1, INF), (1, 1)) == -INF
    assert prometheus_value(1.1, (1, INF), (1, 1)) == INF
    assert math.isnan(prometheus_value(math.nan, (1, INF), (1, 1)))


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(st.floats(0.001, 100), min_size=1, max_size=12),
    gains=st.lists(st.integers(0, 1000), min_size=13, max_size=13),
    qs=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_a_value_lies_in_its_bucket_and_rises_with_q(
    steps: list[float], gains: list[int], qs: tuple[float, float]
) -> None:
    edges = [*(sum(steps[: n + 1]) for n in range(len(steps))), INF]
    buckets = [float(sum(gains[: n + 1])) for n in range(len(edges))]
    low, high = (histogram_quantile(q, edges, buckets) for q in sorted(qs))
    for one in (low, high):
        if one.value is not None and one.lo is not None:
            assert one.lo <= one.value <= one.hi * (1 + 1e-12)
    if low.value is not None and high.value is not None:
        assert low.value <= high.value * (1 + 1e-12)
    assert low.hi <= high.hi


@pytest.mark.wide
@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian package prometheus) is not here"
)
def test_prometheus_gives_the_same_number_to_the_last_bit(tmp_path: Path) -> None:
    """1 200 quantiles of odd histograms; promtool compares exactly."""
    chance = random.Random(7)
    series, asked = [], []
    for number in range(200):
        edges = [chance.choice([-1.0, 0.0, 0.001, 0.3])]
        while len(edges) < chance.randint(2, 9):
            edges.append(round(edges[-1] + chance.choice([0.05, 0.5, 1.5, 10.0]), 3))
        if chance.random() < 0.9:
            edges.append(INF)
        count, buckets = 0, []
        for _ in edges:
            count += chance.choice([0, 0, 3, chance.randint(1, 50)])
            buckets.append(float(max(0, count - chance.choice([0] * 9 + [5]))))
        for edge, bucket in zip(edges, buckets, strict=True):
            le = "+Inf" if edge == INF else repr(edge)
            series.append(f"""  - {{series: 'h_bucket{{n="{number}",le="{le}"}}', values: '{bucket}'}}""")
        for q in (0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0):
            value = prometheus_value(q, edges, buckets)
            # NaN equals nothing, itself included: asked for as "is there no number?".
            query = f'histogram_quantile({q}, h_bucket{{n="{number}"}})'
            samples = "[]" if math.isnan(value) else f"[{{labels: '{{n=\"{number}\"}}', value: {value!r}}}]"
            asked.append(f"  - {{expr: '{query} > -Inf', eval_time: 0, exp_samples: {samples}}}")
    test = tmp_path / "quantiles.yml"
    test.write_text(
        "evaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n"
        + "\n".join(series) + "\n  promql_expr_test:\n" + "\n".join(asked) + "\n"
    )  # fmt: skip
    done = subprocess.run(
        ["promtool", "test", "rules", str(test)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
