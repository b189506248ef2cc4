"""NVIDIA NIM for LLMs 1.x: vLLM's first metric names without a prefix, at `/v1/metrics` (1.0: `/metrics`).

Names read from a capture (DataDog integrations-core, nvidia_nim/tests/fixtures/nim_metrics.txt) and NVIDIA's
page on observability. An old `trtllm-serve` shows bare names too; NIM is told by those that only it has.
Values are written with three-digit exponents (`1.15e+011`). NIM 2.x is expected to show vLLM's own names.
"""

from __future__ import annotations

from collectors.engines.table import PROCESS, EngineKind, Named

KIND = EngineKind(
    name="nim",
    role="engine",
    default_path="/v1/metrics",
    marks=(
        "num_request_max",
        "num_requests_running",
        "num_requests_waiting",
        "gpu_cache_usage_perc",
        "prompt_tokens_total",
        "generation_tokens_total",
        "request_finish_total",
        "request_success_total",
        "request_failure_total",
        "time_to_first_token_seconds_*",
        "time_per_output_token_seconds_*",
        "e2e_request_latency_seconds_*",
    ),
    only_with=frozenset({"num_request_max", "gpu_cache_usage_perc"}),
    prefixes=("",),
    columns={
        "requests_running": ("num_requests_running",),
        "requests_waiting": ("num_requests_waiting",),
        "kv_cache_used_ratio": ("gpu_cache_usage_perc",),  # a ratio in spite of its name
        "prompt_tokens_total": ("prompt_tokens_total",),
        "generation_tokens_total": ("generation_tokens_total",),
        "finished_stop_total": (
            Named("request_finish_total", {"finished_reason": "stop"}, absent_is_zero=True),
        ),
        "finished_length_total": (
            Named("request_finish_total", {"finished_reason": "length"}, absent_is_zero=True),
        ),
        "finished_error_total": ("request_failure_total",),
    },
    histograms={
        "ttft": ("time_to_first_token_seconds",),
        "itl": ("time_per_output_token_seconds",),
        "e2e": ("e2e_request_latency_seconds",),
    },
    endpoint=PROCESS,
    model_labels=("model_name",),
    impossible={"finished_abort_total": "it does not count aborted requests, as vLLM"},
    notes=("NIM does not count aborted requests: finished_abort_total is not measured",),
)
