"""Engines: all of them, worst first, and one over time where the URL names it."""

from __future__ import annotations

from typing import Any

import polars as pl
import streamlit as st

from app import format as form
from app.pages import engine_charts, facts, parts, placements, probe_charts, states, tables

ROWS = 200

Key = tuple[str, str, str | None]


def page() -> None:
    parts.live(_body)


def _body() -> None:
    at = parts.here()
    fleet = facts.fleet(at.store, at.view, at.window, at.now)
    keys = _keys(fleet.engines)
    chosen = choose(at, keys)
    if at.view.engine and chosen is None:
        _unknown(at, fleet)
        return
    if chosen is not None:
        _one(at, fleet, keys, chosen)
        return
    rows = tables.engine_rows(at, fleet)
    parts.first_line(answer(at, fleet, rows))
    if rows.is_empty():
        parts.no_engines(at)
        return
    picked = tables.engines(at, rows.head(ROWS), "engines_table")
    if rows.height > ROWS:
        st.caption(at.say("and_n_more", n=form.count(rows.height - ROWS)))
    if picked is not None:
        parts.go("engines", picked)


def _keys(engines: pl.DataFrame) -> list[Key]:
    return list(engines.select("target", "replica", "model").iter_rows())


def choose(at: parts.Here, keys: list[Key]) -> Key | None:
    """The engine that the URL names; replica and model may be left out, the first that fits is taken."""
    if not at.view.engine:
        return None
    return next(
        (
            key
            for key in keys
            if key[0] == at.view.engine
            and at.view.replica in ("", key[1])
            and at.view.model in ("", key[2] or "")
        ),
        None,
    )


def answer(at: parts.Here, fleet: facts.Fleet, rows: pl.DataFrame) -> list[str]:
    """The first line of all engines: how many are well, which is slowest, how long the queues are."""
    if rows.is_empty():
        return [parts.none_of_late(at, "no_engines"), parts.data_age(at, fleet.fresh)]
    own = states.serving(rows)
    good = own.filter(pl.col("state") == "well").height
    shown = form.count(good)
    if good < own.height:
        shown = at.say("n_of_all", n=shown, all=form.count(own.height))
    said = [at.say("are_well", what=at.say("n_engines", n=shown))]
    fresh = states.fresh(rows, at.now)
    slow = fresh.filter(pl.col("p95").is_not_null())
    if not slow.is_empty():
        worst = slow.sort("p95").row(-1, named=True)
        said.append(at.say("slowest", name=form.plain(tables.name_of(worst)), value=worst["p95_text"]))
    waiting = states.serving(fresh)["requests_waiting"].drop_nulls()
    if not waiting.is_empty():
        said.append(at.say("requests_wait", n=form.count(float(waiting.sum()))))
    return [*said, parts.data_age(at, fleet.fresh)]


def _unknown(at: parts.Here, fleet: facts.Fleet) -> None:
    """The URL names an engine of which there is no fresh sample: say whether its target is known."""
    target = fleet.targets.filter(pl.col("target") == at.view.engine)
    name = form.plain(at.view.engine)
    parts.first_line([at.say("engine_not_seen", engine=name), parts.data_age(at, fleet.fresh)])
    if target.is_empty():
        st.markdown(f":gray[{at.say('engine_not_known')}]")
    elif target["error"][0]:
        st.markdown(parts.mark("watching", form.plain(target["error"][0])))
    with st.container(horizontal=True):
        parts.link("engines", at.view.shared(), at.say("all_engines"), icon=":material/arrow_back:")
        parts.link("sources", at.view.shared(), at.say("page_sources"))


def _one(at: parts.Here, fleet: facts.Fleet, keys: list[Key], key: Key) -> None:
    target, replica, model = key
    mine = fleet.engines.filter(
        (pl.col("target") == target) & (pl.col("replica") == replica) & pl.col("model").eq_missing(model)
    )
    row = mine.row(0, named=True)
    several = fleet.engines.filter(pl.col("target") == target)["replica"].n_unique() > 1
    parts.first_line(one_answer(at, mine, row, several=several))
    _choose_engine(at, keys, key)
    source = fleet.targets.filter(pl.col("target") == target).row(0, named=True)
    parts.facts_row(_facts(at, row, source, fleet))
    touching = [
        target in states.engines_of(one, fleet.targets, fleet.placements)
        for one in fleet.incidents.iter_rows(named=True)
    ]
    if row["role"] == "probe":
        probe_charts.draw_all(at, row)
        return
    engine_charts.draw_all(at, row, fleet.incidents.filter(pl.Series(touching, dtype=pl.Boolean)))


