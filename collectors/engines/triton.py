"""Triton Inference Server, with and without the TensorRT-LLM backend.

Names: Triton's `docs/user_guide/metrics.md` and the backend's README. Its counters of time are microseconds
and give means per request; its histogram is milliseconds. The backend puts figures of many units under one
name, told apart by a label: each is picked by its label, and the family is never added up
(`general_type="timestamp"` is a time of day and not read). Summaries' quantiles are NaN, or anything, without
samples: of summaries the sum and the count are read alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collectors.engines.around import AroundEngine
from collectors.engines.series import EnginePlace
from collectors.engines.table import EngineKind, Mean, Named, Names
from collectors.exposition import Nowhere
from collectors.plausible import OddValues
from collectors.source import Layout, Rows

_MICROSECONDS = 1e-6
_MILLISECONDS = 1e-3
_FAILURES = "nv_inference_request_failure"
_NO_QUEUE = (
    "requests_waiting: this Triton shows no pending_request_count, so its queue is not known (queue times "
    "give a mean, not how many wait)"
)
_DISAGREE = 0.02
"""Fraction and used ÷ max are of one iteration and should be equal; this much is rounding and timing."""


def _requests(kind: str) -> Named:
    return Named("nv_trt_llm_request_metrics", {"request_type": kind})


def _blocks(kind: str) -> Named:
    return Named("nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type": kind})


def _mean(counter: str, summary: str) -> tuple[Mean, ...]:
    return (
        Mean(Named(f"nv_inference_{counter}_us", scale=_MICROSECONDS), "nv_inference_request_success"),
        Mean(
            Named(f"nv_inference_{summary}_us_sum", scale=_MICROSECONDS), f"nv_inference_{summary}_us_count"
        ),
    )


COLUMNS: Mapping[str, Names] = {
    "requests_running": (_requests("active"), _requests("scheduled")),
    # Before pending_request_count (triton server #5927) there is none; Little's law gives a mean, no gauge.
    "requests_waiting": (_requests("waiting"), "nv_inference_pending_request_count"),
    "kv_cache_used_ratio": (_blocks("fraction"),),
    "kv_blocks_used": (_blocks("used"),),
    "kv_blocks_max": (_blocks("max"),),
    "finished_abort_total": (Named(_FAILURES, {"reason": "CANCELED"}),),
    "finished_error_total": (Named(_FAILURES, {"reason": "[!c]*"}),),
    # There without any model, they make a row.
    "server": ("nv_cpu_memory_used_bytes", "nv_gpu_memory_total_bytes", "nv_cpu_utilization"),
}


@dataclass(frozen=True, kw_only=True)
class _Triton(EngineKind):
    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """As the tables say; before failures had a reason, each was an error. Version 1 is replica v1."""
        if name.lower().removesuffix("_total") == _FAILURES and "reason" not in labels:
            labels = {**labels, "reason": "OTHER"}
        if version := labels.get("version"):
            labels = {**labels, "version": f"v{version}"}
        return super().place(name, labels)


class _Blocks(NamedTuple):
    """Numbers of the values that tell one model's KV use."""

    model: str
    fraction: int
    used: int
    most: int


class _TritonLayout:
    """The engine's rows, and a note where KV use, told in two ways, contradicts itself."""

    def __init__(self, engine: EngineKind, places: tuple[EnginePlace, ...]) -> None:
        self._engine = engine.layout(places)
        self.missing, notes = self._engine.missing, self._engine.notes
        if "requests_waiting" in self.missing and any(place.model for place in places):
            notes = (*notes, _NO_QUEUE)
        self.notes = notes
        self.found_names = self._engine.found_names
        self._odd = OddValues()
        told: dict[tuple[str | None, str | None], dict[str, int]] = {}
        for number, place in enumerate(places):
            if place.part == "value":
                told.setdefault((place.replica, place.model), {})[place.column] = number
        self._blocks = [
            _Blocks(model or "", at["kv_cache_used_ratio"], at["kv_blocks_used"], at["kv_blocks_max"])
            for (_, model), at in told.items()
            if {"kv_cache_used_ratio", "kv_blocks_used", "kv_blocks_max"} <= at.keys()
        ]

    def rows(self, values: list[float]) -> Rows:
        """The rows of one scrape."""
        rows = self._engine.rows(values)
        found = []
        for model, *numbers in self._blocks:
            fraction, used, most = (values[number] for number in numbers)
            if most and abs(fraction - used / most) > _DISAGREE:
                said = (
                    f"{model}: KV cache fraction {fraction:.4g} is shown, but {used:g} of {most:g} blocks in"
                )
                found.append((model, f"{said} use are {used / most:.4g}"))
        return rows._replace(notes=(*rows.notes, *self._odd.notes(found)))


@dataclass(frozen=True, kw_only=True)
class _TritonKind(AroundEngine[EnginePlace]):
    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """As the engine kind says."""
        return self.engine.place(name, labels)

    def layout(self, places: tuple[EnginePlace, ...]) -> Layout:
        """How values aligned with `places` become rows."""
        return _TritonLayout(self.engine, places)


ENGINE = _Triton(
    name="triton",
    role="engine",
    marks=("nv_inference_*", "nv_trt_llm_*", "nv_cpu_*", "nv_gpu_*"),
    prefixes=("",),
    columns=COLUMNS,
    histograms={"ttft": (Named("nv_inference_first_response_histogram_ms", scale=_MILLISECONDS),)},
    means={
        "e2e": _mean("request_duration", "request_summary"),
        "queue": _mean("queue_duration", "queue_summary"),
    },
    ratios={"kv_cache_used_ratio": ("kv_blocks_used", "kv_blocks_max")},
    replica_labels=("version",),
    model_labels=("model",),
    impossible={
        "prompt_tokens_total": "tokens are told per iteration, as gauges",
        "generation_tokens_total": "tokens are told per iteration, as gauges",
        "finished_stop_total": "successful requests are not told apart",
        "finished_length_total": "successful requests are not told apart",
        "prefill": "compute times are of the backend's batches, prompt and output together",
    },
    notes=(
        "an ensemble and each model in it count the same request: rows of one Triton are not to be added up",
        "while tensorrt_llm streams, its own counters may stay 0: read the ensemble's row",
        "ttft is the time to the first response: the first piece of a streamed one, the whole of any other",
    ),
)

KIND = _TritonKind(name=ENGINE.name, role=ENGINE.role, marks=ENGINE.marks, engine=ENGINE)
