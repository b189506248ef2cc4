"""HuggingFace's text-generation-inference, read at 3.3: `router/src/server.rs`, `backends/v3/src/backend.rs`.

No series names a model (`GET /info` does; or set the target's `model`), counters have no `_total`, and each
counter and histogram appears with its first increment: an absent one is not known, not 0.

There is no histogram of the time to the first token (text-generation-inference #2887). Its mean is that of
the queue + that of the validation + that of a prefill batch's forward pass; `FirstTokens` makes a counter of
it. `request_inference_duration` is the whole generation, not the first token, and is not read. A forward pass
of `decode` is one step of a batch, so there is no decode time of a request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.engines.table import EngineKind, Mean, Named, Names
from collectors.reading import Histogram, Reading

_VALIDATION = "validation"
PARTS = ("queue", _VALIDATION, "prefill")
"""What the mean time to the first token is added up from. The first counts the requests."""


class Totals(NamedTuple):
    """A sum and a count since the engine started."""

    seconds: float
    observed: float


_NOTHING = Totals(0.0, 0.0)


@dataclass
class FirstTokens:
    """The time to the first token as a counter, whose increases over any stretch have the right mean.

    The parts count different things (requests, batches), so their sums cannot be added up. Between two
    scrapes the mean is Δqueue ÷ Δrequests + Δvalidation ÷ Δrequests + Δprefill ÷ Δbatches, and the sum gains
    that times Δrequests. Where a part has not moved its mean is not known, and nothing is gained until it has
    moved: a prefill counts at once, its request when it has finished.
    """

    total: Totals = _NOTHING
    _before: Mapping[str, Totals] = field(default_factory=dict)

    def add(self, now: Mapping[str, Totals]) -> Totals | None:
        """The total after this scrape; None, and all is forgotten, when one of `PARTS` is not there.

        A part that fell says that TGI restarted: the total starts anew as well. The first scrape gains what
        the counters say of all the time before.
        """
        if not all(name in now for name in PARTS):
            self.total, self._before = _NOTHING, {}
            return None
        before = {name: self._before.get(name, _NOTHING) for name in PARTS}
        if any(_fell(now[name], before[name]) for name in PARTS):
            self.total, before = _NOTHING, dict.fromkeys(PARTS, _NOTHING)
        gained = [_gained(now[name], before[name]) for name in PARTS]
        self._before = before
        if all(part.observed > 0 for part in gained):
            requests = gained[0].observed
            seconds = requests * sum(part.seconds / part.observed for part in gained)
            self.total = Totals(self.total.seconds + seconds, self.total.observed + requests)
            self._before = now
        return self.total


def _fell(now: Totals, before: Totals) -> bool:
    return now.seconds < before.seconds or now.observed < before.observed


def _gained(now: Totals, before: Totals) -> Totals:
    return Totals(now.seconds - before.seconds, now.observed - before.observed)


@dataclass(frozen=True, kw_only=True)
class TgiKind(EngineKind):
    """An engine whose time to the first token is made from one scrape to the next."""

    def reader(self) -> Callable[[bytes], Reading]:
        """A reader that remembers what the scrape before said."""
        read = super().reader()
        first_tokens = FirstTokens()
        return lambda body: _with_first_tokens(read(body), first_tokens)


def _with_first_tokens(reading: Reading, first_tokens: FirstTokens) -> Reading:
    """The reading with the time to the first token, without the part that only serves to make it."""
    now = {
        one.metric: Totals(one.sum_seconds, one.count)
        for one in reading.histograms
        if one.metric in PARTS and one.sum_seconds is not None and one.count is not None
    }
    histograms = [one for one in reading.histograms if one.metric != _VALIDATION]
    total = first_tokens.add(now)
    if total is None:
        return reading._replace(histograms=histograms)
    row = histograms[0]
    ttft = Histogram(
        row.replica, row.model, "ttft", (math.inf,), (total.observed,), total.seconds, total.observed
    )
    found = dict(reading.found_names)
    parts = (found["queue"], found["queue"].replace("queue", _VALIDATION), found["prefill"])
    return reading._replace(
        histograms=[ttft, *histograms],
        missing=tuple(name for name in reading.missing if name != "ttft"),
        found_names=(*reading.found_names, ("ttft", " + ".join(parts))),
    )


def _failed(reasons: str) -> Names:
    return (Named("request_failure", {"err": reasons}, absent_is_zero=True),)


KIND = TgiKind(
    name="tgi",
    role="engine",
    marks=("tgi_*",),
    prefixes=("tgi_",),
    columns={
        "requests_running": ("batch_current_size",),
        "requests_waiting": ("queue_size",),
        "prompt_tokens_total": ("request_input_length_sum",),
        "generation_tokens_total": ("request_generated_tokens_sum",),
        "finished_abort_total": _failed("dropped"),  # the client went away
        "finished_error_total": _failed("generation|incomplete"),
        # Refused before any work, with 422 or 429.
        "http_4xx_total": _failed("validation|template|overloaded"),
    },
    histograms={
        # Per request, of all its tokens the first included (inference-perf PR #203): not between tokens.
        "tpot": ("request_mean_time_per_token_duration",),
        "e2e": ("request_duration",),
        "queue": ("request_queue_duration",),
        "prefill": (Named("batch_forward_duration", {"method": "prefill"}),),
    },
    means={_VALIDATION: (Mean("request_validation_duration_sum", "request_validation_duration_count"),)},
    made={
        "ttft": "mean: request_queue_duration + request_validation_duration + batch_forward_duration{prefill}"
    },
    impossible={
        "kv_cache_used_ratio": "batch_current_max_tokens is what its batch may grow to, not what is used",
        "finished_stop_total": "request_success does not tell stopped from cut at the length",
        "finished_length_total": "request_success does not tell stopped from cut at the length",
        "itl": "it has the mean of each request alone (tpot)",
        "decode": "it counts the steps of a batch, not a request's decoding",
    },
    notes=(
        "TGI has no histogram of the time to first token: ttft is the mean of queue + validation + prefill",
        "ttft has no percentile: those of its parts cannot be added up",
        "TGI counts a prefill per batch, not per request, and tokens when their request finishes",
        "TGI does not tell stopped from cut at the length, and shows no KV cache use",
    ),
)
