"""On valid input the reader says what prometheus_client's parsers say, sample for sample."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import prometheus_client.openmetrics.parser as openmetrics_format
import prometheus_client.parser as text_format
import pytest
from hypothesis import given, settings
from prometheus_client.metrics_core import Metric

from collectors.exposition import Exposition, Sample, parse
from tests.collectors.exposition_texts import (
    DCGM,
    EVERY_KIND,
    OPENMETRICS,
    VLLM,
    openmetrics_expositions,
    text_expositions,
)
from tests.shared import SHARED, fixture, needs_shared

NOT_VALID = {
    "gpu/dcgm4_l40s_elided_labels_invalid.txt",
    "gpu/dcgm_unparsable_values.txt",
}


def theirs(families: Iterable[Metric]) -> list[Sample]:
    return [
        Sample(
            sample.name,
            sample.labels,
            float(sample.value),
            None if sample.timestamp is None else float(sample.timestamp),
        )
        for family in families
        for sample in family.samples
    ]


def renamed_as_theirs(exposition: Exposition) -> list[Sample]:
    """Our samples under the names of prometheus_client's text parser.

    That parser brings counters to OpenMetrics' form: where a family is typed counter and is not called
    `…_total`, it appends `_total` to its samples. We keep the exporter's names.
    """
    return [
        sample._replace(name=sample.name + "_total")
        if exposition.types.get(sample.name) == "counter" and not sample.name.endswith("_total")
        else sample
        for sample in exposition.samples
    ]


def assert_same(ours: list[Sample], expected: list[Sample]) -> None:
    assert [one[:2] for one in ours] == [one[:2] for one in expected]
    for our, their in zip(ours, expected, strict=True):
        assert our.value == their.value or (math.isnan(our.value) and math.isnan(their.value)), (our, their)
        # An OpenMetrics timestamp is two integers there and one float here: seconds and nanoseconds.
        assert (our.timestamp is None) == (their.timestamp is None), (our, their)
        assert math.isclose(our.timestamp or 0, their.timestamp or 0, abs_tol=1e-6), (our, their)


def assert_agrees_with_text_parser(body: bytes) -> Exposition:
    exposition = parse(body)
    expected = theirs(text_format.text_string_to_metric_families(body.decode()))
    assert exposition.rejected == []
    assert exposition.lines == len(expected)
    assert_same(renamed_as_theirs(exposition), expected)
    return exposition


def assert_agrees_with_openmetrics_parser(body: bytes) -> Exposition:
    exposition = parse(body)
    families = openmetrics_format.text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    expected = theirs(families)
    assert exposition.rejected == []
    assert exposition.lines == len(expected)
    assert_same(exposition.samples, expected)
    return exposition


@settings(max_examples=150, deadline=None)
@given(text_expositions())
def test_agrees_on_any_valid_text_exposition(made: tuple[bytes, dict[str, str]]) -> None:
    body, types = made
    assert assert_agrees_with_text_parser(body).types == types


@settings(max_examples=100, deadline=None)
@given(openmetrics_expositions())
def test_agrees_on_any_valid_openmetrics_exposition(made: tuple[bytes, dict[str, str]]) -> None:
    body, types = made
    assert assert_agrees_with_openmetrics_parser(body).types == types


@pytest.mark.parametrize("body", [DCGM, VLLM, EVERY_KIND], ids=["dcgm", "vllm", "every kind of line"])
def test_agrees_on_bodies_of_the_real_shape(body: bytes) -> None:
    assert_agrees_with_text_parser(body)


def test_agrees_on_openmetrics_with_exemplars() -> None:
    assert_agrees_with_openmetrics_parser(OPENMETRICS)


def exposition_names() -> list[str]:
    """The sample files that hold an exposition: not XML, JSON or CSV, and not their index."""
    names = [f"{folder}/{path.name}" for folder in ("engines", "gpu") for path in text_files(folder)]
    other = ("gpu/nvidia_smi_", "gpu/rocm_smi_")
    return [name for name in names if not name.startswith(other) and name not in NOT_VALID]


def text_files(folder: str) -> list[Path]:
    return sorted((SHARED / "fixtures" / folder).glob("*.txt"))


@needs_shared
def test_agrees_on_every_collected_exposition() -> None:
    names = exposition_names()
    assert len(names) >= 40
    for name in names:
        assert_agrees_with_text_parser(fixture(name))


@needs_shared
@pytest.mark.parametrize(
    ("name", "rejected", "good"),
    [("gpu/dcgm4_l40s_elided_labels_invalid.txt", 18, 2), ("gpu/dcgm_unparsable_values.txt", 2, 1)],
)
def test_invalid_lines_cost_themselves_alone(name: str, rejected: int, good: int) -> None:
    exposition = parse(fixture(name))
    assert (len(exposition.rejected), len(exposition.samples)) == (rejected, good)
    assert exposition.lines == rejected + good
