"""OpenTelemetry's GenAI names, in the spellings of Prometheus exporters. Figures are by hand."""

from __future__ import annotations

import pytest

from collectors.engines.otel import KIND, PROJECT_LABELS
from collectors.reading import EngineSample, Reading, UsageCounter, UsageKey
from collectors.source import TargetReader
from tests.collectors.engine_lines import histogram_lines


def read(text: str) -> Reading:
    return TargetReader(KIND).read(text.encode())


def histogram(name: str, count: float, total: float, **labels: str) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return "\n".join([*histogram_lines(name, {"+Inf": count}, total, inside), ""])


def tokens(model: str = "m", **labels: str) -> str:
    return "".join(
        histogram(
            "gen_ai_client_token_usage", 3, n, gen_ai_token_type=kind, gen_ai_request_model=model, **labels
        )
        for kind, n in (("input", 120), ("output", 30), ("total", 150))
    )


@pytest.mark.parametrize("unit", ["", "_seconds"])
def test_a_servers_latencies_and_tokens_are_an_engines(unit: str) -> None:
    reading = read(
        histogram(f"gen_ai_server_time_to_first_token{unit}", 4, 0.5, gen_ai_request_model="m")
        + histogram(f"gen_ai_server_time_per_output_token{unit}", 4, 0.1, gen_ai_request_model="m")
        + histogram(f"gen_ai_server_request_duration{unit}", 4, 2, gen_ai_request_model="m")
        + histogram(
            f"gen_ai_server_request_duration{unit}", 1, 1, gen_ai_request_model="m", error_type="timeout"
        )
        + tokens()
    )
    assert reading.role == "engine"
    assert reading.engines == [
        EngineSample(
            "otel", "engine", "0", "m", prompt_tokens_total=120, generation_tokens_total=30,
            finished_error_total=1, prefix_cache_queries_total=120,
        )
    ]  # fmt: skip
    assert [(one.metric, one.count, one.sum_seconds) for one in reading.histograms] == [
        ("ttft", 4, 0.5), ("tpot", 4, 0.1), ("e2e", 5, 3),
    ]  # fmt: skip


def test_a_clients_latencies_are_a_gateways() -> None:
    reading = read(
        histogram("gen_ai_client_operation_duration_seconds", 4, 2, gen_ai_request_model="m")
        + histogram("gen_ai_client_operation_time_to_first_chunk_seconds", 3, 0.6, gen_ai_request_model="m")
        + tokens()
    )
    assert reading.role == "gateway"
    assert [(row.role, row.model, row.prompt_tokens_total) for row in reading.engines] == [
        ("gateway", "m", 120)
    ]
    assert [(one.metric, one.count) for one in reading.histograms] == [("ttft", 3), ("e2e", 4)]
    assert any("callers" in note for note in reading.notes)


ENVOY = {
    "gen_ai_operation_name": "chat", "gen_ai_provider_name": "openai", "gen_ai_request_model": "qwen2.5:0.5b",
    "otel_scope_name": "envoyproxy/ai-gateway",
}  # fmt: skip


def test_envoys_ai_gateway_measures_as_servers_do_and_is_a_gateway() -> None:
    """Names and labels: envoyproxy/ai-gateway, its tests' expected exposition (unit `token`)."""
    reading = read(
        histogram("gen_ai_server_request_duration_seconds", 2, 10.8, **ENVOY)
        + histogram("gen_ai_server_time_to_first_token_seconds", 1, 0.25, **ENVOY)
        + "".join(
            histogram("gen_ai_client_token_usage_token", 2, total, gen_ai_token_type=kind, **ENVOY)
            for kind, total in (("input", 44), ("cached_input", 12), ("output", 7))
        )
    )
    assert reading.role == "gateway"
    assert reading.engines == [
        EngineSample(
            "otel", "gateway", "0", "qwen2.5:0.5b", prompt_tokens_total=44, generation_tokens_total=7,
            prefix_cache_queries_total=44, prefix_cache_hits_total=12,
        )
    ]  # fmt: skip
    assert [(one.metric, one.count) for one in reading.histograms] == [("ttft", 1), ("e2e", 2)]


