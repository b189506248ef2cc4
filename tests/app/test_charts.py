"""Charts as pure functions: their specification is valid Vega-Lite and their data is what it should draw."""

from datetime import UTC, datetime, timedelta
from typing import Any

import altair as alt
import polars as pl
import pytest

from app import chart_tiles, charts
from app.chart_layers import Drawing, Frame, Line, Span, Threshold, break_gaps, incident_rows
from app.theme import PALETTES

START = datetime(2026, 11, 30, 12, 0)
END = datetime(2026, 11, 30, 13, 0)
LIGHT, DARK = PALETTES["light"], PALETTES["dark"]
AROUND = Frame(START, END, LIGHT)


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def unix_ms(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp() * 1000


def marks(drawing: Drawing) -> list[str]:
    """The type of every mark, layers within layers in order."""
    found: list[str] = []

    def walk(layer: dict[str, Any]) -> None:
        if "mark" in layer:
            found.append(layer["mark"] if isinstance(layer["mark"], str) else layer["mark"]["type"])
        for inner in layer.get("layer", []):
            walk(inner)

    walk(drawing.spec)
    return found


def named(drawing: Drawing) -> set[str]:
    """The names of the data sets that the specification reads."""
    found: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if set(part) == {"name"}:
                found.add(part["name"])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk({key: value for key, value in drawing.spec.items() if key not in ("config", "params")})
    return found


def ratio_lines(around: Frame = AROUND, **options: Any) -> Drawing:
    frame = pl.DataFrame({"ts": [at(0), at(1)], "used": [0.5, 0.9], "low": [0.4, 0.9], "high": [0.6, 0.9]})
    return charts.lines(frame, [Line("used", "VRAM", "low", "high")], around, "ratio", **options)


def all_drawings(around: Frame = AROUND) -> dict[str, Drawing]:
    times = pl.DataFrame({"ts": [at(0), at(1)]})
    steps = times.with_columns(
        pl.lit("p95").alias("quantile"),
        pl.lit(1.0).alias("value"),
        pl.lit(0.5).alias("low"),
        pl.lit(2.0).alias("high"),
        pl.lit(None, pl.Float64).alias("beyond"),
        pl.lit("1 s").alias("text"),
    )
    memory = times.with_columns(
        *(
            pl.lit(value).alias(name)
            for name, value in {"used": 10.0, "reserved": 1.0, "free": 5.0, "total": 16.0}.items()
        )
    )
    strips = times.with_columns(
        pl.lit("heat").alias("reason"), pl.lit(0.5).alias("share"), pl.lit(True).alias("alert")
    )
    return {
        "lines": ratio_lines(around, thresholds=[Threshold(0.8, "fires at 80 %")], ceiling=1.0),
        "bars": charts.bars(times.with_columns(pl.lit(3).alias("n")), "n", "preemptions", around),
        "quantiles": charts.quantiles(steps, around),
        "memory": charts.memory(memory, around, ("used", "reserved", "free", "total")),
        "throttle": charts.throttle(strips, around, 60),
        "sparkline": charts.sparkline(
            times.with_columns(pl.lit(0.9).alias("value")), around.colours, "firing", 0.8
        ),
        "tiles": chart_tiles.tiles(tile_frame(), around.colours, (0.0, 1.0)),
    }


def tile_frame() -> pl.DataFrame:
    base = {"gpu": "GPU-1", "mig": "", "name": "n GPU 0", "reading": "r", "note": "well"}
    return pl.DataFrame(
        [
            {"node": "b", "place": 0, "value": 0.9, "text": "90", "state": "firing", **base},
            {"node": "b", "place": 1, "value": None, "text": "–", "state": "unknown", **base},
            {"node": "a", "place": 0, "value": 0.1, "text": "10", "state": "well", **base},
        ]
    )


@pytest.mark.parametrize("name", list(all_drawings()))
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_chart_is_valid_and_reads_only_data_sets_it_brings(name: str, colours: Any) -> None:
    drawing = all_drawings(Frame(START, END, colours))[name]
    alt.LayerChart.from_dict(drawing.spec, validate=True)
    assert named(drawing) == set(drawing.data)
    assert drawing.spec["width"] == "container"
    assert drawing.spec["config"]["background"] == "rgba(0,0,0,0)"
    assert drawing.spec["config"]["axis"]["labelColor"] == colours.muted


@pytest.mark.parametrize("name", list(all_drawings()))
def test_a_live_chart_keeps_its_specification_while_its_window_moves(name: str) -> None:
    later = Frame(
        START + timedelta(seconds=10),
        END + timedelta(seconds=10),
        LIGHT,
        [Span(at(5), at(9), "firing", "VRAM high")],
    )
    assert all_drawings()[name].spec == all_drawings(later)[name].spec


def test_the_time_axis_ends_at_the_window_and_not_at_the_data() -> None:
    assert ratio_lines().data["window"]["time"].to_list() == [unix_ms(START), unix_ms(END)]


def test_times_are_milliseconds_of_utc() -> None:
    assert ratio_lines().data["series"]["time"].to_list() == [unix_ms(at(0)), unix_ms(at(1))]


def test_a_line_has_its_band_and_a_tooltip_with_the_range_only_where_there_is_one() -> None:
    drawing = ratio_lines()
    assert "area" in marks(drawing)
    assert drawing.data["series"].select("low", "high").rows() == [(0.4, 0.6), (0.9, 0.9)]
    assert [text.replace("\u00a0", " ") for text in drawing.data["cursor"]["text_0"]] == [
        "50 % (40 % – 60 %)",
        "90 %",
    ]


def test_levels_and_ceiling_are_data() -> None:
    drawing = ratio_lines(
        thresholds=[Threshold(0.8, "fires"), Threshold(0.75, "clears", under=True)], ceiling=1.0
    )
    assert drawing.data["levels"].rows() == [(0.8, "fires", False), (0.75, "clears", True)]
    assert drawing.data["ceiling"]["value"].to_list() == [1.0]
    assert drawing.spec == ratio_lines().spec


def test_a_hole_in_the_data_is_not_drawn_over() -> None:
    frame = pl.DataFrame({"ts": [at(0), at(1), at(6), at(7)], "used": [1.0, 2.0, 3.0, 4.0]})
    broken = break_gaps(frame, 180)
    assert broken["used"].to_list() == [1.0, 2.0, None, 3.0, 4.0]
    assert broken["ts"][2] == at(3.5)
    assert break_gaps(frame, 300).height == 4
    drawing = charts.lines(broken, [Line("used", "x")], AROUND, "count")
    assert drawing.data["series"]["value"].to_list() == [1.0, 2.0, None, 3.0, 4.0]
    assert drawing.data["cursor"].height == 4  # the hole has no tooltip


def test_incidents_are_cut_to_the_window_and_those_outside_left_out() -> None:
    spans = [
        Span(at(-30), at(-10), "well", "before"),
        Span(at(-30), at(10), "firing", "into"),
        Span(at(50), at(90), "watching", "out of"),
        Span(at(70), at(90), "firing", "after"),
    ]
    rows = incident_rows(Frame(START, END, LIGHT, spans))
    assert rows.rows() == [
        (unix_ms(at(0)), unix_ms(at(10)), "firing", "into", False),
        (unix_ms(at(50)), unix_ms(at(60)), "watching", "out of", True),
    ]


def test_a_percentile_past_the_last_edge_is_a_mark_and_not_a_point_of_the_line() -> None:
    frame = pl.DataFrame(
        {
            "ts": [at(0), at(1)],
            "quantile": ["p99", "p99"],
            "value": [1.5, None],
            "low": [1.0, None],
            "high": [2.5, None],
            "beyond": [None, 2560.0],
            "text": ["1.5 s", "> 2 560 s"],
        }
    )
    drawing = charts.quantiles(frame, AROUND)
    assert drawing.data["series"]["value"].to_list() == [1.5, None]
    assert drawing.data["beyond"].rows() == [(unix_ms(at(1)), "p99", 2560.0)]
    assert drawing.data["cursor"].select("p50", "p99").rows() == [("–", "1.5 s"), ("–", "> 2 560 s")]


def test_latency_has_a_log_axis_with_ticks_at_1_2_and_5() -> None:
    text = str(charts.quantiles(all_quantiles(), AROUND).spec)
    assert "'type': 'log'" in text
    assert "0.001, 0.002, 0.005, 0.01" in text


def all_quantiles() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "ts": pl.Datetime,
            "quantile": pl.String,
            "value": pl.Float64,
            "low": pl.Float64,
            "high": pl.Float64,
            "beyond": pl.Float64,
            "text": pl.String,
        }
    )


