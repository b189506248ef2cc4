"""text-generation-inference 3.3: the mean time to the first token above all. Expected values are by hand."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pytest

from collectors.engines.tgi import KIND
from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.reading import EngineSample, Histogram, Reading
from collectors.registry import detect_all
from collectors.source import TargetReader
from collectors.target import Target
from sql.store import Store
from tests.shared import fixture, needs_shared


def histogram(name: str, seconds: float, count: int, labels: str = "") -> list[str]:
    rest = f"{{{labels}}}" if labels else ""
    comma = f"{labels}," if labels else ""
    return [
        f"# TYPE tgi_{name} histogram",
        f'tgi_{name}_bucket{{{comma}le="0.00015"}} 0',
        f'tgi_{name}_bucket{{{comma}le="+Inf"}} {count}',
        f"tgi_{name}_sum{rest} {seconds}",
        f"tgi_{name}_count{rest} {count}",
        "",
    ]


def body(
    queue: tuple[float, int], validation: tuple[float, int], prefill: tuple[float, int], *more: str
) -> bytes:
    lines = [
        "tgi_queue_size 6",
        *histogram("request_queue_duration", *queue),
        *histogram("request_validation_duration", *validation),
        *histogram("batch_forward_duration", *prefill, 'method="prefill"'),
        *more,
    ]
    return "\n".join(lines).encode()


def ttft(reading: Reading) -> Histogram | None:
    return next((one for one in reading.histograms if one.metric == "ttft"), None)


def totals(reading: Reading) -> tuple[float | None, float | None]:
    found = ttft(reading)
    assert found is not None
    return found.sum_seconds, found.count


def test_every_column_it_can_give() -> None:
    lines = [
        "tgi_request_count 53", "tgi_request_success 50", 'tgi_request_failure{err="validation"} 2',
        'tgi_request_failure{err="overloaded"} 1', 'tgi_request_failure{err="generation"} 4',
        'tgi_request_failure{err="dropped"} 5', "tgi_queue_size 6", "tgi_batch_current_size 9",
        *histogram("request_input_length", 80612, 50), *histogram("request_generated_tokens", 5679, 50),
    ]  # fmt: skip
    reading = TargetReader(KIND).read("\n".join(lines).encode())
    assert reading.engines == [
        EngineSample(
            "tgi", "engine", "0", None, requests_running=9, requests_waiting=6, prompt_tokens_total=80612,
            generation_tokens_total=5679, finished_abort_total=5, finished_error_total=4, http_4xx_total=3,
        )
    ]  # fmt: skip
    assert reading.histograms == []


def test_a_counter_that_is_not_there_yet_is_not_known() -> None:
    reading = TargetReader(KIND).read(b"tgi_queue_size 0\ntgi_batch_current_size 0\n")
    engine = reading.engines[0]
    assert (engine.requests_waiting, engine.http_4xx_total, engine.prompt_tokens_total) == (0, None, None)
    assert {"ttft", "e2e", "queue", "http_4xx_total"} <= set(reading.missing)
    assert any("ttft is the mean of queue + validation + prefill" in note for note in reading.notes)


def test_request_latencies_are_histograms() -> None:
    lines = [
        *histogram("request_duration", 132.5, 50), *histogram("request_queue_duration", 3.5, 50),
        *histogram("request_mean_time_per_token_duration", 1.25, 50),
        *histogram("batch_forward_duration", 3.5, 41, 'method="prefill"'),
        *histogram("batch_forward_duration", 9.5, 2903, 'method="decode"'),
    ]  # fmt: skip
    reading = TargetReader(KIND).read("\n".join(lines).encode())
    assert {one.metric: (one.sum_seconds, one.count) for one in reading.histograms} == {
        "e2e": (132.5, 50), "queue": (3.5, 50), "tpot": (1.25, 50), "prefill": (3.5, 41),
    }  # fmt: skip
    assert reading.histograms[0].edges_seconds == (0.00015, math.inf)


def test_the_whole_generation_is_not_taken_for_the_first_token() -> None:
    """text-generation-inference #2887: tgi_request_inference_duration is often mistaken for it."""
    reading = TargetReader(KIND).read("\n".join(histogram("request_inference_duration", 128.8, 50)).encode())
    assert (reading.histograms, reading.engines) == ([], [])


def test_the_first_scrape_says_the_mean_of_all_the_time_before() -> None:
    """5 s ÷ 50 + 0.5 s ÷ 50 + 4 s ÷ 40 = 0.21 s, of 50 requests."""
    reading = TargetReader(KIND).read(body((5, 50), (0.5, 50), (4, 40)))
    found = ttft(reading)
    assert found is not None
    assert found.edges_seconds == (math.inf,)
    assert (found.count, found.buckets) == (50, (50,))
    assert found.sum_seconds == pytest.approx(0.21 * 50)
    assert {one.metric for one in reading.histograms} == {"ttft", "queue", "prefill"}
    assert "ttft" not in reading.missing
    assert dict(reading.found_names)["ttft"] == (
        "tgi_request_queue_duration + tgi_request_validation_duration + tgi_batch_forward_duration"
    )


def test_between_two_scrapes_it_gains_that_stretch_alone() -> None:
    """20 s ÷ 10 + 0.1 s ÷ 10 + 1 s ÷ 5 = 2.21 s of 10 requests, whatever was before."""
    reader = TargetReader(KIND)
    before = totals(reader.read(body((5, 50), (0.5, 50), (4, 40))))
    after = totals(reader.read(body((25, 60), (0.6, 60), (5, 45))))
    assert (after[1] or 0) - (before[1] or 0) == 10
    assert (after[0] or 0) - (before[0] or 0) == pytest.approx(22.1)


