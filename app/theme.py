"""Colours and chart style, light and dark, in one place. Pure.

One accent. State has its own colours, told apart by lightness too (for eyes that do not tell red from
green) and always beside a mark: ■ firing, ▲ watching, ● well, – unknown. `app/.streamlit/config.toml`
holds the same colours for Streamlit's own parts; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["light", "dark"]

MARKS = {"firing": "■", "watching": "▲", "well": "●", "unknown": "–"}
"""The shape that carries a state beside its colour."""
STREAMLIT_COLOURS = {"firing": "red", "watching": "orange", "well": "gray", "unknown": "gray"}
"""The name of each state's colour in Streamlit's Markdown (`:red[…]`); the theme says what it looks like."""
FONT = '"Source Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif'


@dataclass(frozen=True)
class Palette:
    """Colours of one mode, `#rrggbb`."""

    background: str
    surface: str
    text: str
    muted: str
    line: str
    grid: str
    accent: str
    lines: tuple[str, str, str]
    """Three lines of one family, from quiet to loud: p50, p95, p99; or average, second, third."""
    ramp: tuple[str, str, str]
    """Low, middle and high of a measured value (GPU tiles)."""
    ramp_text: tuple[str, str]
    """Text on the low and on the high end of the ramp."""
    firing: str
    watching: str
    unknown: str


PALETTES: dict[str, Palette] = {
    "light": Palette(
        background="#ffffff",
        surface="#f5f6f8",
        text="#1c2128",
        muted="#667080",
        line="#e1e4e9",
        grid="#eceef2",
        accent="#2a5bd7",
        lines=("#7b91b8", "#2a5bd7", "#0b1f5c"),
        ramp=("#eaeff8", "#7fa0e8", "#16327f"),
        ramp_text=("#1c2128", "#ffffff"),
        firing="#c2103c",
        watching="#d98a00",
        unknown="#c3c9d2",
    ),
    "dark": Palette(
        background="#0f1318",
        surface="#181d24",
        text="#e7eaef",
        muted="#98a2b3",
        line="#2b323c",
        grid="#232a33",
        accent="#82a4ff",
        lines=("#7488b0", "#82a4ff", "#dbe5ff"),
        ramp=("#1d2530", "#3c5cb4", "#b9ccff"),
        ramp_text=("#e7eaef", "#0f1318"),
        firing="#ff6480",
        watching="#ffb938",
        unknown="#434c59",
    ),
}


def palette(mode: str | None) -> Palette:
    """The palette of a mode; light where the browser has not said which it is in."""
    return PALETTES["dark" if mode == "dark" else "light"]


def state_colour(colours: Palette, state: str) -> str:
    """The colour of `firing`, `watching`, `well` or `unknown`."""
    return {
        "firing": colours.firing,
        "watching": colours.watching,
        "well": colours.muted,
    }.get(state, colours.unknown)


def chart_config(colours: Palette) -> dict[str, Any]:
    """The Vega-Lite configuration of every chart."""
    text = {
        "labelColor": colours.muted,
        "titleColor": colours.muted,
        "labelFontSize": 11,
        "titleFontSize": 11,
    }
    return {
        "background": "rgba(0,0,0,0)",
        "font": FONT,
        "padding": {"left": 0, "right": 4, "top": 4, "bottom": 0},
        "view": {"stroke": None},
        "axis": {
            **text,
            "domainColor": colours.line,
            "tickColor": colours.line,
            "gridColor": colours.grid,
            "labelFontWeight": "normal",
            "titleFontWeight": "normal",
            "labelOverlap": True,
        },
        "axisX": {"grid": False, "domain": True, "ticks": True, "tickSize": 4, "labelPadding": 4},
        "axisY": {"grid": True, "domain": False, "ticks": False, "labelPadding": 6, "minExtent": 44},
        "legend": {
            **text,
            "orient": "top",
            "direction": "horizontal",
            "title": None,
            "symbolType": "stroke",
            "symbolStrokeWidth": 3,
            "symbolOpacity": 1,
            "symbolSize": 140,
            "padding": 0,
            "offset": 4,
            "labelLimit": 260,
        },
        "line": {"strokeWidth": 1.6, "strokeJoin": "round", "strokeCap": "round"},
        "area": {"line": False},
        "text": {"font": FONT, "fontSize": 11, "color": colours.text},
        "rule": {"color": colours.muted},
    }
