"""GPUs: the fleet, and one GPU over time where the URL names it."""

from __future__ import annotations

from typing import Any

import polars as pl
import streamlit as st

from app import format as form
from app import theme
from app.pages import facts, gpu_charts, parts, placements, states, tables, tiles
from app.view import View

PROCESSES = 8
"""Processes named before "and n more"."""
ROWS = 200
"""Rows of the table before "and n more"."""


def page() -> None:
    parts.live(_body)


def _body() -> None:
    at = parts.here()
    fleet = facts.fleet(at.store, at.view, at.window, at.now)
    if at.view.gpu:
        _one(at, fleet, at.view.gpu, at.view.mig)
        return
    parts.first_line(answer(at, fleet))
    if fleet.gpus.is_empty():
        parts.no_gpus(at)
        return
    tiles.fleet(at, fleet, "gpus_tiles", columns=2)
    chosen = _table(at, fleet)
    if chosen is not None:
        parts.go("gpus", chosen)


def answer(at: parts.Here, fleet: facts.Fleet) -> list[str]:
    """The first line of the fleet: how many, how many in trouble, the fullest and the hottest."""
    gpus = fleet.gpus
    if gpus.is_empty():
        return [parts.none_of_late(at, "no_gpus"), parts.data_age(at, fleet.fresh)]
    nodes = len({tiles.node_of(row) for row in gpus.iter_rows(named=True)})
    words = (at.say("n_gpus", n=form.count(gpus.height)), at.say("n_nodes", n=form.count(nodes)))
    said = [at.say("gpus_on_nodes", gpus=words[0], nodes=words[1])]
    for state, key in (("firing", "n_firing"), ("watching", "n_watching"), ("unknown", "n_stale")):
        if n := gpus.filter(pl.col("state") == state).height:
            said.append(parts.mark("firing" if state == "firing" else "watching", at.say(key, n=n)))
    fresh = states.fresh(gpus, at.now)
    for column, key in (("memory_used_ratio", "fullest"), ("temperature_celsius", "hottest")):
        known = fresh.filter(pl.col(column).is_not_null())
        if not known.is_empty():
            worst = known.sort(column).row(-1, named=True)
            value = worst[column]
            shown = form.percent(value) if key == "fullest" else form.with_unit(value, "°C", 2)
            name = f"{tiles.node_of(worst)} {tiles.name_of(worst)}"
            said.append(at.say(key, name=form.plain(name), value=shown))
    return [*said, parts.data_age(at, fleet.fresh)]


def _table(at: parts.Here, fleet: facts.Fleet) -> View | None:
    rated = states.sorted_by_state(fleet.gpus.with_columns(tiles.busy_ratio()), "memory_used_ratio")
    rows = rated.head(ROWS)
    shown = pl.DataFrame(
        {
            "state": [theme.MARKS[state] for state in rows["state"]],
            "gpu": [f"{tiles.node_of(row)} {tiles.name_of(row)}" for row in rows.iter_rows(named=True)],
            "kind": [
                form.shorten((model or form.UNKNOWN).removeprefix("NVIDIA "), 28)
                for model in rows["gpu_model"]
            ],
            "vram": [form.percent(value) for value in rows["memory_used_ratio"]],
            "used": [form.gibibytes(value) for value in rows["memory_used_bytes"]],
            "free": [form.gibibytes(value) for value in rows["memory_free_bytes"]],
            "busy": [form.percent(value) for value in rows["busy_ratio"]],
            "celsius": [form.with_unit(value, "°C", 2) for value in rows["temperature_celsius"]],
            "watts": [form.with_unit(value, "W") for value in rows["power_watts"]],
            "slowed": [gpu_charts.reasons_text(at, value, none="") for value in rows["throttle_reasons"]],
            "pod": [form.shorten(pod or form.UNKNOWN, 40) for pod in rows["pod"]],
            "verdict": rows["verdict"],
        }
    )
    text = st.column_config.TextColumn
    right: dict[str, Any] = {"alignment": "right"}
    config = {
        "state": text("", width=28, help=at.say("about_marks"), pinned=True),
        "gpu": text("GPU", pinned=True, width=170),
        "kind": text(at.say("kind_of_gpu")),
        "vram": text("VRAM", help=at.say("about_vram"), width=70, **right),
        "used": text(at.say("used"), **right),
        "free": text(at.say("free"), **right),
        "busy": text(at.say("measure_utilization"), help=at.say("about_utilization"), width=80, **right),
        "celsius": text(at.say("measure_temperature"), width=80, **right),
        "watts": text(at.say("measure_power"), width=80, **right),
        "slowed": text(at.say("throttle"), help=at.say("about_throttle"), width=150),
        "pod": text("pod"),
        "verdict": text(at.say("verdict"), help=at.say("about_verdict")),
    }
    picked = tables.pick(shown, config, "gpus_table", at.say("alt_gpus"))
    if rated.height > ROWS:
        st.caption(at.say("and_n_more", n=form.count(rated.height - ROWS)))
    if picked is None or picked >= rows.height:
        return None
    row = rows.row(picked, named=True)
    return at.view.shared().but(gpu=row["gpu_uuid"], mig=row["mig_instance"])


