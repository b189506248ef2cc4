"""LMDeploy 0.18's api_server with `--enable-metrics`.

Names read from the wheel's `lmdeploy/metrics/loggers.py`; vLLM's with another prefix, and some of its own.
`num_requests_succeeded` and `num_requests_failed` are counters that say gauge (the latter counts aborted
requests too); `iteration_tokens_total` is a histogram of tokens and is not read, nor is
`prefix_cache_hit_rate`, a rate since the start.
"""

from __future__ import annotations

from collectors.engines.table import PROCESS, EngineKind, Named, Names

_FAILURES = "|".join(
    (
        "*error",
        "*.session_*",
        "*.handler_*",
        "*.prefix_cache_*",
        "*.no_queue",
        "*.not_supported",
        "*.out_of_*",
    )
)


def _finished(reason: str) -> Names:
    """`reason`: pattern of a Python enum's text, such as ResponseType.FINISH."""
    return (Named("request_success_total", {"finished_reason": reason}),)


KIND = EngineKind(
    name="lmdeploy",
    role="engine",
    marks=("lmdeploy_*",),
    prefixes=("lmdeploy:",),
    columns={
        "requests_running": ("num_requests_running",),
        "requests_waiting": ("num_requests_waiting",),
        "_waiting_in_api": ("num_api_requests_waiting",),
        "kv_cache_used_ratio": ("gpu_cache_usage_perc",),  # a ratio in spite of its name
        "prompt_tokens_total": ("prompt_tokens_total",),
        "generation_tokens_total": ("generation_tokens_total",),
        "finished_stop_total": (*_finished("*.finish"), "num_requests_succeeded"),
        "finished_abort_total": _finished("*.cancel"),
        "finished_error_total": _finished(_FAILURES),
        "prefix_cache_queries_total": ("prompt_tokens_total",),
        "prefix_cache_hits_total": ("cached_tokens_total",),
    },
    # Accepted by the HTTP server and not yet given to an engine; the engine's own queue does not hold them.
    plus={"requests_waiting": ("_waiting_in_api",)},
    histograms={
        "ttft": ("time_to_first_token_seconds",),
        "itl": ("iter_token_latency",),  # seconds, though the name does not say so
        "tpot": ("time_per_output_token_seconds",),
        "e2e": ("e2e_request_latency_seconds",),
        "queue": ("request_queue_time_seconds",),
        "prefill": ("request_prefill_time_seconds",),
        "decode": ("request_decode_time_seconds",),
    },
    endpoint=PROCESS,
    replica_labels=("engine",),
    model_labels=("model_name",),
    impossible={"finished_length_total": "it does not tell stopped from cut at the length"},
    notes=("LMDeploy does not tell stopped from cut at the length: finished_stop_total is both",),
)