def test_charts_of_nothing_are_charts() -> None:
    assert charts.quantiles(all_quantiles(), AROUND).data["cursor"].columns[1:] == ["p50", "p95", "p99"]
    empty = pl.DataFrame(schema={"ts": pl.Datetime, "n": pl.Float64})
    assert charts.bars(empty, "n", "n", AROUND).data["series"].is_empty()
    assert charts.lines(empty, [Line("n", "n")], AROUND, "count").data["series"].is_empty()


def test_memory_stacks_reserved_on_used() -> None:
    drawing = all_drawings()["memory"]
    rows = drawing.data["parts"].filter(pl.col("time") == unix_ms(at(0))).select("part", "low", "high").rows()
    assert rows == [("used", 0.0, 10.0), ("reserved", 10.0, 11.0)]
    assert drawing.data["total"]["total"].to_list() == [16.0, 16.0]


def test_steps_without_an_event_have_no_bar() -> None:
    frame = pl.DataFrame({"ts": [at(0), at(1), at(2)], "n": [0, 2, None]})
    drawing = charts.bars(frame, "n", "preemptions", AROUND)
    assert drawing.data["series"]["value"].to_list() == [2.0]
    assert drawing.data["cursor"]["text"].to_list() == ["0", "2"]


def test_tiles_keep_the_order_of_nodes_and_carry_state_in_text() -> None:
    drawing = chart_tiles.tiles(tile_frame(), LIGHT, (0.0, 1.0))
    assert drawing.data["tiles"]["text"].to_list() == ["■ 90", "–", "10"]
    assert drawing.data["tiles"]["bright"].to_list() == [True, False, False]
    assert "'sort': ['b', 'a']" in str(drawing.spec)
    assert drawing.spec["params"][0]["name"] == "tile"
    assert drawing.spec["params"][0]["select"]["fields"] == ["gpu", "mig"]
