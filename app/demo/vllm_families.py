"""The metric families of vLLM 0.32 and 0.9.2: names, types, help texts, and where the model has the value.

Names, order and help are those of expositions of the real servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from app.demo.engine import Replica
from app.demo.histogram import Histogram

Value = Callable[[Replica], float | Histogram]


class Family(NamedTuple):
    """One family; `series` holds (labels beside engine and model, value) in the order it is written."""

    name: str
    """Without `_total`."""
    kind: str
    help: str
    series: tuple[tuple[dict[str, str], Value], ...]
    per_engine: bool = True
    """False: no engine label, written once."""


def _none(_replica: Replica) -> float:
    return 0.0


def _one(_replica: Replica) -> float:
    return 1.0


def _family(kind: str, name: str, help_: str, value: Value) -> Family:
    return Family(name, kind, help_, (({}, value),))


def _split(
    name: str, kind: str, help_: str, label: str, values: dict[str, Value], *, per_engine: bool = True
) -> Family:
    series = tuple(({label: text}, value) for text, value in values.items())
    return Family(name, kind, help_, series, per_engine)


def _computed_tokens(replica: Replica) -> float:
    return replica.stats.prompt_tokens - replica.stats.cached_tokens


_RUNNING = _family(
    "gauge", "vllm:num_requests_running", "Number of requests in model execution batches.",
    lambda replica: replica.requests_running,
)  # fmt: skip
_WAITING = _family(
    "gauge", "vllm:num_requests_waiting", "Number of requests waiting to be processed.",
    lambda replica: replica.requests_waiting,
)  # fmt: skip
_KV_USAGE = _family(
    "gauge", "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
    lambda replica: replica.kv_used_ratio,
)  # fmt: skip
_PREFIX = (
    _family(
        "counter", "vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.",
        lambda replica: replica.stats.prefix_queries,
    ),
    _family(
        "counter", "vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.",
        lambda replica: replica.stats.prefix_hits,
    ),
)  # fmt: skip
_PREEMPTIONS = _family(
    "counter", "vllm:num_preemptions", "Cumulative number of preemption from the engine.",
    lambda replica: replica.stats.preemptions,
)  # fmt: skip
_PROMPT_TOKENS = _family(
    "counter", "vllm:prompt_tokens", "Number of prefill tokens processed.",
    lambda replica: replica.stats.prompt_tokens,
)  # fmt: skip
_GENERATION_TOKENS = _family(
    "counter", "vllm:generation_tokens", "Number of generation tokens processed.",
    lambda replica: replica.stats.generation_tokens,
)  # fmt: skip
_SIZES = (
    _family(
        "histogram", "vllm:request_prompt_tokens", "Number of prefill tokens processed.",
        lambda replica: replica.stats.prompt_sizes,
    ),
    _family(
        "histogram", "vllm:request_generation_tokens", "Number of generation tokens processed.",
        lambda replica: replica.stats.generation_sizes,
    ),
    _family(
        "histogram", "vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.",
        lambda replica: replica.stats.iteration_tokens,
    ),
    _family(
        "histogram", "vllm:request_max_num_generation_tokens",
        "Histogram of maximum number of requested generation tokens.",
        lambda replica: replica.stats.generation_sizes,
    ),
    _family(
        "histogram", "vllm:request_params_n", "Histogram of the n request parameter.",
        lambda replica: replica.stats.choices,
    ),
    _family(
        "histogram", "vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.",
        lambda replica: replica.stats.max_tokens,
    ),
    _family(
        "histogram", "vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.",
        lambda replica: replica.stats.ttft,
    ),
)  # fmt: skip


def _phase(name: str, help_: str, value: Value) -> Family:
    return _family("histogram", f"vllm:{name}_seconds", help_, value)


_PHASES = (
    _phase("e2e_request_latency", "Histogram of e2e request latency in seconds.", lambda r: r.stats.e2e),
    _phase(
        "request_queue_time", "Histogram of time spent in WAITING phase for request.",
        lambda r: r.stats.queue,
    ),
    _phase(
        "request_inference_time", "Histogram of time spent in RUNNING phase for request.",
        lambda r: r.stats.inference,
    ),
    _phase(
        "request_prefill_time", "Histogram of time spent in PREFILL phase for request.",
        lambda r: r.stats.prefill,
    ),
    _phase(
        "request_decode_time", "Histogram of time spent in DECODE phase for request.",
        lambda r: r.stats.decode,
    ),
)  # fmt: skip
_ENDS: dict[str, Value] = {
    "stop": lambda replica: replica.stats.finished_stop,
    "length": lambda replica: replica.stats.finished_length,
    "abort": _none,
}
_SUCCESS_HELP = "Count of successfully processed requests."
_FLOPS = "(for Model Flops Utilization calculations)."

VLLM_0_32: tuple[Family, ...] = (
    _family(
        "counter", "vllm:estimated_flops_per_gpu",
        f"Estimated number of floating point operations per GPU {_FLOPS}",
        _none,
    ),
    _family(
        "counter", "vllm:estimated_read_bytes_per_gpu",
        f"Estimated number of bytes read from memory per GPU {_FLOPS}", _none,
    ),
    _family(
        "counter", "vllm:estimated_write_bytes_per_gpu",
        f"Estimated number of bytes written to memory per GPU {_FLOPS}", _none,
    ),
    _RUNNING,
    _WAITING,
    _split(
        "vllm:num_requests_waiting_by_reason", "gauge",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity;"
        " 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of"
        " all reasons equals vllm:num_requests_waiting.",
        "reason", {"capacity": lambda replica: replica.requests_waiting, "deferred": _none},
    ),
    _split(
        "vllm:engine_sleep_state", "gauge",
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake;"
        " weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        "sleep_state", {"awake": _one, "weights_offloaded": _none, "discard_all": _none},
    ),
    _KV_USAGE,
    *_PREFIX,
    _family(
        "counter", "vllm:external_prefix_cache_queries",
        "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of"
        " queried tokens.", _none,
    ),
    _family(
        "counter", "vllm:external_prefix_cache_hits",
        "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of"
        " cached tokens.", _none,
    ),
    _family(
        "counter", "vllm:mm_cache_queries",
        "Multi-modal cache queries, in terms of number of queried items.", _none
    ),
    _family(
        "counter", "vllm:mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", _none
    ),
    _PREEMPTIONS,
    _PROMPT_TOKENS,
    _split(
        "vllm:prompt_tokens_by_source", "counter", "Number of prompt tokens by source.", "source",
        {
            "local_compute": _computed_tokens,
            "local_cache_hit": lambda replica: replica.stats.cached_tokens,
            "external_kv_transfer": _none,
        },
    ),
    _family(
        "counter", "vllm:prompt_tokens_cached", "Number of cached prompt tokens (local + external).",
        lambda replica: replica.stats.cached_tokens,
    ),
    _split(
        "vllm:prompt_tokens_cached_by_source", "counter",
        "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to"
        " DRAM), disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at"
        " admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
        "source",
        {
            "device": lambda replica: replica.stats.prefix_hits,
            "host": _none, "p2p": _none, "disk": _none, "external_unspecified": _none,
        },
    ),
    _GENERATION_TOKENS,
    _split(
        "vllm:request_success", "counter", _SUCCESS_HELP, "finished_reason",
        {**_ENDS, "error": _none, "repetition": _none},
    ),
    _split(
        "vllm:admission_rejections", "counter",
        "Number of admission attempts rejected by a queue limit, by reason.", "reason",
        {"max_num_queued_reqs": _none, "max_num_queued_tokens": _none}, per_engine=False,
    ),
    *_SIZES,
    _family(
        "histogram", "vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.",
        lambda replica: replica.stats.itl,
    ),
    _family(
        "histogram", "vllm:request_time_per_output_token_seconds",
        "Histogram of time_per_output_token_seconds per request.", lambda replica: replica.stats.tpot,
    ),
    *_PHASES,
    _family(
        "histogram", "vllm:request_num_preemptions",
        "Histogram of the number of times a request was preempted.",
        lambda replica: replica.stats.request_preemptions,
    ),
    _family(
        "histogram", "vllm:request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        lambda replica: replica.stats.computed_sizes,
    ),
)  # fmt: skip

VLLM_0_9_2: tuple[Family, ...] = (
    _RUNNING,
    _WAITING,
    _family(
        "gauge", "vllm:gpu_cache_usage_perc",
        "GPU KV-cache usage. 1 means 100 percent usage.DEPRECATED: Use vllm:kv_cache_usage_perc instead.",
        lambda replica: replica.kv_used_ratio,
    ),
    _family(
        "counter", "vllm:gpu_prefix_cache_queries",
        "GPU prefix cache queries, in terms of number of queried tokens.DEPRECATED: Use"
        " vllm:prefix_cache_queries instead.", lambda replica: replica.stats.prefix_queries,
    ),
    _family(
        "counter", "vllm:gpu_prefix_cache_hits",
        "GPU prefix cache hits, in terms of number of cached tokens.DEPRECATED: Use vllm:prefix_cache_hits"
        " instead.", lambda replica: replica.stats.prefix_hits,
    ),
    _KV_USAGE,
    *_PREFIX,
    _PREEMPTIONS,
    _PROMPT_TOKENS,
    _GENERATION_TOKENS,
    _split("vllm:request_success", "counter", _SUCCESS_HELP, "finished_reason", _ENDS),
    *_SIZES,
    _family(
        "histogram", "vllm:time_per_output_token_seconds", "Histogram of time per output token in seconds.",
        lambda replica: replica.stats.itl,
    ),
    *_PHASES,
)  # fmt: skip
