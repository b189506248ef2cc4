"""The router of vLLM's production stack: gauges of its servers under vLLM's own names, with a label `server`.

Names: production-stack `src/vllm_router/services/metrics_service`. What it repeats are its servers' figures;
where it shows none (production-stack #318), scrape the engines themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectors.engines import vllm
from collectors.engines.layout import EngineLayout
from collectors.engines.series import EnginePlace
from collectors.engines.table import PROCESS, EngineKind
from collectors.exposition import Nowhere
from collectors.source import Families, plain

_SERVER = "server"
OWN = frozenset({"vllm_num_incoming_requests_total", "vllm_routing_decisions_total"})
"""Names without that label which vLLM does not have."""
NO_SERVER = "the router shows no figures of its servers: scrape the engines themselves"
_INCOMING = "incoming"


@dataclass(frozen=True, kw_only=True)
class _Router(EngineKind):
    def score(self, body: bytes, families: Families) -> int:
        """The number of vLLM's families that name a server, and of the router's own."""
        del body
        if vllm.KIND.labelled_by_others(families):
            return sum(plain(name) in OWN for name in families)
        return sum(
            plain(name) in OWN or (plain(name).startswith("vllm_") and _SERVER in labels)
            for name, labels in families.items()
        )

    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """As the tables say, of a server; the process is the router's."""
        place = super().place(name, labels)
        if isinstance(place, Nowhere) or place.of_endpoint:
            return place
        if place.column == _INCOMING:
            return place._replace(replica=None, model=None)
        return place if place.replica is not None else Nowhere.UNOWNED

    def layout(self, places: tuple[EnginePlace, ...]) -> EngineLayout:
        """How values become rows, one a server: its gauges name no model, so several models are one row."""
        if all(place.replica is None for place in places):
            layout = super().layout(places)
            layout.notes = (*layout.notes, NO_SERVER) if layout.notes else ()
            return layout
        models: dict[str | None, set[str]] = {}
        for place in places:
            if place.model is not None:
                models.setdefault(place.replica, set()).add(place.model)
        several = {replica for replica, names in models.items() if len(names) > 1}
        only = {replica: next(iter(names)) for replica, names in models.items() if len(names) == 1}

        def settled(place: EnginePlace) -> EnginePlace:
            if place.column == _INCOMING:
                return place._replace(of_endpoint=True)  # it is no row beside the servers
            if place.replica in several:
                return place._replace(model=None)
            return place._replace(model=only.get(place.replica, place.model))

        return super().layout(tuple(settled(place) for place in places))


KIND = _Router(
    name="vllm_router",
    role="router",
    marks=("vllm_*",),
    prefixes=("vllm:",),
    columns={
        "requests_running": ("num_requests_running",),
        "requests_waiting": ("num_requests_waiting",),
        "requests_swapped": ("num_requests_swapped",),
        "prompt_tokens_total": ("input_tokens_total",),
        "generation_tokens_total": ("output_tokens_total",),
        "finished_error_total": ("request_errors_total",),
        # Typed as gauges there; they are counters of the servers.
        "prefix_cache_queries_total": ("gpu_prefix_cache_queries_total",),
        "prefix_cache_hits_total": ("gpu_prefix_cache_hits_total",),
        # Of all servers; there without any of them, it makes a row.
        _INCOMING: ("num_incoming_requests_total", "routing_decisions_total"),
    },
    histograms={"e2e": ("request_latency_seconds",)},
    endpoint=PROCESS,
    replica_labels=(_SERVER,),
    model_labels=("model",),
    impossible={
        "kv_cache_used_ratio": "the router does not repeat it: scrape the engines",
        "ttft": "the router does not repeat it: scrape the engines",
    },
    notes=("these are the router's figures of its servers: the same requests as the servers' own rows",),
)
