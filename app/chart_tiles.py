"""GPU tiles: one square a GPU, a row a node, coloured by a measure, edged by state, faded when old. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import altair as alt
import polars as pl

from app.chart_layers import Drawing, finish
from app.theme import Palette

COLUMNS = 8
"""Tiles in a row of a node; a node with more (MIG) goes on in the next row."""


def tiles(frame: pl.DataFrame, colours: Palette, domain: tuple[float, float]) -> Drawing:
    """One square a GPU, a row a node, in the order of the frame; coloured by `value`, edged by state.

    `frame`: node, place (0 to COLUMNS−1), value (NULL: not known), text, state, gpu, mig, and the words of
    the tooltip: name, reading, note. A click selects `gpu` and `mig` in the selection `tile`.
    """
    low, high = domain
    marks = {"firing": "■ ", "watching": "▲ "}
    mark = pl.col("state").replace_strict(marks, default="", return_dtype=pl.String)
    rows = frame.with_columns(
        (pl.col("value") > low + 0.62 * (high - low)).fill_null(False).alias("bright"),
        (mark + pl.col("text")).alias("text"),
    )
    nodes = tuple(frame["node"].unique(maintain_order=True))
    return Drawing(_tiles_spec(nodes, colours, domain), {"tiles": rows})


@lru_cache(64)
def _tiles_spec(nodes: tuple[str, ...], colours: Palette, domain: tuple[float, float]) -> dict[str, Any]:
    x = alt.X("place:O", axis=None, scale=alt.Scale(domain=list(range(COLUMNS)), paddingInner=0.08))
    axis = alt.Axis(title=None, domain=False, ticks=False, grid=False, labelLimit=120, minExtent=0)
    y = alt.Y("node:N", sort=list(nodes), scale=alt.Scale(paddingInner=0.12), axis=axis)
    base = alt.Chart(alt.NamedData("tiles")).encode(x=x, y=y, tooltip=alt.value(None))
    ramp = alt.Scale(domain=list(domain), range=list(colours.ramp), clamp=True)
    edge = alt.Scale(
        domain=["firing", "watching", "well", "unknown"],
        range=[colours.firing, colours.watching, "rgba(0,0,0,0)", "rgba(0,0,0,0)"],
    )
    square = base.mark_rect(cornerRadius=3, invalid="show").encode(
        color=alt.condition(
            "datum.value === null", alt.value(colours.unknown), alt.Color("value:Q", scale=ramp, legend=None)
        ),
        stroke=alt.Stroke("state:N", scale=edge, legend=None),
        strokeWidth=alt.condition(
            "datum.state === 'firing' || datum.state === 'watching'", alt.value(2.5), alt.value(0)
        ),
        opacity=alt.condition("datum.state === 'unknown'", alt.value(0.4), alt.value(1)),
    )
    low, high = colours.ramp_text
    word = base.mark_text(fontSize=11).encode(
        text="text:N", color=alt.condition("datum.bright", alt.value(high), alt.value(low))
    )
    # The pointer meets this layer only: a number in front of its square would take the click.
    chosen = alt.selection_point(name="tile", fields=["gpu", "mig"], on="click", empty=False)
    titles = {"name": "GPU", "reading": " ", "note": "  "}
    touch = base.mark_rect(fill="rgba(0,0,0,0)", cursor="pointer").encode(
        tooltip=[alt.Tooltip(f"{column}:N", title=title) for column, title in titles.items()],
        description="name:N",
    )
    return finish([square, word, touch.add_params(chosen)], colours, 27 * max(len(nodes), 1))
