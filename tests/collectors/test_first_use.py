"""Counters that appear at their first use, as real gateways show them, and those that a restart takes away.

The expositions are excerpts of what LiteLLM 1.110.2 and Dynamo 1.6.1 answered to known requests, shortened.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm
from tests.collectors.moments import T0, at, unix

PROXY = Target(name="proxy", url="http://host:4000/metrics/")
FRONTEND = Target(name="frontend", url="http://host:8000/metrics", project="chat")
WORKER = Target(name="worker", url="http://host:8081/metrics", project="chat")
ENGINE = Target(name="llm", url="http://host:8000/metrics", project="chat")


def fresh(store: Store, *targets: Target) -> Ingest:
    ingest = Ingest(store)
    ingest.restore()
    ingest.sync_targets(targets or (PROXY, FRONTEND, WORKER, ENGINE), T0)
    return ingest


def take(ingest: Ingest, seconds: float, target: Target, body: str | bytes) -> None:
    body = body if isinstance(body, bytes) else body.encode()
    ingest.commit([ingest.read(target, at(seconds), Fetched(200, body, 0.01, None))])


def litellm(start: float, used: dict[tuple[str, str], int]) -> str:
    """A proxy that started then; (key alias, model) → requests of 10 prompt tokens, 20 generated, 0.5 s."""
    lines = [f"process_start_time_seconds {unix(start)}", "litellm_in_flight_requests 1.0"]
    for (alias, model), requests in used.items():
        labels = f'{{api_key_alias="{alias}",team_alias="None",team="None",model="{model}",end_user="None"'
        lines += [
            f"litellm_input_tokens_metric_total{labels}}} {10 * requests}",
            f"litellm_output_tokens_metric_total{labels}}} {20 * requests}",
            f"litellm_requests_metric_total{labels}}} {requests}",
            f'litellm_request_total_latency_metric_bucket{labels},le="0.25"}} 0',
            f'litellm_request_total_latency_metric_bucket{labels},le="1.0"}} {requests}',
            f'litellm_request_total_latency_metric_bucket{labels},le="+Inf"}} {requests}',
            f"litellm_request_total_latency_metric_count{labels}}} {requests}",
            f"litellm_request_total_latency_metric_sum{labels}}} {requests / 2}",
        ]
    return "\n".join(lines)


FRONTEND_UNUSED = """\
dynamo_frontend_disconnected_clients 0
dynamo_frontend_model_total_kv_blocks{model="tiny"} 16384
dynamo_frontend_router_queue_pending_requests{model="tiny",policy_class="default",worker_type="decode"} 0
"""


def frontend(requests: int) -> str:
    """Dynamo's frontend after that many requests of 70 tokens that made 40, and three for no model."""
    return (
        FRONTEND_UNUSED
        + f"""\
dynamo_frontend_inflight_requests{{model="tiny"}} 0
dynamo_frontend_input_sequence_tokens_sum{{model="tiny"}} {70 * requests}
dynamo_frontend_output_tokens_total{{model="tiny"}} {40 * requests}
dynamo_frontend_request_duration_seconds_bucket{{model="tiny",le="2"}} {requests}
dynamo_frontend_request_duration_seconds_bucket{{model="tiny",le="+Inf"}} {requests}
dynamo_frontend_request_duration_seconds_sum{{model="tiny"}} {requests / 2}
dynamo_frontend_request_duration_seconds_count{{model="tiny"}} {requests}
dynamo_frontend_request_duration_seconds_bucket{{model="unknown_model",le="2"}} 3
dynamo_frontend_request_duration_seconds_bucket{{model="unknown_model",le="+Inf"}} 3
dynamo_frontend_requests_total{{error_type="",model="tiny",status="success"}} {requests}
dynamo_frontend_requests_total{{error_type="not_found",model="unknown_model",status="error"}} 3
"""
    )


OF_GENERATE = (
    '{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dynamo",worker_id="6b"}'
)
WORKER_UNUSED = f"""\
dynamo_component_inflight_requests{OF_GENERATE} 0
dynamo_component_requests_total{OF_GENERATE} 0
dynamo_component_uptime_seconds{{worker_id="6b"}} 0.64
"""
WORKER_USED = (
    WORKER_UNUSED
    + """\
vllm:gpu_cache_usage_perc{engine="0",model_name="tiny"} 0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:num_requests_running{engine="0",model_name="tiny"} 6
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2
"""
)


