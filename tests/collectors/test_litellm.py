"""LiteLLM's proxy. Figures are by hand or the fixture's text."""

from __future__ import annotations

import re
from functools import partial

import pytest

from collectors.engines.litellm import KIND
from collectors.reading import EngineSample, UsageCounter, UsageKey
from collectors.source import TargetReader
from collectors.target import Target
from tests.collectors.engine_lines import read_lines
from tests.shared import fixture, needs_shared

PERSONAL = ("user", "user_email", "end_user", "client_ip", "user_agent", "hashed_api_key")


def series(name: str, value: float, **labels: str) -> str:
    every = {"api_key_alias": "None", "team": "None", "team_alias": "None", "model": "m"}
    every |= {label: f"secret-{label}" for label in PERSONAL} | labels
    inside = ",".join(f'{key}="{text}"' for key, text in every.items())
    return f"{name}{{{inside}}} {value}"


read = partial(read_lines, KIND)


def test_tokens_and_spend_go_to_team_key_and_model() -> None:
    reading = read(
        series("litellm_input_tokens_metric_total", 40, team_alias="research", api_key_alias="ci"),
        series("litellm_input_cached_tokens_metric_total", 8, team_alias="research", api_key_alias="ci"),
        series("litellm_output_tokens_metric_total", 80, team_alias="research", api_key_alias="ci"),
        series("litellm_requests_metric_total", 4, team_alias="research", api_key_alias="ci"),
        series("litellm_spend_metric_total", 0.25, team_alias="research", api_key_alias="ci"),
        series("litellm_input_tokens_metric_total", 6, team="t-17"),
        series("litellm_input_tokens_metric_total", 7, api_key_alias="ci"),
        series("litellm_input_tokens_metric_total", 9, model="n"),
    )
    assert reading.usage == [
        UsageCounter(UsageKey("research", None, "m", "ci", "litellm"), 40, 8, 80, 4, 0.25),
        UsageCounter(UsageKey("t-17", None, "m", None, "litellm"), 6),
        UsageCounter(UsageKey("ci", None, "m", "ci", "litellm"), 7),
        UsageCounter(UsageKey(None, None, "n", None, "litellm"), 9),
    ]


def test_series_that_differ_in_who_called_are_added_up_and_nobody_is_named() -> None:
    reading = read(
        series("litellm_input_tokens_metric_total", 40, user="alice"),
        series("litellm_input_tokens_metric_total", 2, user="bob", client_ip="10.0.0.9"),
        series("litellm_spend_metric_total", 1, user_email="alice@example.com"),
        series("litellm_spend_metric_total", 2, user_agent="curl"),
        series("litellm_deployment_failure_responses_total", -1, litellm_model_name="m", user="bob"),
    )
    (usage,) = reading.usage
    assert (usage.prompt_tokens_total, usage.spend_usd_total) == (42, 3)
    assert reading.engines[0].prompt_tokens_total == 42
    assert not re.search(r"secret|alice|bob|10\.0\.0\.9|curl", repr(reading))


def test_rows_go_by_the_deployments_model_and_not_by_what_callers_write() -> None:
    reading = read(
        series("litellm_input_tokens_metric_total", 1, requested_model="chat"),
        series("litellm_input_tokens_metric_total", 2, requested_model="chat-2"),
        series("litellm_proxy_failed_requests_metric_total", 1, requested_model="other", model="None"),
        *(
            series(
                "litellm_proxy_total_requests_metric_total", 1, model="None", requested_model=f"made-up-{n}"
            )
            for n in range(1500)
        ),
    )
    assert [(row.model, row.prompt_tokens_total) for row in reading.engines] == [("m", 3)]
    assert not any("left out" in note for note in reading.notes)


def test_http_errors_are_the_proxys_and_refused_scrapes_are_none() -> None:
    requests = "litellm_proxy_total_requests_metric_total"
    reading = read(
        series("litellm_output_tokens_metric_total", 1),
        series(requests, 9, model="None", status_code="200", route="/v1/chat/completions"),
        series(requests, 3, model="None", status_code="429", route="/v1/chat/completions"),
        series(requests, 2, model="None", status_code="400", route="/v1/chat/completions"),
        series(requests, 70, model="None", status_code="401", route="/metrics/"),
    )
    assert (reading.engines[0].http_4xx_total, reading.engines[0].http_5xx_total) == (5, 0)


def test_failures_are_those_of_deployments() -> None:
    failures = "litellm_deployment_failure_responses_total"
    reading = read(
        series(failures, 2, model="None", litellm_model_name="m", exception_status="500"),
        series(failures, 1, model="None", litellm_model_name="m", exception_status="429"),
        series(failures, 8, model="None", litellm_model_name="", requested_model="other"),
    )
    assert [(row.model, row.finished_error_total) for row in reading.engines] == [("m", 3)]


