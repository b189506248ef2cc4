"""Series that are no target's own: what rules make, and what is federated from another Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collectors.exposition import parse
from tests.collectors.fake_prometheus import FakePrometheus, fake_prometheus
from tests.collectors.pulling import STEP, Pulled, counted, engine, pulled_from

ENGINES = ("a:8000", "b:8000")


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with fake_prometheus() as server:
        yield server


def federated(number: int, engines: tuple[str, ...] = ENGINES) -> bytes:
    """What /federate of a Prometheus with these engines says; the second has counted twice the first's."""
    lines = []
    for place, instance in enumerate(engines, start=1):
        for sample in parse(engine(number * place)).samples:
            labels = {**sample.labels, "job": "vllm", "instance": instance}
            told = ",".join(f'{key}="{value}"' for key, value in labels.items())
            lines.append(f"{sample.name}{{{told}}} {sample.value!r}\n")
    return "".join(lines).encode()


def last_prompts(pulled: Pulled) -> dict[str, float]:
    """Target → prompt tokens of its newest row."""
    return {row["target"]: row["prompt_tokens_total"] for row in pulled.rows("engine_sample")}


@pytest.mark.parametrize("honor_labels", [True, False])
def test_engines_of_a_federated_prometheus_are_each_a_target(
    fake: FakePrometheus, honor_labels: bool
) -> None:
    pulled = pulled_from(fake)
    for number in range(1, 4):
        fake.now += STEP
        fake.scrape("federate", "prom-b:9090", federated(number), honor_labels=honor_labels)
        pulled.pull()
    # engine(n) has 100 n prompt tokens
    assert last_prompts(pulled) == {"vllm/a:8000": 300.0, "vllm/b:8000": 600.0}
    assert {row["target"] for row in pulled.rows("scrape")} == {"prom", "vllm/a:8000", "vllm/b:8000"}


def test_an_engine_with_a_job_and_instance_of_its_own_stays_the_target_it_is(fake: FakePrometheus) -> None:
    pulled = pulled_from(fake)
    for number in range(1, 4):
        fake.now += STEP
        fake.scrape("vllm", "c:8000", federated(number, ("mine",)))
        pulled.pull()
    assert last_prompts(pulled) == {"vllm/c:8000": 300.0}


def test_what_a_rule_makes_of_several_targets_is_no_target_and_said(fake: FakePrometheus) -> None:
    pulled = pulled_from(fake)
    for number in range(1, 4):
        fake.now += STEP
        fake.scrape("vllm", "a:8000", engine(number))
        fake._add("vllm:num_requests_running", {"model_name": "m"}, fake.now, "7")
        fake._add("vllm:prompt_tokens_total", {"model_name": "m", "job": "vllm"}, fake.now, "7777")
        pulled.pull()
    assert last_prompts(pulled) == {"vllm/a:8000": 300.0}
    assert pulled.notes() == [
        "2 series without `instance` are left out: a rule has made them of several targets'"
    ]


def test_what_is_pushed_with_a_job_alone_is_read(fake: FakePrometheus) -> None:
    pulled = pulled_from(fake)
    for number in range(1, 4):
        fake.now += STEP
        fake._add("vllm:prompt_tokens_total", {"model_name": "m", "job": "pushed"}, fake.now, str(number))
        pulled.pull()
    assert last_prompts(pulled) == {"pushed/-": 3.0}


def test_a_histogram_whose_name_is_new_covers_the_time_since_the_names_were_looked_up(
    fake: FakePrometheus,
) -> None:
    """Names are looked up each minute: a rate must not be that of a minute in 10 s."""
    pulled = pulled_from(fake)
    for number in range(60):
        body = engine(number)
        if number < 40:
            body = b"\n".join(line for line in body.split(b"\n") if b"time_to_first" not in line)
        fake.now += STEP
        fake.scrape("vllm", "a:8000", body)
        pulled.pull()
    first, *others = pulled.rows("engine_histogram")
    # Its increase is that since scrape 39, from 0; it was looked for a minute before.
    assert first["interval_seconds"] == 60.0
    assert {row["interval_seconds"] for row in others} == {STEP}
    assert counted(pulled) == [59.0, 2 * 59.0, 3 * 59.0]


@pytest.mark.parametrize(("every", "interval"), [(1, 10.0), (3, 30.0), (6, 60.0)])
def test_a_target_that_is_scraped_less_often_than_we_pull_is_not_stale(
    fake: FakePrometheus, every: int, interval: float
) -> None:
    pulled = pulled_from(fake)  # every 10 s, without lag
    shown = []
    for number in range(20):
        fake.now += STEP
        if number % every == 0:
            fake.scrape("vllm", "a:8000", engine(number))
        pulled.pull()
        if (target := pulled.puller.intake.targets.get("vllm/a:8000")) is not None:
            shown.append(target.interval_seconds)
    assert shown[0] == 60.0  # Prometheus' default, until it was seen twice
    assert shown[-1] == interval
    assert len(set(shown)) <= 2
    again = pulled.again()
    assert again.puller.intake.targets["vllm/a:8000"].interval_seconds == 60.0
