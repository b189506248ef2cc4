"""The engine model against figures worked out by hand, and its invariants under drawn load."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.demo.engine import EngineLimits, Replica
from app.demo.workload import Request, Workload, WorkloadSpec

# 10 ms a step, 1 ms a sequence, 1 ms a prompt token, 64 tokens a step, context free of charge.
PLAIN = EngineLimits(
    max_num_seqs=4,
    max_batched_tokens=64,
    kv_blocks=1000,
    max_model_len=4096,
    step_seconds=0.010,
    seconds_per_sequence=0.001,
    seconds_per_context_token=0.0,
    seconds_per_prompt_token=0.001,
)
PATIENT = WorkloadSpec(1.0, 5.0, 1.0, 4.0, 1.0, patience_seconds=1e9)


class Written(Workload):
    """A workload that is written down instead of drawn."""

    def __init__(self, requests: list[Request], spec: WorkloadSpec = PATIENT) -> None:
        super().__init__(spec, Random(0), 0.0, 16)
        self._times = sorted(request.arrival for request in requests)
        self._requests = sorted(requests, key=lambda request: request.arrival)

    def next_arrival(self, after: float) -> float:
        return self._times.pop(0) if self._times else math.inf

    def is_rejected(self) -> bool:
        return False

    def request(self, arrival: float, max_model_len: int) -> Request:
        return self._requests.pop(0)


def request(arrival: float, prompt: int, output: int, *, cached: int = 0, max_tokens: int = 1000) -> Request:
    return Request(arrival, prompt, cached, output, max_tokens)


def test_one_request_takes_the_time_worked_out_by_hand() -> None:
    # Prompt 100 in parts of 64 and 36: 10+64 ms and 10+36 ms; then four more tokens at 10+1 ms.
    replica = Replica(PLAIN, Written([request(1.0, 100, 5)]), 0.0)
    replica.advance(10.0)
    stats = replica.stats
    assert stats.ttft.sum == pytest.approx(0.120)
    assert stats.itl.count == 4
    assert stats.itl.sum == pytest.approx(0.044)
    assert stats.e2e.sum == pytest.approx(0.164)
    assert stats.queue.sum == pytest.approx(0.0)
    assert stats.prefill.sum == pytest.approx(0.120)
    assert stats.decode.sum == pytest.approx(0.044)
    assert stats.tpot.sum == pytest.approx(0.011)
    assert (stats.prompt_tokens, stats.generation_tokens) == (100, 5)
    # 64, 36, then one token in each of four steps.
    assert (stats.iteration_tokens.count, stats.iteration_tokens.sum) == (6, 104)
    assert stats.busy_seconds == pytest.approx(0.164)
    assert replica.kv_used_ratio == 0.0


def test_cached_tokens_are_not_computed_again() -> None:
    replica = Replica(PLAIN, Written([request(1.0, 100, 1, cached=96)]), 0.0)
    replica.advance(10.0)
    assert replica.stats.ttft.sum == pytest.approx(0.014)
    assert replica.stats.computed_sizes.sum == 4
    assert (replica.stats.prefix_queries, replica.stats.prefix_hits) == (100, 96)


def test_requests_beyond_max_num_seqs_wait_and_their_queue_time_is_written_at_the_end() -> None:
    requests = [request(1.0, 10, 900) for _ in range(16)]
    replica = Replica(PLAIN, Written(requests), 0.0)
    replica.advance(2.0)
    # As in a real server with --max-num-seqs 4: the gauges say it, the histograms say nothing yet.
    assert (replica.requests_running, replica.requests_waiting) == (4, 12)
    assert replica.stats.ttft.count == 4
    assert replica.stats.queue.count == replica.stats.e2e.count == 0


def test_an_abort_counts_in_tokens_and_ttft_only() -> None:
    left = request(1.0, 50, 800)
    left.abort_at = 2.0
    replica = Replica(PLAIN, Written([left, request(1.0, 10, 20)]), 0.0)
    replica.advance(30.0)
    stats = replica.stats
    assert (stats.ttft.count, stats.e2e.count, stats.aborted) == (2, 1, 1)
    assert stats.prompt_tokens == 60
    assert stats.prompt_sizes.sum == 10
    assert stats.generation_tokens > stats.generation_sizes.sum == 20
    assert stats.finished_stop + stats.finished_length == 1
    assert (replica.requests_running, replica.kv_used_ratio) == (0, 0.0)


def test_clients_without_patience_leave_the_queue() -> None:
    spec = WorkloadSpec(1.0, 5.0, 1.0, 4.0, 1.0, patience_seconds=3.0)
    replica = Replica(PLAIN, Written([request(1.0, 10, 900) for _ in range(16)], spec), 0.0)
    replica.advance(3.9)
    assert replica.requests_waiting == 12
    replica.advance(4.1)
    assert (replica.requests_waiting, replica.stats.aborted) == (0, 12)
    assert replica.stats.prompt_tokens == 40


def test_a_full_cache_preempts_the_youngest_and_computes_it_again() -> None:
    # 12 blocks of 16 = 192 tokens; two requests of 80 + 60 tokens do not fit together to their end.
    limits = EngineLimits(4, 64, 12, 190, 0.010, 0.001, 0.0, 0.001)
    old, young = request(1.0, 80, 60), request(1.0, 80, 60)
    replica = Replica(limits, Written([old, young]), 0.0)
    replica.advance(60.0)
    assert (old.preemptions, young.preemptions) == (0, 1)
    assert replica.stats.preemptions == 1
    assert replica.stats.e2e.count == 2
    # Tokens and first tokens are counted once, whatever is computed twice.
    assert (replica.stats.prompt_tokens, replica.stats.generation_tokens) == (160, 120)
    assert replica.stats.ttft.count == 2
    # Every token but the first of each request has a gap before it.
    assert replica.stats.itl.count == 118
    assert replica.stats.request_preemptions.sum == 1


def test_length_and_stop_are_told_apart() -> None:
    requests = [request(1.0, 10, 20, max_tokens=20), request(1.0, 10, 20, max_tokens=21)]
    replica = Replica(PLAIN, Written(requests), 0.0)
    replica.advance(10.0)
    assert (replica.stats.finished_length, replica.stats.finished_stop) == (1, 1)


def test_a_throttled_engine_takes_longer_in_proportion() -> None:
    replica = Replica(PLAIN, Written([request(1.0, 100, 5)]), 0.0)
    replica.speed = 0.5
    replica.advance(10.0)
    assert replica.stats.e2e.sum == pytest.approx(0.328)


def test_a_restart_begins_at_zero() -> None:
    replica = Replica(PLAIN, Written([request(1.0, 100, 500)]), 0.0)
    replica.advance(2.0)
    replica.stop()
    replica.advance(3.0)
    assert not replica.running
    replica.start(5.0)
    assert (replica.started, replica.stats.prompt_tokens, replica.requests_running) == (5.0, 0, 0)
    assert replica.kv_used_ratio == 0.0


SMALL = EngineLimits(8, 256, 160, 2048, 0.010, 0.0005, 1e-6, 0.0002)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rate=st.floats(0.2, 12.0),
    prompt=st.floats(3.0, 6.5),
    output=st.floats(2.0, 5.5),
    aborts=st.floats(0.0, 0.3),
)
def test_invariants_hold_under_any_load(
    seed: int, rate: float, prompt: float, output: float, aborts: float
) -> None:
    spec = WorkloadSpec(rate, prompt, 1.0, output, 1.0, abort_ratio=aborts, patience_seconds=20.0)
    replica = Replica(SMALL, Workload(spec, Random(seed), 0.0, 16), 0.0)
    before = (0, 0, 0, 0)
    for t in range(1, 90):
        replica.advance(float(t))
        stats = replica.stats
        assert replica.requests_running <= SMALL.max_num_seqs
        assert 0.0 <= replica.kv_used_ratio <= 1.0
        assert stats.e2e.count <= stats.ttft.count
        assert stats.finished_stop + stats.finished_length == stats.e2e.count == stats.queue.count
        assert stats.prompt_sizes.sum <= stats.prompt_tokens
        assert stats.generation_sizes.sum <= stats.generation_tokens
        assert stats.itl.count <= stats.generation_tokens
        assert stats.prefix_hits <= stats.prefix_queries
        now = (stats.prompt_tokens, stats.generation_tokens, stats.ttft.count, stats.preemptions)
        assert all(a >= b for a, b in zip(now, before, strict=True))
        before = now
        inside = replica.requests_running + replica.requests_waiting
        assert stats.arrivals == stats.e2e.count + stats.aborted + inside
        assert stats.iteration_tokens.cumulative()[-1] == stats.iteration_tokens.count


def test_littles_law_holds() -> None:
    """Mean number in the batch = rate of arrival into it × mean time in it."""
    spec = WorkloadSpec(1.0, 5.5, 0.8, 4.5, 0.6, abort_ratio=0.0, patience_seconds=1e9)
    limits = EngineLimits(64, 2048, 5000, 4096, 0.02, 0.0005, 0.0, 0.0001)
    replica = Replica(limits, Workload(spec, Random(7), 0.0, 16), 0.0)
    running = []
    for tenth in range(1, 36_001):
        replica.advance(tenth / 10)
        running.append(replica.requests_running)
    stats = replica.stats
    mean_running = sum(running) / len(running)
    assert mean_running == pytest.approx(stats.inference.sum / 3600, rel=0.05)
    assert stats.e2e.count > 3000
