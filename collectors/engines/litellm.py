"""LiteLLM's proxy (read at 1.110.2): a gateway, with tokens and spend by team, key alias and model.

`/metrics` redirects to `/metrics/`, which wants a key (`bearer_token`) and counts a refused scrape as a
failed request. Labels that name persons (user, user_email, end_user, client_ip, user_agent, hashed_api_key)
only tell series apart, which are then added up. Rows go by `model`, the deployment's: what callers write
(`requested_model`) has no end (litellm PR #39136). Budget and limit gauges are not read: +Inf and 9.2e18 mean
"no limit" there (#21048). Nor are the health of deployments and the proxy's own overhead: no figure is for
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.engines.series import EnginePlace
from collectors.engines.table import PROCESS, EngineKind, Named, Names
from collectors.engines.usage import UsageTable, metered
from collectors.exposition import Nowhere

_REQUESTS = "litellm_proxy_total_requests_metric_total"


@dataclass(frozen=True, kw_only=True)
class _LiteLlm(EngineKind):
    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """As the tables say, but for scrapes of the proxy itself and failures before a model was chosen."""
        if labels.get("route", "").startswith("/metrics"):
            return Nowhere.UNWANTED
        place = super().place(name, labels)
        if isinstance(place, EnginePlace) and place.column == "finished_error_total" and place.model is None:
            return Nowhere.UNWANTED  # they are in http_4xx_total
        return place


COLUMNS: Mapping[str, Names] = {
    "prompt_tokens_total": ("input_tokens_metric_total",),
    "generation_tokens_total": ("output_tokens_metric_total",),
    # Of calls of the model's deployments, retries included.
    "finished_error_total": ("deployment_failure_responses_total",),
    "prefix_cache_hits_total": ("input_cached_tokens_metric_total",),  # as the provider counts them
    # Counts every HTTP request, our scrape too: no load. There before the first request, it makes a row.
    "in_flight": ("in_flight_requests",),
}

ENGINE = _LiteLlm(
    name="litellm",
    role="gateway",
    default_path="/metrics/",
    marks=("litellm_*",),
    prefixes=("litellm_",),
    columns=COLUMNS,
    histograms={
        "ttft": ("llm_api_time_to_first_token_metric",),
        "tpot": ("deployment_latency_per_output_token",),
        "e2e": ("request_total_latency_metric",),
        "queue": ("request_queue_time_seconds",),
    },
    endpoint={
        "http_4xx_total": (Named(_REQUESTS, {"status_code": "4*"}, absent_is_zero=True),),
        "http_5xx_total": (Named(_REQUESTS, {"status_code": "5*"}, absent_is_zero=True),),
        **PROCESS,
    },
    added={"prefix_cache_queries_total": ("prompt_tokens_total",)},
    model_labels=("model", "litellm_model_name"),
    impossible={
        "requests_running": "the gauge of requests in flight is of HTTP requests of any kind, scrapes too",
        "requests_waiting": "LiteLLM has no queue of its own",
        "kv_cache_used_ratio": "a gateway has no KV cache",
    },
    notes=(
        "LiteLLM measures the time to first token of streamed requests alone",
        "LiteLLM's counters start at 0 with each start of the proxy: its database, not these, is the ledger",
        "LiteLLM counts a key that custom authentication refused without a status: it is in no error count",
    ),
)

USAGE = UsageTable(
    source="litellm",
    counters={
        "prompt_tokens_total": ("litellm_input_tokens_metric_total",),
        "cached_tokens_total": ("litellm_input_cached_tokens_metric_total",),
        "generation_tokens_total": ("litellm_output_tokens_metric_total",),
        # The first is deprecated; what is to replace it has no model.
        "requests_total": ("litellm_requests_metric_total", "litellm_request_total_latency_metric_count"),
        "spend_usd_total": ("litellm_spend_metric_total",),
    },
    project_labels=("team_alias", "team", "api_key_alias"),
    model_labels=("model",),
    key_labels=("api_key_alias",),
)

KIND = metered(ENGINE, USAGE, no_value=frozenset({"", "None"}))
