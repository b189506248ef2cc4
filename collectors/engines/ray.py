"""vLLM inside Ray Serve LLM (`log_engine_metrics`), as the metrics agent of a Ray node exports it.

Ray puts `ray_` before vLLM's names and turns the colon into an underscore (`ray_vllm_x`, vLLM 0.11.2 and
later; `vllm/v1/metrics/ray_wrappers.py`), or does not (`ray_vllm:x`, before): ray #46360, #59071, #62791. Its
counters may lack `_total`. One that was never incremented does not exist, so what is absent is not known, and
not 0. Dead replicas' gauges stay until Ray has cleared their worker away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from collectors.engines import vllm
from collectors.engines.table import EngineKind, Named, Names


def _with_and_without_total(names: Names) -> Names:
    """Each counter's name as it is, then as older Rays write it."""
    older: list[str | Named] = []
    for name in names:
        plain = name if isinstance(name, str) else name.name
        if plain.endswith("_total"):
            short = plain.removesuffix("_total")
            older.append(short if isinstance(name, str) else replace(name, name=short))
    return (*names, *older)


COLUMNS: Mapping[str, Names] = {
    column: _with_and_without_total(names) for column, names in vllm.COLUMNS.items()
}

KIND = EngineKind(
    name="ray",
    role="engine",
    marks=("ray_vllm_*",),
    prefixes=("ray_vllm:",),
    columns=COLUMNS,
    histograms=vllm.HISTOGRAMS,
    # A replica is an actor of Ray Serve; before vLLM 0.12 only its worker process is told.
    replica_labels=("ReplicaId", "WorkerId", "engine"),
    model_labels=("model_name",),
    notes=vllm.KIND.notes,
)
