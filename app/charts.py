"""Charts: pure functions from a frame to a drawing, its specification made with Altair. No query, no clock.

Every time chart has the same axis, the same cursor with its tooltip, and the same incident marks:
`app/chart_layers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import altair as alt
import polars as pl

from app import format as form
from app.chart_layers import (
    COUNT_LABELS,
    HEIGHT,
    TEXTS,
    Drawing,
    Frame,
    Line,
    Threshold,
    Unit,
    cursor_layer,
    finish,
    incident_layer,
    incident_rows,
    level_layer,
    level_rows,
    milliseconds,
    time_axis,
    value_axis,
    window_layer,
    window_rows,
)
from app.theme import Palette, state_colour

SHAPES = 256
"""Specifications kept: far more than pages × languages × modes have."""


def _named(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name))


def lines(
    frame: pl.DataFrame,
    wanted: Sequence[Line],
    around: Frame,
    unit: Unit,
    *,
    thresholds: Sequence[Threshold] = (),
    ceiling: float | None = None,
    zero: bool = True,
    height: int = HEIGHT,
) -> Drawing:
    """Lines over time from a wide frame (`ts` and one column a line), each with its min–max band.

    `ceiling` is a value that the axis always shows, such as 1 for ratios.
    """
    timed = frame.with_columns(milliseconds())
    series = pl.concat(
        [
            timed.select(
                "time",
                pl.lit(line.label).alias("series"),
                pl.col(line.column).cast(pl.Float64).alias("value"),
                pl.col(line.low or line.column).cast(pl.Float64).alias("low"),
                pl.col(line.high or line.column).cast(pl.Float64).alias("high"),
            )
            for line in wanted
        ]
    )
    texts = {"time": timed["time"]}
    for number, line in enumerate(wanted):
        of_line = (frame[line.column], frame[line.low or line.column], frame[line.high or line.column])
        said = [_with_range(TEXTS[unit], *values) for values in zip(*of_line, strict=True)]
        texts[f"text_{number}"] = pl.Series(said, dtype=pl.String)
    banded = any(line.low or line.high for line in wanted)
    data = {
        "window": window_rows(around),
        "incidents": incident_rows(around),
        "series": series,
        "levels": level_rows(thresholds),
        "ceiling": pl.DataFrame(
            {"value": [] if ceiling is None else [ceiling]}, schema={"value": pl.Float64}
        ),
        "cursor": pl.DataFrame(texts).filter(pl.any_horizontal(pl.exclude("time") != form.UNKNOWN)),
    }
    labels = tuple(line.label for line in wanted)
    return Drawing(_lines_spec(labels, banded, unit, zero, height, around.colours), data)


@lru_cache(SHAPES)
def _lines_spec(
    labels: tuple[str, ...], banded: bool, unit: Unit, zero: bool, height: int, colours: Palette
) -> dict[str, Any]:
    quiet, main, loud = colours.lines
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(labels), range=[main, quiet, loud][: len(labels)]),
        sort=list(labels),
        legend=None if len(labels) == 1 else alt.Legend(),
    )
    base = _named("series").encode(x=time_axis(), color=colour, tooltip=alt.value(None))
    layers: list[Any] = [window_layer(), incident_layer(colours)]
    if banded:
        layers.append(base.mark_area(opacity=0.18).encode(y=value_axis(unit, "low", zero=zero), y2="high:Q"))
    layers += [
        base.mark_line().encode(y=value_axis(unit, zero=zero)),
        _named("ceiling").mark_point(opacity=0, tooltip=None).encode(y=value_axis(unit, zero=zero)),
        level_layer(unit, colours, zero=zero),
        cursor_layer([(f"text_{number}", label) for number, label in enumerate(labels)], colours),
    ]
    return finish(layers, colours, height)


def _with_range(
    write: Callable[[float | None], str], value: float | None, low: float | None, high: float | None
) -> str:
    """`61 % (55 % – 70 %)`, the range left out where it says nothing."""
    if low is None or high is None or write(low) == write(high):
        return write(value)
    return f"{write(value)} ({write(low)} – {write(high)})"


def bars(frame: pl.DataFrame, column: str, label: str, around: Frame, height: int = HEIGHT) -> Drawing:
    """Events counted per step: one thin bar a step that has any. `frame`: ts and the column."""
    timed = frame.select(milliseconds(), pl.col(column).cast(pl.Float64).alias("value"))
    texts = timed.select("time", pl.Series("text", [form.count(n) for n in timed["value"]], dtype=pl.String))
    data = {
        "window": window_rows(around),
        "incidents": incident_rows(around),
        "series": timed.filter(pl.col("value") > 0),
        "ceiling": pl.DataFrame({"value": [1.0]}),  # none at all is a line at 0, not a chart without an axis
        "cursor": texts.filter(pl.col("text") != form.UNKNOWN),
    }
    return Drawing(_bars_spec(label, height, around.colours), data)


@lru_cache(SHAPES)
def _bars_spec(label: str, height: int, colours: Palette) -> dict[str, Any]:
    axis = alt.Axis(labelExpr=COUNT_LABELS, tickCount=4, tickMinStep=1, title=None)
    y = alt.Y("value:Q", axis=axis, scale=alt.Scale(zero=True, nice=True))
    bar = _named("series").mark_bar(width=3, color=colours.lines[1], tooltip=None).encode(x=time_axis(), y=y)
    top = _named("ceiling").mark_point(opacity=0, tooltip=None).encode(y=y)
    layers = [window_layer(), incident_layer(colours), bar, top, cursor_layer([("text", label)], colours)]
    return finish(layers, colours, height)


QUANTILES = ("p50", "p95", "p99")


def quantiles(frame: pl.DataFrame, around: Frame, height: int = HEIGHT) -> Drawing:
    """p50, p95 and p99 over time, each with the bucket range that holds the true value, on a log axis.

    `frame` is long: ts, quantile (`p50`, …), value, low, high (seconds; value NULL where it is not to be
    shown), beyond (the last finite edge where the rank fell past it, else NULL), text.
    """
    timed = frame.with_columns(milliseconds())
    known = timed.filter(pl.col("text").is_not_null())
    said = known.pivot(on="quantile", index="time", values="text", aggregate_function="first")
    data = {
        "window": window_rows(around),
        "incidents": incident_rows(around),
        "series": timed.select("time", "quantile", "value", "low", "high"),
        "beyond": timed.filter(pl.col("beyond").is_not_null()).select("time", "quantile", "beyond"),
        "cursor": said.with_columns(
            pl.lit(form.UNKNOWN).alias(name) for name in QUANTILES if name not in said.columns
        ),
    }
    return Drawing(_quantiles_spec(height, around.colours), data)


@lru_cache(SHAPES)
def _quantiles_spec(height: int, colours: Palette) -> dict[str, Any]:
    names = list(QUANTILES)
    colour = alt.Color(
        "quantile:N",
        scale=alt.Scale(domain=names, range=list(colours.lines)),
        sort=names,
        legend=alt.Legend(),
    )
    base = _named("series").encode(x=time_axis(), color=colour, tooltip=alt.value(None))
    beyond = _named("beyond").mark_point(shape="triangle-up", size=60, filled=True, tooltip=None)
    layers = [
        window_layer(),
        incident_layer(colours),
        base.mark_area(opacity=0.16).encode(y=value_axis("seconds", "low", scale="log"), y2="high:Q"),
        base.mark_line(point={"size": 14, "filled": True}).encode(y=value_axis("seconds", scale="log")),
        beyond.encode(x=time_axis(), y=value_axis("seconds", "beyond", scale="log"), color=colour),
        cursor_layer([(name, name) for name in names], colours),
    ]
    return finish(layers, colours, height)


MEMORY_COLUMNS = ("used", "reserved", "free", "total")


def memory(
    frame: pl.DataFrame, around: Frame, names: tuple[str, str, str, str], height: int = HEIGHT
) -> Drawing:
    """GPU memory: used and reserved stacked, the total as a line; what is left between them is free.

    `frame`: ts, used, reserved, free, total in GiB. `names`: the words for those four.
    """
    used, reserved, _, total = names
    timed = frame.with_columns(milliseconds())
    both = pl.col("used") + pl.col("reserved")
    stacked = ((used, pl.lit(0.0), pl.col("used")), (reserved, pl.col("used"), both))
    parts = [
        timed.select("time", pl.lit(part).alias("part"), low.alias("low"), high.alias("high"))
        for part, low, high in stacked
    ]
    texts = [
        pl.Series(name, [TEXTS["gib"](value) for value in timed[name]], dtype=pl.String)
        for name in MEMORY_COLUMNS
    ]
    data = {
        "window": window_rows(around),
        "incidents": incident_rows(around),
        "parts": pl.concat(parts),
        "total": timed.select("time", "total", pl.lit(total).alias("part")),
        "cursor": timed.select("time", *texts).filter(pl.col("used") != form.UNKNOWN),
    }
    return Drawing(_memory_spec(names, height, around.colours), data)


@lru_cache(SHAPES)
def _memory_spec(names: tuple[str, str, str, str], height: int, colours: Palette) -> dict[str, Any]:
    used, reserved, _, total = names
    scale = alt.Scale(domain=[used, reserved, total], range=[colours.lines[1], colours.unknown, colours.text])
    colour = alt.Color("part:N", scale=scale, legend=alt.Legend(symbolType="square"))
    area = _named("parts").mark_area(opacity=0.75, tooltip=None)
    line = _named("total").mark_line(strokeWidth=1, tooltip=None)
    layers = [
        window_layer(),
        area.encode(x=time_axis(), y=value_axis("gib", "low"), y2="high:Q", color=colour),
        incident_layer(colours),
        line.encode(x=time_axis(), y=value_axis("gib", "total"), color=colour),
        cursor_layer(list(zip(MEMORY_COLUMNS, names, strict=True)), colours),
    ]
    return finish(layers, colours, height)


def throttle(frame: pl.DataFrame, around: Frame, step_seconds: float) -> Drawing:
    """Throttle reasons over time: one row a reason, darker where more of a step's samples had it.

    `frame`: ts, reason (words), share (0–1), alert (whether the reason costs speed).
    """
    timed = frame.with_columns((pl.col("ts") + pl.duration(seconds=step_seconds)).alias("end"))
    shares = [form.percent(share) for share in frame["share"]]
    strips = timed.select(
        milliseconds(),
        milliseconds("end", "until"),
        "reason",
        "share",
        "alert",
        pl.Series("text", shares, dtype=pl.String),
    )
    reasons = tuple(sorted(set(frame["reason"])))
    return Drawing(_throttle_spec(reasons, around.colours), {"window": window_rows(around), "strips": strips})


@lru_cache(SHAPES)
def _throttle_spec(reasons: tuple[str, ...], colours: Palette) -> dict[str, Any]:
    tooltip = [
        alt.Tooltip("time:T", title="time", format="%-d %b %H:%M:%S"),
        alt.Tooltip("reason:N"),
        alt.Tooltip("text:N", title="share"),
    ]
    alert = alt.Scale(domain=[True, False], range=[colours.watching, colours.lines[0]])
    strips = (
        _named("strips")
        .mark_rect(height=12)
        .encode(
            x=time_axis(),
            x2="until:T",
            y=alt.Y("reason:N", sort=list(reasons), axis=alt.Axis(title=None, labelLimit=200, grid=False)),
            opacity=alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.15, 1]), legend=None),
            color=alt.Color("alert:N", scale=alert, legend=None),
            tooltip=tooltip,
        )
    )
    return finish([window_layer(), strips], colours, 22 * max(len(reasons), 1) + 30)


def sparkline(frame: pl.DataFrame, colours: Palette, state: str, threshold: float | None = None) -> Drawing:
    """A trend without axes: `frame` has ts and value; the last value is dotted in the state's colour."""
    timed = frame.select(milliseconds(), pl.col("value").cast(pl.Float64)).drop_nulls()
    levels = pl.DataFrame({"value": [] if threshold is None else [threshold]}, schema={"value": pl.Float64})
    data = {"series": timed, "last": timed.tail(1), "levels": levels}
    return Drawing(_sparkline_spec(colours, state), data)


@lru_cache(SHAPES)
def _sparkline_spec(colours: Palette, state: str) -> dict[str, Any]:
    x = alt.X("time:T", axis=None, scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", axis=None, scale=alt.Scale(zero=False, padding=3))
    level = _named("levels").mark_rule(strokeDash=[3, 3], color=colours.muted, tooltip=None)
    line = _named("series").mark_line(strokeWidth=1.5, color=colours.lines[1], tooltip=None)
    dot = _named("last").mark_circle(size=36, color=state_colour(colours, state), tooltip=None)
    return finish([level.encode(y=y), line.encode(x=x, y=y), dot.encode(x=x, y=y)], colours, 44)
