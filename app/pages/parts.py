"""What all pages share: where the reader is, the live body, links between pages, the first line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import polars as pl
import streamlit as st

from app import charts, runtime, theme, words
from app import format as form
from app.chart_layers import Drawing, Frame, Line, Span, Unit
from app.pages import facts, states
from app.view import Fault, View, Window, parse, to_parameters, window
from sql.store import Store

REFRESH_SECONDS = 10
"""How often a live page is drawn anew: the usual interval of a target."""
SHARED_VIEW = "shared_view"
"""Where a session keeps the parameters that go along to another page."""
_GOING = "going"
_ADDRESS_SECONDS = 0.15
"""What the browser is given to make a new page its address before that page's query is written to it."""
TABLE_ROWS = 30
"""Rows of a table before it scrolls."""


@dataclass(frozen=True)
class Here:
    """One drawing of a page: for whom, of what, when."""

    store: Store
    view: View
    window: Window
    now: datetime
    """The clock, or the end of a window that stands still: what ages are counted from."""
    clock_now: datetime
    zone: ZoneInfo
    lang: str
    colours: theme.Palette

    def say(self, key: str, **values: object) -> str:
        """A phrase of `app/words.py` in the reader's language."""
        return words.say(self.lang, key, **values)

    def clock(self, moment: datetime | None, *, seconds: bool = False) -> str:
        """A time of the store in the reader's zone, with its day where that is not the reader's today."""
        return form.clock(moment, self.zone, self.clock_now, seconds=seconds)

    def ago(self, moment: datetime | None) -> str:
        """How long before `now` a time lies."""
        past = form.age(moment, self.now)
        return form.UNKNOWN if past is None else form.duration(past.total_seconds())

    def frame(self, spans: Sequence[Span] = ()) -> Frame:
        """What the charts of this page share."""
        return Frame(self.window.start, self.window.end, self.colours, spans)


def read_url() -> tuple[View, list[Fault]]:
    """The view of the URL, and what of it was not understood."""
    return parse(st.query_params.to_dict(), runtime.current().clock())


def seen() -> View:
    """The view of the URL."""
    return read_url()[0]


def here() -> Here:
    """Read the URL, the browser and the clock."""
    now_running = runtime.current()
    known = facts.known(now_running.store, seen())
    now = now_running.clock()
    shown = window(known, facts.shared_moment(now))
    return Here(
        store=now_running.store,
        view=known,
        window=shown,
        now=now if shown.live else shown.end,
        clock_now=now,
        zone=form.zone(st.context.timezone),
        lang=words.language(known.lang, st.context.locale),
        colours=theme.palette(st.context.theme.type),
    )


def live(body: Callable[[], None]) -> None:
    """Draw a page's body, again every few seconds while its window follows the clock.

    The only place that makes a fragment: called once by each page, at its top level and in every run, so
    that no live part is nested in another and none disappears under a running timer.
    """
    st.fragment(body, run_every=REFRESH_SECONDS if seen().live else None)()


def page(name: str) -> st.Page:
    """The page of a URL path of `app.view.PAGES`."""
    from app.pages import book

    return book.pages()[name]


def link(where: str, to: View, label: str, *, icon: str | None = None, note: str | None = None) -> None:
    """A link to a page in a given view."""
    st.page_link(page(where), label=label, icon=icon, help=note, query_params=to_parameters(to))


def go(where: str, to: View) -> None:
    """Leave for a page in a given view.

    The page left keeps its own query: given to `st.switch_page`, the new one would be written to the address
    of the old page first, and Back would lead there. `arrive` writes it once the other page is the address.
    """
    st.session_state[_GOING] = (where, to_parameters(to))
    st.switch_page(page(where), query_params=st.query_params.to_dict())


def arrive(where: str) -> None:
    """Write the query of the page that `go` left for; in a run of that page, after the page bar."""
    going = st.session_state.pop(_GOING, None)
    if going is not None and going[0] == where:
        time.sleep(_ADDRESS_SECONDS)
        st.query_params.from_dict(going[1])


def put(changed: View) -> None:
    """Make a view the URL of this page."""
    st.query_params.from_dict(to_parameters(changed))
    share(changed)


def share(shown: View) -> None:
    """Keep what goes along to another page."""
    st.session_state[SHARED_VIEW] = to_parameters(shown.shared())


def change(**changes: Any) -> None:
    """Change some values of the URL's view: for the callbacks of widgets."""
    put(seen().but(**changes))


def mark(state: str, text: str) -> str:
    """Markdown of a text with its state's shape and colour. The text must be safe already."""
    return f":{theme.STREAMLIT_COLOURS[state]}[{theme.MARKS[state]} {text}]"


def first_line(parts: Sequence[str]) -> None:
    """The answer to a page's first question, before any chart."""
    st.markdown("### " + " · ".join(part for part in parts if part), anchors=False)


