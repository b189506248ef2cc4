"""vLLM 0.6.6 to 0.33 (V0 and V1 engine).

Names read from the wheels' `vllm/v1/metrics/loggers.py` and, for V0, `vllm/engine/metrics.py`; a name is
deprecated in X.Y, hidden in X.Y+1 and gone in X.Y+2, so two of one concept can stand side by side with
the same value (0.9.2 shows KV use twice). `iteration_tokens_total` is a histogram and is not read.
"""

from __future__ import annotations

from collections.abc import Mapping

from collectors.engines.table import HTTP_ERRORS, PROCESS, EngineKind, Named, Names


def _finished(reason: str, *, absent_is_zero: bool = False) -> Names:
    return (Named("request_success_total", {"finished_reason": reason}, absent_is_zero=absent_is_zero),)


COLUMNS: Mapping[str, Names] = {
    "requests_running": ("num_requests_running",),
    "requests_waiting": ("num_requests_waiting",),
    "requests_swapped": ("num_requests_swapped",),  # V0 only
    # Ratios 0 to 1 in spite of "perc"; the second until 0.11.
    "kv_cache_used_ratio": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    "preemptions_total": ("num_preemptions_total",),
    "prompt_tokens_total": ("prompt_tokens_total",),
    "generation_tokens_total": ("generation_tokens_total",),
    # V0 shows a reason from its first request on; V1 shows all its reasons from the start, and `error`
    # only since it knows that reason, so an absent `error` is not 0.
    "finished_stop_total": _finished("stop", absent_is_zero=True),
    "finished_length_total": _finished("length", absent_is_zero=True),
    "finished_error_total": _finished("error"),
    # V0 has a rate instead (gpu_prefix_cache_hit_rate, -1 when off): not read, it cannot be averaged.
    "prefix_cache_queries_total": ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
    "prefix_cache_hits_total": ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
    "memory_reservation_ratio": (Named("cache_config_info", in_label="gpu_memory_utilization"),),
}

HISTOGRAMS: Mapping[str, Names] = {
    "ttft": ("time_to_first_token_seconds",),
    "itl": ("inter_token_latency_seconds", "time_per_output_token_seconds"),  # the second until 0.14
    "tpot": ("request_time_per_output_token_seconds",),
    "e2e": ("e2e_request_latency_seconds",),
    "queue": ("request_queue_time_seconds",),
    "prefill": ("request_prefill_time_seconds",),
    "decode": ("request_decode_time_seconds",),
}

KIND = EngineKind(
    name="vllm",
    role="engine",
    marks=("vllm_*",),
    # The router of vLLM's production stack repeats its servers' gauges under their names, with this label.
    not_with_labels=frozenset({"server"}),
    prefixes=("vllm:",),
    columns=COLUMNS,
    histograms=HISTOGRAMS,
    endpoint={**HTTP_ERRORS, **PROCESS},
    replica_labels=("engine",),
    model_labels=("model_name",),
    notes=(
        "vLLM does not count aborted requests (its counter stays 0): finished_abort_total is not measured",
    ),
)
