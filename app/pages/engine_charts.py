"""One engine over time: latency percentiles with their bucket range, queue, KV cache, tokens."""

from __future__ import annotations

from typing import Any

import polars as pl
import streamlit as st

from app import charts
from app import format as form
from app.chart_layers import Frame, Line, Span, break_gaps
from app.pages import facts, latency, parts, states

METRICS = ("ttft", "itl", "e2e")
"""Latency panels, in this order. `tpot` stands in where an engine has no `itl`."""
LATENCY_POINTS = 40
"""Steps of a latency chart: few, so that each holds enough requests for a percentile."""


def draw_all(at: parts.Here, row: dict[str, Any], incidents: pl.DataFrame) -> None:
    """Query the engine's series and draw the page's charts."""
    one = {"target": row["target"], "replica": row["replica"], "model": row["model"]}
    interval = row["interval_seconds"] or 10.0
    series = facts.ask(
        at.store,
        "page_engine_series",
        from_ts=at.window.start,
        to_ts=at.window.end,
        step=at.window.step_seconds,
        lead=3 * interval,
        **one,
    )
    around = at.frame(
        [
            Span(
                incident["started_at"],
                incident["resolved_at"] or at.window.end,
                states.incident_state(incident["state"]),
                incident["title"],
            )
            for incident in incidents.iter_rows(named=True)
        ]
    )
    _latency(at, row, around)
    if series.is_empty():
        parts.nothing(
            at.say("no_samples_in_window"), at.say("no_samples_in_window_cure", time=at.clock(row["ts"]))
        )
        return
    step = max(at.window.step_seconds, interval)
    broken = break_gaps(series, states.STALE_INTERVALS * step)
    with st.grid(2, min_column_width=420, gap="small"):
        with st.container():
            _queue(at, broken, around)
        with st.container():
            _kv(at, broken, around)
        with st.container():
            _tokens(at, broken, around)
        with st.container():
            _preemptions(at, broken, around)
    st.markdown(f":gray[{at.say('aborts')}: {aborts(at, row)}]")


def aborts(at: parts.Here, row: dict[str, Any]) -> str:
    """The number of aborted requests, or that the engine does not count them."""
    if row["finished_abort_total"] is not None:
        return at.say("since_start", n=form.count(row["finished_abort_total"]))
    return at.say("not_measured_by", engine=engine_name(row["engine"]))


_NAMES = {
    "vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang", "tgi": "TGI", "trtllm": "TensorRT-LLM",
    "triton": "Triton", "nim": "NIM", "dynamo": "Dynamo", "ray": "Ray Serve", "lmdeploy": "LMDeploy",
    "litellm": "LiteLLM", "ollama": "Ollama", "vllm_router": "vLLM router", "otel": "OpenTelemetry",
}  # fmt: skip


def engine_name(kind: str) -> str:
    """An engine as its makers write it."""
    return _NAMES.get(kind, kind)


def _latency(at: parts.Here, row: dict[str, Any], around: Frame) -> None:
    step = at.window.coarser(LATENCY_POINTS)
    found = facts.latency(at.store, [row["target"]], [*METRICS, "tpot"], at.window, step).filter(
        (pl.col("replica") == row["replica"]) & pl.col("model").eq_missing(row["model"])
    )
    measured = set(found["metric"])
    if not measured:
        engine = engine_name(row["engine"])
        known = facts.ask(
            at.store, "page_latency_known", target=row["target"], replica=row["replica"], as_of=at.window.end
        )
        if known.is_empty():
            parts.nothing(at.say("no_histograms", engine=engine), at.say("no_histograms_cure"))
        else:
            parts.nothing(at.say("no_requests_in_window"))
        return
    wanted = [metric if metric in measured or metric != "itl" else "tpot" for metric in METRICS]
    with st.grid(3, min_column_width=360, gap="small"):
        for metric in wanted:
            with st.container():
                _percentiles(at, found.filter(pl.col("metric") == metric), metric, step, row, around)


