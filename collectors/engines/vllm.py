"""vLLM 0.6.6 to 0.32 (V0 and V1 engine; names of a later version have not been checked).

Names read from the wheels' `vllm/v1/metrics/loggers.py` and, for V0, `vllm/engine/metrics.py`; a name is
deprecated in X.Y, hidden in X.Y+1 and gone in X.Y+2, so two of one concept can stand side by side with
the same value (0.9.2 shows KV use twice). `iteration_tokens_total` is a histogram and is not read; nor is
V0's `gpu_prefix_cache_hit_rate`, a rate since the start (-1: off). `max_model_len` is shown nowhere.
Histograms of requests are written when one ends (an aborted one never is): what waits is known by gauges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.engines.layout import EngineLayout
from collectors.engines.series import ROWS_CAP, EnginePlace, find_rows
from collectors.engines.table import HTTP_ERRORS, PROCESS, EngineKind, Named, Names


def _finished(reason: str, *, absent_is_zero: bool = False) -> Names:
    return (Named("request_success_total", {"finished_reason": reason}, absent_is_zero=absent_is_zero),)


COLUMNS: Mapping[str, Names] = {
    "requests_running": ("num_requests_running",),
    "requests_waiting": ("num_requests_waiting",),
    "requests_swapped": (Named("num_requests_swapped", versions="until 0.8 (V0)"),),
    # Ratios 0 to 1 in spite of "perc".
    "kv_cache_used_ratio": (
        Named("kv_cache_usage_perc", versions="since 0.9.2"),
        Named("gpu_cache_usage_perc", versions="until 0.11"),
    ),
    "preemptions_total": ("num_preemptions_total",),
    "prompt_tokens_total": ("prompt_tokens_total",),
    "generation_tokens_total": ("generation_tokens_total",),
    # V0 shows a reason from its first request on; V1 shows all its reasons from the start, and `error`
    # only since it knows that reason, so an absent `error` is not 0.
    # The model stopped, or was stopped because it repeats itself (0.32, on request).
    "finished_stop_total": _finished("stop|repetition", absent_is_zero=True),
    "finished_length_total": _finished("length", absent_is_zero=True),
    "finished_error_total": _finished("error"),
    # V0 has a rate instead (gpu_prefix_cache_hit_rate, -1 when off): not read, it cannot be averaged.
    "prefix_cache_queries_total": (
        Named("prefix_cache_queries_total", versions="since 0.9.2"),
        Named("gpu_prefix_cache_queries_total", versions="0.8 to 0.11 (V1)"),
    ),
    "prefix_cache_hits_total": (
        Named("prefix_cache_hits_total", versions="since 0.9.2"),
        Named("gpu_prefix_cache_hits_total", versions="0.8 to 0.11 (V1)"),
    ),
    "memory_reservation_ratio": (Named("cache_config_info", in_label="gpu_memory_utilization"),),
}

HISTOGRAMS: Mapping[str, Names] = {
    "ttft": ("time_to_first_token_seconds",),
    "itl": (
        Named("inter_token_latency_seconds", versions="since 0.10.2"),
        Named("time_per_output_token_seconds", versions="until 0.14"),
    ),
    "tpot": (Named("request_time_per_output_token_seconds", versions="since 0.11"),),
    "e2e": ("e2e_request_latency_seconds",),
    "queue": (
        "request_queue_time_seconds",
        Named("time_in_queue_requests", versions="until 0.8 (V0)"),
    ),
    "prefill": ("request_prefill_time_seconds",),
    "decode": ("request_decode_time_seconds",),
}


@dataclass(frozen=True, kw_only=True)
class _Vllm(EngineKind):
    def layout(self, places: tuple[EnginePlace, ...]) -> EngineLayout:
        """How values become rows, with a note where the first of its numbered engines are not there."""
        layout = super().layout(places)
        if unseen := _engines_before(places):
            layout.notes = (*layout.notes, unseen)
        return layout


def _engines_before(places: tuple[EnginePlace, ...]) -> str | None:
    """The note on numbered replicas of which the first are missing."""
    replicas = [row.replica for row in find_rows(places)[0]]
    if not replicas or not all(replica.isdecimal() for replica in replicas):
        return None
    first = min(map(int, replicas))
    if not 0 < first < ROWS_CAP:
        return None
    before = "replica 0 is" if first == 1 else f"replicas 0 to {first - 1} are"
    return (
        f"{before} not shown here: where each data-parallel rank is a server of its own, scrape them all "
        "(vLLM before 0.10 shows the last of its engines alone)"
    )


KIND = _Vllm(
    name="vllm",
    role="engine",
    marks=("vllm_*",),
    not_marks=("vllm_router_*",),
    # The router of vLLM's production stack repeats its servers' gauges under their names, with this label.
    not_with_labels=frozenset({"server"}),
    own=frozenset(
        {
            "vllm_prompt_tokens_total",
            "vllm_generation_tokens_total",
            "vllm_time_to_first_token_seconds_count",
            "vllm_cache_config_info",
        }
    ),
    prefixes=("vllm:",),
    columns=COLUMNS,
    histograms=HISTOGRAMS,
    endpoint={**HTTP_ERRORS, **PROCESS},
    replica_labels=("engine",),
    model_labels=("model_name",),
    impossible={"finished_abort_total": "its counter of aborted requests stays 0 (vllm #31503)"},
    notes=(
        "vLLM does not count aborted requests (its counter stays 0): finished_abort_total is not measured",
    ),
)
