"""One palette for charts and for Streamlit's own parts, legible in both modes."""

import tomllib
from pathlib import Path

import pytest

import app
from app import theme

SETTINGS = tomllib.loads(
    (Path(app.__file__).parent / ".streamlit" / "config.toml").read_text(encoding="utf-8")
)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio (WCAG 2.2), 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_streamlit_and_the_charts_have_the_same_colours(mode: str) -> None:
    colours, section = theme.PALETTES[mode], SETTINGS["theme"][mode]
    assert section["backgroundColor"] == colours.background
    assert section["secondaryBackgroundColor"] == colours.surface
    assert section["textColor"] == colours.text
    assert section["borderColor"] == colours.line
    assert section["primaryColor"] == section["linkColor"] == colours.accent
    assert section["redColor"] == colours.firing
    assert section["orangeColor"] == colours.watching
    assert section["grayColor"] == colours.muted


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_is_legible(mode: str) -> None:
    """4.5 for text, 3 for what is drawn (WCAG 2.2, 1.4.3 and 1.4.11)."""
    colours, section = theme.PALETTES[mode], SETTINGS["theme"][mode]
    for name in ("textColor", "redTextColor", "orangeTextColor", "grayTextColor", "linkColor"):
        assert contrast(section[name], colours.background) >= 4.5, name
    assert contrast(section["redTextColor"], section["redBackgroundColor"]) >= 4.5
    assert contrast(section["orangeTextColor"], section["orangeBackgroundColor"]) >= 4.5
    for name in ("accent", "firing"):
        assert contrast(getattr(colours, name), colours.background) >= 3, name
    for line in colours.lines:
        assert contrast(line, colours.background) >= 3
    low, high = colours.ramp_text
    assert contrast(low, colours.ramp[0]) >= 4.5
    assert contrast(high, colours.ramp[2]) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_states_differ_in_lightness_and_in_shape(mode: str) -> None:
    colours = theme.PALETTES[mode]
    assert contrast(colours.firing, colours.watching) >= 1.5
    assert len(set(theme.MARKS.values())) == len(theme.MARKS)


def test_an_unknown_mode_is_light() -> None:
    assert theme.palette(None) is theme.palette("light") is not theme.palette("dark")


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_reported() -> None:
    assert SETTINGS["browser"]["gatherUsageStats"] is False
    assert SETTINGS["client"]["toolbarMode"] == "minimal"
    assert SETTINGS["server"]["fileWatcherType"] == "none"
    text = (Path(app.__file__).parent / ".streamlit" / "config.toml").read_text(encoding="utf-8")
    assert "http" not in text
