"""What an engine replica counts. Everything here only grows until the process restarts."""

from __future__ import annotations

from app.demo.histogram import (
    CHOICES_EDGES,
    HTTP_COARSE_EDGES,
    HTTP_FINE_EDGES,
    ITERATION_EDGES,
    PREEMPTION_EDGES,
    REQUEST_EDGES,
    TOKEN_GAP_EDGES,
    TTFT_EDGES,
    Histogram,
    token_edges,
)
from app.demo.workload import Request


class EngineStats:
    """Counters and histograms of one replica since its process started; tokens and seconds."""

    def __init__(self, max_model_len: int) -> None:
        edges = token_edges(max_model_len)
        self.ttft = Histogram(TTFT_EDGES)
        self.itl = Histogram(TOKEN_GAP_EDGES)
        self.tpot = Histogram(TOKEN_GAP_EDGES)
        self.e2e = Histogram(REQUEST_EDGES)
        self.queue = Histogram(REQUEST_EDGES)
        self.inference = Histogram(REQUEST_EDGES)
        self.prefill = Histogram(REQUEST_EDGES)
        self.decode = Histogram(REQUEST_EDGES)
        self.prompt_sizes = Histogram(edges)
        self.generation_sizes = Histogram(edges)
        self.max_tokens = Histogram(edges)
        self.computed_sizes = Histogram(edges)
        self.choices = Histogram(CHOICES_EDGES)
        self.iteration_tokens = Histogram(ITERATION_EDGES)
        self.request_preemptions = Histogram(PREEMPTION_EDGES)
        self.http_fine = Histogram(HTTP_FINE_EDGES)
        self.http_ok = Histogram(HTTP_COARSE_EDGES)
        self.http_refused = Histogram(HTTP_COARSE_EDGES)

        self.arrivals = 0
        self.aborted = 0
        """Requests whose client left. No engine exposes it; the tests do sums with it."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.preemptions = 0
        self.finished_stop = 0
        self.finished_length = 0
        self.http_request_bytes = 0
        self.http_response_bytes = 0

        # llama.cpp counts at the end of a prompt, of a request and of a decode call.
        self.prompt_seconds = 0.0
        self.predicted_tokens = 0
        self.predicted_seconds = 0.0
        self.decode_calls = 0
        self.busy_slots = 0
        self.longest_sequence = 0

        # For the GPU's side of the model.
        self.busy_seconds = 0.0
        self.prefill_seconds = 0.0

    def count_first_token(self, request: Request, now: float) -> None:
        """The prompt is computed and the first token is out."""
        assert request.scheduled is not None
        self.ttft.observe(now - request.arrival)
        self.prompt_tokens += request.prompt
        self.cached_tokens += request.cached
        self.prompt_seconds += now - request.scheduled

    def count_finished(self, request: Request, now: float) -> None:
        """The request ended by itself: the only time per-request histograms are written."""
        assert request.scheduled is not None
        assert request.first_token is not None
        decode = now - request.first_token
        self.e2e.observe(now - request.arrival)
        self.queue.observe(request.scheduled - request.arrival)
        self.inference.observe(now - request.scheduled)
        self.prefill.observe(request.first_token - request.scheduled)
        self.decode.observe(decode)
        self.tpot.observe(decode / (request.output - 1) if request.output > 1 else 0.0)
        self.prompt_sizes.observe(request.prompt)
        self.generation_sizes.observe(request.output)
        self.max_tokens.observe(request.max_tokens)
        self.computed_sizes.observe(request.prompt - request.cached)
        self.choices.observe(1)
        self.request_preemptions.observe(request.preemptions)
        if request.output >= request.max_tokens:
            self.finished_length += 1
        else:
            self.finished_stop += 1
        self.predicted_tokens += request.output
        self.predicted_seconds += decode
        self.longest_sequence = max(self.longest_sequence, request.prompt + request.output)
        self.count_http(request, now)

    def count_aborted(self, request: Request, now: float) -> None:
        """The client left: no per-request histogram, and vLLM's abort counter stays 0."""
        self.aborted += 1
        self.count_http(request, now)

    def count_http(self, request: Request, now: float) -> None:
        """A streamed answer ended, in full or cut off; its status was sent first: 200."""
        seconds = now - request.arrival
        self.http_fine.observe(seconds)
        self.http_ok.observe(seconds)
        self.http_request_bytes += 310 + 4 * request.prompt
        self.http_response_bytes += 900

    def count_refused(self) -> None:
        """HTTP 4xx before the engine."""
        self.http_fine.observe(0.0011)
        self.http_refused.observe(0.0011)
        self.http_request_bytes += 290
        self.http_response_bytes += 180
