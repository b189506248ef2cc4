"""TensorRT-LLM's own server, `trtllm-serve`: JSON on `/metrics`, an exposition on `/prometheus/metrics`.

The JSON is a list of iteration records that a read empties: two readers take them from each other, so one
target a server. `[]` is its answer while idle, after another reader, and without `enable_iter_perf_stats`
(TensorRT-LLM #4926, aibrix #2004): nothing is known then, which is neither a failure nor 0.
The exposition (needs `return_perf_metrics`) had five families without a prefix until 2026, and has `trtllm_`
before some fifty since. It counts finished requests alone, and leaves out times of 0. Cached tokens are read,
not its counters of reused and missed blocks: usage is counted in tokens. Names: TensorRT-LLM's
`tensorrt_llm/metrics/collector.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.engines.forms import Form, FormsKind
from collectors.engines.json_answer import (
    MalformedError,
    aliases_of,
    found_in,
    load,
    number,
    possible,
    quotient,
    table,
)
from collectors.engines.series import ROWS_CAP, EnginePlace
from collectors.engines.table import PROCESS, EngineKind, Named, Names
from collectors.exposition import Nowhere
from collectors.plausible import OddValues
from collectors.reading import EngineSample, Reading
from collectors.source import Families, plain

NO_RECORDS = (
    "no records since the last scrape: idle, or another reader took them, or enable_iter_perf_stats is off"
)
_NOT_IN_JSON = (
    "latencies, tokens and outcomes are at /prometheus/metrics of the same server, with return_perf_metrics"
)
_UNKNOWN_MODEL = "undefined"
_OLD_LATENCIES = (
    "e2e_request_latency_seconds", "time_to_first_token_seconds", "time_per_output_token_seconds",
    "request_queue_time_seconds",
)  # fmt: skip
_ENGINE_TYPE = "engine_type"
"""Label of all its series; anyone may call a histogram of his own as the old ones were called."""
_NIM_OWN = frozenset({"num_request_max", "gpu_cache_usage_perc", "request_finish_total"})
"""NIM 1.x shows the same bare names; these tell it apart (engines.md 6)."""


def _both(name: str, where: Mapping[str, str] | None = None, *, zero: bool = False) -> Names:
    return (
        Named(f"trtllm_{name}", where or {}, absent_is_zero=zero, versions="from 2026 on"),
        Named(name, where or {}, absent_is_zero=zero, versions="until 2026"),
    )


def _finished(reason: str, *, zero: bool = False) -> Names:
    return _both("request_success_total", {"finished_reason": reason}, zero=zero)


@dataclass(frozen=True, kw_only=True)
class _Exposition(EngineKind):
    def score(self, body: bytes, families: Families) -> int:
        """The number of marked families; the bare names only where nothing of NIM's stands beside them."""
        del body
        names = {plain(name) for name in families}
        if own := sum(name.startswith("trtllm_") for name in names):
            return own
        if names & self.not_with:
            return 0
        bare = [plain(name) for name, labels in families.items() if _ENGINE_TYPE in labels]
        if not any(f"{name}_bucket" in bare for name in _OLD_LATENCIES):
            return 0
        return sum(any(name.startswith(one) for one in _OLD_LATENCIES) for name in bare)

    def place(self, name: str, labels: dict[str, str]) -> EnginePlace | Nowhere:
        """As the tables say; the model name "undefined" is none."""
        return super().place(name, {key: one for key, one in labels.items() if one != _UNKNOWN_MODEL})


COLUMNS: Mapping[str, Names] = {
    # The second of each: builds of early 2026.
    "requests_running": ("trtllm_num_requests_running", "trtllm_num_active_requests"),
    "requests_waiting": ("trtllm_num_requests_waiting", "trtllm_server_queue_length"),
    "requests_swapped": ("trtllm_num_paused_requests",),
    "kv_cache_used_ratio": ("trtllm_kv_cache_utilization",),
    "prompt_tokens_total": ("trtllm_prompt_tokens_total",),
    "generation_tokens_total": ("trtllm_generation_tokens_total",),
    "finished_stop_total": _finished("stop", zero=True),
    "finished_length_total": _finished("length", zero=True),
    "finished_abort_total": _finished("abort|cancelled"),
    "finished_error_total": _finished("error"),
    "prefix_cache_hits_total": ("trtllm_prompt_cached_tokens_total",),
}

EXPOSITION = _Exposition(
    name="trtllm",
    role="engine",
    default_path="/prometheus/metrics",
    marks=("trtllm_*",),
    not_with=_NIM_OWN,
    prefixes=("",),
    columns=COLUMNS,
    histograms={
        "ttft": _both("time_to_first_token_seconds"),
        "tpot": _both("time_per_output_token_seconds"),
        "e2e": _both("e2e_request_latency_seconds"),
        "queue": _both("request_queue_time_seconds"),
        "prefill": ("trtllm_request_prefill_time_seconds",),
        "decode": ("trtllm_request_decode_time_seconds",),
    },
    endpoint={
        "http_4xx_total": (Named("trtllm_request_error_total", {"http_code": "4*"}, absent_is_zero=True),),
        "http_5xx_total": (Named("trtllm_request_error_total", {"http_code": "5*"}, absent_is_zero=True),),
        **PROCESS,
    },
    added={"prefix_cache_queries_total": ("prompt_tokens_total",)},
    model_labels=("model_name",),
    impossible={
        "itl": "there is no histogram per step",
        "preemptions_total": "paused requests are a gauge alone",
    },
)

