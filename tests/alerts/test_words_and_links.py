"""Numbers, places and times in words, and the links that messages carry."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from alerts import words
from alerts.links import engine_link, gpu_link, incident_link
from app.view import parse
from tests.alerts.facts import GIB, MIB, at


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.84, "84 %"), (0.8, "80 %"), (0.7996, "79.9 %"), (0.7951, "79.5 %")]
)
def test_percent(ratio: float, text: str) -> None:
    assert words.percent(ratio) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(80 * GIB, "80.0 GiB"), (81_559 * MIB, "79.6 GiB"), (512 * MIB, "512 MiB"), (0, "0 MiB")],
)
def test_gib(count: float, text: str) -> None:
    assert words.gib(count) == text


def test_unknown_is_a_dash() -> None:
    assert words.quantity(None, "ratio") == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (45.4, "45 s"), (60, "1 min"), (130, "2 min 10 s"), (1_799, "29 min"),
        (5_400, "1 h 30 min"), (7_200, "2 h"), (180_000, "2 d 2 h"), (-5, "0 s"),
    ],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_clock_names_the_day_when_it_is_not_today() -> None:
    assert words.clock(at(1200), at(5000)) == "13:20 UTC"
    assert words.clock(datetime(2026, 11, 29, 13, 20), at(0)) == "29 Nov 13:20 UTC"


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA A100-SXM4-80GB", "A100-SXM4"), ("Tesla T4", "T4"),
        ("NVIDIA L40S", "L40S"), ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("GRID A100-8C", "GRID A100-8C"),
    ],
)  # fmt: skip
def test_short_model(model: str, short: str) -> None:
    assert words.short_model(model) == short


def test_a_place_without_host_or_index_is_named_by_its_uuid() -> None:
    assert words.where({"gpu_uuid": "GPU-1"}) == "GPU GPU-1"
    assert words.where({"gpu_uuid": "GPU-1", "host": "node-2"}) == "node-2 GPU-1"
    assert words.where({"gpu_uuid": "GPU-1", "host": "node-2", "gpu_index": 0}) == "node-2 GPU 0"


def test_a_sparkline_keeps_the_peak() -> None:
    assert words.sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"
    assert words.sparkline([0] * 50 + [9] + [0] * 49).count("█") == 1
    assert words.sparkline([5, 5, 5]) == "▄▄▄"
    assert words.sparkline([5]) == ""


def test_a_gpu_link_spans_half_an_hour_before_and_after() -> None:
    link = gpu_link("https://im.example/", "GPU-1", "3", at(0), "abc")
    assert link.startswith("https://im.example/gpus?gpu=GPU-1&mig=3&from=2026-11-30T12%3A30%3A00Z")
    assert parse_qs(urlsplit(link).query)["to"] == ["2026-11-30T13:30:00Z"]
    assert "mig" not in gpu_link("https://im.example", "GPU-1", "", at(0))


def test_text_in_a_link_cannot_break_out() -> None:
    link = gpu_link("https://im.example", "GPU-1&x=<y>|z> #", "", at(0))
    assert not set(link) & set("<>| \"'")
    assert parse_qs(urlsplit(link).query)["gpu"] == ["GPU-1&x=<y>|z> #"]


def test_the_pages_understand_every_link() -> None:
    for link in (
        gpu_link("https://im.example", "GPU-1", "3", at(0), "abc"),
        engine_link("https://im.example", "vllm-1", at(0), "abc"),
        incident_link("https://im.example", "abc"),
    ):
        view, faults = parse({name: texts[0] for name, texts in parse_qs(urlsplit(link).query).items()})
        assert faults == []
        assert view.incident == "abc"
        if "from" in link:
            assert (view.start, view.end) == (at(-1800), at(1800))
