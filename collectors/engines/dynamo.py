"""NVIDIA Dynamo 1.x: its frontend (a gateway), and its workers (engines), each on a port of its own.

Names: `dynamo/prometheus_names.py`. A worker shows its engine's own names beside `dynamo_component_*`: then
it is that engine's, and this kind stands back. Figures of frontend and workers are the same requests, never
added up; the role keeps them apart. The frontend's gauges per worker are not read: they outlive deleted ones
(dynamo #14606) and are always 0 with some engines (#5796). A frontend whose names were changed
(DYN_METRICS_PREFIX) is not recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.engines.forms import Form, FormsKind, lines_starting
from collectors.engines.layout import EngineLayout
from collectors.engines.series import EnginePlace
from collectors.engines.table import EngineKind, Named, Names
from collectors.exposition import Nowhere
from collectors.source import Families, plain

_NO_MODEL = "unknown_model"
"""What a request for a model that is not there is counted under."""
_REQUESTS = "dynamo_frontend_requests_total"
_ROUTER = "dynamo_component_router_"
_ENGINES = ("vllm_", "sglang_", "trtllm_")


def _http(error_types: str) -> Names:
    return (Named(_REQUESTS, {"error_type": error_types}, absent_is_zero=True),)


@dataclass(frozen=True, kw_only=True)
class _Frontend(EngineKind):
    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """As the tables say; HTTP errors are of the endpoint, and what names no real model is of no row."""
        place = super().place(name, labels)
        if isinstance(place, Nowhere):
            return place
        uses = [
            one._replace(model=None, also=()) if one.of_endpoint else one._replace(also=())
            for one in (place, *place.also)
            if one.of_endpoint or one.model != _NO_MODEL
        ]
        return uses[0]._replace(also=tuple(uses[1:])) if uses else Nowhere.UNWANTED

    def layout(self, places: tuple[EnginePlace, ...]) -> EngineLayout:
        """How values become rows. Routing time names no model: with several it would be each one's."""
        if len({place.model for place in places if place.model is not None}) > 1:
            places = tuple(
                place._replace(part="family") if place.column == "queue" else place for place in places
            )
        return super().layout(places)


FRONTEND_COLUMNS: Mapping[str, Names] = {
    "requests_running": ("inflight_requests", "active_requests"),
    "requests_waiting": ("queued_requests", "router_queue_pending_requests"),
    "prompt_tokens_total": ("input_sequence_tokens_sum",),
    "generation_tokens_total": ("output_tokens_total",),
    "finished_abort_total": (Named("requests_total", {"error_type": "cancelled"}, absent_is_zero=True),),
    "finished_error_total": (
        Named("requests_total", {"status": "error", "error_type": "[!c]*"}, absent_is_zero=True),
    ),
    "prefix_cache_hits_total": ("cached_tokens_sum",),
    # Still 1 long after the client had gone, so it is not read; there before any model, it makes a row.
    "disconnected": ("disconnected_clients",),
}

FRONTEND = _Frontend(
    name="dynamo",
    role="gateway",
    marks=("dynamo_frontend_*",),
    prefixes=("dynamo_frontend_",),
    columns=FRONTEND_COLUMNS,
    histograms={
        "ttft": ("time_to_first_token_seconds",),
        "itl": ("inter_token_latency_seconds",),
        "e2e": ("request_duration_seconds",),
        "queue": (Named("stage_duration_seconds", {"stage": "route"}),),
    },
    # `overload` is 429 or 529, so it is in neither of the two.
    endpoint={
        "http_4xx_total": _http("validation|not_found"),
        "http_5xx_total": _http("unavailable|response_timeout|internal|not_implemented"),
    },
    added={"prefix_cache_queries_total": ("prompt_tokens_total",)},
    model_labels=("model",),
    impossible={
        "kv_cache_used_ratio": "gauges per worker outlive their workers, which show it themselves",
        "finished_stop_total": "successful requests are not told apart",
        "finished_length_total": "successful requests are not told apart",
    },
    notes=(
        "Dynamo's queued requests are those without a token yet (in prefill, too), and are among the running",
        "Dynamo (1.6.1) counts no prompt, generated or first tokens of streamed /v1/completions",
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Worker(EngineKind):
    def score(self, body: bytes, families: Families) -> int:
        """0 where a frontend, a router or an engine's own names stand beside."""
        names = {plain(name) for name in families}
        if any(name.startswith(("dynamo_frontend_", _ROUTER, *_ENGINES)) for name in names):
            return 0
        return super().score(body, families)


WORKER = _Worker(
    name="dynamo",
    role="engine",
    marks=("dynamo_component_*",),
    prefixes=("dynamo_component_",),
    columns={
        "requests_running": (Named("inflight_requests", {"dynamo_endpoint": "generate"}),),
        # Ratios 0 to 1 in spite of "percent".
        "kv_cache_used_ratio": ("gpu_cache_usage_percent", "kvstats_gpu_cache_usage_percent"),
    },
    histograms={"e2e": (Named("request_duration_seconds", {"dynamo_endpoint": "generate"}),)},
    model_labels=("model", "model_name"),
)

KIND = FormsKind(
    name="dynamo",
    forms=(
        Form(lines_starting(b"dynamo_frontend_"), FRONTEND),
        Form(lines_starting(b"dynamo_component_"), WORKER),
    ),
)