Uses = dict[tuple[str | None, str | None], tuple[float, float, float]]


def used(store: Store, target: str = "proxy") -> Uses:
    """(key alias, model) → prompt tokens, generated tokens, requests of all rows."""
    found: Uses = {}
    for row in store.query("usage_rows", target=target).to_dicts():
        assert row["interval_seconds"] > 0
        key = (row["key_alias"], row["model"])
        values = [row[name] or 0 for name in ("prompt_tokens", "generation_tokens", "requests")]
        before = found.get(key, (0, 0, 0))
        found[key] = (before[0] + values[0], before[1] + values[1], before[2] + values[2])
    return found


def timed(store: Store, target: str, model: str, metric: str = "e2e") -> tuple[float, float]:
    """How many requests' times the rows hold, and how many seconds in all."""
    rows = store.query("histogram_rows", target=target).to_dicts()
    of_it = [row for row in rows if (row["model"], row["metric"]) == (model, metric)]
    counted = [row for row in of_it if row["increases"] is not None]
    return sum(row["increases"][-1] for row in counted), sum(row["sum_increase_seconds"] for row in counted)


@pytest.mark.parametrize("first", [1, 4, 9])
@pytest.mark.parametrize("infermeter_restarts", [False, True])
def test_a_key_that_a_restarted_gateway_shows_again_at_its_first_use_counts_from_0(
    tmp_path: Path, first: int, infermeter_restarts: bool
) -> None:
    """LiteLLM shows no key at its start. What it shows later may be below or above what it was before."""
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = fresh(store)
    key = ("web", "m")
    take(ingest, 0, PROXY, litellm(-1000, {}))
    take(ingest, 10, PROXY, litellm(-1000, {key: 4}))
    take(ingest, 20, PROXY, litellm(15, {}))
    if infermeter_restarts:
        store.close()
        store = Store.open(path)
        ingest = fresh(store)
    take(ingest, 30, PROXY, litellm(15, {}))
    take(ingest, 40, PROXY, litellm(15, {key: first}))
    take(ingest, 50, PROXY, litellm(15, {key: first + 1}))
    take(ingest, 110, PROXY, litellm(15, {key: first + 1}))
    requests = 4 + first + 1
    assert used(store) == {key: (10 * requests, 20 * requests, requests)}
    assert timed(store, "proxy", "m") == (requests, requests / 2)
    # The use is put where it was: not over the time that the key was not shown.
    last = store.query("usage_rows", target="proxy").to_dicts()[-1]
    assert last["ts"] - timedelta(seconds=last["interval_seconds"]) == at(30)


def test_what_waits_for_its_row_is_written_before_the_end_once(tmp_path: Path) -> None:
    """The machine restarts: infermeter first, then the gateway with its counters."""
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = fresh(store)
    key = ("web", "m")
    for seconds, requests in ((0, 0), (10, 1), (20, 3)):
        take(ingest, seconds, PROXY, litellm(-1000, {key: requests} if requests else {}))
    assert used(store) == {key: (10, 20, 1)}  # a row a minute
    ingest.commit([], ending=True)
    assert used(store) == {key: (30, 60, 3)}
    ingest.commit([], ending=True)
    store.close()
    store = Store.open(path)
    ingest = fresh(store)
    take(ingest, 60, PROXY, litellm(50, {key: 2}))
    take(ingest, 130, PROXY, litellm(50, {key: 2}))
    assert used(store) == {key: (50, 100, 5)}


def test_the_first_requests_of_a_model_behind_a_gateway_are_timed_and_counted() -> None:
    store = Store.open()
    ingest = fresh(store)
    take(ingest, 0, PROXY, litellm(-1000, {("web", "a"): 5}))
    take(ingest, 10, PROXY, litellm(-1000, {("web", "a"): 5, ("web", "b"): 7}))
    take(ingest, 80, PROXY, litellm(-1000, {("web", "a"): 6, ("web", "b"): 7}))
    assert used(store) == {("web", "a"): (10, 20, 1), ("web", "b"): (70, 140, 7)}
    assert timed(store, "proxy", "b") == (7, 3.5)