def _one(at: parts.Here, fleet: facts.Fleet, gpu: str, mig: str) -> None:
    found = facts.last_of_gpu(at.store, gpu, mig, at.window)
    if found.is_empty():
        parts.first_line([at.say("gpu_not_seen", gpu=form.plain(gpu + (f" MIG {mig}" if mig else "")))])
        st.markdown(f":gray[{at.say('gpu_not_seen_cure')}]")
        parts.link("gpus", at.view.shared(), at.say("all_gpus"), icon=":material/arrow_back:")
        return
    row = found.with_columns(tiles.busy_ratio()).row(0, named=True)
    mine = of_gpu(fleet.incidents, gpu, mig)
    state = states.incident_state(mine["state"][0]) if not mine.is_empty() else "well"
    parts.first_line(one_answer(at, row, mine, state))
    _choose_gpu(at, fleet, row)
    _incident(at, mine)
    engines = states.gpu_engines(row, fleet.targets, fleet.placements)
    parts.facts_row(_facts(at, row, engines, fleet))
    _engine_links(at, engines, placements.on_gpu(fleet.placements, gpu, mig))
    _processes(at, gpu, mig)
    gpu_charts.draw_all(at, row, mine, gpu_charts.reservation(fleet, engines))


def of_gpu(incidents: pl.DataFrame, gpu: str, mig: str) -> pl.DataFrame:
    """The incidents about one GPU or MIG instance."""
    subject = f"gpu:{gpu}/{mig}" if mig else f"gpu:{gpu}"
    return incidents.filter(pl.col("subject") == subject)


def one_answer(at: parts.Here, row: dict[str, Any], mine: pl.DataFrame, state: str) -> list[str]:
    """The first line of one GPU: which, how full, in what state since when, how old the data is."""
    said = [f"**{form.plain(tiles.node_of(row))} {form.plain(tiles.name_of(row))}**"]
    if row["memory_used_bytes"] is not None:
        usable = row["memory_used_bytes"] + (row["memory_free_bytes"] or 0)
        said.append(
            at.say(
                "vram_of",
                ratio=form.percent(row["memory_used_ratio"]),
                used=form.gibibytes(row["memory_used_bytes"]),
                usable=form.gibibytes(usable if row["memory_free_bytes"] is not None else None),
            )
        )
    else:
        said.append(at.say("vram_not_known"))
    if state in ("firing", "watching"):
        first = mine.row(0, named=True)
        since = first["started_at"]
        lasted = form.duration((at.now - since).total_seconds())
        said.append(parts.mark(state, at.say(f"{state}_since", time=at.clock(since), lasted=lasted)))
    fresh = states.Freshness(row["ts"], states.is_stale(row["ts"], row["interval_seconds"], at.now))
    return [*said, parts.data_age(at, fresh)]


