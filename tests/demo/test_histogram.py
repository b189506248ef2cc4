from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.demo.histogram import (
    HTTP_FINE_EDGES,
    ITERATION_EDGES,
    REQUEST_EDGES,
    TOKEN_GAP_EDGES,
    TTFT_EDGES,
    Histogram,
    token_edges,
)


def test_a_value_on_an_edge_counts_below_that_edge() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 3.0):
        histogram.observe(value)
    assert histogram.cumulative() == [2, 4, 5]
    assert histogram.sum == 8.0
    assert histogram.count == 5


def test_token_edges_are_one_two_five_up_to_the_longest_sequence() -> None:
    assert token_edges(512) == (1, 2, 5, 10, 20, 50, 100, 200, 500)
    assert token_edges(10_000)[-3:] == (2000, 5000, 10_000)


@pytest.mark.parametrize(
    "edges", [TTFT_EDGES, TOKEN_GAP_EDGES, REQUEST_EDGES, ITERATION_EDGES, HTTP_FINE_EDGES]
)
def test_edges_ascend(edges: tuple[float, ...]) -> None:
    assert list(edges) == sorted(set(edges))


@settings(max_examples=60, deadline=None)
@given(
    first=st.floats(0.001, 3.0),
    growth=st.floats(0.0, 0.2),
    steps=st.integers(1, 300),
    times=st.integers(1, 40),
)
def test_a_ramp_equals_its_values_one_by_one(first: float, growth: float, steps: int, times: int) -> None:
    at_once = Histogram(TOKEN_GAP_EDGES)
    at_once.observe_ramp(first, growth, steps, times)
    one_by_one = Histogram(TOKEN_GAP_EDGES)
    for step in range(steps):
        one_by_one.observe(first + growth * step, times)
    assert at_once.count == one_by_one.count
    assert at_once.sum == pytest.approx(one_by_one.sum)
    # A value that lies on an edge but for rounding may fall to either side of it.
    for got, wanted in zip(at_once.cumulative(), one_by_one.cumulative(), strict=True):
        assert abs(got - wanted) <= times
