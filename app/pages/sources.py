"""Sources: which targets answer, since when the others do not, and what each does not say."""

from __future__ import annotations

from typing import Any

import polars as pl
import streamlit as st

from app import format as form
from app import runtime
from app.pages import facts, parts, states
from collectors.registry import KINDS
from collectors.support import aliases

ROWS = 1000
TOLD = 20
"""Targets whose faults and gaps are written out below the table."""
NAMED = 6
"""Targets named where several lack the same."""
ORIGINS = (
    "config", "discovery", "file_sd", "http_sd", "dns_sd", "prometheus_sd", "kubernetes", "prometheus",
)  # fmt: skip
"""Where the target list has a target from; as `app/targets.py` names them."""
MARKS = {"failing": "■", "stale": "▲", "waiting": "–", "ok": "●", "gone": "–"}
COLOURS = {"failing": "firing", "stale": "watching", "waiting": "unknown", "ok": "well", "gone": "unknown"}


def page() -> None:
    parts.live(_body)


def _body() -> None:
    at = parts.here()
    found = facts.targets(at.store, at.view, at.window, at.now)
    if found.is_empty():
        parts.first_line([at.say("nothing_watched")])
        _lists(at)
        parts.no_targets(at)
        return
    order = pl.col("state").replace_strict(states.TARGET_ORDER, return_dtype=pl.Int8)
    rows = found.sort(order, "target", maintain_order=True)
    parts.first_line(answer(at, rows))
    _lists(at)
    _failing(at, rows)
    _table(at, rows.head(ROWS))
    if rows.height > ROWS:
        st.caption(at.say("and_n_more", n=form.count(rows.height - ROWS)))
    _gaps(at, rows)
    _names(at, rows)


def answer(at: parts.Here, rows: pl.DataFrame) -> list[str]:
    """The first line: how many targets answer, how many do not, how old the data is."""
    counts = dict(rows.group_by("state").len().iter_rows())
    here = rows.height - counts.get("gone", 0)
    good = counts.get("ok", 0)
    said = [at.say("targets_ok", n=form.count(good), all=form.count(here))]
    said += [
        parts.mark(
            COLOURS[state],
            at.say(f"n_{state}" if state != "waiting" else "n_waiting_targets", n=form.count(counts[state])),
        )
        for state in ("failing", "stale", "waiting", "gone")
        if counts.get(state)
    ]
    return [*said, parts.data_age(at, states.freshness(rows, at.now))]


def state_text(at: parts.Here, row: dict[str, Any]) -> str:
    """`ok`, `failing since 13:20`, `stale`, `gone since …`."""
    if row["state"] == "failing" and row["failing_since"] is not None:
        return at.say("failing_since", time=at.clock(row["failing_since"]))
    if row["state"] == "failing":
        return at.say("failing_over", length=form.duration(facts.FAILING_LOOK_BACK))
    if row["state"] == "gone":
        return at.say("gone_since", time=at.clock(row["gone_at"]))
    return at.say(f"target_{row['state']}")


def _lists(at: parts.Here) -> None:
    """What is wrong with the lists that targets come from, now; not with those of a past moment."""
    monitor = runtime.current().monitor
    if monitor is None or not at.window.live:
        return
    problems = monitor.targets.problems
    for problem in problems[:TOLD]:
        st.markdown(parts.mark("watching", form.plain(problem)))
    if len(problems) > TOLD:
        st.caption(at.say("and_n_more", n=form.count(len(problems) - TOLD)))


def _failing(at: parts.Here, rows: pl.DataFrame) -> None:
    """What is wrong with those that fail, in words, before the table."""
    bad = rows.filter(pl.col("state") == "failing")
    for row in bad.head(TOLD).iter_rows(named=True):
        since = state_text(at, row)
        if row["failing_since"] is not None:
            since = f"{since}, {at.ago(row['failing_since'])}"
        st.markdown(f":red-badge[■ {form.plain(row['target'])}] {form.plain(row['error'])} :gray[· {since}]")
    if bad.height > TOLD:
        st.caption(at.say("and_n_more", n=form.count(bad.height - TOLD)))


