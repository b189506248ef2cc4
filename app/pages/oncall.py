"""On-call: is anything wrong, what, since when?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import streamlit as st

from app import charts, theme
from app import format as form
from app.pages import facts, parts, states, tables, tiles
from app.view import step_for

INCIDENTS = 8
"""Rows before "and n more"."""
RESOLVED = 5
ENGINES = 12


def page() -> None:
    parts.live(_body)


def _body() -> None:
    at = parts.here()
    fleet = facts.fleet(at.store, at.view, at.window, at.now)
    parts.first_line(answer(at, fleet))
    if fleet.targets.is_empty():
        parts.no_targets(at)
        return
    _channels(at)
    _incidents(at, fleet)
    left, right = st.columns([15, 8], gap="large")
    with left:
        _engines(at, fleet)
    with right:
        tiles.fleet(at, fleet, "oncall_tiles")
    _resolved(at, fleet)


def answer(at: parts.Here, fleet: facts.Fleet) -> list[str]:
    """The first line: what fires, what is watched, how much is well, how old the data is."""
    if fleet.targets.is_empty():
        return [at.say("nothing_watched")]
    counts = {
        state: fleet.incidents.filter(pl.col("state") == state).height for state in ("firing", "pending")
    }
    watched = fleet.targets.filter(pl.col("state") != "gone")
    silent = watched.filter(pl.col("state") != "ok")
    said = []
    if counts["firing"]:
        said.append(parts.mark("firing", at.say("n_firing", n=counts["firing"])))
    if silent.height == watched.height:
        said += _nothing_known(at, silent, fires=any(counts.values()))
    if counts["pending"]:
        said.append(parts.mark("watching", at.say("n_watching", n=counts["pending"])))
    if not said:
        said.append(parts.mark("well", at.say("nothing_fires")))
    said.append(well(at, fleet))
    failing = silent.filter(pl.col("state") != "waiting").height
    if failing and silent.height < watched.height:
        said.append(parts.mark("watching", at.say("n_targets_failing", n=failing, all=watched.height)))
    return [*said, parts.data_age(at, fleet.fresh)]


def _nothing_known(at: parts.Here, silent: pl.DataFrame, *, fires: bool) -> list[str]:
    """No target answers: that nothing fires says nothing then."""
    heard: datetime | None = silent.select(pl.col("last_ok_at").max()).item()
    counts = {"n": silent.height, "all": silent.height}
    key = "all_silent_since" if heard else "all_silent"
    said = [parts.mark("watching", at.say(key, time=at.clock(heard, seconds=True), **counts))]
    if not fires:
        said.append(at.say("nothing_fired_then" if heard else "not_known_if_firing"))
    return said


def well(at: parts.Here, fleet: facts.Fleet) -> str:
    """`6 engines and 32 GPUs well`, or of how many where it is not all of them."""
    words = []
    for frame, key in ((states.serving(fleet.engines), "n_engines"), (fleet.gpus, "n_gpus")):
        if frame.is_empty():
            continue
        good = frame.filter(pl.col("state") == "well").height
        shown = form.count(good)
        if good < frame.height:
            shown = at.say("n_of_all", n=shown, all=form.count(frame.height))
        words.append(at.say(key, n=shown))
    if not words:
        return at.say("no_samples")
    return at.say("are_well", what=at.say("and").join(words))


def _channels(at: parts.Here) -> None:
    """A message that does not get through is the first thing to know: silence would be trusted."""
    for row in facts.ask(at.store, "page_channels").iter_rows(named=True):
        last = at.clock(row["last_sent_at"]) if row["last_sent_at"] else at.say("never")
        st.warning(
            at.say(
                "channel_failed" if row["state"] == "failed" else "channel_retrying",
                channel=form.plain(row["channel"]),
                error=form.plain(row["last_error"]),
                last=last,
            ),
            icon=":material/notifications_off:",
        )


def _incidents(at: parts.Here, fleet: facts.Fleet) -> None:
    found = states.open_incidents(fleet.incidents)
    trends = _trends(at, found.head(INCIDENTS))
    for row in found.head(INCIDENTS).iter_rows(named=True):
        _incident(at, row, trends)
    if found.height > INCIDENTS:
        st.caption(at.say("and_n_more_incidents", n=found.height - INCIDENTS))


def _trends(at: parts.Here, found: pl.DataFrame) -> pl.DataFrame:
    """The memory of the GPUs of these incidents over the last hour before now."""
    subjects = [states.subject_of(*of) for of in found.select("subject", "labels").iter_rows()]
    start = min(at.window.start, at.window.end - timedelta(hours=1))
    return facts.ask(
        at.store,
        "page_gpu_spark",
        gpus=tuple(sorted({subject.gpu for subject in subjects if subject})),
        from_ts=start,
        to_ts=at.window.end,
        step=step_for((at.window.end - start).total_seconds(), 90, 10),
    )


def _incident(at: parts.Here, row: dict[str, Any], trends: pl.DataFrame) -> None:
    state = states.incident_state(row["state"])
    lasted = (at.now - row["started_at"]).total_seconds()
    labels = states.read_json(row["labels"])
    with st.container(border=True):
        said, trend = st.columns([8, 4], vertical_alignment="center", gap="small")
        with said:
            word = at.say(f"severity_{row['severity']}") if state == "firing" else at.say("state_watching")
            colour = theme.STREAMLIT_COLOURS[state]
            badge = f":{colour}-badge[{theme.MARKS[state]} {word}]"
            since = at.say("since", time=at.clock(row["started_at"]), lasted=form.duration(lasted))
            places = " · ".join([f":gray[{since}]", *_places(at, row, labels)])
            st.markdown(f"{badge} **{form.plain(parts.incident_words(at, row))}**  \n{places}")
        with trend, st.container(horizontal=True, vertical_alignment="center", gap="small"):
            _trend(at, row, state, trends)
            _incident_links(at, row)


def _places(at: parts.Here, row: dict[str, Any], labels: dict[str, Any]) -> list[str]:
    """The project, the pod and what else an incident is about, and data that stopped coming."""
    words = []
    if where := states.place_of(labels.get("project"), labels.get("environment")):
        words.append(f":gray[{form.plain(where)}]")
    if labels.get("pod"):
        words.append(f":gray[pod {form.plain(form.shorten(str(labels['pod']), 40))}]")
    if row["no_data_since"]:
        words.append(parts.mark("watching", at.say("no_data_since", time=at.clock(row["no_data_since"]))))
    return words


def _trend(at: parts.Here, row: dict[str, Any], state: str, trends: pl.DataFrame) -> None:
    subject = states.subject_of(row["subject"], row["labels"])
    if subject is None:
        return
    column = "memory_used_ratio" if row["unit"] == "ratio" else "memory_free_bytes"
    mine = trends.filter((pl.col("gpu_uuid") == subject.gpu) & (pl.col("mig_instance") == subject.mig))
    values = mine.select("ts", pl.col(column).cast(pl.Float64).alias("value")).drop_nulls()
    if values.height < 2:
        return
    threshold = row["threshold"] if row["unit"] == "ratio" else None
    spark = charts.sparkline(values, at.colours, state, threshold)
    parts.draw(spark, f"trend_{row['incident_id']}", at.say("alt_trend", title=row["title"]))


def _incident_links(at: parts.Here, row: dict[str, Any]) -> None:
    subject = states.subject_of(row["subject"], row["labels"])
    if subject is None:
        return
    seen = at.view.shared().but(gpu=subject.gpu, mig=subject.mig, incident=row["incident_id"])
    if row["resolved_at"] is not None:
        around = timedelta(minutes=30)
        seen = seen.but(start=row["started_at"] - around, end=min(row["resolved_at"] + around, at.now))
    parts.link("gpus", seen, at.say("open"), icon=":material/arrow_forward:")


def _resolved(at: parts.Here, fleet: facts.Fleet) -> None:
    found = fleet.incidents.filter(pl.col("state") == "resolved").sort("resolved_at", descending=True)
    if found.is_empty():
        return
    st.markdown(f"#### {at.say('resolved_in_window', n=found.height)}", anchors=False)
    for row in found.head(RESOLVED).iter_rows(named=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            span = f"{at.clock(row['started_at'])} – {at.clock(row['resolved_at'])}"
            lasted = form.duration((row["resolved_at"] - row["started_at"]).total_seconds())
            st.markdown(f":gray[● {span} · {lasted}] {form.plain(row['summary'])}", width="content")
            _incident_links(at, row)
    if found.height > RESOLVED:
        st.caption(at.say("and_n_more", n=found.height - RESOLVED))


def _engines(at: parts.Here, fleet: facts.Fleet) -> None:
    parts.section(at.say("engines_worst_first"))
    if fleet.engines.is_empty():
        parts.no_engines(at)
        return
    rows = tables.engine_rows(at, fleet)
    chosen = tables.engines(at, rows.head(ENGINES), "oncall_engines")
    if rows.height > ENGINES:
        parts.link("engines", at.view.shared(), at.say("and_n_more", n=rows.height - ENGINES))
    if chosen is not None:
        parts.go("engines", chosen)
