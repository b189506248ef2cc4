"""What the pages ask of the store: one function a question, answers shared by readers for a few seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import streamlit as st

from app.pages import states
from app.view import View, Window
from collectors.gpu.entities import short_host
from sql.store import Store

SHARED_SECONDS = 5
"""How long an answer serves other readers too; the shortest interval worth watching."""
LOOK_BACK = 300.0
"""Seconds in which the newest sample of a GPU or engine is looked for; older ones are gone, not stale."""
TARGET_LOOK_BACK = 900.0
"""Seconds in which a target's newest scrape is looked for: three of the longest usual interval, 5 min."""
LONG_SECONDS = 60
"""How long an answer from a day or a week of rows serves."""
FAILING_LOOK_BACK = 86_400.0
"""Seconds in which the last good scrape of a failing target is looked for."""
GPU_LOOK_BACK = 7 * 86_400.0
"""Seconds in which a GPU that no longer reports is looked for."""
PLACED_LOOK_BACK = 900.0
"""Seconds in which an engine was last seen on a GPU; placements are looked at every minute."""
EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001 (the store's times have no zone)


@st.cache_data(ttl=SHARED_SECONDS, max_entries=300, show_spinner=False)
def _answer(store_id: int, name: str, parameters: tuple[tuple[str, Any], ...], _store: Store) -> pl.DataFrame:
    """`store_id` stands in the key for the store, which cannot be hashed."""
    assert store_id == id(_store)
    return _store.query(
        name, **{key: list(value) if isinstance(value, tuple) else value for key, value in parameters}
    )


@st.cache_data(ttl=LONG_SECONDS, max_entries=50, show_spinner=False)
def _long_answer(
    store_id: int, name: str, parameters: tuple[tuple[str, Any], ...], _store: Store
) -> pl.DataFrame:
    return _answer(store_id, name, parameters, _store)


def ask_long(store: Store, name: str, **parameters: Any) -> pl.DataFrame:
    """As `ask`, at most `LONG_SECONDS` old; `as_of` is rounded down to as much."""
    as_of: datetime = parameters["as_of"]
    parameters["as_of"] = as_of - timedelta(seconds=as_of.timestamp() % LONG_SECONDS)
    return _long_answer(id(store), name, tuple(sorted(parameters.items())), store)


def ask(store: Store, name: str, **parameters: Any) -> pl.DataFrame:
    """A named query's frame, at most `SHARED_SECONDS` old. Lists are passed as tuples."""
    return _answer(id(store), name, tuple(sorted(parameters.items())), store)


def shared_moment(now: datetime) -> datetime:
    """`now` rounded up so that readers of the same few seconds ask the same question."""
    seconds = -(-now.timestamp() // SHARED_SECONDS) * SHARED_SECONDS
    return now + timedelta(seconds=seconds - now.timestamp())


@dataclass(frozen=True)
class Fleet:
    """Everything's newest state, filtered by the view's project and environment."""

    now: datetime
    targets: pl.DataFrame
    gpus: pl.DataFrame
    engines: pl.DataFrame
    incidents: pl.DataFrame
    placements: pl.DataFrame
    """Which engine stands on which GPU, and how that is known."""

    @property
    def fresh(self) -> states.Freshness:
        """How old the newest data is."""
        return states.freshness(self.targets, self.now)


def projects(store: Store) -> dict[str, list[str]]:
    """What the filters offer: `project` and `environment` → names."""
    found = ask(store, "page_projects")
    return {name: sorted(set(found[name].drop_nulls())) for name in ("project", "environment")}


def known(store: Store, view: View) -> View:
    """The view without a project or environment that no target has: a filter that hides all is no answer."""
    offered = projects(store)
    unknown = {name: "" for name, names in offered.items() if getattr(view, name) not in names}
    return view.but(**unknown)


def targets(store: Store, view: View, window: Window, now: datetime) -> pl.DataFrame:
    """Every target with its newest scrape, its state and, for one that fails, `failing_since`."""
    found = ask(
        store,
        "page_targets",
        as_of=window.end,
        look_back=TARGET_LOOK_BACK,
        project=view.project or None,
        environment=view.environment or None,
    )
    found = states.target_states(found, now)
    failing = found.filter(pl.col("state") == "failing")
    since = [
        _failing_since(store, failing.filter(pl.col("last_ok_at").is_not_null()), window, TARGET_LOOK_BACK),
        _failing_since(store, failing.filter(pl.col("last_ok_at").is_null()), window, FAILING_LOOK_BACK),
    ]
    return found.join(pl.concat(since), on="target", how="left")


def _failing_since(store: Store, failing: pl.DataFrame, window: Window, look_back: float) -> pl.DataFrame:
    """`target` and `failing_since`: NULL where the target failed all through the look-back."""
    if failing.is_empty():
        return pl.DataFrame(schema={"target": pl.String, "failing_since": pl.Datetime("us")})
    question = ask if look_back <= TARGET_LOOK_BACK else ask_long
    found = question(
        store,
        "page_failing_since",
        targets=tuple(failing["target"]),
        as_of=window.end,
        look_back=look_back,
    ).join(failing.select("target", "interval_seconds"), on="target")
    edge = window.end - timedelta(seconds=look_back)
    certain = pl.col("last_ok_at").is_not_null() | (
        pl.col("failing_since") > edge + pl.duration(seconds=pl.col("interval_seconds") * 3 + LONG_SECONDS)
    )
    return found.select("target", pl.when(certain).then("failing_since").alias("failing_since"))


def last_of_gpu(store: Store, gpu: str, mig: str, window: Window) -> pl.DataFrame:
    """A GPU's newest sample up to the window's end: of late, else of the week before; a row or none."""
    one = {"gpu": gpu, "mig": mig, "as_of": window.end}
    found = ask(store, "page_gpu_last", look_back=LOOK_BACK, **one)
    return found if found.height else ask_long(store, "page_gpu_last", look_back=GPU_LOOK_BACK, **one)


def host(store: Store, name: str | None, window: Window) -> dict[str, Any] | None:
    """The newest facts of a host, as some node_exporter tells them; None where none does."""
    if not name:
        return None
    found = ask(store, "page_host", host=short_host(name), as_of=window.end, look_back=LOOK_BACK)
    return found.row(0, named=True) if found.height else None


def incidents(store: Store, view: View, window: Window) -> pl.DataFrame:
    """Incidents of the window, filtered by the project and environment in their labels, worst first.

    The one that the view names is there in any case.
    """
    found = ask(
        store, "page_incidents", from_ts=window.start, to_ts=window.end, incident=view.incident or None
    )
    if not window.live:
        found = states.as_of(found, window.end)
    if not view.project and not view.environment:
        return found
    kept = []
    for row in found.iter_rows(named=True):
        labels = states.read_json(row["labels"])
        kept.append(
            row["incident_id"] == view.incident
            or (
                view.project in ("", labels.get("project"))
                and view.environment in ("", labels.get("environment"))
            )
        )
    return found.filter(pl.Series(kept, dtype=pl.Boolean))


def fleet(store: Store, view: View, window: Window, now: datetime) -> Fleet:
    """The state of the fleet at `now`, the end of the window it is asked for."""
    choice = {
        "as_of": window.end,
        "look_back": LOOK_BACK,
        "project": view.project or None,
        "environment": view.environment or None,
    }
    found = incidents(store, view, window)
    watched = targets(store, view, window, now)
    gpus = ask(store, "page_gpus", **choice)
    engines = ask(store, "page_engines", **choice)
    placed = ask(store, "page_engine_gpus", as_of=window.end, look_back=PLACED_LOOK_BACK)
    return Fleet(
        now=now,
        targets=watched,
        gpus=states.gpu_states(gpus, found, now),
        engines=states.engine_states(engines, watched, found, now, placed),
        incidents=found,
        placements=placed,
    )


def latency(
    store: Store,
    engines: Sequence[str],
    metrics: Sequence[str],
    window: Window,
    step_seconds: int,
    *,
    from_start: bool = False,
) -> pl.DataFrame:
    """`page_latency`. Steps start at whole steps of the clock, or with `from_start` at the window's start."""
    return ask(
        store,
        "page_latency",
        targets=tuple(engines),
        metrics=tuple(metrics),
        from_ts=window.start,
        to_ts=window.end,
        step=step_seconds,
        origin=window.start if from_start else EPOCH,
        max_interval=float(max(3 * window.step_seconds, 120)),
    )
