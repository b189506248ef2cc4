"""Small expositions written for the tests, with the real names, labels and types."""

from __future__ import annotations

from collections.abc import Mapping

TTFT_EDGES = ("0.1", "1.0", "+Inf")


def vllm(
    *,
    model: str = "m",
    engine: str = "0",
    running: float = 1,
    waiting: float = 0,
    prompt: float = 100,
    generation: float = 200,
    ttft: Mapping[str, float] | None = None,
    ttft_sum: float = 1.0,
    start: float | None = 1e9,
    reservation: str | None = None,
) -> bytes:
    """One vLLM replica with one histogram; `ttft` maps `le` to the cumulative count."""
    labels = f'engine="{engine}",model_name="{model}"'
    buckets = ttft or dict.fromkeys(TTFT_EDGES, 0.0)
    lines = [
        f"vllm:num_requests_running{{{labels}}} {running}",
        f"vllm:num_requests_waiting{{{labels}}} {waiting}",
        f"vllm:kv_cache_usage_perc{{{labels}}} 0.5",
        f"vllm:prompt_tokens_total{{{labels}}} {prompt}",
        f"vllm:generation_tokens_total{{{labels}}} {generation}",
        *(f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{le}"}} {n}' for le, n in buckets.items()),
        f"vllm:time_to_first_token_seconds_count{{{labels}}} {buckets['+Inf']}",
        f"vllm:time_to_first_token_seconds_sum{{{labels}}} {ttft_sum}",
    ]
    if start is not None:
        lines.append(f"process_start_time_seconds {start}")
    if reservation is not None:
        lines.append(f'vllm:cache_config_info{{engine="{engine}",gpu_memory_utilization="{reservation}"}} 1')
    return ("\n".join(lines) + "\n").encode()


def dcgm(
    *,
    used_mib: int = 10_000,
    free_mib: int = 70_000,
    reserved_mib: int = 559,
    uuid: str = "GPU-1",
    index: int = 0,
) -> bytes:
    """One whole GPU as dcgm-exporter 4.8 shows it."""
    labels = f'gpu="{index}",UUID="{uuid}",device="nvidia{index}",modelName="NVIDIA H100",Hostname="node-1"'
    values = {
        "DCGM_FI_DEV_GPU_UTIL": 50,
        "DCGM_FI_DEV_FB_USED": used_mib,
        "DCGM_FI_DEV_FB_FREE": free_mib,
        "DCGM_FI_DEV_FB_RESERVED": reserved_mib,
        "DCGM_FI_DEV_POWER_USAGE": 300.5,
    }
    return "".join(f"{name}{{{labels}}} {value}\n" for name, value in values.items()).encode()
