"""Whatever an engine's answer holds, it is read: no exception, and no value that cannot be."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.engines import llamacpp, lmdeploy, nim, ray, sglang, tgi, vllm
from collectors.engines.cells import MEASURES
from collectors.engines.table import METRICS, EngineKind
from collectors.engines.tgi import PARTS, FirstTokens, Totals
from collectors.plausible import ENGINE
from collectors.source import TargetReader

KINDS = [llamacpp.KIND, lmdeploy.KIND, nim.KIND, ray.KIND, sglang.KIND, tgi.KIND, vllm.KIND]
NUMBERS = ("0", "1", "7.5", "1e300", "-1", "NaN", "-nan(ind)", "+Inf", "9.223372036854776e+18", "x", "")
LABELS = (
    'model_name="m"', 'name="n"', 'engine="0"', 'dp_rank="1"', 'tp_rank="1"', 'priority=""', 'priority="2"',
    'pid="7"',
    'le="1"', 'le="+Inf"', 'le="x"', 'finished_reason="stop"', 'stage="prefill_forward"', 'err="validation"',
    'method="prefill"', 'status_code="500"', 'WorkerId="w"',
)  # fmt: skip


@st.composite
def answers(draw: st.DrawFn) -> tuple[EngineKind, list[bytes]]:
    kind = draw(st.sampled_from(KINDS))
    names = st.sampled_from(sorted(kind._targets))
    labels = st.lists(st.sampled_from(LABELS), max_size=3)
    line = st.builds(
        lambda name, some, number: f"{name}{{{','.join(some)}}} {number}",
        names, labels, st.sampled_from(NUMBERS),
    )  # fmt: skip
    lines = st.lists(line, max_size=30)
    return kind, ["\n".join(draw(lines)).encode() for _ in range(draw(st.integers(1, 4)))]


@settings(max_examples=150, deadline=None)
@given(answers())
def test_any_answer_is_read(answer: tuple[EngineKind, list[bytes]]) -> None:
    kind, bodies = answer
    reader = TargetReader(kind)
    for body in bodies:
        reading = reader.read(body)
        for engine in reading.engines:
            for column in MEASURES:
                value = getattr(engine, column)
                low, high = ENGINE[column]
                assert value is None or low <= value <= high
        for one in reading.histograms:
            assert one.metric in METRICS
            assert one.edges_seconds[-1] == math.inf
            assert len(one.edges_seconds) == len(one.buckets)
            assert all(math.isfinite(count) and count >= 0 for count in one.buckets)
            assert one.sum_seconds is None or math.isfinite(one.sum_seconds)
        names = dict(reading.found_names)
        assert names.keys() | set(reading.missing) == set(kind.yields)
        assert not names.keys() & set(reading.missing)


steps = st.tuples(
    *(st.tuples(st.floats(0, 100), st.integers(1, 50)) for _ in PARTS),
)


@given(steps, st.lists(steps, max_size=8))
def test_over_any_stretch_the_mean_to_the_first_token_is_that_of_its_parts(
    before: tuple[tuple[float, int], ...], later: list[tuple[tuple[float, int], ...]]
) -> None:
    """The mean of the stretches' means, each weighted with its requests."""
    first_tokens = FirstTokens()
    now = {name: Totals(seconds, float(count)) for name, (seconds, count) in zip(PARTS, before, strict=True)}
    start = first_tokens.add(now)
    assert start is not None
    requests = seconds = 0.0
    end = start
    for step in later:
        now = {
            name: Totals(now[name].seconds + gained, now[name].observed + count)
            for name, (gained, count) in zip(PARTS, step, strict=True)
        }
        requests += step[0][1]
        seconds += step[0][1] * sum(gained / count for gained, count in step)
        total = first_tokens.add(now)
        assert total is not None
        end = total
    assert end.observed - start.observed == requests
    assert math.isclose(end.seconds - start.seconds, seconds, rel_tol=1e-6, abs_tol=1e-6)
