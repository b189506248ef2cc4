"""The kind `probe`: what came of infermeter's own requests, as the counters and histograms of an engine.

The counters begin at 0 when infermeter starts, as an engine's do. Latencies are those of probes that went
well; one that failed is counted as an error and stands in table `probe` with what was measured of it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.probe.body import MARK, ProbeBody, decode
from collectors.reading import EngineSample, Histogram, Reading
from collectors.source import Families
from collectors.support import Alias

EDGES_PER_DECADE = 20
"""A bucket is 10^(1/20) = 1.122 times as wide as the one before: a percentile read from it is off by at most
12.2 % of its value, as it lies in the same bucket as the true one."""

EDGES_SECONDS = (
    *(float(f"{1e-4 * 10 ** (step / EDGES_PER_DECADE):.4g}") for step in range(122)),
    120.0,
    math.inf,
)
"""From 0.1 ms (a token of the fastest endpoints) to 120 s."""

METRICS = {"ttft": "ttft_seconds", "tpot": "tpot_seconds", "e2e": "e2e_seconds"}

TOLD = {"prompt_tokens_total": "usage.prompt_tokens", "generation_tokens_total": "usage.completion_tokens"}
"""What the endpoint itself says, and where in its answer."""

STOPPED = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence"})
CUT = frozenset({"length", "max_tokens"})
"""Finish reasons as OpenAI's API names them, and as TGI and gateways before Anthropic's do."""


@dataclass
class _Latency:
    counts: list[int] = field(default_factory=lambda: [0] * len(EDGES_SECONDS))
    """Not cumulative."""
    sum_seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(EDGES_SECONDS, seconds)] += 1  # an edge belongs to the bucket below it (`le`)
        self.sum_seconds += seconds

    def histogram(self, model: str | None, metric: str) -> Histogram:
        total, buckets = 0, []
        for count in self.counts:
            total += count
            buckets.append(float(total))
        return Histogram("0", model, metric, EDGES_SECONDS, tuple(buckets), self.sum_seconds, float(total))


@dataclass
class _Counters:
    """Of one model, since the reader was made."""

    prompt_tokens: float | None = None
    """None until the endpoint has said it once."""
    generation_tokens: float | None = None
    good: int = 0
    stopped: int = 0
    cut: int = 0
    failed: int = 0
    http_4xx: int = 0
    http_5xx: int = 0
    latencies: dict[str, _Latency] = field(default_factory=lambda: {metric: _Latency() for metric in METRICS})

    def add(self, probe: ProbeBody) -> None:
        if probe.prompt_tokens is not None:
            self.prompt_tokens = (self.prompt_tokens or 0) + probe.prompt_tokens
        if probe.generation_tokens is not None:
            self.generation_tokens = (self.generation_tokens or 0) + probe.generation_tokens
        status = probe.http_status or 0
        self.http_4xx += 400 <= status < 500
        self.http_5xx += 500 <= status < 600
        self.failed += not probe.ok
        if not probe.ok:
            return
        self.good += 1
        self.stopped += probe.finish_reason in STOPPED
        self.cut += probe.finish_reason in CUT
        for metric, name in METRICS.items():
            if (seconds := getattr(probe, name)) is not None:
                self.latencies[metric].add(seconds)

    def told(self, column: str) -> bool:
        """Whether the endpoint has ever said it (`TOLD`)."""
        return (self.prompt_tokens if column == "prompt_tokens_total" else self.generation_tokens) is not None

    def sample(self, model: str | None) -> EngineSample:
        return EngineSample(
            engine="probe",
            role="probe",
            replica="0",
            model=model,
            prompt_tokens_total=self.prompt_tokens,
            generation_tokens_total=self.generation_tokens,
            finished_stop_total=float(self.stopped),
            finished_length_total=float(self.cut),
            finished_error_total=float(self.failed),
            http_4xx_total=float(self.http_4xx),
            http_5xx_total=float(self.http_5xx),
        )


class _Reader:
    def __init__(self) -> None:
        self._model: str | None = None
        self._counters = _Counters()

    def read(self, body: bytes) -> Reading:
        probe = decode(body)
        if probe is None:
            return Reading("probe", "probe", [], [], [], 1, 1, 0, ())
        if probe.model is not None and probe.model != self._model:
            # Another model on the same target is another engine. One not yet known is that of the first name.
            if self._model is not None:
                self._counters = _Counters()
            self._model = probe.model
        if probe.sent:
            self._counters.add(probe)
        engines, histograms = [], []
        if self._model is not None or not probe.sent:
            engines = [self._counters.sample(self._model)]
            histograms = [
                latency.histogram(self._model, metric) for metric, latency in self._counters.latencies.items()
            ]
        found = {name: told for name, told in TOLD.items() if self._counters.told(name)}
        return Reading(
            "probe", "probe", [], engines, histograms, 1, 0, 0,
            missing=tuple(name for name in TOLD if name not in found) if self._counters.good else (),
            notes=(probe.note,) if probe.note else (),
            found_names=tuple(found.items()),
            probes=(probe.result(),) if probe.sent else (),
        )  # fmt: skip


class _Probe:
    """An OpenAI-compatible endpoint that is asked for a small completion."""

    name = "probe"
    role = "probe"
    default_path = "/v1"
    aliases: Mapping[str, Sequence[Alias]] = {
        **{column: (Alias(name, "", ""),) for column, name in TOLD.items()},
        "finished_stop_total": (Alias("finish_reason", "", ""),),
        "finished_length_total": (Alias("finish_reason", "", ""),),
        "finished_error_total": (Alias("(probes that failed)", "", ""),),
        "http_4xx_total": (Alias("(HTTP status)", "", ""),),
        "http_5xx_total": (Alias("(HTTP status)", "", ""),),
        "ttft": (Alias("(measured)", "", ""),),
        "tpot": (Alias("(measured) ÷ usage.completion_tokens", "", ""),),
        "e2e": (Alias("(measured)", "", ""),),
    }
    impossible: Mapping[str, str] = dict.fromkeys(
        ("requests_running", "requests_waiting", "kv_cache_used_ratio", "queue", "prefill", "decode"),
        "a probe knows its own requests only, from outside",
    )

    def score(self, body: bytes, families: Families) -> int:
        """A probe's body is no exposition and nothing else begins like it."""
        del families
        return 1 if body.startswith(MARK) else 0

    def reader(self) -> Callable[[bytes], Reading]:
        """A reader whose counters begin at 0."""
        return _Reader().read


KIND = _Probe()
