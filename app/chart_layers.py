"""What every time chart is made of: the axes, the window, incident marks, levels, the cursor. Pure.

A chart is a specification and its data sets by name. The window, the marks and the levels are data too: so
a live page swaps the data of a chart that stands and does not draw it anew, and a specification is built
once for all charts of its shape (Altair takes about 100 ms for one). Times in frames are UTC without zone;
the browser shows its own zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import altair as alt
import polars as pl

from app import format as form
from app.theme import Palette, chart_config

HEIGHT = 190
"""Pixels of a time chart."""
_TIME_LABELS = (
    "timeFormat(datum.value, hours(datum.value) + minutes(datum.value) + seconds(datum.value) == 0"
    " ? '%-d %b' : seconds(datum.value) ? '%H:%M:%S' : '%H:%M')"
)
Unit = Literal["ratio", "seconds", "gib", "watts", "celsius", "megahertz", "count", "per_second"]
_AXIS_LABELS: dict[str, str] = {
    "ratio": "format(datum.value * 100, '.3~r') + ' %'",
    "seconds": "datum.value == 0 ? '0' : datum.value < 0.001 ? format(datum.value * 1e6, '.3~r') + ' µs'"
    " : datum.value < 1 ? format(datum.value * 1000, '.3~r') + ' ms' : format(datum.value, '.4~r') + ' s'",
    "gib": "format(datum.value, '.4~r') + ' GiB'",
    "watts": "format(datum.value, '.4~r') + ' W'",
    "celsius": "format(datum.value, '.3~r') + ' °C'",
    "megahertz": "format(datum.value, '.4~r') + ' MHz'",
    "count": "datum.value < 1000 ? format(datum.value, '.3~r') : format(datum.value, '.3~s')",
    "per_second": "(datum.value < 1000 ? format(datum.value, '.3~r') : format(datum.value, '.3~s')) + '/s'",
}
COUNT_LABELS = _AXIS_LABELS["count"]
_LOG_TICKS = [float(f"{digit}e{power}") for power in range(-6, 5) for digit in (1, 2, 5)]
TEXTS: dict[str, Callable[[float | None], str]] = {
    "ratio": form.percent,
    "seconds": form.latency,
    "gib": lambda value: form.with_unit(value, "GiB"),
    "watts": lambda value: form.with_unit(value, "W"),
    "celsius": lambda value: form.with_unit(value, "°C"),
    "megahertz": lambda value: form.with_unit(value, "MHz", 4),
    "count": form.significant,
    "per_second": lambda value: form.with_unit(value, "/s"),
}


class Line(NamedTuple):
    """One line of a chart: its column, what the legend calls it, and the columns of its band, if any."""

    column: str
    label: str
    low: str = ""
    high: str = ""


class Threshold(NamedTuple):
    """A level to compare with, and its words: on the line, or under it where another level is close above."""

    value: float
    label: str
    under: bool = False


class Span(NamedTuple):
    """An incident on the time axis. `end` is the window's end while it lasts."""

    start: datetime
    end: datetime
    state: str
    label: str


@dataclass(frozen=True)
class Frame:
    """What all charts of a page share: the window they draw, and the colours."""

    start: datetime
    end: datetime
    colours: Palette
    spans: Sequence[Span] = ()


class Drawing(NamedTuple):
    """A Vega-Lite specification and the frames that its data sets' names stand for."""

    spec: dict[str, Any]
    data: dict[str, pl.DataFrame]


def milliseconds(column: str = "ts", name: str = "time") -> pl.Expr:
    """A UTC column as milliseconds since 1970: what the browser turns into its own zone."""
    return pl.col(column).cast(pl.Datetime("us")).dt.epoch("ms").cast(pl.Float64).alias(name)