def one_answer(at: parts.Here, mine: pl.DataFrame, row: dict[str, Any], *, several: bool) -> list[str]:
    """The first line of one engine: which (its replica too where there are
    several), TTFT now, its queue, its verdict if there is one, data age."""
    name = f"{row['target']} / {row['replica']}" if several else row["target"]
    said = [f"**{form.plain(name)}**"]
    if row["role"] == "probe":
        said += probe_charts.last_hour(at, row["target"])
    elif reading := tables.recent_p95(at, mine).get((row["target"], row["replica"], row["model"])):
        n = form.count(reading.requests)
        if reading.mean is not None:
            said.append(at.say("ttft_mean_is", value=form.latency(reading.mean), n=n))
        else:
            said.append(at.say("ttft_p95_is", value=reading.text, n=n))
    if row["requests_waiting"] is not None:
        said.append(at.say("n_waiting", n=form.count(row["requests_waiting"])))
    if row["requests_running"] is not None:
        said.append(at.say("n_running", n=form.count(row["requests_running"])))
    if verdict := tables.verdict_of(at, row):
        said.append(parts.mark(row["state"], form.plain(verdict)))
    fresh = states.Freshness(row["ts"], states.is_stale(row["ts"], row["interval_seconds"], at.now))
    return [*said, parts.data_age(at, fresh)]


def _choose_engine(at: parts.Here, keys: list[Key], key: Key) -> None:
    def name(choice: Key) -> str:
        words = [choice[0], *([choice[1]] if choice[1] not in ("", "0") else []), choice[2] or ""]
        return " · ".join(word for word in words if word)

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        parts.link("engines", at.view.shared(), at.say("all_engines"), icon=":material/arrow_back:")
        parts.choose("engine_choice", key)
        st.selectbox(
            at.say("engine"),
            keys,
            key="engine_choice",
            format_func=name,
            on_change=_engine_chosen,
            label_visibility="collapsed",
            width=420,
        )


def _engine_chosen() -> None:
    target, replica, model = st.session_state["engine_choice"]
    parts.change(engine=target, replica=replica, model=model or "")


def _facts(
    at: parts.Here, row: dict[str, Any], source: dict[str, Any], fleet: facts.Fleet
) -> list[tuple[str, str, str | None]]:
    reserved = row["memory_reservation_ratio"] or source["memory_reservation_ratio"]
    project = states.place_of(row["project"], row["environment"])
    started = row["process_start_time_seconds"]
    since = form.duration((at.now - form.from_unix(started)).total_seconds()) if started else ""
    if row["role"] == "probe":
        return [
            (at.say("role"), at.say("role_probe"), at.say("about_probe")),
            (at.say("model"), row["model"] or "", None),
            (at.say("project"), project, None),
            *probe_charts.facts_of(at, row["target"]),
        ]
    gpus, about_gpus = placements.engine_text(at, fleet.placements, fleet.gpus, row["target"], row["replica"])
    if not gpus and source["gpus"]:
        gpus, about_gpus = states.gpu_list(source["gpus"]), at.say("about_engine_gpus")
    return [
        (at.say("engine"), row["engine"], None),
        (at.say("role"), at.say(f"role_{row['role']}"), None),
        (at.say("model"), row["model"] or "", None),
        (at.say("replica"), row["replica"], None),
        (at.say("project"), project, None),
        (at.say("version"), "", at.say("version_not_measured")),
        (at.say("reservation"), form.percent(reserved) if reserved else "", at.say("about_reservation")),
        (at.say("up_for"), since, at.say("about_up_for")),
        ("GPU", gpus, about_gpus),
    ]