_FIELDS: Mapping[str, str] = {
    "requests_running": "numActiveRequests",
    "requests_waiting": "numQueuedRequests",
    "requests_swapped": "inflightBatchingStats.numPausedRequests",
    "kv_cache_used_ratio": "kvCacheStats.usedNumBlocks ÷ kvCacheStats.maxNumBlocks",
    "prefix_cache_queries_total": "kvCacheStats.reusedBlocks + kvCacheStats.missedBlocks",
    "prefix_cache_hits_total": "kvCacheStats.reusedBlocks",
}
_OWN_KEYS = frozenset({"numActiveRequests", "numQueuedRequests", "kvCacheStats", "inflightBatchingStats"})
"""One of them stands in every iteration record."""


class _Json:
    """The list of iteration records: the newest of each rank gives the gauges."""

    name = "trtllm"
    role = "engine"
    default_path = "/metrics"
    yields = tuple(_FIELDS)
    aliases = aliases_of(_FIELDS, "JSON")

    def score(self, body: bytes, families: Families) -> int:
        """The number of records; 1 for an empty list, which nothing else answers."""
        del families
        try:
            answer = load(body)
            return len(_newest(answer)[0]) or int(answer == [])
        except MalformedError:
            return 0

    def reader(self) -> Callable[[bytes], Reading]:
        """A function that reads answer after answer."""
        odd = OddValues()
        expected = KIND.yields

        def read(body: bytes) -> Reading:
            try:
                samples, lines, rejected = _newest(load(body))
            except MalformedError:
                return Reading(self.name, self.role, [], [], [], 1, 1, 0, expected)
            notes: tuple[str, ...] = (_NOT_IN_JSON,)
            if not samples and not rejected:
                samples = [EngineSample(self.name, self.role, "0", None)]
                notes = (NO_RECORDS, *notes)
            engines, faults = possible(samples, odd)
            found = found_in(_FIELDS, engines)
            # An empty list says nothing of what the others would hold.
            missing = tuple(name for name in expected if name not in (dict(found) or _FIELDS))
            return Reading(
                self.name, self.role, [], engines, [], lines, rejected, 0, missing,
                (*notes, *faults), found,
            )  # fmt: skip

        return read


def _newest(answer: Any) -> tuple[list[EngineSample], int, int]:
    """The newest record of each rank as a row; how many records there are; how many of them are malformed.

    Raises MalformedError when the answer is no list.
    """
    if not isinstance(answer, list):
        raise MalformedError("no list")
    newest: dict[str, tuple[float, EngineSample]] = {}
    rejected = 0
    for record in answer:
        try:
            iteration, row = _row(record)
        except MalformedError:
            rejected += 1
            continue
        known = newest.get(row.replica)
        if known is None and len(newest) == ROWS_CAP:
            continue
        if known is None or iteration >= known[0]:
            newest[row.replica] = iteration, row
    ordered = sorted(newest.items(), key=lambda item: (len(item[0]), item[0]))
    return [row for _, (_, row) in ordered], len(answer), rejected


def _row(record: Any) -> tuple[float, EngineSample]:
    """Number of the iteration and row. Raises MalformedError."""
    if not isinstance(record, dict) or not _OWN_KEYS & record.keys():
        raise MalformedError("no iteration record")
    blocks, batch = table(record, "kvCacheStats"), table(record, "inflightBatchingStats")
    hits, misses = number(blocks, "reusedBlocks"), number(blocks, "missedBlocks")
    rank = number(record, "attentionDpRank")  # one record a rank with attention data parallelism
    iteration = number(record, "iter")
    return (-1.0 if iteration is None else iteration), EngineSample(
        "trtllm", "engine", "0" if rank is None else f"{rank:.0f}", None,
        requests_running=number(record, "numActiveRequests"),
        requests_waiting=number(record, "numQueuedRequests"),
        requests_swapped=number(batch, "numPausedRequests"),
        kv_cache_used_ratio=quotient(number(blocks, "usedNumBlocks"), number(blocks, "maxNumBlocks")),
        prefix_cache_queries_total=None if hits is None or misses is None else hits + misses,
        prefix_cache_hits_total=hits,
    )  # fmt: skip


KIND = FormsKind(
    name="trtllm",
    forms=(Form(lambda body: body.lstrip()[:1] in (b"[", b"{"), _Json()), Form(lambda _: True, EXPOSITION)),
)