def test_budgets_without_a_limit_are_neither_figures_nor_notes() -> None:
    reading = read(
        series("litellm_output_tokens_metric_total", 1),
        series("litellm_remaining_api_key_budget_metric", float("inf")),
        series("litellm_remaining_api_key_requests_for_model", 9.223372036854776e18),
    )
    assert not re.search(r"inf|9\.22|budget", repr(reading), re.IGNORECASE)


def test_tokens_without_spend_are_said() -> None:
    reading = read(
        series("litellm_output_tokens_metric_total", 5),
        series("litellm_spend_metric_total", 0),
        series("litellm_output_tokens_metric_total", 5, model="priced"),
        series("litellm_spend_metric_total", 0.001, model="priced"),
        series("litellm_output_tokens_metric_total", 5, model="untold"),
    )
    assert reading.notes[-1] == "litellm has tokens of m and no spend for them: their price is missing there"


def test_time_to_first_token_is_of_streamed_requests_alone_and_that_is_said() -> None:
    reading = read(
        series("litellm_llm_api_time_to_first_token_metric_bucket", 2, le="+Inf"),
        series("litellm_llm_api_time_to_first_token_metric_sum", 0.5),
        series("litellm_llm_api_time_to_first_token_metric_count", 2),
        series("litellm_request_total_latency_metric_bucket", 3, le="+Inf"),
        series("litellm_request_total_latency_metric_sum", 1.5),
        series("litellm_request_total_latency_metric_count", 3),
    )
    assert [(one.metric, one.count) for one in reading.histograms] == [("ttft", 2), ("e2e", 3)]
    assert any("streamed requests alone" in note for note in reading.notes)
    # Where the deprecated counter of requests is gone, the latency's count stands for it.
    assert [one.requests_total for one in reading.usage] == [3]


def test_a_proxy_that_has_served_nobody_yet_is_no_failure() -> None:
    reading = read("litellm_in_flight_requests 1.0", "process_start_time_seconds 1.79605738152e+09")
    assert reading.engines == [
        EngineSample("litellm", "gateway", "0", None, process_start_time_seconds=1796057381.52)
    ]
    assert reading.usage == []


def test_without_a_path_the_one_with_a_slash_at_its_end_is_asked() -> None:
    target = Target.model_validate({"url": "http://gateway:4000", "kind": "litellm"})
    assert target.url == "http://gateway:4000/metrics/"


@needs_shared
def test_a_real_proxy() -> None:
    reading = TargetReader(KIND).read(fixture("engines/litellm-1.110.2-1.txt"))
    process = {"process_start_time_seconds": 1796057381.52, "process_resident_bytes": 521949184.0}
    assert reading.role == "gateway"
    assert reading.engines == [
        EngineSample(
            "litellm", "gateway", "0", "gpt-4o", finished_error_total=1, http_4xx_total=1, http_5xx_total=1,
            **process,
        ),
        EngineSample(
            "litellm", "gateway", "0", "gpt-4o-mini", prompt_tokens_total=40, generation_tokens_total=80,
            prefix_cache_queries_total=40, **process,
        ),
        EngineSample(
            "litellm", "gateway", "0", "tiny-random", prompt_tokens_total=66, generation_tokens_total=60,
            prefix_cache_queries_total=66, **process,
        ),
    ]  # fmt: skip
    assert reading.usage == [
        UsageCounter(UsageKey(None, None, "gpt-4o-mini", None, "litellm"), 40, None, 80, 4, 5.4e-05),
        UsageCounter(
            UsageKey(None, None, "tiny-random", None, "litellm"), 66, None, 60, 3, 9.839999999999999e-05
        ),
    ]
    found = {(one.model, one.metric): (one.count, one.sum_seconds) for one in reading.histograms}
    assert found["tiny-random", "ttft"] == (2, 0.031046999999999998)
    assert found["tiny-random", "e2e"] == (3, 1.2569612430267334)
    assert found["tiny-random", "queue"] == (3, 0.010818243026733398)
    assert found["gpt-4o-mini", "tpot"] == (4, 0.00088915)
    assert ("gpt-4o-mini", "ttft") not in found
    assert (reading.rejected_lines, reading.unowned_lines) == (0, 0)
    assert not re.search(r"127\.0\.0\.1|default_user_id|master_key|urllib|None'|inf", repr(reading.notes))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "9.223372036854776e+18"])
def test_a_counter_that_is_no_count_is_not_known(value: str) -> None:
    reading = read(
        series("litellm_output_tokens_metric_total", 1, user="a"),
        series("litellm_output_tokens_metric_total", 2, user="b").removesuffix("2") + value,
        series("litellm_input_tokens_metric_total", 3),
    )
    assert (reading.usage[0].generation_tokens_total, reading.usage[0].prompt_tokens_total) == (None, 3)
