"""vLLM inside Ray Serve LLM (`log_engine_metrics`), as the metrics agent of a Ray node exports it.

Ray puts `ray_` before vLLM's names and turns the colon into an underscore (`ray_vllm_x`, vLLM 0.11.2 and
later; `vllm/v1/metrics/ray_wrappers.py`), or does not (`ray_vllm:x`, before): ray #46360, #59071, #62791. Its
counters may lack `_total`. One that was never incremented does not exist, so what is absent is not known, and
not 0. Dead replicas' gauges stay until Ray has cleared their worker away.
"""

from __future__ import annotations

from collectors.engines import vllm
from collectors.engines.table import EngineKind

KIND = EngineKind(
    name="ray",
    role="engine",
    marks=("ray_vllm_*",),
    prefixes=("ray_vllm:",),
    columns=vllm.COLUMNS,
    histograms=vllm.HISTOGRAMS,
    # A replica is an actor of Ray Serve; before vLLM 0.12 only its worker process is told.
    replica_labels=("ReplicaId", "WorkerId", "engine"),
    model_labels=("model_name",),
    impossible=vllm.KIND.impossible,
    notes=vllm.KIND.notes,
)
