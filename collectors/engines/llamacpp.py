"""llama.cpp's llama-server with `--metrics`.

`prompt_tokens_seconds` and `predicted_tokens_seconds` are never read: a scrape resets their window, so two
readers spoil each other's. `n_tokens_max` says counter and is a high-water mark. There are no histograms.
"""

from __future__ import annotations

from collectors.engines.table import EngineKind

KIND = EngineKind(
    name="llamacpp",
    role="engine",
    marks=("llamacpp_*",),
    prefixes=("llamacpp:",),
    columns={
        "requests_running": ("requests_processing",),
        "requests_waiting": ("requests_deferred",),
        "kv_cache_used_ratio": ("kv_cache_usage_ratio",),  # until mid-2025
        "prompt_tokens_total": ("prompt_tokens_total",),  # without the cached ones in newer builds
        "generation_tokens_total": ("tokens_predicted_total",),
        "prefix_cache_hits_total": ("prompt_tokens_cached_total",),  # newer builds
    },
    # Tokens asked for = taken from the cache + processed.
    added={"prefix_cache_queries_total": ("prefix_cache_hits_total", "prompt_tokens_total")},
)
