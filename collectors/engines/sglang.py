"""SGLang 0.3 to 0.5 with `--enable-metrics` (without it /metrics answers 404).

Names read from the wheels' `sglang/srt/observability/metrics_collector.py`, until 0.5.9 or so
`sglang/srt/metrics/collector.py`.
- The schedulers' figures carry ranks: a data-parallel one (`dp_rank`, a replica of its own) and tensor,
  pipeline and expert ones, which are copies (with `--enable-metrics-for-all-schedulers` each rank shows the
  same queue, sglang #29372). What is counted per request has no rank: it is of all replicas and stands on
  replica "0".
- The router's `/engine_metrics` shows all its workers in one answer, by `worker_addr`: each is a replica.
- `gen_throughput` and `cache_hit_rate` keep their last value when nothing runs (sglang #4244, #26608, #5625),
  and the latter was a percentage before 0.4: neither is read.
- `avg_request_queue_latency` (until 0.5.1) is a gauge of a mean and not read. `realtime_tokens_total` is not,
  either: prompt and generated tokens are counted once, by what finished.
- `routing_key_*_req_count` are gauges in spite of their label `le`; `fwd_occupancy` is NaN while idle.
- `num_retracted_reqs` and `num_paused_reqs` are not swapped requests, so `requests_swapped` is not measured.
- No `process_*`: the metrics always come from several processes.
"""

from __future__ import annotations

from collectors.engines.table import EngineKind, Named

RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")

WAITING_TOO = {
    "_grammar_queue": ("num_grammar_queue_reqs",),
    # Prefill and decode apart: before the prefill here, and before the decode here. `num_prefill_inflight_…`
    # is left out: its requests are done here and wait for the other side. `num_decode_host_receive_…` are
    # among those in transfer.
    "_bootstrap_queue": ("num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs"),
    "_prealloc_queue": ("num_decode_prealloc_queue_reqs",),
    "_transfer_queue": ("num_decode_transfer_queue_reqs",),
}

KIND = EngineKind(
    name="sglang",
    role="engine",
    marks=("sglang_*",),
    not_marks=("sglang_router_*",),
    not_with_labels=frozenset({"server"}),
    own=frozenset(
        {
            "sglang_prompt_tokens_total",
            "sglang_generation_tokens_total",
            "sglang_time_to_first_token_seconds_count",
        }
    ),
    prefixes=("sglang:",),
    columns={
        "requests_running": ("num_running_reqs", Named("num_requests_running", versions="0.3")),
        "requests_waiting": (
            "num_queue_reqs",
            Named("num_requests_waiting", versions="0.3"),
            Named("queue_req", versions="0.3"),
        ),
        **WAITING_TOO,
        # Of all memory pools the fullest; `full_` is the pool of ordinary attention alone.
        "kv_cache_used_ratio": ("token_usage", "full_token_usage"),
        # Retracted: thrown out of the running batch for lack of KV memory, and started anew.
        "preemptions_total": (
            Named("num_retracted_requests_total", versions="since 0.5.12"),
            Named("total_retracted_reqs", versions="0.5.1"),
        ),
        "prompt_tokens_total": ("prompt_tokens_total",),  # with the cached ones
        "generation_tokens_total": ("generation_tokens_total",),
        "finished_abort_total": ("num_aborted_requests_total",),
        "prefix_cache_queries_total": ("prompt_tokens_total",),
        "prefix_cache_hits_total": ("cached_tokens_total",),  # one series a `cache_source`
        "http_4xx_total": (Named("http_responses_total", {"status_code": "4*"}, absent_is_zero=True),),
        "http_5xx_total": (Named("http_responses_total", {"status_code": "5*"}, absent_is_zero=True),),
    },
    plus={"requests_waiting": tuple(WAITING_TOO)},
    histograms={
        "ttft": ("time_to_first_token_seconds",),
        "itl": (
            Named("inter_token_latency_seconds", versions="since 0.4.2"),
            Named("time_per_output_token_seconds", versions="until 0.4.1"),
        ),
        "tpot": ("request_time_per_output_token_seconds",),
        "e2e": ("e2e_request_latency_seconds",),
        # Before, a gauge of the mean, which is not read.
        "queue": (Named("queue_time_seconds", versions="since 0.5.2"),),
        "prefill": (Named("per_stage_req_latency_seconds", {"stage": "prefill_forward"}),),
        "decode": (Named("per_stage_req_latency_seconds", {"stage": "decode_forward"}),),
    },
    replica_labels=("worker_addr", "dp_rank"),
    model_labels=("model_name", "name"),  # the second in 0.3
    copies=RANKS,
    # With priorities the series with `priority=""` is the total, and one per priority shares it out.
    totals=dict.fromkeys(("requests_running", "requests_waiting", *WAITING_TOO), "priority"),
    impossible={
        "requests_swapped": "it retracts requests and starts them anew, and counts that as preemptions_total",
        "finished_stop_total": "num_requests_total does not tell stopped from cut at the length",
        "finished_length_total": "num_requests_total does not tell stopped from cut at the length",
        "process_start_time_seconds": "its metrics come from several processes",
    },
    notes=("SGLang counts tokens when a request finishes: rates come in bursts, 0 while long requests run",),
)