def test_a_prefill_waits_for_its_request_to_finish() -> None:
    """A long request: its prefill is counted in the first stretch, it in the second.

    2 s ÷ 4 + 0 + 3 s ÷ 1 = 3.5 s, of 4 requests.
    """
    reader = TargetReader(KIND)
    before = totals(reader.read(body((5, 50), (0.5, 50), (4, 40))))
    assert totals(reader.read(body((5, 50), (0.5, 50), (7, 41)))) == before
    after = totals(reader.read(body((7, 54), (0.5, 54), (7, 41))))
    assert (after[1] or 0) - (before[1] or 0) == 4
    assert (after[0] or 0) - (before[0] or 0) == pytest.approx(14)


def test_requests_without_a_prefill_gain_nothing_until_there_is_one() -> None:
    """No mean is guessed: (6 - 5) ÷ 5 + 0 + 1 s ÷ 1 = 1.2 s, of the 5 requests of both stretches."""
    reader = TargetReader(KIND)
    before = totals(reader.read(body((5, 50), (0.5, 50), (4, 40))))
    assert totals(reader.read(body((5.5, 53), (0.5, 53), (4, 40)))) == before
    after = totals(reader.read(body((6, 55), (0.5, 55), (5, 41))))
    assert (after[1] or 0) - (before[1] or 0) == 5
    assert (after[0] or 0) - (before[0] or 0) == pytest.approx(6)


def test_after_a_restart_it_counts_from_nothing() -> None:
    """0.2 s ÷ 2 + 0 + 0.3 s ÷ 1 = 0.4 s, of 2 requests."""
    reader = TargetReader(KIND)
    reader.read(body((5, 50), (0.5, 50), (4, 40)))
    seconds, count = totals(reader.read(body((0.2, 2), (0, 2), (0.3, 1))))
    assert count == 2
    assert seconds == pytest.approx(0.8)


def test_a_restart_whose_counters_are_not_there_yet_counts_from_nothing_too() -> None:
    reader = TargetReader(KIND)
    reader.read(body((0.1, 1), (0, 1), (0.1, 1)))
    assert ttft(reader.read(b"tgi_queue_size 0")) is None
    seconds, count = totals(reader.read(body((1, 5), (0, 5), (2, 4))))
    assert count == 5
    assert seconds == pytest.approx(5 * 0.7)


def test_an_idle_stretch_gains_nothing() -> None:
    reader = TargetReader(KIND)
    whole = body((5, 50), (0.5, 50), (4, 40))
    assert totals(reader.read(whole)) == totals(reader.read(whole)) == totals(reader.read(whole))


def test_without_one_of_its_parts_there_is_none() -> None:
    lines = [*histogram("request_queue_duration", 1, 2), *histogram("request_validation_duration", 1, 2)]
    reading = TargetReader(KIND).read("\n".join(lines).encode())
    assert {one.metric for one in reading.histograms} == {"queue"}
    assert "ttft" in reading.missing


def test_after_a_restart_of_infermeter_requests_go_on_and_one_stretch_has_no_mean() -> None:
    """What was remembered is gone, and a mean of all the time before is not that of one stretch."""
    store = Store.open()
    target = Target(name="tgi", url="http://host/metrics", kind="tgi")

    def scrape(ingest: Ingest, seconds: int, text: bytes) -> None:
        ts = datetime(2026, 11, 30) + timedelta(seconds=seconds)
        ingest.commit([ingest.read(target, ts, Fetched(200, text, 0.01, None))])

    before = Ingest(store)
    scrape(before, 0, body((5, 50), (0, 50), (4, 40)))
    scrape(before, 10, body((105, 60), (0, 60), (14, 50)))
    after = Ingest(store)
    after.restore()
    scrape(after, 20, body((106, 62), (0, 62), (16, 51)))
    scrape(after, 30, body((107, 64), (0, 64), (18, 52)))
    rows = store.query_rows("histogram_rows", target="tgi")
    # Each request 0.5 s in the queue and 2 s in its prefill; before the restart 10 s and 1 s.
    assert [(row[1], row[3]) for row in rows if row[-1] == "ttft"] == [
        (None, None), ([10], 110), ([2], None), ([2], pytest.approx(5)),
    ]  # fmt: skip


@needs_shared
def test_3_3() -> None:
    text = fixture("engines/tgi-3.3-derived-1.txt")
    assert [kind.name for kind in detect_all(text)] == ["tgi"]
    reading = TargetReader(KIND).read(text)
    assert reading.engines == [
        EngineSample(
            "tgi", "engine", "0", None, requests_running=9, requests_waiting=6, prompt_tokens_total=80612,
            generation_tokens_total=5679, finished_abort_total=0, finished_error_total=0, http_4xx_total=3,
        )
    ]  # fmt: skip
    assert {one.metric: one.count for one in reading.histograms} == {
        "ttft": 50, "tpot": 50, "e2e": 50, "queue": 50, "prefill": 41,
    }  # fmt: skip
    seconds, count = totals(reading)
    mean = 3.7295827246206916 / 50 + 0.10930283508160119 / 50 + 3.5786093708335374 / 41
    assert (seconds or 0) / (count or 1) == pytest.approx(mean)
    assert len(next(one for one in reading.histograms if one.metric == "e2e").edges_seconds) == 36
    assert (reading.missing, reading.rejected_lines) == ((), 0)
