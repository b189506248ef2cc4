"""The /metrics page of a llama.cpp server: no labels, no histograms, and a scrape that changes two gauges.

Values have six significant digits, so counters beyond a million move in steps, as the real ones do.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.demo.engine import Replica
from app.demo.text_format import c_number
from app.demo.topology import EngineSpec

FAMILIES = (
    ("prompt_tokens_total", "counter", "Number of prompt tokens processed, excluding cached tokens"),
    ("prompt_tokens_cached_total", "counter", "Number of prompt tokens reused from the cache"),
    ("prompt_seconds_total", "counter", "Total time spent processing prompts"),
    ("tokens_predicted_total", "counter", "Number of generation tokens processed"),
    ("tokens_predicted_seconds_total", "counter", "Total time spent generating tokens"),
    (
        "n_decode_total",
        "counter",
        "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding",
    ),
    ("n_tokens_max", "counter", "Largest observed sequence length (prompt + generation)"),
    ("spec_decode_num_draft_tokens_total", "counter", "Speculative: Total draft tokens generated"),
    (
        "spec_decode_num_accepted_tokens_total",
        "counter",
        "Speculative: Total draft tokens accepted by the target model",
    ),
    ("spec_decode_num_drafts_total", "counter", "Speculative: Total speculative decoding verification steps"),
    ("prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s"),
    ("predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s"),
    ("requests_processing", "gauge", "Number of requests processing"),
    ("requests_deferred", "gauge", "Number of requests deferred"),
    ("n_busy_slots_per_decode", "gauge", "Average number of busy slots per llama_decode() call"),
)


class LlamaCppPage:
    """`render(now)` gives the body. The two throughput gauges cover the time since the last render."""

    content_type = "text/plain; version=0.0.4"

    def __init__(self, _spec: EngineSpec, replicas: Sequence[Replica]) -> None:
        self._replica = replicas[0]
        self._before = (0.0, 0.0, 0.0, 0.0)

    def render(self, _now: float) -> bytes:
        """The page at the replica's own time."""
        stats = self._replica.stats
        prompt = stats.prompt_tokens - stats.cached_tokens
        now = (prompt, stats.prompt_seconds, stats.predicted_tokens, stats.predicted_seconds)
        before = self._before if now[0] >= self._before[0] else (0.0, 0.0, 0.0, 0.0)
        self._before = now
        prompt_rate = _rate(now[0] - before[0], now[1] - before[1])
        predicted_rate = _rate(now[2] - before[2], now[3] - before[3])
        busy = stats.busy_slots / stats.decode_calls if stats.decode_calls else 0.0
        values = (
            prompt, stats.cached_tokens, stats.prompt_seconds, stats.predicted_tokens,
            stats.predicted_seconds, stats.decode_calls, stats.longest_sequence, 0, 0, 0,
            prompt_rate, predicted_rate,
            self._replica.requests_running, self._replica.requests_waiting, busy,
        )  # fmt: skip
        lines = []
        for (name, kind, help_), value in zip(FAMILIES, values, strict=True):
            lines.append(f"# HELP llamacpp:{name} {help_}\n# TYPE llamacpp:{name} {kind}\n")
            lines.append(f"llamacpp:{name} {c_number(value)}\n")
        return "".join(lines).encode()


def _rate(tokens: float, seconds: float) -> float:
    return tokens / seconds if seconds > 0 else 0.0
