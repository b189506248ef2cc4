"""What one scrape says, in canonical rows: the contract between sources, store and pages.

Column names and units are those of `docs/architecture.md`. `None` means "not known", never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple


class GpuSample(NamedTuple):
    """One GPU (or MIG instance) at one scrape. Bytes, watts, hertz, joules; ratios 0 to 1."""

    gpu_uuid: str
    """The identity. As a kind reads it: the UUID, or host and index (`node-1#gpu0`, `#gpu0`); as stored:
    made unique among all targets (`collectors/gpu/identity.py`)."""
    mig_instance: str = ""
    gpu_index: int | None = None
    host: str | None = None
    gpu_model: str | None = None
    driver_version: str | None = None
    utilization_ratio: float | None = None
    graphics_active_ratio: float | None = None
    sm_active_ratio: float | None = None
    tensor_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    memory_controller_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_used_ratio: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules_total: float | None = None
    sm_clock_hertz: int | None = None
    memory_clock_hertz: int | None = None
    throttle_reasons: int | None = None
    xid_last: int | None = None
    pod: str | None = None
    namespace: str | None = None
    container: str | None = None


class EngineSample(NamedTuple):
    """One replica of one model on one endpoint at one scrape. Counters are raw values."""

    engine: str
    role: str
    replica: str
    model: str | None
    requests_running: float | None = None
    requests_waiting: float | None = None
    requests_swapped: float | None = None
    kv_cache_used_ratio: float | None = None
    preemptions_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    finished_stop_total: float | None = None
    finished_length_total: float | None = None
    finished_abort_total: float | None = None
    finished_error_total: float | None = None
    http_4xx_total: float | None = None
    http_5xx_total: float | None = None
    prefix_cache_queries_total: float | None = None
    prefix_cache_hits_total: float | None = None
    memory_reservation_ratio: float | None = None
    process_start_time_seconds: float | None = None
    process_resident_bytes: float | None = None
    model_memory_bytes: float | None = None
    """What the loaded model takes in all, host and GPU memory together."""
    model_gpu_memory_bytes: float | None = None
    """The part of it in GPU memory; the rest is computed on the CPU."""


class Histogram(NamedTuple):
    """One latency histogram at one scrape: raw cumulative counts per upper edge, seconds."""

    replica: str
    model: str | None
    metric: str
    """ttft, itl, tpot, e2e, queue, prefill or decode."""
    edges_seconds: tuple[float, ...]
    """Ascending; the last is +Inf (a histogram without +Inf is not yielded). +Inf alone: a sum and a count,
    which give a mean and no percentile."""
    buckets: tuple[float, ...]
    """Cumulative counts, one per edge; the last is the count."""
    sum_seconds: float | None
    count: float | None  # type: ignore[assignment]  # the contract's name; tuple.count is not needed


class GpuProcess(NamedTuple):
    """One process on one GPU (or MIG instance) at one scrape."""

    gpu_uuid: str
    mig_instance: str
    pid: int
    """As the driver counts: of the host, not of a container."""
    name: str | None = None
    memory_used_bytes: int | None = None
    kind: str | None = None
    """compute or graphics."""


class HostSample(NamedTuple):
    """One host at one scrape. Counters are raw values."""

    host: str | None
    cpu_count: int | None = None
    cpu_busy_seconds_total: float | None = None
    """All CPUs, all modes but idle and iowait."""
    cpu_seconds_total: float | None = None
    load1: float | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    boot_time_seconds: float | None = None
    """Unix time."""


class UsageKey(NamedTuple):
    """Whose tokens they are."""

    project: str | None
    environment: str | None
    model: str | None
    key_alias: str | None
    """Of the gateway's API key, as its owner named it; never the key or a hash of it."""
    source: str
    """target, litellm or otel."""


class UsageCounter(NamedTuple):
    """What one project has used so far on one target: raw counters since the process began."""

    key: UsageKey
    prompt_tokens_total: float | None = None
    """Cached ones included."""
    cached_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    requests_total: float | None = None
    spend_usd_total: float | None = None
    """What the gateway itself says it cost; an estimate, never the bill."""


class ProbeResult(NamedTuple):
    """One request that infermeter itself sent."""

    model: str | None
    ok: bool
    http_status: int | None = None
    ttft_seconds: float | None = None
    """To the first token, of text or of reasoning."""
    tpot_seconds: float | None = None
    """(Last - first token) ÷ (tokens - 1)."""
    e2e_seconds: float | None = None
    prompt_tokens: float | None = None
    """As the endpoint counts them; None when it does not say."""
    generation_tokens: float | None = None
    cost: Decimal | None = None
    """From the configured prices."""
    currency: str | None = None
    finish_reason: str | None = None
    error: str | None = None
    """In words; None when ok."""


class Reading(NamedTuple):
    """Everything one exposition says."""

    source: str
    """Registry name of the kind that read it: dcgm, vllm, llamacpp, …"""
    role: str
    """gpu, engine, router, gateway, host or probe."""
    gpus: list[GpuSample]
    engines: list[EngineSample]
    histograms: list[Histogram]
    lines: int
    """Lines that carry a sample (comments and empty lines are not counted)."""
    rejected_lines: int
    """Lines that could not be read."""
    unowned_lines: int
    """Lines of a wanted metric that name no GPU or engine."""
    missing: tuple[str, ...]
    """Canonical columns (and histogram metrics) the kind can yield and this exposition does not."""
    notes: tuple[str, ...] = ()
    """What was odd, in words a person can act on."""
    found_names: tuple[tuple[str, str], ...] = ()
    """Canonical name → the name it was read by, as the target spells it."""
    processes: Sequence[GpuProcess] = ()
    hosts: Sequence[HostSample] = ()
    usage: Sequence[UsageCounter] = ()
    probes: Sequence[ProbeResult] = ()

    @property
    def says_something(self) -> bool:
        """Whether there is any row at all."""
        return any((self.gpus, self.engines, self.hosts, self.usage, self.probes, self.processes))