def break_gaps(frame: pl.DataFrame, longest_seconds: float, column: str = "ts") -> pl.DataFrame:
    """Put an empty row into every hole longer than `longest_seconds`, so that no line crosses it."""
    if frame.height < 2:
        return frame
    ordered = frame.sort(column)
    holes = ordered.select(
        pl.col(column), (pl.col(column).shift(-1) - pl.col(column)).dt.total_microseconds().alias("hole")
    ).filter(pl.col("hole") > longest_seconds * 1e6)
    if holes.is_empty():
        return ordered
    empty = holes.select((pl.col(column) + pl.duration(microseconds=pl.col("hole") // 2)).alias(column))
    return pl.concat([ordered, empty], how="diagonal").sort(column)


def time_axis(title: str | None = None) -> alt.X:
    """The time axis of all charts."""
    axis = alt.Axis(labelExpr=_TIME_LABELS, tickCount={"expr": "width / 90"}, title=title)
    return alt.X("time:T", axis=axis, scale=alt.Scale(nice=False, padding=0))


def value_axis(unit: Unit, column: str = "value", *, zero: bool = True, scale: str = "linear") -> alt.Y:
    """A value axis in a unit; `scale="log"` has ticks at 1, 2 and 5."""
    axis = alt.Axis(labelExpr=_AXIS_LABELS[unit], tickCount=4, title=None)
    wanted: dict[str, Any] = {"zero": zero, "nice": True}
    if scale == "log":
        wanted = {"type": "log", "nice": False, "padding": 6}
        axis = alt.Axis(labelExpr=_AXIS_LABELS[unit], values=_LOG_TICKS, title=None)
    return alt.Y(f"{column}:Q", axis=axis, scale=alt.Scale(**wanted))


def window_rows(around: Frame) -> pl.DataFrame:
    """Data set `window`: its two ends."""
    return pl.DataFrame({"ts": [around.start, around.end]}).select(milliseconds())


def window_layer() -> Any:
    """Two unseen points that hold the time axis at the window's ends."""
    return alt.Chart(alt.NamedData("window")).mark_point(opacity=0, tooltip=None).encode(x=time_axis())


def incident_rows(around: Frame) -> pl.DataFrame:
    """Data set `incidents`: those that touch the window, cut to it."""
    rows = pl.DataFrame(
        [(span.start, min(span.end, around.end), span.state, span.label) for span in around.spans],
        schema={"ts": pl.Datetime, "until": pl.Datetime, "state": pl.String, "label": pl.String},
        orient="row",
    ).filter((pl.col("until") >= around.start) & (pl.col("ts") <= around.end))
    late = around.start + (around.end - around.start) * 0.7
    return rows.with_columns(pl.col("ts").clip(around.start, around.end)).select(
        milliseconds(), milliseconds("until", "until"), "state", "label", (pl.col("ts") > late).alias("late")
    )


def incident_layer(colours: Palette) -> Any:
    """Incidents: the time they lasted is shaded, a rule with their words stands where they began."""
    colour = (
        alt.when("datum.state === 'firing'")
        .then(alt.value(colours.firing))
        .when("datum.state === 'watching'")
        .then(alt.value(colours.watching))
        .otherwise(alt.value(colours.muted))
    )  # not a scale: layers share theirs, and these colours are not those of lines
    base = alt.Chart(alt.NamedData("incidents")).encode(color=colour, tooltip=alt.value(None))
    shade = base.mark_rect(opacity=0.1).encode(x=time_axis(), x2="until:T")
    rule = base.mark_rule(strokeWidth=1.5).encode(x=time_axis())
    layers: list[Any] = [shade, rule]
    sides: tuple[tuple[bool, Literal["left", "right"], int], ...] = ((False, "left", 4), (True, "right", -4))
    for late, align, dx in sides:  # near the window's end the words stand before the rule: they would not fit
        word = base.transform_filter(f"datum.late === {str(late).lower()}").mark_text(
            align=align, baseline="top", dx=dx, dy=2, fontWeight=600
        )
        layers.append(word.encode(x=time_axis(), y=alt.value(0), text="label:N"))
    return alt.layer(*layers)


def level_rows(levels: Sequence[Threshold]) -> pl.DataFrame:
    """Data set `levels`."""
    return pl.DataFrame(
        levels, schema={"value": pl.Float64, "label": pl.String, "under": pl.Boolean}, orient="row"
    )


def level_layer(unit: Unit, colours: Palette, *, zero: bool = True) -> Any:
    """Dashed levels with their words at the left end, where the data is oldest."""
    base = alt.Chart(alt.NamedData("levels")).encode(y=value_axis(unit, zero=zero), tooltip=alt.value(None))
    layers: list[Any] = [base.mark_rule(strokeDash=[4, 3], strokeWidth=1, color=colours.muted)]
    places: tuple[tuple[bool, Literal["bottom", "top"], int], ...] = ((False, "bottom", -2), (True, "top", 3))
    for under, baseline, dy in places:
        word = base.transform_filter(f"datum.under === {str(under).lower()}").mark_text(
            align="left", baseline=baseline, dx=4, dy=dy, fontSize=10, color=colours.muted
        )
        layers.append(word.encode(x=alt.value(0), text="label:N"))
    return alt.layer(*layers)


def cursor_layer(texts: Sequence[tuple[str, str]], colours: Palette) -> Any:
    """A rule that follows the pointer to the nearest step; its tooltip has the texts (column, title) of data
    set `cursor`."""
    near = alt.selection_point(
        name="cursor", nearest=True, on="pointermove", clear="pointerout", fields=["time"], empty=False
    )
    tooltip = [
        alt.Tooltip("time:T", title="time", format="%-d %b %H:%M:%S"),
        *(alt.Tooltip(f"{column}:N", title=title) for column, title in texts),
    ]
    return (
        alt.Chart(alt.NamedData("cursor"))
        .mark_rule(color=colours.muted, strokeWidth=1)
        .encode(x=time_axis(), opacity=alt.condition(near, alt.value(0.8), alt.value(0)), tooltip=tooltip)
        .add_params(near)
    )


def finish(layers: Sequence[Any], colours: Palette, height: int) -> dict[str, Any]:
    """Layers as the specification of a chart that fills its container, in the theme of its colours."""
    chart: Any = alt.layer(*layers).properties(height=height, width="container", config=chart_config(colours))
    return dict(chart.to_dict())
