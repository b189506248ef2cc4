"""Which percentiles may be shown, and what stands in the place of the others."""

from datetime import datetime
from math import inf

import polars as pl
import pytest

from app.pages import latency
from app.pages.latency import Sums

EDGES = [0.1, 0.5, 1.0, 2.5, 2560.0, inf]


def spaced(text: str) -> str:
    return text.replace("\u202f", " ").replace("\u00a0", " ")


def test_a_percentile_has_the_edges_of_its_bucket() -> None:
    # 100 requests: 50 up to 0.5 s, 40 more up to 1 s, 10 more up to 2.5 s. Rank 95: halfway from 1 to 2.5.
    reading = latency.read("p95", Sums(EDGES, [0, 50, 90, 100, 100, 100]))
    assert reading.value == pytest.approx(1.75)
    assert (reading.low, reading.high, reading.beyond, reading.requests) == (1.0, 2.5, None, 100)
    assert spaced(latency.describe(reading)) == "1.75 s (1.00 s – 2.50 s), n 100"


def test_past_the_last_finite_edge_only_a_lower_bound_is_said() -> None:
    reading = latency.read("p99", Sums(EDGES, [0, 0, 0, 0, 50, 100]))
    assert (reading.value, reading.beyond) == (None, 2560.0)
    assert spaced(reading.text) == "> 2 560 s"
    assert spaced(latency.describe(reading)) == "> 2 560 s, n 100"


@pytest.mark.parametrize(("quantile", "needed"), [("p95", 20), ("p99", 100)])
def test_too_few_requests_have_no_percentile_and_say_how_many_it_takes(quantile: str, needed: int) -> None:
    short = needed - 1
    reading = latency.read(quantile, Sums(EDGES, [short] * 6))
    assert (reading.value, reading.text) == (None, "–")
    assert spaced(latency.describe(reading)) == f"– (n {short}, {needed} needed)"
    assert latency.read(quantile, Sums(EDGES, [needed] * 6)).value is not None


def test_no_request_is_no_percentile() -> None:
    assert latency.read("p50", Sums(EDGES, [0] * 6)).text == "–"
    assert latency.read("p50", Sums([], [])).text == "–"


def rows(*steps: tuple[int, list[float], list[float]]) -> pl.DataFrame:
    """minute, edges, increases"""
    return pl.DataFrame(
        [
            {
                "target": "t",
                "replica": "0",
                "model": None,
                "metric": "ttft",
                "ts": datetime(2026, 1, 1, 0, minute),
                "edges_seconds": edges,
                "increases": increases,
                "sum_seconds": 2.0 * increases[-1],
                "timed": increases[-1],
            }
            for minute, edges, increases in steps
        ],
        schema_overrides={
            "model": pl.String,
            "edges_seconds": pl.List(pl.Float64),
            "increases": pl.List(pl.Float64),
        },
    )


def test_steps_add_up_bucket_by_bucket() -> None:
    sums = latency.total(rows((0, EDGES, [1, 2, 3, 4, 5, 6]), (1, EDGES, [0, 0, 0, 1, 1, 1])))
    assert sums == {("t", "0", None, "ttft"): (EDGES, [1, 2, 3, 5, 6, 7], 14.0, 7)}


def test_other_edges_are_never_added_to_these() -> None:
    other = [1.0, inf]
    sums = latency.total(rows((0, EDGES, [1, 2, 3, 4, 5, 6]), (1, other, [50, 90])))
    assert sums == {("t", "0", None, "ttft"): (other, [50, 90], 180.0, 90)}


def test_a_series_says_in_each_step_what_is_known() -> None:
    found = latency.series(rows((0, EDGES, [0, 50, 90, 100, 100, 100]), (1, EDGES, [0, 0, 0, 0, 0, 3])))
    by_step = {(row["ts"].minute, row["quantile"]): row for row in found.iter_rows(named=True)}
    assert by_step[0, "p95"]["value"] == pytest.approx(1.75)
    assert by_step[1, "p50"]["beyond"] == 2560.0
    assert by_step[1, "p95"]["value"] is None
    assert spaced(by_step[1, "p95"]["text"]) == "– (n 3, 20 needed)"


def test_the_band_of_the_lowest_bucket_does_not_start_at_zero_which_a_log_axis_cannot_show() -> None:
    found = latency.series(rows((0, EDGES, [100] * 6)), ["p50"]).row(0, named=True)
    assert (found["low"], found["high"]) == (0.05, 0.1)
    assert spaced(found["text"]) == "50.0 ms (0 s – 100 ms), n 100"


def test_no_rows_are_an_empty_series() -> None:
    assert latency.series(rows((0, EDGES, [0] * 6)).clear()).is_empty()


def test_without_buckets_there_is_a_mean_that_is_named_as_one_and_no_percentile() -> None:
    # 8 requests took 10 s together: 1.25 s each. Rank 95 is not known, and not "> 0 s" either.
    reading = latency.read("p95", Sums([inf], [8.0], 10.0, 8.0))
    assert (reading.value, reading.beyond, reading.mean) == (None, None, 1.25)
    assert spaced(reading.text) == "avg 1.25 s"
    assert spaced(latency.describe(reading)) == "avg 1.25 s, n 8"
    assert latency.read("p95", Sums([inf], [0.0], 0.0, 0.0)).text == "–"
    assert latency.read("p95", Sums([inf], [8.0])).text == "–"


def test_the_mean_of_each_step_is_its_seconds_by_its_requests() -> None:
    found = latency.means(rows((0, [inf], [4.0]), (1, [inf], [0.0])))
    assert found.rows() == [(datetime(2026, 1, 1), 2.0), (datetime(2026, 1, 1, 0, 1), None)]


def test_a_scrape_without_a_sum_leaves_the_mean_to_the_others() -> None:
    # After a restart one scrape has 6 requests and no time: the mean is that of the 4 whose 8 s are known.
    known = rows((0, [inf], [4.0]), (1, [inf], [6.0]))
    first = pl.col("ts") == datetime(2026, 1, 1)
    told = [pl.when(first).then(name).alias(name) for name in ("sum_seconds", "timed")]
    sums = latency.total(known.with_columns(told))["t", "0", None, "ttft"]
    assert sums.mean == 2.0
    assert sums == ([inf], [10.0], 8.0, 4.0)
