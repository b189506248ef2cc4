"""The latencies of `infermeter read` against Prometheus' own parser and the formula of its documentation.

`histogram_quantile`: the first bucket whose count reaches q × all, and linearly within it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.read import read_payload
from tests.shared import SHARED, needs_shared

FILES = sorted((SHARED / "fixtures/engines").glob("*.txt"))
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
MODELS = ("model_name", "model", "litellm_model_name")
WITHOUT = {("tgi", "prefill"), ("tgi", "ttft"), ("dynamo", "queue"), ("llamacpp", "tpot")}
"""Some series of a histogram, told by a label, and means without buckets."""
Ladder = dict[float, float]


def expected(q: float, buckets: Ladder) -> tuple[float | None, float]:
    """Value (None past the last finite edge), and lower edge."""
    edges = sorted(buckets)
    rank = q * buckets[math.inf]
    at = next(number for number, edge in enumerate(edges) if buckets[edge] >= rank)
    lower, below = (edges[at - 1], buckets[edges[at - 1]]) if at else (0.0, 0.0)
    if edges[at] == math.inf:
        return None, lower
    return lower + (edges[at] - lower) * (rank - below) / (buckets[edges[at]] - below), lower


def histograms(path: Path) -> dict[tuple[str, str | None], tuple[Ladder, float, float]]:
    """(name, model) → buckets, sum and count, of all series together."""
    buckets: dict[tuple[str, str | None], Ladder] = defaultdict(lambda: defaultdict(float))
    rests: dict[tuple[str, str | None, str], float] = defaultdict(float)
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            name, _, part = sample.name.rpartition("_")
            model = next((sample.labels[key] for key in MODELS if key in sample.labels), None)
            if part == "bucket":
                buckets[name, model][float(sample.labels["le"])] += sample.value
            else:
                rests[name, model, part] += sample.value
    return {key: (of, rests[*key, "sum"], rests[*key, "count"]) for key, of in buckets.items()}


@needs_shared
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_means_and_percentiles_are_those_of_the_formula(path: Path) -> None:
    payload, of = read_payload(path), histograms(path)
    for row in payload["histograms"]:
        key = payload["found_names"][row["metric"]], row["model"]
        if (payload["source"], row["metric"]) in WITHOUT:
            continue
        buckets, total, count = of[key]
        assert row["sum_seconds"] == pytest.approx(total)
        assert row["mean_seconds"] == (pytest.approx(total / count) if count else None)
        for name, q in QUANTILES.items():
            value, lower = expected(q, buckets) if count else (None, None)
            assert row[f"{name}_seconds"] == (None if value is None else pytest.approx(value))
            assert (
                row[f"{name}_range_seconds"] is None
                if lower is None
                else row[f"{name}_range_seconds"][0] == lower
            )
