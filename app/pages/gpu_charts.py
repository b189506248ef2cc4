"""One GPU over time: memory first, then what it does, what that costs in heat and power, what slows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import streamlit as st

from app import charts, runtime
from app import format as form
from app.chart_layers import Frame, Line, Span, Threshold, break_gaps
from app.pages import facts, parts, states

GIB = 2**30

REASONS = {
    0: "throttle_idle",
    1: "throttle_setting",
    2: "throttle_power_cap",
    3: "throttle_hw_slowdown",
    4: "throttle_sync_boost",
    5: "throttle_sw_thermal",
    6: "throttle_hw_thermal",
    7: "throttle_power_brake",
    8: "throttle_display",
}
"""Bit number of NVML's clock-event mask → words (nvml.h nvmlClocksEventReason…)."""
HARMLESS = (0, 1, 8)
"""Bits that say how the GPU is set or that it rests, not that something slows it."""


def decode(mask: int | None) -> list[int]:
    """The bits set in a clock-event mask, also those without a name here: NVIDIA adds new ones."""
    if mask is None or mask < 0:
        return []
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def reason_name(at: parts.Here, bit: int) -> str:
    """A bit in words; one without a name as its hexadecimal value."""
    return at.say(REASONS[bit]) if bit in REASONS else at.say("throttle_other", bit=f"0x{1 << bit:x}")


def reasons_text(at: parts.Here, mask: int | None, none: str | None = None) -> str:
    """What slows a GPU now, in words; `–` where that is not measured, `none` where nothing does."""
    if mask is None:
        return form.UNKNOWN
    slowing = [bit for bit in decode(mask) if bit not in HARMLESS]
    return ", ".join(reason_name(at, bit) for bit in slowing) or (
        at.say("nothing_slows") if none is None else none
    )


def reservation(fleet: facts.Fleet, engines: Sequence[str]) -> float | None:
    """The largest share of the memory that an engine on this GPU takes at its start; None: none is known."""
    told = fleet.engines.filter(pl.col("target").is_in(list(engines)))["memory_reservation_ratio"]
    configured = fleet.targets.filter(pl.col("target").is_in(list(engines)))["memory_reservation_ratio"]
    known = pl.concat([told.cast(pl.Float64), configured.cast(pl.Float64)]).drop_nulls()
    return None if known.is_empty() else float(known.to_numpy().max())


def spans(at: parts.Here, mine: pl.DataFrame) -> list[Span]:
    """The GPU's incidents as marks on the time axis; the one the URL names has its name there."""
    found = []
    for row in mine.iter_rows(named=True):
        state = states.incident_state(row["state"])
        named = row["incident_id"] == at.view.incident or state != "well"
        mark = "■" if row["fired_at"] is not None else "▲"
        label = f"{mark} {row['title']}" if named else mark
        shown = "firing" if row["incident_id"] == at.view.incident and row["fired_at"] is not None else state
        found.append(Span(row["started_at"], row["resolved_at"] or at.window.end, shown, label))
    return found


def levels(at: parts.Here, mine: pl.DataFrame, reserved: float | None) -> list[Threshold]:
    """What the memory ratio is compared with: the rule's two levels, or an engine's reservation."""
    rule = runtime.current().settings.alerts.vram_high
    fired = mine.filter((pl.col("unit") == "ratio") & pl.col("threshold").is_not_null())
    found = []
    if reserved is not None:
        found.append(Threshold(reserved, at.say("level_reserved", value=form.percent(reserved))))
    if reserved is None or not fired.is_empty():
        fire = float(fired["threshold"][0]) if not fired.is_empty() else rule.fire_above
        found.append(Threshold(fire, at.say("level_fires", value=form.percent(fire))))
        found.append(
            Threshold(
                rule.clear_below, at.say("level_clears", value=form.percent(rule.clear_below)), under=True
            )
        )
    return found


def draw_all(at: parts.Here, row: dict[str, Any], mine: pl.DataFrame, reserved: float | None) -> None:
    """Query the GPU's series and draw the page's charts."""
    span = {
        "gpu": row["gpu_uuid"],
        "mig": row["mig_instance"],
        "from_ts": at.window.start,
        "to_ts": at.window.end,
    }
    found = facts.ask(at.store, "page_gpu_series", step=at.window.step_seconds, **span)
    if found.is_empty():
        parts.nothing(
            at.say("no_samples_in_window"), at.say("no_samples_in_window_cure", time=at.clock(row["ts"]))
        )
        return
    interval = row["interval_seconds"] or 10.0
    series = break_gaps(found, states.STALE_INTERVALS * max(at.window.step_seconds, interval))
    around = at.frame(spans(at, mine))
    unified = row["memory_used_bytes"] is None
    if unified:
        parts.nothing(at.say("vram_not_known"), at.say("vram_not_known_cure"))
    else:
        parts.panel(
            at.say("vram_ratio"),
            _latest_range(series, "memory_used_ratio", form.percent),
            at.say("about_vram"),
        )
        ratio = charts.lines(
            series,
            [Line("memory_used_ratio", "VRAM", "memory_used_ratio_min", "memory_used_ratio_max")],
            around,
            "ratio",
            thresholds=levels(at, mine, reserved),
            ceiling=1.0,
            height=220,
        )
        parts.draw(ratio, "gpu_ratio", at.say("alt_vram_ratio"))
    around = at.frame([span._replace(label="") for span in around.spans])  # named once is enough
    with st.grid(2, min_column_width=420, gap="small"):
        if not unified:
            with st.container():
                _memory(at, series, around, row)
        with st.container():
            _utilization(at, series, around, row)
        with st.container():
            _power(at, series, around)
        with st.container():
            _temperature(at, series, around)
        with st.container():
            _clocks(at, series, around)
        with st.container():
            _throttle(at, span, around)


