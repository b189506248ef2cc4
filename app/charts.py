"""Charts: pure functions from a frame to an Altair chart. No query, no Streamlit, no clock.

Every time chart has the same axis, the same cursor with its tooltip, and the same incident marks:
`app/chart_layers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import polars as pl

from app import format as form
from app.chart_layers import (
    COUNT_LABELS,
    HEIGHT,
    TEXTS,
    Frame,
    Line,
    Threshold,
    Unit,
    cursor_layer,
    finish,
    incident_layer,
    milliseconds,
    threshold_layer,
    time_axis,
    value_axis,
    window_layer,
)
from app.theme import Palette, state_colour


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
) -> alt.LayerChart:
    """Lines over time from a wide frame (`ts` and one column a line), each with its min–max band.

    `ceiling` is a value that the axis always shows, such as 1 for ratios.
    """
    colours = around.colours
    timed = frame.with_columns(milliseconds())
    long = pl.concat(
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
    labels = [line.label for line in wanted]
    order = colours.lines[1:2] if len(labels) == 1 else (colours.lines[1], colours.lines[0], colours.lines[2])
    legend = None if len(labels) == 1 else alt.Legend()
    colour = alt.Color(
        "series:N", scale=alt.Scale(domain=labels, range=list(order)), sort=labels, legend=legend
    )
    base = alt.Chart(long).encode(x=time_axis(), color=colour, tooltip=alt.value(None))
    layers: list[Any] = [window_layer(around), incident_layer(around)]
    if any(line.low for line in wanted):
        layers.append(base.mark_area(opacity=0.18).encode(y=value_axis(unit, "low", zero=zero), y2="high:Q"))
    layers.append(base.mark_line().encode(y=value_axis(unit, zero=zero)))
    if ceiling is not None:
        top = alt.Chart(pl.DataFrame({"value": [ceiling]})).mark_point(opacity=0, tooltip=None)
        layers.append(top.encode(y=value_axis(unit)))
    if thresholds:
        layers.append(threshold_layer(thresholds, unit, colours))
    write = TEXTS[unit]
    texts = pl.DataFrame(
        {
            "time": timed["time"],
            **{
                f"text_{number}": [
                    _with_range(write, value, low, high)
                    for value, low, high in zip(
                        frame[line.column],
                        frame[line.low or line.column],
                        frame[line.high or line.column],
                        strict=True,
                    )
                ]
                for number, line in enumerate(wanted)
            },
        }
    ).filter(pl.any_horizontal(pl.exclude("time") != form.UNKNOWN))
    layers.append(cursor_layer(texts, [(f"text_{n}", label) for n, label in enumerate(labels)], colours))
    return finish(layers, colours, height)


def _with_range(
    write: Callable[[float | None], str], value: float | None, low: float | None, high: float | None
) -> str:
    """`61 % (55 % – 70 %)`, the range left out where it says nothing."""
    if low is None or high is None or write(low) == write(high):
        return write(value)
    return f"{write(value)} ({write(low)} – {write(high)})"


def bars(frame: pl.DataFrame, column: str, label: str, around: Frame, height: int = HEIGHT) -> alt.LayerChart:
    """Events counted per step: one thin bar a step that has any. `frame`: ts and the column."""
    timed = frame.select(milliseconds(), pl.col(column).cast(pl.Float64).alias("value"))
    axis = alt.Axis(labelExpr=COUNT_LABELS, tickCount=4, tickMinStep=1, title=None)
    texts = timed.select("time", pl.Series("text", [form.count(n) for n in timed["value"]], dtype=pl.String))
    layers = [
        window_layer(around),
        incident_layer(around),
        alt.Chart(timed.filter(pl.col("value") > 0))
        .mark_bar(width=3, color=around.colours.lines[1], tooltip=None)
        .encode(x=time_axis(), y=alt.Y("value:Q", axis=axis, scale=alt.Scale(zero=True, nice=True))),
        cursor_layer(texts.filter(pl.col("text") != form.UNKNOWN), [("text", label)], around.colours),
    ]
    return finish(layers, around.colours, height)


def quantiles(frame: pl.DataFrame, around: Frame, height: int = HEIGHT) -> alt.LayerChart:
    """p50, p95 and p99 over time, each with the bucket range that holds the true value, on a log axis.

    `frame` is long: ts, quantile (`p50`, …), value, low, high (seconds; value NULL where it is not to be
    shown), beyond (the last finite edge where the rank fell past it, else NULL), text.
    """
    colours = around.colours
    names = ["p50", "p95", "p99"]
    timed = frame.with_columns(milliseconds())
    colour = alt.Color(
        "quantile:N",
        scale=alt.Scale(domain=names, range=list(colours.lines)),
        sort=names,
        legend=alt.Legend(),
    )
    base = alt.Chart(timed.select("time", "quantile", "value", "low", "high")).encode(
        x=time_axis(), color=colour, tooltip=alt.value(None)
    )
    past = alt.Chart(timed.filter(pl.col("beyond").is_not_null()).select("time", "quantile", "beyond"))
    wide = (
        timed.pivot(on="quantile", index="time", values="text", aggregate_function="first")
        if timed.height
        else pl.DataFrame(schema={"time": pl.Float64})
    )
    for name in names:
        if name not in wide.columns:
            wide = wide.with_columns(pl.lit(form.UNKNOWN).alias(name))
    layers = [
        window_layer(around),
        incident_layer(around),
        base.mark_area(opacity=0.16).encode(y=value_axis("seconds", "low", scale="log"), y2="high:Q"),
        base.mark_line(point={"size": 14, "filled": True}).encode(y=value_axis("seconds", scale="log")),
        past.mark_point(shape="triangle-up", size=60, filled=True, tooltip=None).encode(
            x=time_axis(), y=value_axis("seconds", "beyond", scale="log"), color=colour
        ),
        cursor_layer(wide.filter(pl.col("time").is_not_null()), [(name, name) for name in names], colours),
    ]
    return finish(layers, colours, height)


def memory(
    frame: pl.DataFrame, around: Frame, names: tuple[str, str, str, str], height: int = HEIGHT
) -> alt.LayerChart:
    """GPU memory: used and reserved stacked, the total as a line; what is left between them is free.

    `frame`: ts, used, reserved, free, total in GiB. `names`: the words for those four.
    """
    colours = around.colours
    used, reserved, _, total = names
    timed = frame.with_columns(milliseconds())
    both = pl.col("used") + pl.col("reserved")
    stacked = [(used, pl.lit(0.0), pl.col("used")), (reserved, pl.col("used"), both)]
    parts = pl.concat(
        [
            timed.select("time", pl.lit(part).alias("part"), low.alias("low"), high.alias("high"))
            for part, low, high in stacked
        ]
    )
    colour = alt.Color(
        "part:N",
        scale=alt.Scale(
            domain=[used, reserved, total], range=[colours.lines[1], colours.unknown, colours.text]
        ),
        legend=alt.Legend(symbolType="square"),
    )
    ceiling = timed.select("time", "total", pl.lit(total).alias("part"))
    texts = timed.select(
        "time",
        *(
            pl.Series(name, [TEXTS["gib"](value) for value in timed[name]], dtype=pl.String)
            for name in ("used", "reserved", "free", "total")
        ),
    ).filter(pl.col("used") != form.UNKNOWN)
    columns = list(zip(("used", "reserved", "free", "total"), names, strict=True))
    layers = [
        window_layer(around),
        alt.Chart(parts)
        .mark_area(opacity=0.75, tooltip=None)
        .encode(x=time_axis(), y=value_axis("gib", "low"), y2="high:Q", color=colour),
        incident_layer(around),
        alt.Chart(ceiling)
        .mark_line(strokeWidth=1, tooltip=None)
        .encode(x=time_axis(), y=value_axis("gib", "total"), color=colour),
        cursor_layer(texts, columns, colours),
    ]
    return finish(layers, colours, height)


def throttle(frame: pl.DataFrame, around: Frame, step_seconds: float) -> alt.LayerChart:
    """Throttle reasons over time: one row a reason, darker where more of a step's samples had it.

    `frame`: ts, reason (words), share (0–1), alert (whether the reason costs speed).
    """
    colours = around.colours
    timed = frame.with_columns(
        milliseconds(), (pl.col("ts") + pl.duration(seconds=step_seconds)).alias("end")
    ).select(
        "time",
        milliseconds("end", "until"),
        "reason",
        "share",
        "alert",
        pl.col("share").map_elements(form.percent, return_dtype=pl.String).alias("text"),
    )
    reasons = frame["reason"].unique(maintain_order=True).sort().to_list()
    strips = (
        alt.Chart(timed)
        .mark_rect(height=12)
        .encode(
            x=time_axis(),
            x2="until:T",
            y=alt.Y("reason:N", sort=reasons, axis=alt.Axis(title=None, labelLimit=200, grid=False)),
            opacity=alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.15, 1]), legend=None),
            color=alt.Color(
                "alert:N",
                scale=alt.Scale(domain=[True, False], range=[colours.watching, colours.lines[0]]),
                legend=None,
            ),
            tooltip=[
                alt.Tooltip("time:T", title="time", format="%-d %b %H:%M:%S"),
                alt.Tooltip("reason:N"),
                alt.Tooltip("text:N", title="share"),
            ],
        )
    )
    return finish([window_layer(around), strips], colours, 22 * max(len(reasons), 1) + 30)


def sparkline(
    frame: pl.DataFrame, colours: Palette, state: str, threshold: float | None = None
) -> alt.LayerChart:
    """A trend without axes: `frame` has ts and value; the last value is dotted in the state's colour."""
    timed = frame.select(milliseconds(), pl.col("value").cast(pl.Float64)).drop_nulls()
    x = alt.X("time:T", axis=None, scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", axis=None, scale=alt.Scale(zero=False, padding=3))
    base = alt.Chart(timed).encode(x=x, y=y, tooltip=alt.value(None))
    layers: list[Any] = [
        base.mark_line(strokeWidth=1.5, color=colours.lines[1]),
        alt.Chart(timed.tail(1))
        .mark_circle(size=36, color=state_colour(colours, state), tooltip=None)
        .encode(x=x, y=y),
    ]
    if threshold is not None:
        level = alt.Chart(pl.DataFrame({"value": [threshold]}))
        layers.insert(0, level.mark_rule(strokeDash=[3, 3], color=colours.muted, tooltip=None).encode(y=y))
    return finish(layers, colours, 44)


TILE_COLUMNS = 8
"""Tiles in a row of a node; a node with more (MIG) goes on in the next row."""


def tiles(frame: pl.DataFrame, colours: Palette, domain: tuple[float, float]) -> alt.LayerChart:
    """One square a GPU, a row a node, in the order of the frame; coloured by `value`, edged by state.

    `frame`: node, place (0 to TILE_COLUMNS−1), value (NULL: not known), text, state, gpu, mig, and the
    words of the tooltip: name, reading, note.
    """
    nodes = frame["node"].unique(maintain_order=True).to_list()
    rows = frame.with_columns(
        (pl.col("value") > domain[0] + 0.62 * (domain[1] - domain[0])).fill_null(False).alias("bright"),
        pl.col("state")
        .replace_strict({"firing": "■ ", "watching": "▲ "}, default="", return_dtype=pl.String)
        .alias("mark"),
    ).with_columns((pl.col("mark") + pl.col("text")).alias("text"))
    chosen = alt.selection_point(name="tile", fields=["gpu", "mig"], on="click", empty=False)
    x = alt.X("place:O", axis=None, scale=alt.Scale(domain=list(range(TILE_COLUMNS)), paddingInner=0.08))
    y = alt.Y(
        "node:N",
        sort=nodes,
        scale=alt.Scale(paddingInner=0.12),
        axis=alt.Axis(title=None, domain=False, ticks=False, grid=False, labelLimit=120, minExtent=0),
    )
    tooltip = [
        alt.Tooltip("name:N", title="GPU"),
        alt.Tooltip("reading:N", title=" "),
        alt.Tooltip("note:N", title=" "),
    ]
    base = alt.Chart(rows).encode(x=x, y=y, tooltip=alt.value(None))
    ramp = alt.Scale(domain=list(domain), range=list(colours.ramp), clamp=True)
    edge = alt.Scale(
        domain=["firing", "watching", "well", "unknown"],
        range=[colours.firing, colours.watching, "rgba(0,0,0,0)", colours.muted],
    )
    square = base.mark_rect(cornerRadius=3).encode(
        color=alt.condition(
            "datum.value === null", alt.value(colours.unknown), alt.Color("value:Q", scale=ramp, legend=None)
        ),
        stroke=alt.Stroke("state:N", scale=edge, legend=None),
        strokeWidth=alt.condition("datum.state === 'well'", alt.value(0), alt.value(2.5)),
    )
    low, high = colours.ramp_text
    word = base.mark_text(fontSize=11).encode(
        text="text:N", color=alt.condition("datum.bright", alt.value(high), alt.value(low))
    )
    # The pointer meets this layer only: a number in front of its square would take the click.
    touch = base.mark_rect(fill="rgba(0,0,0,0)", cursor="pointer").encode(
        tooltip=tooltip, description="name:N"
    )
    return finish([square, word, touch.add_params(chosen)], colours, 27 * max(len(nodes), 1))
