"""One probe over time: what a caller waited for, and which requests failed."""

from __future__ import annotations

from typing import Any

import polars as pl
import streamlit as st

from app import charts
from app import format as form
from app.chart_layers import Frame, Line, break_gaps
from app.pages import facts, parts

HOUR = 3600.0
DAY = 86_400.0
NEEDED = 20
"""Probes a p95 needs, as of any other requests (`app/pages/latency.py`)."""


def summaries(at: parts.Here, targets: list[str], look_back: float) -> dict[str, dict[str, Any]]:
    """How the probes of each target went over the look-back."""
    if not targets:
        return {}
    found = facts.ask(
        at.store,
        "page_probe_summary",
        targets=tuple(sorted(targets)),
        as_of=at.window.end,
        look_back=look_back,
    )
    return {row["target"]: row for row in found.iter_rows(named=True)}


def p95_text(summary: dict[str, Any] | None) -> str:
    """TTFT p95 of the last hour's probes; `–` where there are too few."""
    if summary is None or summary["timed"] < NEEDED:
        return form.UNKNOWN
    return form.latency(summary["ttft_p95"])


def last_hour(at: parts.Here, target: str) -> list[str]:
    """Words of the first line: TTFT p95 and failures of the last hour."""
    found = summaries(at, [target], HOUR).get(target)
    if found is None:
        return []
    said = [at.say("probe_p95_is", value=p95_text(found), n=form.count(found["timed"]))]
    if found["failures"]:
        failed = at.say("n_of_all", n=form.count(found["failures"]), all=form.count(found["probes"]))
        said.append(parts.mark("watching", at.say("probes_failed_of", n=failed)))
    return said


def facts_of(at: parts.Here, target: str) -> list[tuple[str, str, str | None]]:
    """The last 24 hours in figures."""
    found = summaries(at, [target], DAY).get(target)
    if found is None:
        return []
    good = found["probes"] - found["failures"]
    cost = cost_text(found)
    return [
        (
            at.say("probes_ok_24h"),
            at.say("n_of_all", n=form.count(good), all=form.count(found["probes"])),
            at.say("about_probes_ok"),
        ),
        (at.say("ttft_median_24h"), form.latency(found["ttft_p50"]), at.say("about_probe_ttft")),
        (at.say("tpot_median_24h"), form.latency(found["tpot_p50"]), at.say("about_tpot")),
        (at.say("probe_cost_24h"), cost, at.say("about_probe_cost")),
    ]


def cost_text(summary: dict[str, Any]) -> str:
    """What the probes cost; `≥` where that of some is not known, empty where that of none is."""
    if summary["cost"] is None:
        return ""
    at_least = "≥ " if summary["unpriced"] else ""
    return f"{at_least}{summary['cost'].normalize():f} {summary['currency']}"


def draw_all(at: parts.Here, row: dict[str, Any]) -> None:
    """The probe's charts."""
    interval = row["interval_seconds"] or 60.0
    step = max(at.window.step_seconds, int(interval))
    series = facts.ask(
        at.store,
        "page_probe_series",
        target=row["target"],
        from_ts=at.window.start,
        to_ts=at.window.end,
        step=step,
    )
    if series.is_empty():
        parts.nothing(at.say("no_probe_in_window"))
        return
    around = at.frame()
    broken = break_gaps(series, 3 * max(step, interval))
    with st.grid(2, min_column_width=420, gap="small"):
        for metric in ("ttft", "e2e", "tpot"):
            with st.container():
                _times(at, broken, metric, around, row["target"])
        with st.container():
            _failures(at, broken, around, row["target"])


def _times(at: parts.Here, series: pl.DataFrame, metric: str, around: Frame, target: str) -> None:
    peak = series[f"{metric}_max"].drop_nulls().max()
    note = at.say("peak", value=form.latency(float(peak))) if isinstance(peak, int | float) else ""
    about = "about_tpot" if metric == "tpot" else f"about_probe_{metric}"
    parts.panel(at.say(f"metric_{metric}"), note, at.say(about))
    wanted = [Line(metric, at.say("median"), f"{metric}_min", f"{metric}_max")]
    missing = at.say("probe_did_not_time", target=form.plain(target))
    parts.lines(series, around, wanted, "seconds", f"probe_{metric}", missing)


def _failures(at: parts.Here, series: pl.DataFrame, around: Frame, target: str) -> None:
    known = series["failures"].drop_nulls()
    note = at.say("in_window", n=form.count(float(known.sum())))
    parts.panel(at.say("probes_failed"), note, at.say("about_probes_failed"))
    parts.draw(
        charts.bars(series, "failures", at.say("probes_failed"), around),
        "probe_failures",
        at.say("probes_failed"),
    )
    last = summaries(at, [target], DAY).get(target)
    if last is not None and last["last_error"]:
        st.caption(at.say("probe_last_error", error=form.plain(last["last_error"])))
