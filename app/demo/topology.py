"""What the simulated fleet consists of: four nodes of eight GPUs, seven engine endpoints, two jobs.

Sizes follow from the cards: KV blocks = (share of the cards' memory the engine takes - weights) ÷ bytes per
token, speeds are those such engines are reported to reach within a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.demo.engine import EngineLimits
from app.demo.gpu import A100, H100, L40S, Card, Owner
from app.demo.workload import WorkloadSpec


@dataclass(frozen=True)
class NodeSpec:
    """One machine with its dcgm-exporter."""

    name: str
    card: Card
    driver_version: str
    speaks_4_9: bool = False
    """The exporter uses the names and units of dcgm-exporter 4.9."""
    mig: tuple[tuple[int, str, int, int], ...] = ()
    """Instances of GPU 0: (GPU_I_ID, profile, compute slices, MiB)."""
    environment: str = "production"
    gpus: int = 8


@dataclass(frozen=True)
class EngineSpec:
    """One inference endpoint, with one entry of `gpus` per replica: GPU indexes, or ('mig', instance id)."""

    name: str
    kind: str
    """vllm or llamacpp: what to configure."""
    version: str
    """The page it serves: 0.32, 0.9.2 or llamacpp."""
    model: str
    node: str
    gpus: tuple[tuple[int, ...], ...]
    limits: EngineLimits
    workload: WorkloadSpec
    weights_gib_per_gpu: float
    kv_bytes_per_token: int
    owner: Owner
    project: str
    reservation: float | None = 0.9
    """Share of each GPU's memory taken at start; None: weights and a fixed cache."""
    cache_gib_per_gpu: float = 0.0
    """Without a reservation: the cache allocated at load."""
    mig_instance: int | None = None
    environment: str = "production"


@dataclass(frozen=True)
class JobSpec:
    """Something else that uses GPUs: no engine endpoint, no reservation."""

    name: str
    node: str
    gpus: tuple[int, ...]
    owner: Owner
    memory_ratio: float
    """Of what is usable."""
    busy: float
    compute: float
    period_seconds: float
    """It alternates: two thirds of this at work, one third loading data."""


NODES = (
    NodeSpec("node-1", H100, "580.105.08"),
    NodeSpec("node-2", A100, "580.105.08"),
    NodeSpec("node-3", L40S, "595.58.03", speaks_4_9=True),
    NodeSpec(
        "node-4", A100, "580.105.08", environment="staging",
        mig=((1, "3g.40gb", 3, 40192), (5, "2g.20gb", 2, 19968), (13, "1g.10gb", 1, 9728),
             (14, "1g.10gb", 1, 9728)),
    ),
)  # fmt: skip

ENGINES = (
    EngineSpec(
        "llama-70b", "vllm", "0.32", "meta-llama/Llama-3.3-70B-Instruct", "node-1",
        ((0, 1, 2, 3), (4, 5, 6, 7)),
        EngineLimits(128, 8192, 26_900, 32_768, 0.021, 1.2e-4, 4.0e-8, 8.5e-5),
        WorkloadSpec(1.1, 7.75, 0.9, 5.9, 0.8, shared_prefix_tokens=800, day_phase=0.0),
        33.0, 327_680, Owner("llama-70b-0", "chat", "vllm"), "chat",
    ),
    EngineSpec(
        "qwen-7b", "vllm", "0.32", "Qwen/Qwen2.5-7B-Instruct", "node-2", ((0,),),
        EngineLimits(256, 2048, 60_800, 32_768, 0.0095, 9e-5, 1.6e-8, 4.2e-5),
        WorkloadSpec(4.0, 6.9, 1.0, 5.3, 0.9, day_phase=0.15),
        14.5, 57_344, Owner("qwen-7b-6c9f8d7b5-x2lqk", "search", "vllm"), "search",
    ),
    EngineSpec(
        "qwen-32b", "vllm", "0.32", "Qwen/Qwen2.5-32B-Instruct", "node-2", ((1, 2),),
        EngineLimits(128, 4096, 19_400, 32_768, 0.019, 1.3e-4, 3.4e-8, 9.5e-5),
        WorkloadSpec(1.3, 7.4, 0.95, 5.8, 0.8, shared_prefix_ratio=0.7, day_phase=0.3),
        31.0, 262_144, Owner("qwen-32b-0", "assistants", "vllm"), "assistants",
    ),
    EngineSpec(
        "mistral-7b", "vllm", "0.9.2", "mistralai/Mistral-7B-Instruct-v0.3", "node-3", ((0,),),
        EngineLimits(128, 2048, 12_300, 16_384, 0.017, 1.6e-4, 7.0e-8, 7.5e-5),
        WorkloadSpec(1.8, 6.63, 0.99, 5.02, 0.86, day_phase=0.45),
        14.0, 131_072, Owner("mistral-7b-legacy-0", "search", "vllm"), "search",
    ),
    EngineSpec(
        "gemma-9b", "llamacpp", "llamacpp", "gemma-2-9b-it-Q8_0.gguf", "node-3", ((1,),),
        EngineLimits(8, 2048, 4096, 8192, 0.016, 9e-4, 2.0e-7, 2.4e-4),
        WorkloadSpec(0.35, 6.2, 0.9, 5.0, 0.8, shared_prefix_tokens=256, day_phase=0.6,
                     patience_seconds=120.0),
        9.6, 344_064, Owner("gemma-9b-7d5f9c4b8-h8z2m", "internal-tools", "llama-server"), "internal-tools",
        reservation=None, cache_gib_per_gpu=21.0,
    ),
    EngineSpec(
        "coder-14b", "vllm", "0.32", "Qwen/Qwen2.5-Coder-14B-Instruct", "node-4", ((1,),),
        EngineLimits(256, 4096, 13_900, 32_768, 0.016, 1.1e-4, 2.4e-8, 7.0e-5),
        WorkloadSpec(
            1.2, 7.0, 1.36, 2.79, 0.85, burst_factor=7.0, burst_seconds=5.0, calm_seconds=70.0,
            shared_prefix_tokens=1024, day_phase=0.75,
        ),
        28.5, 196_608, Owner("coder-14b-0", "code-assist", "vllm"), "code-assist", environment="staging",
    ),
    EngineSpec(
        "qwen-1.5b", "vllm", "0.32", "Qwen/Qwen2.5-1.5B-Instruct", "node-4", ((0,),),
        EngineLimits(128, 2048, 71_000, 16_384, 0.0085, 1.0e-4, 1.5e-8, 2.6e-5),
        WorkloadSpec(0.8, 6.0, 0.8, 4.0, 0.8, day_phase=0.2),
        3.1, 28_672, Owner("qwen-1-5b-router-0", "search", "vllm"), "search",
        mig_instance=1, environment="staging",
    ),
)  # fmt: skip

JOBS = (
    JobSpec(
        "embed-batch",
        "node-2",
        (4,),
        Owner("embed-batch-29451-tq7wd", "search", "worker"),
        0.46,
        0.72,
        0.35,
        90.0,
    ),
    JobSpec(
        "train-lora", "node-4", (4, 5), Owner("train-lora-0", "research", "trainer"), 0.68, 0.97, 0.72, 240.0
    ),
)

FINETUNE = Owner("finetune-notebook-0", "research", "jupyter")
"""The job that the fault `vram_high` starts on an idle GPU."""