def test_counters_of_a_row_that_had_none_count_from_0() -> None:
    """Dynamo's frontend shows a model at once, and its counters at the first request."""
    store = Store.open()
    ingest = fresh(store)
    take(ingest, 0, FRONTEND, FRONTEND_UNUSED)
    take(ingest, 10, FRONTEND, frontend(12))
    take(ingest, 80, FRONTEND, frontend(14))
    assert used(store, "frontend") == {(None, "tiny"): (14 * 70, 14 * 40, 14)}
    assert timed(store, "frontend", "tiny") == (14, 7)


def test_counters_of_a_gateway_whose_model_appears_with_them_count_from_0() -> None:
    store = Store.open()
    ingest = fresh(store)
    take(ingest, 0, FRONTEND, "dynamo_frontend_disconnected_clients 0\n")
    take(ingest, 10, FRONTEND, frontend(12))
    assert used(store, "frontend") == {(None, "tiny"): (12 * 70, 12 * 40, 12)}


def test_what_was_used_before_the_first_sight_or_before_the_project_is_nobodys() -> None:
    store = Store.open()
    ingest = fresh(store)
    take(ingest, 0, FRONTEND, frontend(12))
    take(ingest, 70, FRONTEND, frontend(13))
    assert used(store, "frontend") == {(None, "tiny"): (70, 40, 1)}
    without = Target(name="late", url="http://host:8000/metrics")
    late = fresh(Store.open(), without)
    with_it = without.model_copy(update={"project": "chat"})
    for seconds, target in ((0, without), (10, without), (20, with_it)):
        take(late, seconds, target, frontend(12))
    take(late, 90, with_it, frontend(15))
    assert used(late.store, "late") == {(None, "tiny"): (3 * 70, 3 * 40, 3)}


def test_a_row_whose_counters_were_not_counted_before_infermeters_restart_has_a_past(tmp_path: Path) -> None:
    """While a fall is looked into, rows are stored without counters."""
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = fresh(store)
    without = ENGINE.model_copy(update={"project": None})
    for i, prompt in enumerate([1000, 900]):
        take(ingest, 10 * i, without, vllm(prompt=prompt))
    store.close()
    store = Store.open(path)
    ingest = fresh(store)
    take(ingest, 20, ENGINE, vllm(prompt=905))
    take(ingest, 90, ENGINE, vllm(prompt=910))
    assert sum(prompt for prompt, _, _ in used(store, "llm").values()) == 5


def test_a_target_that_shows_its_engines_names_later_is_read_as_that_engine() -> None:
    """Dynamo's worker shows vLLM's names from its first request on, and none after a restart."""
    store = Store.open()
    ingest = fresh(store)
    kinds = []
    for i, body in enumerate([WORKER_UNUSED, WORKER_UNUSED, WORKER_USED, WORKER_USED, WORKER_UNUSED]):
        take(ingest, 10 * i, WORKER, body)
        kinds.append(ingest.readers["worker"].kind.name)
    assert kinds == ["dynamo", "dynamo", "vllm", "vllm", "dynamo"]
    assert store.query("scrape_rows", target="worker")["ok"].all()


def test_a_worker_without_token_counts_adds_no_requests_to_its_frontends() -> None:
    store = Store.open()
    ingest = fresh(store)
    busy = WORKER_UNUSED + "\n".join(
        f'dynamo_component_request_duration_seconds_bucket{OF_GENERATE[:-1]},le="{edge}"}} 9'
        for edge in ("1", "+Inf")
    )
    take(ingest, 0, WORKER, WORKER_UNUSED)
    take(ingest, 70, WORKER, busy)
    assert used(store, "worker") == {}


def test_a_key_that_a_collector_takes_away_for_hours_comes_back_as_it_was() -> None:
    """An OpenTelemetry collector's exporter, with its metric_expiration of 5 minutes."""

    def shown(**tokens: int) -> str:
        return "".join(
            f'gen_ai_client_token_usage_sum{{gen_ai_token_type="input",gen_ai_request_model="m",project="{key}"}}'
            f" {count}\n"
            for key, count in tokens.items()
        )

    store = Store.open()
    collector = Target(name="collector", url="http://host:8889/metrics")
    ingest = fresh(store, collector)
    take(ingest, 0, collector, shown(a=1000, b=70))
    for hour in range(1, 4):
        take(ingest, 3600 * hour, collector, shown(b=70))
        ingest.forget()
    take(ingest, 14400, collector, shown(a=1005, b=70))
    ingest.commit([], ending=True)
    rows = store.query("usage_rows", target="collector").to_dicts()
    assert [(row["project"], row["prompt_tokens"]) for row in rows] == [("a", 5)]
