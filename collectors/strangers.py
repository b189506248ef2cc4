"""Programs near inference engines whose metrics are no engine's: what to scrape instead of them.

Names: read in the programs' own sources and documentation. A router's requests are those of the servers
behind it, which show them better themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import NamedTuple

from collectors.source import plain


class Stranger(NamedTuple):
    """A program that is known and not read."""

    names: tuple[str, ...]
    """Patterns of its metric names, as `source.plain`."""
    program: str
    cure: str


_BEHIND_IT = "what runs and waits is shown by the servers behind it: scrape those"

STRANGERS = (
    Stranger(
        ("sglang_router_*", "smg_*"),
        "SGLang's router (model gateway)",
        f"{_BEHIND_IT} (each with --enable-metrics), or /engine_metrics of the router's own port",
    ),
    Stranger(("vllm_router_*",), "vLLM's router", _BEHIND_IT),
    Stranger(
        ("dynamo_component_router_*", "dynamo_router_*"),
        "Dynamo's router",
        "scrape Dynamo's frontend and its workers (DYN_SYSTEM_PORT)",
    ),
    Stranger(
        (
            "inference_pool_*",
            "inference_model_*",
            "inference_objective_*",
            "inference_extension_*",
            "llm_d_*",
        ),
        "the endpoint picker of Kubernetes' Gateway API inference extension (llm-d)",
        _BEHIND_IT,
    ),
    Stranger(("aibrix_*", "gateway_request_*"), "AIBrix's gateway", _BEHIND_IT),
    Stranger(("agentgateway_*",), "agentgateway", _BEHIND_IT),
    Stranger(
        ("envoy_*",),
        "Envoy",
        "Envoy AI Gateway counts tokens in its external processor: scrape that one's port (1064)",
    ),
    Stranger(
        ("ray_*",),
        "Ray without metrics of vLLM",
        "set log_engine_metrics in Ray Serve's LLM configuration, and scrape the node that runs the model",
    ),
    Stranger(
        ("te_*",),
        "text-embeddings-inference",
        "it makes no tokens, and there is no kind for servers of embeddings",
    ),
    Stranger(
        ("request_predict_seconds*", "request_preprocess_seconds*", "request_explain_seconds*"),
        "KServe's model server without metrics of an engine",
        "its runtime for language models shows vLLM's; scrape the port of the engine itself",
    ),
    Stranger(("lmcache_*",), "LMCache", "it is a cache of an engine: scrape the engine"),
    Stranger(
        ("otelcol_*",),
        "an OpenTelemetry collector's own metrics",
        "what it gathers stands at the port of its prometheus exporter",
    ),
    Stranger(
        ("prometheus_*",),
        "Prometheus itself",
        "to read what it has gathered, name it as `prometheus:` of a target",
    ),
)


_PATTERNS = [re.compile("|".join(map(translate, one.names))) for one in STRANGERS]


def who(names: Iterable[str]) -> Stranger | None:
    """The program most of whose metrics stand among these names; None when it is none of `STRANGERS`."""
    spelled = {plain(name) for name in names}
    counts = [sum(pattern.match(name) is not None for name in spelled) for pattern in _PATTERNS]
    return STRANGERS[counts.index(max(counts))] if any(counts) else None