def _choose_gpu(at: parts.Here, fleet: facts.Fleet, row: dict[str, Any]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        parts.link("gpus", at.view.shared(), at.say("all_gpus"), icon=":material/arrow_back:")
        names = {
            (gpu["gpu_uuid"], gpu["mig_instance"]): f"{tiles.node_of(gpu)} {tiles.name_of(gpu)}"
            for gpu in fleet.gpus.iter_rows(named=True)
        }
        names.setdefault((row["gpu_uuid"], row["mig_instance"]), f"{tiles.node_of(row)} {tiles.name_of(row)}")
        parts.choose("gpu_choice", (row["gpu_uuid"], row["mig_instance"]))
        st.selectbox(
            "GPU",
            list(names),
            key="gpu_choice",
            format_func=lambda key: names.get(key, key[0]),
            on_change=_gpu_chosen,
            label_visibility="collapsed",
            width=240,
        )


def _gpu_chosen() -> None:
    gpu, mig = st.session_state["gpu_choice"]
    parts.change(gpu=gpu, mig=mig, incident="")


def _incident(at: parts.Here, mine: pl.DataFrame) -> None:
    """The incident the link named, in words; one that is not known is said."""
    if not at.view.incident:
        return
    found = mine.filter(pl.col("incident_id") == at.view.incident)
    if found.is_empty():
        st.markdown(parts.mark("unknown", at.say("incident_not_known", id=form.plain(at.view.incident))))
        return
    row = found.row(0, named=True)
    state = states.incident_state(row["state"])
    with st.container(border=True):
        word = at.say(f"severity_{row['severity']}" if state == "firing" else f"state_{row['state']}")
        badge = f":{theme.STREAMLIT_COLOURS[state]}-badge[{theme.MARKS[state]} {word}]"
        end = row["resolved_at"] or at.clock_now
        lasted = form.duration((end - row["started_at"]).total_seconds())
        until = f" – {at.clock(row['resolved_at'])}" if row["resolved_at"] else ""
        peak = row["peak_value"]
        worst = form.percent(peak) if row["unit"] == "ratio" else form.gibibytes(peak)
        details = [
            f"{at.clock(row['started_at'])}{until}",
            lasted,
            at.say("peak", value=worst),
            form.plain(row["reason_text"]),
        ]
        sentence = form.plain(parts.incident_words(at, row))
        st.markdown(f"{badge} **{sentence}**  \n:gray[{' · '.join(details)}]")


def _facts(
    at: parts.Here, row: dict[str, Any], engines: list[str], fleet: facts.Fleet
) -> list[tuple[str, str, str | None]]:
    owner = "/".join(part for part in (row["namespace"], row["pod"]) if part)
    project = states.place_of(row["project"], row["environment"])
    if not row["project"]:
        of_engines = fleet.targets.filter(pl.col("target").is_in(engines) & pl.col("project").is_not_null())
        project = ", ".join(sorted(set(of_engines["project"]))) or project
    xid = row["xid_last"]
    host = facts.host(at.store, row["host"], at.window)
    return [
        (at.say("kind_of_gpu"), row["gpu_model"] or "", None),
        ("pod", owner, at.say("about_pod")),
        (at.say("project"), project, at.say("about_gpu_project")),
        (at.say("driver"), row["driver_version"] or "", None),
        (
            at.say("slowed_now"),
            gpu_charts.reasons_text(at, row["throttle_reasons"]),
            at.say("about_throttle"),
        ),
        ("XID", form.count(xid) if xid else at.say("xid_none") if xid == 0 else "", at.say("about_xid")),
        (at.say("target"), row["target"], None),
        ("UUID", row["gpu_uuid"], None),
        *_host_facts(at, host),
    ]


def _host_facts(at: parts.Here, host: dict[str, Any] | None) -> list[tuple[str, str, str | None]]:
    """How busy the GPU's host is, where a node_exporter tells."""
    if host is None:
        return []
    free, total = host["memory_available_bytes"], host["memory_total_bytes"]
    memory = form.gibibytes(free) + (f" / {form.gibibytes(total)}" if total is not None else "")
    return [
        (at.say("host_cpu"), form.percent(host["cpu_busy_ratio"]), at.say("about_host_cpu")),
        (at.say("host_memory"), memory, at.say("about_host_memory")),
    ]


def _engine_links(at: parts.Here, engines: list[str], placed: list[placements.Placed]) -> None:
    if not engines:
        st.markdown(f":gray[{at.say('no_engine_on_gpu')}]", help=at.say("no_engine_on_gpu_cure"))
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f":gray[{at.say('engines_on_gpu')}]", width="content")
        known = {one.target: one for one in placed}
        for target in engines:
            parts.link("engines", at.view.shared().but(engine=target), form.plain(target))
            one = known.get(target)
            way = placements.way_text(at, one.source, one.last_seen) if one else at.say("placed_config")
            st.markdown(f":gray[({way})]", help=at.say("about_engine_gpus"), width="content")


def _processes(at: parts.Here, gpu: str, mig: str) -> None:
    """Who holds memory on the GPU, where the source lists processes."""
    found = facts.ask(
        at.store, "page_gpu_processes", gpu=gpu, mig=mig, as_of=at.window.end, look_back=facts.LOOK_BACK
    )
    if found.is_empty():
        return
    named = [
        f"{form.plain(row['name'] or '?')} {row['pid']}: {form.gibibytes(row['memory_used_bytes'])}"
        for row in found.head(PROCESSES).iter_rows(named=True)
    ]
    if found.height > PROCESSES:
        named.append(at.say("and_n_more", n=form.count(found.height - PROCESSES)))
    st.markdown(f":gray[{at.say('processes')}: {' · '.join(named)}]", help=at.say("about_processes"))
