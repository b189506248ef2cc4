"""llama.cpp's llama-server with `--metrics`.

`prompt_tokens_seconds` and `predicted_tokens_seconds` are never read: a scrape resets their window, so two
readers spoil each other's (llama.cpp #25128). `n_tokens_max` says counter and is a high-water mark. Seconds
are added up over the slots that work at once, and may pass the time that went by. There are no histograms and
no count of requests, so there is no time to the first token: only a probe can measure that.
"""

from __future__ import annotations

from collectors.engines.table import EngineKind, Mean, Named

KIND = EngineKind(
    name="llamacpp",
    role="engine",
    marks=("llamacpp_*",),
    prefixes=("llamacpp:",),
    columns={
        "requests_running": ("requests_processing",),
        "requests_waiting": ("requests_deferred",),
        # Removed (llama.cpp #13660, #22879, #23632).
        "kv_cache_used_ratio": (Named("kv_cache_usage_ratio", versions="until mid-2025"),),
        "prompt_tokens_total": ("prompt_tokens_total",),  # without the cached ones in newer builds
        "generation_tokens_total": ("tokens_predicted_total",),
        "prefix_cache_hits_total": ("prompt_tokens_cached_total",),  # newer builds
    },
    # Tokens asked for = taken from the cache + processed.
    added={"prefix_cache_queries_total": ("prefix_cache_hits_total", "prompt_tokens_total")},
    means={"tpot": (Mean("tokens_predicted_seconds_total", "tokens_predicted_total"),)},
    model_labels=("model",),  # some builds only
    impossible={
        **dict.fromkeys(("ttft", "e2e", "queue"), "it has no count of requests and no histograms"),
        "prefill": "prompt_seconds_total has the seconds of all prompts, and nothing counts these",
        "decode": "tokens_predicted_seconds_total has the seconds of all answers, and nothing counts these",
        "itl": "it times generated tokens as a whole (tpot), not step by step",
        **dict.fromkeys(
            ("finished_stop_total", "finished_length_total", "finished_abort_total", "finished_error_total"),
            "it does not count requests",
        ),
    },
    notes=(
        "llama.cpp has no histograms: tpot is the mean time of a generated token, counted in tokens",
        "llama.cpp does not measure the time to first token: a target of kind probe does",
    ),
)
