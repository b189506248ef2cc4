"""OpenTelemetry's GenAI conventions (status "development"), as Prometheus exporters write them.

Names: `docs/gen-ai/gen-ai-metrics.md` of the semantic conventions. Exporters write `.` as `_` or keep it, and
add the unit or not: both spellings of both are read. `gen_ai.server.*` is measured in the model server (role
engine); `gen_ai.client.*` by its callers (role gateway), so where both stand there the client's latencies are
not read. Envoy AI Gateway shows `gen_ai.server.*` and is a gateway, told by its scope or its label
`gen_ai.original.model`. There are no gauges of queue or KV cache.

Tokens go to a project where a series names one, by the first of the labels `project`, `project_id`,
`gen_ai_project`, `openai_project` and `service_namespace` that has a value; the conventions mean the last for
the team that owns a group of services.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from collectors.engines.forms import Form, FormsKind, lines_starting
from collectors.engines.table import EngineKind, Named, Names
from collectors.engines.usage import MeteredKind, MeteredPlace, UsageTable
from collectors.exposition import Nowhere
from collectors.source import Families

PROJECT_LABELS = ("project", "project_id", "gen_ai_project", "openai_project", "service_namespace")
ENVIRONMENT_LABELS = ("deployment_environment_name", "deployment_environment")
MODEL_LABELS = ("gen_ai_request_model", "gen_ai_response_model")

_CACHED = "cached_input"
"""Of the input tokens, as Envoy AI Gateway counts them (semantic-conventions #1959)."""
_FAILED = {"error_type": "?*"}

_EXPIRY = (
    "an OpenTelemetry collector's Prometheus exporter drops series that nobody sent for 5 minutes: set its"
    " metric_expiration to days, or what comes back can be counted as new use"
)


def _seconds(name: str) -> Names:
    return (f"gen_ai_{name}_seconds", f"gen_ai_{name}")


def _count(name: str, where: Mapping[str, str] | None = None) -> Names:
    return tuple(Named(f"{one}_count", where or {}) for one in _seconds(name))


def _tokens(kind: str) -> Names:
    return tuple(
        Named(f"gen_ai_client_token_usage{unit}_sum", {"gen_ai_token_type": kind})
        for unit in ("", "_token", "_tokens")
    )


def _spelled(name: str) -> str:
    return name.replace(".", "_")


@dataclass(frozen=True, kw_only=True)
class _OtelKind(MeteredKind):
    def score(self, body: bytes, families: Families) -> int:
        """The number of its families, however they are spelled."""
        return super().score(body, {_spelled(name): labels for name, labels in families.items()})

    def wants(self, name: str) -> bool:
        """Whether a series of that name can say something, however it is spelled."""
        return super().wants(_spelled(name))

    def marked(self, name: str) -> bool:
        """Whether the name is one of these, however it is spelled."""
        return super().marked(_spelled(name))

    def place(self, name: str, labels: dict[str, str]) -> MeteredPlace | Nowhere:
        """As the tables say, however the name and the labels are spelled."""
        place = super().place(_spelled(name), {_spelled(key): value for key, value in labels.items()})
        if "." not in name or isinstance(place, Nowhere):
            return place
        usage = tuple(use._replace(exposed=name) for use in place.usage)
        if place.engine is None:
            return MeteredPlace(None, usage)
        whole = name.removesuffix("_bucket") if place.engine.part == "bucket" else name
        also = tuple(one._replace(exposed=name) for one in place.engine.also)
        return MeteredPlace(place.engine._replace(exposed=whole, also=also), usage)


def _kind(engine: EngineKind, requests: Names) -> _OtelKind:
    usage = UsageTable(
        source="otel",
        counters={
            "prompt_tokens_total": _tokens("input"),
            "cached_tokens_total": _tokens(_CACHED),
            "generation_tokens_total": _tokens("output"),
            "requests_total": requests,
        },
        project_labels=PROJECT_LABELS,
        environment_labels=ENVIRONMENT_LABELS,
        model_labels=MODEL_LABELS,
        needs_project=True,
    )
    return _OtelKind(
        name=engine.name, role=engine.role, marks=engine.marks, engine=engine, usage=usage
    )  # fmt: skip


SERVER = EngineKind(
    name="otel",
    role="engine",
    marks=("gen_ai_server_*",),
    prefixes=("",),
    columns={
        "prompt_tokens_total": _tokens("input"),
        "generation_tokens_total": _tokens("output"),
        "prefix_cache_hits_total": _tokens(_CACHED),
        "finished_error_total": _count("server_request_duration", _FAILED),
    },
    histograms={
        "ttft": _seconds("server_time_to_first_token"),
        "tpot": _seconds("server_time_per_output_token"),
        "e2e": _seconds("server_request_duration"),
    },
    added={"prefix_cache_queries_total": ("prompt_tokens_total",)},
    model_labels=MODEL_LABELS,
    impossible=dict.fromkeys(
        ("requests_running", "requests_waiting", "kv_cache_used_ratio"), "the conventions have no such gauge"
    ),
    notes=(_EXPIRY,),
)

CLIENT = replace(
    SERVER,
    role="gateway",
    marks=("gen_ai_client_*",),
    columns=SERVER.columns | {"finished_error_total": _count("client_operation_duration", _FAILED)},  # type: ignore[operator]
    histograms={
        # The first piece of a streamed answer, and the time between pieces: what a caller sees of tokens.
        "ttft": _seconds("client_operation_time_to_first_chunk"),
        "itl": _seconds("client_operation_time_per_output_chunk"),
        "e2e": _seconds("client_operation_duration"),
    },
    notes=("these are latencies as the callers measured them, the network's included", _EXPIRY),
)

ENVOY = replace(
    SERVER,
    role="gateway",
    notes=("these are latencies as the gateway measured them, the network's to the engine included",),
)


def _is_envoys(body: bytes) -> bool:
    return any(
        sign in body
        for sign in (b'"envoyproxy/ai-gateway"', b"gen_ai_original_model=", b"gen_ai.original.model")
    )


_SERVER_LINES = lines_starting(b"gen_ai_server_", b'{"gen_ai.server.', b'{"gen_ai_server_')

KIND = FormsKind(
    name="otel",
    forms=(
        Form(
            lambda body: _SERVER_LINES(body) and not _is_envoys(body),
            _kind(SERVER, _count("server_request_duration")),
        ),
        Form(_is_envoys, _kind(ENVOY, _count("server_request_duration"))),
        Form(
            lines_starting(b"gen_ai_client_", b'{"gen_ai.client.', b'{"gen_ai_client_'),
            _kind(CLIENT, _count("client_operation_duration")),
        ),
    ),
)