def test_envoys_ai_gateway_is_told_by_its_label_where_no_scope_is_shown() -> None:
    labels = {"gen_ai_original_model": "alias", "gen_ai_request_model": "m"}
    assert read(histogram("gen_ai_server_request_duration_seconds", 2, 1, **labels)).role == "gateway"


def test_where_server_and_client_stand_together_the_servers_latencies_are_read() -> None:
    reading = read(
        histogram("gen_ai_client_operation_duration_seconds", 4, 9, gen_ai_request_model="m")
        + histogram("gen_ai_server_request_duration_seconds", 4, 2, gen_ai_request_model="m")
    )
    assert reading.role == "engine"
    assert [(one.metric, one.sum_seconds) for one in reading.histograms] == [("e2e", 2)]


def test_dots_are_read_as_underscores_are() -> None:
    reading = read(
        '{"gen_ai.server.time_to_first_token_bucket","gen_ai.request.model"="m","le"="+Inf"} 4\n'
        '{"gen_ai.server.time_to_first_token_sum","gen_ai.request.model"="m"} 0.5\n'
        '{"gen_ai.server.time_to_first_token_count","gen_ai.request.model"="m"} 4\n'
        '{"gen_ai.client.token.usage_sum","gen_ai.request.model"="m",'
        '"gen_ai.token.type"="input","project"="a"} 7\n'
    )
    assert reading.role == "engine"
    assert [(one.metric, one.model, one.count) for one in reading.histograms] == [("ttft", "m", 4)]
    assert reading.engines[0].prompt_tokens_total == 7
    assert reading.usage == [UsageCounter(UsageKey("a", None, "m", None, "otel"), 7)]
    assert dict(reading.found_names)["ttft"] == "gen_ai.server.time_to_first_token"


@pytest.mark.parametrize("label", PROJECT_LABELS)
def test_tokens_go_to_the_project_that_a_series_names(label: str) -> None:
    reading = read(
        histogram("gen_ai_client_operation_duration_seconds", 4, 2, gen_ai_request_model="m", **{label: "a"})
        + tokens(**{label: "a", "deployment_environment_name": "prod"})
        + tokens(**{label: "b"})
        + tokens("n")
    )
    assert reading.usage == [
        UsageCounter(UsageKey("a", None, "m", None, "otel"), requests_total=4),
        UsageCounter(UsageKey("a", "prod", "m", None, "otel"), 120, None, 30),
        UsageCounter(UsageKey("b", None, "m", None, "otel"), 120, None, 30),
    ]
    assert [(row.model, row.prompt_tokens_total) for row in reading.engines] == [("m", 240), ("n", 120)]


def test_the_model_asked_for_names_the_row_and_else_the_one_that_answered() -> None:
    reading = read(
        histogram(
            "gen_ai_server_request_duration_seconds", 1, 1, gen_ai_request_model="m",
            gen_ai_response_model="m-0613",
        )
        + histogram("gen_ai_server_request_duration_seconds", 2, 1, gen_ai_response_model="n-0613")
    )  # fmt: skip
    assert [row.model for row in reading.engines] == ["m", "n-0613"]


def test_queue_and_kv_cache_have_no_names_there() -> None:
    assert "requests_waiting" not in KIND.yields
    assert set(KIND.impossible) == {"requests_running", "requests_waiting", "kv_cache_used_ratio"}


def test_names_are_wanted_in_each_spelling() -> None:
    assert all(
        KIND.wants(name)
        for name in (
            "gen_ai_server_time_to_first_token_bucket", "gen_ai.server.time_to_first_token_seconds_sum",
            "gen_ai.client.token.usage_sum",
        )
    )  # fmt: skip
    assert not KIND.wants("gen_ai_other")
    assert KIND.marked("gen_ai.client.token.usage_sum")
    assert not KIND.marked("process_start_time_seconds")
