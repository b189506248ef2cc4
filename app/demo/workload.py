"""Who asks what, and when: arrivals and request sizes of one engine replica.

The shapes are those of the Azure LLM inference traces of 2023 (CC-BY-4.0): sizes log-normal
(conversation: prompt mean of ln 6.63, sd 0.99, output 5.02, sd 0.86; code: 7.00, 1.36 and 2.79, 0.85),
arrivals Poisson whose rate is modulated by bursts (variance over mean of the arrivals in 10 s windows: 4 for
conversation, 71 for code).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

DAY_SECONDS = 2400.0
"""A simulated day lasts 40 minutes, so that the day curve is seen within one hour."""

_MAX_TOKENS = (256, 512, 1024, 2048)


@dataclass(frozen=True)
class WorkloadSpec:
    """The traffic of one replica. Rates per second, logarithms of tokens, seconds; ratios 0 to 1."""

    requests_per_second: float
    """Mean over calm times and half the day; bursts come on top."""
    prompt_log_mean: float
    prompt_log_sd: float
    output_log_mean: float
    output_log_sd: float
    burst_factor: float = 2.2
    burst_seconds: float = 10.0
    calm_seconds: float = 60.0
    day_swing: float = 0.4
    day_phase: float = 0.0
    shared_prefix_ratio: float = 0.5
    """Share of requests that begin with a prefix the engine has cached (a system prompt)."""
    shared_prefix_tokens: int = 512
    abort_ratio: float = 0.02
    patience_seconds: float = 60.0
    """A client leaves after this long without a first token."""
    rejected_ratio: float = 0.005
    """Share of requests answered with HTTP 4xx before they reach the engine."""

    @property
    def mean_prompt(self) -> float:
        """Tokens, of the log-normal distribution before it is cut to what fits."""
        return math.exp(self.prompt_log_mean + self.prompt_log_sd**2 / 2)

    @property
    def mean_output(self) -> float:
        """Tokens, of the log-normal distribution before it is cut at max_tokens."""
        return math.exp(self.output_log_mean + self.output_log_sd**2 / 2)


class Request:
    """One request on its way through an engine. Times are seconds of the simulated clock."""

    __slots__ = (
        "abort_at", "arrival", "cached", "computed", "finish_step", "first_token", "generated", "joined_step",
        "last_token", "max_tokens", "output", "preemptions", "prompt", "scheduled", "state", "target",
    )  # fmt: skip

    def __init__(self, arrival: float, prompt: int, cached: int, output: int, max_tokens: int) -> None:
        self.arrival = arrival
        self.prompt = prompt
        self.cached = cached
        self.output = output
        """Tokens it will generate if nobody aborts it; equal to max_tokens: it ends by length."""
        self.max_tokens = max_tokens
        self.abort_at: float | None = None
        self.target = prompt
        """Tokens whose keys and values must be computed before the next token comes."""
        self.computed = 0
        self.generated = 0
        """Tokens generated up to `joined_step`."""
        self.joined_step = 0
        self.finish_step = 0
        self.scheduled: float | None = None
        self.first_token: float | None = None
        self.last_token = 0.0
        self.preemptions = 0
        self.state = "waiting"
        """waiting, prefilling, decoding or gone."""


class Workload:
    """The stream of requests of one replica; faults turn its `rate_factor` and sizes."""

    def __init__(self, spec: WorkloadSpec, rng: Random, start: float, block_size: int) -> None:
        self.spec = spec
        self.rate_factor = 1.0
        self.long_documents = False
        """Prompts of about half the longest sequence, with long answers."""
        self._rng = rng
        self._block_size = block_size
        self._bursting = False
        self._switch_at = start + rng.expovariate(1 / spec.calm_seconds)

    def rate(self, t: float) -> float:
        """Requests per second expected at `t`. Moves the burst state up to `t`."""
        spec = self.spec
        while t >= self._switch_at:
            self._bursting = not self._bursting
            stay = spec.burst_seconds if self._bursting else spec.calm_seconds
            self._switch_at += self._rng.expovariate(1 / stay)
        day = 1 + spec.day_swing * math.sin(2 * math.pi * (t / DAY_SECONDS + spec.day_phase))
        burst = spec.burst_factor if self._bursting else 1.0
        return spec.requests_per_second * day * burst * self.rate_factor

    def next_arrival(self, after: float) -> float:
        """The time of the next request: an inhomogeneous Poisson process, by thinning."""
        spec = self.spec
        rng = self._rng
        highest = spec.requests_per_second * (1 + spec.day_swing) * spec.burst_factor * self.rate_factor
        t = after
        while True:
            t += rng.expovariate(highest)
            if rng.random() * highest <= self.rate(t):
                return t

    def is_rejected(self) -> bool:
        """Whether the request that arrives now is refused with HTTP 4xx."""
        return self._rng.random() < self.spec.rejected_ratio

    def request(self, arrival: float, max_model_len: int) -> Request:
        """The request that arrives at `arrival`."""
        spec = self.spec
        rng = self._rng
        max_tokens = _MAX_TOKENS[int(rng.random() * len(_MAX_TOKENS))]
        prompt = rng.lognormvariate(spec.prompt_log_mean, spec.prompt_log_sd)
        output = rng.lognormvariate(spec.output_log_mean, spec.output_log_sd)
        if self.long_documents:
            max_tokens = 2048
            prompt = rng.uniform(0.4, 0.7) * max_model_len
            output = rng.uniform(1000, 2048)
        prompt = max(8, min(max_model_len - max_tokens, int(prompt)))
        cached = 0
        if rng.random() < spec.shared_prefix_ratio:
            # Only whole blocks are shared, and the last prompt token is always computed.
            cached = min(spec.shared_prefix_tokens, prompt - 1) // self._block_size * self._block_size
        request = Request(arrival, prompt, cached, max(1, min(max_tokens, int(output))), max_tokens)
        if rng.random() < spec.abort_ratio:
            request.abort_at = arrival + rng.expovariate(1 / 4.0)
        return request