def _percentiles(
    at: parts.Here, rows: pl.DataFrame, metric: str, step: int, row: dict[str, Any], around: Frame
) -> None:
    sums = latency.total(rows)
    whole = next(iter(sums.values()), None)
    if whole is None:
        parts.panel(at.say(f"metric_{metric}"), "", at.say(f"about_{metric}"))
        missing = at.say("metric_not_measured", target=form.plain(row["target"]))
        cure = f" {at.say('ttft_by_probe')}" if metric == "ttft" else ""
        st.markdown(f":gray[{form.UNKNOWN} {missing}{cure}]")
        return
    if whole.mean_only:
        _mean(at, rows, whole, metric, step, row, around)
        return
    readings = {name: latency.read(name, whole) for name in latency.QUANTILES}
    said = " · ".join(f"{name} {reading.text}" for name, reading in readings.items())
    n = form.count(readings["p50"].requests)
    parts.panel(at.say(f"metric_{metric}"), f"{said} · n {n}", _about(at, metric, readings))
    series = latency.series(rows)
    parts.draw(
        charts.quantiles(_broken(series, step), around),
        f"latency_{metric}",
        at.say("alt_quantiles", metric=at.say(f"metric_{metric}")),
    )


def _mean(
    at: parts.Here,
    rows: pl.DataFrame,
    whole: latency.Sums,
    metric: str,
    step: int,
    row: dict[str, Any],
    around: Frame,
) -> None:
    """A metric that the engine counts and sums up, without buckets."""
    note = f"{at.say('mean')} {form.latency(whole.mean)} · n {form.count(whole.increases[-1])}"
    parts.panel(at.say(f"metric_{metric}"), note, at.say(f"about_{metric}"))
    series = break_gaps(latency.means(rows), 1.5 * step)
    wanted = [Line("mean", at.say("mean"))]
    missing = at.say("metric_not_measured", target=form.plain(row["target"]))
    parts.lines(series, around, wanted, "seconds", f"latency_{metric}_mean", missing)
    st.caption(at.say("mean_only", engine=engine_name(row["engine"])))


def _about(at: parts.Here, metric: str, readings: dict[str, latency.Reading]) -> str:
    """What the metric means, and each percentile with its bucket range or why it is missing."""
    lines = [f"- {name}: {latency.describe(reading)}" for name, reading in readings.items()]
    return "\n".join([at.say(f"about_{metric}"), "", at.say("about_quantiles"), "", *lines])


def _broken(series: pl.DataFrame, step: int) -> pl.DataFrame:
    """A percentile's line does not cross steps without one: an empty row stands in each hole."""
    parts_of = [
        break_gaps(part, 1.5 * step).with_columns(pl.lit(name).alias("quantile"))
        for (name,), part in series.partition_by("quantile", as_dict=True, maintain_order=True).items()
    ]
    return pl.concat(parts_of, how="diagonal") if parts_of else series


def _queue(at: parts.Here, series: pl.DataFrame, around: Frame) -> None:
    peak = _number(series["waiting_max"].max())
    note = "" if peak is None else at.say("peak_waiting", n=form.count(peak))
    parts.panel(at.say("queue"), note, at.say("about_queue"))
    wanted = [
        Line("waiting", at.say("waiting"), "", "waiting_max"),
        Line("running", at.say("running"), "", "running_max"),
    ]
    parts.lines(series, around, wanted, "count", "engine_queue", at.say("no_queue"))


def _kv(at: parts.Here, series: pl.DataFrame, around: Frame) -> None:
    peak = _number(series["kv_max"].max())
    note = "" if peak is None else at.say("peak", value=form.percent(peak))
    parts.panel(at.say("kv_cache"), note, at.say("about_kv"))
    wanted = [Line("kv", "KV", "kv_min", "kv_max")]
    parts.lines(series, around, wanted, "ratio", "engine_kv", at.say("no_kv"), ceiling=1.0)


def _tokens(at: parts.Here, series: pl.DataFrame, around: Frame) -> None:
    mean = _number(series["generation_tokens_per_second"].mean())
    note = "" if mean is None else at.say("mean_generation", value=form.with_unit(mean, "tok/s"))
    parts.panel(at.say("tokens"), note, at.say("about_tokens"))
    wanted = [
        Line("generation_tokens_per_second", at.say("generation")),
        Line("prompt_tokens_per_second", at.say("prompt")),
    ]
    parts.lines(series, around, wanted, "per_second", "engine_tokens", at.say("no_tokens"))


def _preemptions(at: parts.Here, series: pl.DataFrame, around: Frame) -> None:
    known = series["preemptions"].drop_nulls()
    note = at.say("in_window", n=form.count(_number(known.sum()))) if known.len() else ""
    parts.panel(at.say("preemptions"), note, at.say("about_preemptions"))
    if not known.len():
        st.markdown(f":gray[{form.UNKNOWN} {at.say('no_preemptions')}]")
        return
    parts.draw(
        charts.bars(series, "preemptions", at.say("preemptions"), around),
        "engine_preempted",
        at.say("preemptions"),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