def data_age(at: Here, fresh: states.Freshness) -> str:
    """`data as of 14:05:10 (4 s ago)`, amber when it is old; for a window that stands still, its end."""
    if not at.window.live:
        return at.say("as_it_was_at", time=at.clock(at.window.end, seconds=True))
    if fresh.at is None:
        return mark("watching", at.say("no_data_yet_short"))
    text = at.say("data_as_of", time=at.clock(fresh.at, seconds=True), age=at.ago(fresh.at))
    return mark("watching", text) if fresh.stale else text


def incident_words(at: Here, row: Mapping[str, Any]) -> str:
    """An incident in a sentence, as text.

    The stored sentence tells its newest state; where the page shows an earlier one, it is told without.
    """
    newest = "resolved" if row["resolved_at"] else "firing" if row["fired_at"] else "pending"
    if row["state"] == newest:
        return str(row["summary"])
    shown = form.percent if row["unit"] == "ratio" else form.gibibytes
    peak, threshold = shown(row["peak_value"]), shown(row["threshold"])
    place = states.incident_place(row)
    return at.say("incident_then", place=place, title=row["title"], peak=peak, threshold=threshold)


def draw(drawing: Drawing, key: str, words_for_it: str, **options: Any) -> Any:
    """Put a chart on the page with the words a screen reader says for it; its selections, if any.

    The words must not change with the data: Streamlit would draw the chart anew.
    """
    return st.vega_lite_chart(
        spec={**drawing.spec, "datasets": drawing.data},
        width="stretch",
        theme=None,
        key=key,
        alt=words_for_it,
        **options,
    )


def lines(
    series: pl.DataFrame,
    around: Frame,
    wanted: Sequence[Line],
    unit: Unit,
    key: str,
    missing: str,
    **options: Any,
) -> None:
    """Draw those lines whose column holds a value, or say that what they show is `missing`."""
    known = [line for line in wanted if series[line.column].drop_nulls().len()]
    if not known:
        st.markdown(f":gray[{form.UNKNOWN} {missing}]")
        return
    draw(charts.lines(series, known, around, unit, **options), key, ", ".join(line.label for line in known))


def table_height(rows: int) -> int | Literal["content"]:
    """Pixels: a long table scrolls in itself, a short one is as high as its rows."""
    return "content" if rows <= TABLE_ROWS else 35 * (TABLE_ROWS + 1) + 3


def panel(title: str, note: str = "", about: str | None = None) -> None:
    """The heading of a chart: its question's name, and the present value as text beside it."""
    st.markdown(f"**{title[:1].upper()}{title[1:]}**" + (f" :gray[{note}]" if note else ""), help=about)


def nothing(message: str, cure: str = "", code: str = "") -> None:
    """An empty state: what is missing and the line to add."""
    with st.container(border=True):
        st.markdown(message)
        if cure:
            st.markdown(f":gray[{cure}]")
        if code:
            st.code(code, language="yaml")


def choose(key: str, value: object) -> None:
    """Set a widget to what the URL says, before it is drawn: the URL is the only state."""
    st.session_state[key] = value


def turn(key: str) -> int:
    """Goes into the key of a widget whose choice must not stick: what is chosen is in the URL, and a choice
    that stayed in the widget would be made again on the way back to its page."""
    return int(st.session_state.get(f"{key}_turn", 0))


def next_turn(key: str) -> None:
    """Forget the choice made in the widget of `turn`."""
    st.session_state[f"{key}_turn"] = turn(key) + 1


def facts_row(found: Sequence[tuple[str, str, str | None]]) -> None:
    """Small facts in a row: label, value as text from outside (empty: not known), help."""
    with st.container(horizontal=True, gap="medium"):
        for label, value, about in found:
            st.markdown(f":gray[{label}]  \n{form.plain(value)}", help=about, width="content")


def section(title: str) -> None:
    """A heading within a page."""
    st.markdown(f"#### {title}", anchors=False)


def no_targets(at: Here) -> None:
    """Nothing is scraped: say what was looked for and what to write."""
    nothing(at.say("no_targets"), at.say("no_targets_cure"), _TARGETS_EXAMPLE)
    for note in runtime.current().notes:
        st.markdown(f":gray[– {form.plain(note)}]")


def none_of_late(at: Here, key: str) -> str:
    """`no_engines` or `no_gpus`: of the last minutes, or of those before the end of a past window."""
    return at.say(key) if at.window.live else at.say(f"{key}_before", time=at.clock(at.window.end))


def no_engines(at: Here) -> None:
    """No engine has answered of late."""
    nothing(none_of_late(at, "no_engines"), at.say("no_engines_cure"), _ENGINE_EXAMPLE)


def no_gpus(at: Here) -> None:
    """No GPU has been seen of late."""
    nothing(none_of_late(at, "no_gpus"), at.say("no_gpus_cure"), _GPU_EXAMPLE)


_ENGINE_EXAMPLE = "targets:\n  - {name: llama-70b, kind: vllm, url: http://localhost:8000/metrics}"
_GPU_EXAMPLE = "targets:\n  - {name: node-1, kind: dcgm, url: http://node-1:9400/metrics}"
_TARGETS_EXAMPLE = _GPU_EXAMPLE + _ENGINE_EXAMPLE.removeprefix("targets:")