def _table(at: parts.Here, rows: pl.DataFrame) -> None:
    records = list(rows.iter_rows(named=True))
    shown = pl.DataFrame(
        {
            "mark": [MARKS[row["state"]] for row in records],
            "target": rows["target"],
            "state": [state_text(at, row) for row in records],
            "kind": [
                row["found_kind"] or (form.UNKNOWN if row["kind"] == "auto" else row["kind"])
                for row in records
            ],
            "role": [at.say(f"role_{row['role']}") if row["role"] else form.UNKNOWN for row in records],
            "project": [
                states.place_of(row["project"], row["environment"]) or form.UNKNOWN for row in records
            ],
            "origin": [
                at.say(f"origin_{row['origin']}") if row["origin"] in ORIGINS else form.UNKNOWN
                for row in records
            ],
            "age": [at.ago(row["last_at"]) for row in records],
            "duration": [form.latency(row["duration_seconds"]) for row in records],
            "bytes": [form.transfer(row["bytes"]) for row in records],
            "lines": [form.count(row["lines"]) for row in records],
            "rejected": [form.count(row["rejected_lines"]) for row in records],
            "unowned": [form.count(row["unowned_lines"]) for row in records],
            "missing": [form.count(len(row["missing"] or [])) for row in records],
            "url": rows["url"],
        }
    )
    text = st.column_config.TextColumn
    right: dict[str, Any] = {"alignment": "right"}
    config = {
        "mark": text("", width=28, pinned=True),
        "target": text(at.say("target"), pinned=True),
        "state": text(at.say("state"), width=150),
        "kind": text(at.say("kind"), help=at.say("about_kind")),
        "role": text(at.say("role")),
        "project": text(at.say("project")),
        "origin": text(at.say("origin"), width=130, help=at.say("about_origin")),
        "age": text(at.say("last_scrape"), **right),
        "duration": text(at.say("took"), help=at.say("about_took"), **right),
        "bytes": text(at.say("size"), **right),
        "lines": text(at.say("lines"), help=at.say("about_lines"), **right),
        "rejected": text(at.say("rejected"), help=at.say("about_rejected"), **right),
        "unowned": text(at.say("unowned"), help=at.say("about_unowned"), **right),
        "missing": text(at.say("missing"), help=at.say("about_missing"), **right),
        "url": text("URL"),
    }
    st.dataframe(
        shown,
        column_config=config,
        hide_index=True,
        width="stretch",
        height=parts.table_height(shown.height),
        key="sources",
        alt=at.say("alt_sources"),
    )


def _gaps(at: parts.Here, rows: pl.DataFrame) -> None:
    """Which expected metrics are absent, and what the readers found odd: once for all targets alike."""
    told = rows.filter(
        (pl.col("state") != "gone") & ((pl.col("missing").list.len() > 0) | (pl.col("notes").list.len() > 0))
    )
    if told.is_empty():
        return
    parts.section(at.say("missing_and_odd"))
    alike: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for row in told.iter_rows(named=True):
        key = (row["found_kind"] or "", tuple(row["missing"] or ()), tuple(row["notes"] or ()))
        alike.setdefault(key, []).append(row["target"])
    for (kind, missing, notes), names in list(alike.items())[:TOLD]:
        words = []
        if missing:
            words.append(at.say("does_not_say", names=", ".join(f"`{name}`" for name in missing)))
        words += [form.plain(note) for note in notes]
        who = ", ".join(f"**{form.plain(name)}**" for name in names[:NAMED])
        if len(names) > NAMED:
            who = f"{who} {at.say('and_n_more', n=form.count(len(names) - NAMED))}"
        st.markdown(f"{who} :gray[{form.plain(kind)}] · " + " · ".join(words))
    if len(alike) > TOLD:
        st.caption(at.say("and_n_more", n=form.count(len(alike) - TOLD)))


def name_rows(rows: pl.DataFrame) -> list[tuple[str, list[str], str, str, str]]:
    """(kind, targets, figure, the name it is read by or "", the names looked for), once for targets alike.

    The figures a target lacks come first.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows.iter_rows(named=True):
        if row["state"] != "gone" and row["found_kind"] in KINDS and row["found_names"]:
            alike.setdefault((row["found_kind"], row["found_names"]), []).append(row["target"])
    found = []
    for (kind, names), targets in alike.items():
        read = states.read_json(names)
        wanted = aliases(KINDS[kind])
        for figure in sorted({*wanted, *read}, key=lambda name: (name in read, name)):
            looked_for = ", ".join(one.name for one in wanted.get(figure, ()))
            found.append((kind, targets, figure, str(read.get(figure, "")), looked_for))
    return sorted(found, key=lambda row: bool(row[3]))


def _names(at: parts.Here, rows: pl.DataFrame) -> None:
    """By which name each figure is read, and what was looked for where it is missing."""
    found = name_rows(rows)
    if not found:
        return
    parts.section(at.say("how_read"))
    shown = pl.DataFrame(
        [
            (
                figure,
                kind,
                read or form.UNKNOWN,
                looked_for,
                ", ".join(targets[:NAMED]) + (f" +{len(targets) - NAMED}" if len(targets) > NAMED else ""),
            )
            for kind, targets, figure, read, looked_for in found
        ],
        schema=["figure", "kind", "read", "looked_for", "targets"],
        orient="row",
    )
    text = st.column_config.TextColumn
    st.dataframe(
        shown,
        column_config={
            "figure": text(at.say("figure"), width=190),
            "kind": text(at.say("kind"), width=80),
            "read": text(at.say("read_by"), help=at.say("about_read_by"), width=300),
            "looked_for": text(at.say("looked_for"), help=at.say("about_looked_for"), width=420),
            "targets": text(at.say("target"), width=260),
        },
        hide_index=True,
        width="stretch",
        height=parts.table_height(shown.height),
        key="source_names",
        alt=at.say("alt_source_names"),
    )
