"""GPU tiles: one square a GPU, a row a node, the worst node first, coloured by the chosen measure."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl
import streamlit as st

from app import chart_tiles, view
from app import format as form
from app.pages import facts, parts, states

ROWS = 24
"""Rows of tiles at most: a thousand nodes are a list, not a picture."""


class Measure(NamedTuple):
    """How a measure colours a tile."""

    column: str
    low: float
    high: float
    """What the two ends of the colour scale stand for."""


MEASURES = {
    "vram": Measure("memory_used_ratio", 0.0, 1.0),
    "utilization": Measure("busy_ratio", 0.0, 1.0),
    "temperature": Measure("temperature_celsius", 30.0, 90.0),
    "power": Measure("power_watts", 0.0, 700.0),
}


def fleet(at: parts.Here, found: facts.Fleet, key: str, columns: int = 1) -> None:
    """The heading with the choice of measure, the tiles side by side in columns; a click on one opens it."""
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
        parts.section(at.say("gpus_worst_first"))
        parts.choose(f"{key}_measure", at.view.measure)
        st.segmented_control(
            at.say("measure"),
            view.MEASURES,
            key=f"{key}_measure",
            required=True,
            format_func=lambda name: at.say(f"measure_{name}"),
            on_change=lambda: parts.change(measure=st.session_state[f"{key}_measure"]),
            label_visibility="collapsed",
            wrap=True,
        )
    if found.gpus.is_empty():
        parts.no_gpus(at)
        return
    rows, left = tile_rows(found.gpus, at.view.measure, at)
    measure = MEASURES[at.view.measure]
    high = measure.high
    if at.view.measure == "power":  # the largest limit of the fleet, where it is told
        high = max([high, *found.gpus["power_limit_watts"].drop_nulls()])
    nodes = rows["host"].unique(maintain_order=True).to_list()  # a node's lines stay together
    half = -(-len(nodes) // columns)
    for number, column in enumerate(st.columns(columns, gap="large")):
        mine = rows.filter(pl.col("host").is_in(nodes[number * half : (number + 1) * half]))
        if not mine.is_empty():
            with column:
                _draw(at, mine, (measure.low, high), f"{key}_{number}")
    st.caption(at.say(f"tile_{at.view.measure}") + (" " + at.say("and_n_more_nodes", n=left) if left else ""))


def _draw(at: parts.Here, rows: pl.DataFrame, domain: tuple[float, float], key: str) -> None:
    turn = parts.turn(key)
    event = parts.draw(
        chart_tiles.tiles(rows, at.colours, domain),
        f"{key}_{turn}",
        at.say("alt_tiles", measure=at.say(f"measure_{at.view.measure}")),
        on_select="rerun",
        selection_mode="tile",
    )
    for point in event.selection.get("tile", []):
        parts.next_turn(key)
        parts.go("gpus", at.view.shared().but(gpu=point["gpu"], mig=point.get("mig") or ""))


def name_of(gpu: dict[str, Any]) -> str:
    """`GPU 5`, `GPU 7 MIG 1`, or the start of its UUID where it has no index."""
    name = f"GPU {gpu['gpu_index']}" if gpu["gpu_index"] is not None else form.shorten(gpu["gpu_uuid"], 12)
    return f"{name} MIG {gpu['mig_instance']}" if gpu["mig_instance"] else name


def node_of(gpu: dict[str, Any]) -> str:
    """The host, or the target where the exporter does not name it."""
    return gpu["host"] or gpu["target"] or form.UNKNOWN


def busy_ratio() -> pl.Expr:
    """Utilisation, or where the device does not count it (MIG) the share of time its engine was active.

    An instance can report 1.29 of itself; what is shown stops at 1.
    """
    return (
        pl.coalesce("utilization_ratio", "graphics_active_ratio", "sm_active_ratio")
        .clip(0, 1)
        .alias("busy_ratio")
    )


def tile_rows(gpus: pl.DataFrame, measure: str, at: parts.Here) -> tuple[pl.DataFrame, int]:
    """The frame of `charts.tiles`, at most ROWS rows of it, and how many nodes were left out."""
    column = MEASURES[measure].column
    rated = gpus.with_columns(busy_ratio()).with_columns(
        pl.Series("node", [node_of(row) for row in gpus.iter_rows(named=True)], dtype=pl.String),
        pl.col(column).cast(pl.Float64).alias("value"),
        pl.col("state")
        .replace_strict(
            {state: number for number, state in enumerate(states.STATES)}, default=9, return_dtype=pl.Int8
        )
        .alias("rank"),
    )
    nodes = (
        rated.group_by("node")
        .agg(pl.col("rank").min(), pl.col("value").max(), pl.len().alias("size"))
        .sort(["rank", "value", "node"], descending=[False, True, False], nulls_last=True)
    )
    lines = ((pl.col("size").cast(pl.Int64) + chart_tiles.COLUMNS - 1) // chart_tiles.COLUMNS).cum_sum()
    taken = nodes.with_columns(lines.alias("lines")).filter(
        (pl.col("lines") <= ROWS) | (pl.int_range(pl.len()) == 0)
    )
    order = {node: number for number, node in enumerate(taken["node"])}
    shown = rated.filter(pl.col("node").is_in(list(order))).sort(
        pl.col("node").replace_strict(order, return_dtype=pl.Int32),
        "gpu_index",
        "mig_instance",
        nulls_last=True,
    )
    rows = []
    seat: dict[str, int] = {}
    for gpu in shown.iter_rows(named=True):
        seat[gpu["node"]] = place = seat.get(gpu["node"], -1) + 1
        line, place = divmod(place, chart_tiles.COLUMNS)
        rows.append(
            {
                "host": gpu["node"],
                "node": gpu["node"] if line == 0 else f"{gpu['node']} ({line + 1})",
                "place": place,
                "value": gpu["value"],
                "text": short_text(measure, gpu["value"]),
                "state": gpu["state"],
                "gpu": gpu["gpu_uuid"],
                "mig": gpu["mig_instance"],
                "name": f"{gpu['node']} {name_of(gpu)}",
                "reading": reading(gpu),
                "note": gpu["verdict"] or at.say(f"state_{gpu['state']}"),
            }
        )
    schema = {
        "host": pl.String,
        "node": pl.String,
        "place": pl.Int64,
        "value": pl.Float64,
        "text": pl.String,
        "state": pl.String,
        "gpu": pl.String,
        "mig": pl.String,
        "name": pl.String,
        "reading": pl.String,
        "note": pl.String,
    }
    return pl.DataFrame(rows[: ROWS * chart_tiles.COLUMNS], schema=schema), nodes.height - taken.height


def short_text(measure: str, value: float | None) -> str:
    """What stands in a tile: the number alone, its unit is in the line below."""
    if value is None or not form.is_known(value):
        return form.UNKNOWN
    # Cut, not rounded, as `form.percent` is: 79.9 % does not read 80.
    return f"{int(round(value * 100, 6))}" if measure in ("vram", "utilization") else f"{value:.0f}"


def reading(gpu: dict[str, Any]) -> str:
    """All four measures of a GPU in a line."""
    return " · ".join(
        [
            f"VRAM {form.percent(gpu['memory_used_ratio'])}",
            form.percent(gpu["busy_ratio"]),
            form.with_unit(gpu["temperature_celsius"], "°C", 2),
            form.with_unit(gpu["power_watts"], "W"),
        ]
    )
