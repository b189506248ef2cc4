"""A continuous-batching inference engine as a discrete-event model.

Each step computes one token for every decoding request and, within the step's token budget, parts of the
prompts of new ones. Steps between two events (an arrival, an end, an abort, a full cache) differ only by
their growing context, so they are computed at once: the model costs time by request, not by token.
Counters move as vLLM's do: an aborted request counts in the token counters and in TTFT only.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush

from app.demo.engine_stats import EngineStats
from app.demo.workload import Request, Workload


@dataclass(frozen=True)
class EngineLimits:
    """Capacity and speed of one replica. Tokens, blocks of `block_size` tokens, seconds."""

    max_num_seqs: int
    max_batched_tokens: int
    kv_blocks: int
    max_model_len: int
    step_seconds: float
    """An empty step: reading the weights."""
    seconds_per_sequence: float
    seconds_per_context_token: float
    seconds_per_prompt_token: float
    block_size: int = 16

    def requests_per_second(self, prompt: float, output: float) -> float:
        """About how many requests of that size (tokens) a full batch gets through."""
        step = self.step_seconds / self.max_num_seqs + self.seconds_per_sequence
        step += self.seconds_per_context_token * prompt
        return 1 / (prompt * self.seconds_per_prompt_token + output * step)


class Replica:
    """One engine process with its queue, its batch and its KV cache; advanced by `advance(until)`."""

    def __init__(self, limits: EngineLimits, workload: Workload, start: float) -> None:
        self.limits = limits
        self.workload = workload
        self.speed = 1.0
        """Below 1 when its GPUs are throttled."""
        self.running = True
        self.start(start)

    def start(self, now: float) -> None:
        """A fresh process: empty, all counters 0."""
        self.running = True
        self.started = now
        self.now = now
        self.stats = EngineStats(self.limits.max_model_len)
        self.steps = 0
        self.waiting: deque[Request] = deque()
        self.prefilling: list[Request] = []
        self.decoding: dict[Request, None] = {}
        """In the order they joined; the last one is preempted first."""
        self._ends: list[tuple[int, int, Request]] = []
        self._aborts: list[tuple[float, int, Request]] = []
        self._sequence = 0
        self._kv_tokens = 0
        """Tokens that hold cache: whole prompts from their admission on."""
        self._decode_context = 0
        self._next_arrival = self.workload.next_arrival(now)

    def stop(self) -> None:
        """The process is gone, with all its requests."""
        self.running = False
        self.waiting.clear()
        self.prefilling.clear()
        self.decoding.clear()

    @property
    def requests_running(self) -> int:
        """Requests in the batch, prompts in progress included."""
        return len(self.decoding) + len(self.prefilling)

    @property
    def requests_waiting(self) -> int:
        """Requests in the queue."""
        return len(self.waiting)

    @property
    def kv_used_ratio(self) -> float:
        """Share of the KV blocks in use; each sequence's last block counts as half full."""
        blocks = math.ceil(self._kv_tokens / self.limits.block_size + self.requests_running / 2)
        return min(blocks, self.limits.kv_blocks) / self.limits.kv_blocks

    def advance(self, until: float) -> None:
        """Run to `until`; the last step may end a little later. Does nothing while stopped."""
        if not self.running:
            return
        while self.now < until:
            self._take_in()
            crowded = self._make_room()
            chunks = self._schedule(may_admit=not crowded)
            if chunks:
                self._mixed_step(chunks)
            elif self.decoding:
                self._decode_steps(until)
            else:
                self.now = min(self._next_arrival, until)

    def _take_in(self) -> None:
        """Arrivals and aborts whose time has come."""
        while self._next_arrival <= self.now:
            arrival = self._next_arrival
            self._next_arrival = self.workload.next_arrival(arrival)
            if self.workload.is_rejected():
                self.stats.count_refused()
                continue
            request = self.workload.request(arrival, self.limits.max_model_len)
            self.stats.arrivals += 1
            self.waiting.append(request)
            if request.abort_at is not None:
                self._sequence += 1
                heappush(self._aborts, (request.abort_at, self._sequence, request))
        while self._aborts and self._aborts[0][0] <= self.now:
            self._abort(heappop(self._aborts)[2])
        patience = self.workload.spec.patience_seconds
        while self.waiting and self.waiting[0].first_token is None:
            if self.waiting[0].arrival + patience > self.now:
                break
            self._abort(self.waiting[0])

    def _abort(self, request: Request) -> None:
        if request.state == "gone":
            return
        if request.state == "waiting":
            self.waiting.remove(request)
        elif request.state == "prefilling":
            self.prefilling.remove(request)
            self._kv_tokens -= request.target
        else:
            self._leave_batch(request)
        request.state = "gone"
        self.stats.count_aborted(request, self.now)

    def _context(self, request: Request) -> int:
        """Tokens of a decoding request that stand in the cache now."""
        return request.target + 1 + self.steps - request.joined_step

    def _leave_batch(self, request: Request) -> None:
        context = self._context(request)
        self._kv_tokens -= context
        self._decode_context -= context
        del self.decoding[request]

    def _room(self) -> float:
        """Tokens that still fit into the cache."""
        limits = self.limits
        return (limits.kv_blocks - self.requests_running / 2) * limits.block_size - self._kv_tokens

    def _make_room(self) -> bool:
        """Preempt the youngest requests until one more step fits; True when any was preempted."""
        crowded = False
        while self.requests_running > 1 and self._room() < len(self.decoding):
            crowded = True
            self.stats.preemptions += 1
            if self.prefilling:
                request = self.prefilling.pop()
                self._kv_tokens -= request.target
            else:
                request = next(reversed(self.decoding))
                request.generated += self.steps - request.joined_step
                request.last_token = self.now
                self._leave_batch(request)
                request.target = request.prompt + request.generated
            request.computed = 0
            request.preemptions += 1
            request.state = "waiting"
            self.waiting.appendleft(request)
        return crowded

    def _schedule(self, *, may_admit: bool) -> list[tuple[Request, int]]:
        """The prompt parts of the next step: those under way first, then new ones while they fit."""
        limits = self.limits
        budget = limits.max_batched_tokens - len(self.decoding)
        chunks: list[tuple[Request, int]] = []
        for request in self.prefilling:
            if budget <= 0:
                return chunks
            part = min(budget, request.target - request.computed)
            budget -= part
            chunks.append((request, part))
        while may_admit and self.waiting and budget > 0 and self.requests_running < limits.max_num_seqs:
            request = self.waiting[0]
            # One block for each sequence stays free, or an admission would be preempted at once.
            spare = limits.block_size * len(self.decoding)
            if self.requests_running and self._room() < request.target + spare:
                break
            self.waiting.popleft()
            if request.scheduled is None:
                request.scheduled = self.now
                request.computed = request.cached
                self.stats.prefix_queries += request.prompt
                self.stats.prefix_hits += request.cached
            request.state = "prefilling"
            self.prefilling.append(request)
            self._kv_tokens += request.target
            part = min(budget, request.target - request.computed)
            budget -= part
            chunks.append((request, part))
        return chunks

    def _step_seconds(self) -> float:
        """The duration of the next step without prompts."""
        limits = self.limits
        seconds = (
            limits.step_seconds
            + limits.seconds_per_sequence * len(self.decoding)
            + limits.seconds_per_context_token * self._decode_context
        )
        return seconds / self.speed

    def _mixed_step(self, chunks: list[tuple[Request, int]]) -> None:
        """One step that computes prompt parts beside the decoding requests' tokens."""
        stats = self.stats
        batch = len(self.decoding)
        prompt_tokens = sum(part for _, part in chunks)
        prompt_seconds = self.limits.seconds_per_prompt_token * prompt_tokens / self.speed
        seconds = self._step_seconds() + prompt_seconds
        self.now += seconds
        self.steps += 1
        stats.busy_seconds += seconds
        stats.prefill_seconds += prompt_seconds
        stats.iteration_tokens.observe(batch + prompt_tokens)
        stats.decode_calls += 1
        stats.busy_slots += self.requests_running
        if batch:
            self._count_tokens(batch)
            stats.itl.observe(seconds, batch)
            self._end_finished()
        for request, part in chunks:
            request.computed += part
            if request.computed >= request.target:
                self.prefilling.remove(request)
                self._join(request)

    def _decode_steps(self, until: float) -> None:
        """As many steps as nothing else happens in."""
        batch = len(self.decoding)
        first = self._step_seconds()
        growth = self.limits.seconds_per_context_token * batch / self.speed
        while self._ends[0][2].state != "decoding" or self._ends[0][2].finish_step != self._ends[0][0]:
            heappop(self._ends)
        horizon = min(until, self._next_arrival)
        if self._aborts:
            horizon = min(horizon, self._aborts[0][0])
        if self.waiting:
            horizon = min(horizon, self.waiting[0].arrival + self.workload.spec.patience_seconds)
        steps = min(
            self._ends[0][0] - self.steps,
            int(self._room() // batch),
            _steps_to_pass(horizon - self.now, first, growth),
        )
        steps = max(1, steps)
        seconds = steps * first + growth * steps * (steps - 1) / 2
        stats = self.stats
        self.now += seconds
        self.steps += steps
        stats.busy_seconds += seconds
        stats.iteration_tokens.observe(batch, steps)
        stats.decode_calls += steps
        stats.busy_slots += batch * steps
        stats.itl.observe_ramp(first, growth, steps, batch)
        self._count_tokens(batch * steps)
        self._end_finished()

    def _count_tokens(self, tokens: int) -> None:
        self.stats.generation_tokens += tokens
        self._decode_context += tokens
        self._kv_tokens += tokens

    def _end_finished(self) -> None:
        while self._ends and self._ends[0][0] <= self.steps:
            finish_step, _, request = heappop(self._ends)
            if request.state == "decoding" and request.finish_step == finish_step:
                self._leave_batch(request)
                request.state = "gone"
                self.stats.count_finished(request, self.now)

    def _join(self, request: Request) -> None:
        """The prompt is computed: the step gave the request a token and it decodes from now on."""
        if request.first_token is None:
            request.first_token = self.now
            self.stats.count_first_token(request, self.now)
        else:
            self.stats.itl.observe(self.now - request.last_token)
        self.stats.generation_tokens += 1
        request.generated += 1
        request.joined_step = self.steps
        request.state = "decoding"
        self.decoding[request] = None
        self._kv_tokens += 1
        self._decode_context += request.target + 1
        request.finish_step = self.steps + request.output - request.generated
        self._sequence += 1
        heappush(self._ends, (request.finish_step, self._sequence, request))
        self._end_finished()


def _steps_to_pass(seconds: float, first: float, growth: float) -> int:
    """Steps of first, first + growth, … seconds until their sum reaches `seconds`; at least 1."""
    if seconds <= first:
        return 1
    if growth * 1000 < first * 1e-6:
        return math.ceil(seconds / first)
    half = first - growth / 2
    return math.ceil((math.sqrt(half * half + 2 * growth * seconds) - half) / growth)
