"""Tables that several pages show: engines, worst first, with their figures as text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import streamlit as st

from app import format as form
from app import theme
from app.pages import facts, latency, parts, probe_charts, states
from app.view import View, Window, step_for

RECENT = timedelta(minutes=5)
"""What a table's present percentile covers: long enough for 20 requests at one every 15 s."""
TREND = timedelta(hours=1)
TREND_POINTS = 24
TREND_ENGINES = 30
"""Engines whose trend is read: a trend needs every scrape of the hour."""


def recent_p95(at: parts.Here, engines: pl.DataFrame) -> dict[tuple[Any, ...], latency.Reading]:
    """TTFT p95 of the last minutes, by target, replica and model."""
    rows = facts.latency(
        at.store,
        sorted(set(engines["target"])),
        ["ttft"],
        Window(at.window.end - RECENT, at.window.end, at.window.step_seconds, at.window.live),
        round(RECENT.total_seconds()),
        from_start=True,
    )
    return {
        (target, replica, model): latency.read("p95", sums)
        for (target, replica, model, _), sums in latency.total(rows).items()
    }


def trends(at: parts.Here, engines: pl.DataFrame) -> dict[tuple[Any, ...], list[float]]:
    """TTFT p95 (the mean, where an engine has no more) per step of the last hour, seconds; steps with too few
    requests are left out."""
    step = step_for(TREND.total_seconds(), TREND_POINTS)
    rows = facts.latency(
        at.store,
        sorted(set(engines["target"])),
        ["ttft"],
        Window(at.window.end - TREND, at.window.end, at.window.step_seconds, at.window.live),
        step,
    )
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in rows.iter_rows(named=True):
        reading = latency.read("p95", latency.sums_of(row))
        value = next((one for one in (reading.beyond, reading.value, reading.mean) if one is not None), None)
        if value is not None:
            found.setdefault((row["target"], row["replica"], row["model"]), []).append(value)
    return found


def engine_rows(at: parts.Here, fleet: facts.Fleet) -> pl.DataFrame:
    """`fleet.engines` with `p95` (seconds), `p95_text`, `p95_note` and `trend`, worst first."""
    found = recent_p95(at, fleet.engines)
    keys = list(fleet.engines.select("target", "replica", "model").iter_rows())
    readings = [found.get(key) for key in keys]
    probes = fleet.engines.filter(pl.col("role") == "probe")["target"].to_list()
    probed = probe_charts.summaries(at, probes, TREND.total_seconds())
    rated = fleet.engines.with_columns(
        pl.Series(
            "p95",
            [None if one is None else one.value if one.beyond is None else one.beyond for one in readings],
            dtype=pl.Float64,
        ),
        pl.Series(
            "p95_text",
            [
                probe_charts.p95_text(probed[key[0]])
                if key[0] in probed
                else form.UNKNOWN
                if one is None
                else one.text
                for key, one in zip(keys, readings, strict=True)
            ],
            dtype=pl.String,
        ),
        pl.Series("requests", [None if one is None else one.requests for one in readings], dtype=pl.Float64),
    )
    ordered = states.sorted_by_state(rated, "p95")
    past = trends(at, ordered.head(TREND_ENGINES))
    return ordered.with_columns(
        pl.Series(
            "trend",
            [past.get(key, []) for key in ordered.select("target", "replica", "model").iter_rows()],
            dtype=pl.List(pl.Float64),
        )
    )


def verdict_of(at: parts.Here, engine: dict[str, Any]) -> str:
    """The incident's title; where there is none, that the figures stand still, if they do; else nothing."""
    if not engine["verdict"] and states.is_frozen(engine):
        return at.say("frozen_for", time=form.duration(engine["frozen_seconds"]))
    return str(engine["verdict"])


def name_of(engine: dict[str, Any]) -> str:
    """The target, and the replica where it is not the first."""
    target, replica = engine["target"], engine["replica"]
    return str(target) if replica in ("", "0") else f"{target} / {replica}"


def _named_with_role(at: parts.Here, engine: dict[str, Any]) -> str:
    """The name, and what it is where it is no engine."""
    name = name_of(engine)
    return name if engine["role"] == "engine" else f"{name} · {at.say('role_' + engine['role'])}"


def engines(at: parts.Here, rows: pl.DataFrame, key: str) -> View | None:
    """Draw the table; the view of the engine whose row was just chosen, if one was."""
    shown = pl.DataFrame(
        {
            "state": [theme.MARKS[state] for state in rows["state"]],
            "engine": [_named_with_role(at, row) for row in rows.iter_rows(named=True)],
            "model": [
                form.shorten((model or "").rstrip("/").rpartition("/")[2] or form.UNKNOWN, 34)
                for model in rows["model"]
            ],
            "p95": rows["p95_text"],
            "trend": rows["trend"],
            "waiting": [form.count(value) for value in rows["requests_waiting"]],
            "running": [form.count(value) for value in rows["requests_running"]],
            "kv": [form.percent(value) for value in rows["kv_cache_used_ratio"]],
            "tokens": [form.significant(value) for value in rows["generation_tokens_per_second"]],
            "verdict": [verdict_of(at, row) for row in rows.iter_rows(named=True)],
        },
        schema_overrides={"trend": pl.List(pl.Float64), "verdict": pl.String},
    )
    text = st.column_config.TextColumn
    config = {
        "state": text("", width=28, help=at.say("about_marks"), pinned=True),
        "engine": text(at.say("engine"), pinned=True, width=96 if set(rows["role"]) <= {"engine"} else 128),
        "model": text(at.say("model"), width=104),
        "p95": text("TTFT p95", help=at.say("about_p95"), alignment="right", width=72),
        "trend": st.column_config.LineChartColumn(
            at.say("trend_1h"), help=at.say("about_trend"), width=72, color=at.colours.accent
        ),
        "waiting": text(at.say("waiting"), alignment="right", width=58),
        "running": text(at.say("running"), alignment="right", width=58),
        "kv": text("KV", help=at.say("about_kv"), alignment="right", width=54),
        "tokens": text(at.say("tokens_per_second"), help=at.say("about_tokens"), alignment="right", width=54),
        "verdict": text(at.say("verdict"), help=at.say("about_verdict"), width=84),
    }
    picked = pick(shown, config, key, at.say("alt_engines"))
    if picked is None or picked >= rows.height:
        return None
    row = rows.row(picked, named=True)
    return at.view.shared().but(engine=row["target"], replica=row["replica"], model=row["model"] or "")


def pick(shown: pl.DataFrame, config: dict[str, Any], key: str, words_for_it: str) -> int | None:
    """A table whose rows can be chosen by their box: the number of the row just chosen.

    Rows, not cells: the keyboard's cursor is a chosen cell, so Tab and the arrows would open something.
    """
    event: Any = st.dataframe(
        shown,
        column_config=config,
        hide_index=True,
        width="stretch",
        height=parts.table_height(shown.height),
        key=f"{key}_{parts.turn(key)}",
        on_select="rerun",
        selection_mode="single-row",
        alt=words_for_it,
    )
    rows = event.selection.rows
    if not rows:
        return None
    parts.next_turn(key)
    return int(rows[0])