def _latest_range(series: pl.DataFrame, column: str, write: Any) -> str:
    known = series[column].drop_nulls()
    if known.is_empty():
        return form.UNKNOWN
    low = series[f"{column}_min"].min() if f"{column}_min" in series.columns else known.min()
    high = series[f"{column}_max"].max() if f"{column}_max" in series.columns else known.max()
    return f"{write(known[-1])} · {write(low)} – {write(high)}"


def _memory(at: parts.Here, series: pl.DataFrame, around: Frame, row: dict[str, Any]) -> None:
    total = row["memory_total_bytes"]
    parts.panel(at.say("memory"), at.say("of_total", total=form.gibibytes(total)), at.say("about_memory"))
    frame = series.select(
        "ts",
        (pl.col("memory_used_bytes") / GIB).alias("used"),
        pl.when(pl.col("memory_used_bytes").is_not_null())
        .then(pl.col("memory_reserved_bytes").fill_null(0) / GIB)
        .alias("reserved"),
        (pl.col("memory_free_bytes") / GIB).alias("free"),
        (pl.col("memory_total_bytes") / GIB).alias("total"),
    )
    names = (at.say("used"), at.say("reserved"), at.say("free"), at.say("total"))
    parts.draw(charts.memory(frame, around, names), "gpu_memory", at.say("alt_memory"))


def _utilization(at: parts.Here, series: pl.DataFrame, around: Frame, row: dict[str, Any]) -> None:
    ratios = ("utilization_ratio", "graphics_active_ratio", "sm_active_ratio", "tensor_active_ratio")
    over = any((series[column] > 1).any() for column in ratios)
    shown = series.with_columns(pl.col(column).clip(0, 1) for column in ratios)
    note = _latest_range(shown, "utilization_ratio", form.percent) if not row["mig_instance"] else ""
    parts.panel(at.say("utilization"), at.say("clamped") if over else note, at.say("about_utilization"))
    wanted = [
        Line(
            "utilization_ratio",
            at.say("measure_utilization"),
            "utilization_ratio_min",
            "utilization_ratio_max",
        ),
        Line("sm_active_ratio", at.say("sm_active")),
        Line("tensor_active_ratio", at.say("tensor_active")),
    ]
    if shown["utilization_ratio"].drop_nulls().is_empty():
        wanted[0] = Line("graphics_active_ratio", at.say("graphics_active"))
    parts.lines(shown, around, wanted, "ratio", "gpu_busy", at.say("no_utilization"), ceiling=1.0)


def _power(at: parts.Here, series: pl.DataFrame, around: Frame) -> None:
    limit = series["power_limit_watts"].max()
    parts.panel(
        at.say("measure_power"),
        _latest_range(series, "power_watts", lambda value: form.with_unit(value, "W")),
    )
    levels_shown = [Threshold(float(limit), at.say("power_limit"))] if isinstance(limit, float) else []
    wanted = [Line("power_watts", at.say("measure_power"), "power_watts_min", "power_watts_max")]
    parts.lines(series, around, wanted, "watts", "gpu_power", at.say("no_power"), thresholds=levels_shown)


def _temperature(at: parts.Here, series: pl.DataFrame, around: Frame) -> None:
    note = _latest_range(series, "temperature_celsius", lambda value: form.with_unit(value, "°C", 2))
    parts.panel(at.say("measure_temperature"), note)
    wanted = [Line("temperature_celsius", "GPU"), Line("memory_temperature_celsius", at.say("memory"))]
    parts.lines(series, around, wanted, "celsius", "gpu_celsius", at.say("no_temperature"), zero=False)


def _clocks(at: parts.Here, series: pl.DataFrame, around: Frame) -> None:
    columns = ("sm_clock_hertz", "sm_clock_hertz_min", "sm_clock_hertz_max", "memory_clock_hertz")
    mega = series.with_columns(pl.col(column) / 1e6 for column in columns)
    parts.panel(at.say("clocks"), _latest_range(series, "sm_clock_hertz", form.megahertz))
    wanted = [
        Line("sm_clock_hertz", "SM", "sm_clock_hertz_min", "sm_clock_hertz_max"),
        Line("memory_clock_hertz", at.say("memory")),
    ]
    parts.lines(mega, around, wanted, "megahertz", "gpu_clocks", at.say("no_clocks"), zero=False)


def _throttle(at: parts.Here, span: dict[str, Any], around: Frame) -> None:
    parts.panel(at.say("throttle"), "", at.say("about_throttle"))
    step = at.window.coarser(120)
    found = facts.ask(at.store, "page_gpu_throttle", step=step, **span)
    if found.is_empty():
        st.markdown(f":gray[{at.say('no_throttle')}]")
        return
    named = found.select(
        "ts",
        pl.Series("reason", [reason_name(at, bit) for bit in found["bit"]], dtype=pl.String),
        "share",
        (~pl.col("bit").is_in(list(HARMLESS))).alias("alert"),
    )
    parts.draw(charts.throttle(named, around, step), "gpu_throttle", at.say("alt_throttle"))
