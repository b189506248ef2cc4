"""The benchmark measures what it says it measures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.expositions import Line, Template, dcgm_lines, values_at, vllm_lines
from benchmarks.processes import cpu_seconds, process_tree, resident_bytes
from benchmarks.scrape import exporters, write_section

Lines = Callable[[int], list[Line]]


def samples(lines: list[Line], seconds: float) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    body = Template(lines).render(values_at(lines, seconds)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }


@pytest.mark.parametrize("lines", [dcgm_lines, vllm_lines])
def test_an_exposition_is_valid_and_of_real_size(lines: Lines) -> None:
    made = lines(7)
    body = Template(made).render(values_at(made, 10))
    assert 50_000 < len(body) < 60_000
    found = samples(made, 10)
    # No series stands twice, and each line with a value is one.
    assert len(found) == sum(line.movement is not None for line in made)


@pytest.mark.parametrize("lines", [dcgm_lines, vllm_lines])
def test_values_move_and_counters_only_grow(lines: Lines) -> None:
    earlier, later = samples(lines(7), 10), samples(lines(7), 20)
    assert earlier.keys() == later.keys()
    moved = sum(earlier[series] != later[series] for series in earlier)
    assert moved > len(earlier) / 2
    endings = ("_total", "_bucket", "_count", "_sum", "_CONSUMPTION")
    assert all(later[series] >= earlier[series] for series in earlier if series[0].endswith(endings))


def test_buckets_are_cumulative_and_end_at_the_count() -> None:
    found = samples(vllm_lines(7), 10)
    edges = {
        float(dict(labels)["le"]): value
        for (name, labels), value in found.items()
        if name == "vllm:time_to_first_token_seconds_bucket"
    }
    counts = [edges[edge] for edge in sorted(edges)]
    assert counts == sorted(counts)
    (count,) = (
        value for (name, _), value in found.items() if name == "vllm:time_to_first_token_seconds_count"
    )
    assert counts[-1] == count


def test_targets_of_a_kind_are_different_series() -> None:
    assert not samples(dcgm_lines(1), 0).keys() & samples(dcgm_lines(2), 0).keys()


def test_cpu_seconds_counts_what_this_process_burns() -> None:
    before, clock = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - clock < 0.2:
        pass
    # /proc counts in ticks of 10 ms.
    assert cpu_seconds(os.getpid()) - before == pytest.approx(time.process_time() - clock, abs=0.03)


def test_a_process_that_is_gone_used_nothing() -> None:
    nobody = 2**22 + 1  # above the largest pid_max of Linux
    assert process_tree(nobody) == []
    assert cpu_seconds(nobody) == 0
    assert resident_bytes(nobody) == 0


def test_the_load_server_counts_who_asked() -> None:
    import urllib.request

    with exporters(2) as serving:
        for url in serving.urls * 2:
            request = urllib.request.Request(url, headers={"User-Agent": "somebody/1.0"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                body = answer.read()
                assert int(answer.headers["Content-Length"]) == len(body)
        assert serving.counts()["requests"] == {"somebody": 4}
        assert 4 * 50_000 < serving.counts()["bytes"]["somebody"] < 4 * 60_000


def test_a_section_of_the_report_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    report = tmp_path / "benchmarks.md"
    report.write_text("# Benchmarks\n\nAbout.\n")
    write_section(report, "scrape", "first")
    write_section(report, "queries", "other")
    write_section(report, "scrape", "second")
    assert report.read_text() == (
        "# Benchmarks\n\nAbout.\n\n<!-- scrape -->\nsecond\n<!-- end of scrape -->\n\n"
        "<!-- queries -->\nother\n<!-- end of queries -->\n"
    )
