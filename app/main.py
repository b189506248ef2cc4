"""The entry script that Streamlit runs for every reader: page bar, controls, faults of the link, the page."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app import format as form
from app import runtime, theme, view, words
from app.pages import book, facts, parts, states

# The icon, three bars, and the name beside it, drawn here: an icon by name would be loaded from elsewhere.
_BARS = (
    '<rect x="2" y="13" width="4.5" height="9" rx="1" fill="{quiet}"/>'
    '<rect x="9.75" y="8" width="4.5" height="14" rx="1" fill="{accent}"/>'
    '<rect x="17.5" y="2" width="4.5" height="20" rx="1" fill="{accent}"/>'
)
ICON = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="24" height="24">{_BARS}</svg>'
LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 128 24" width="128" height="24">'
    f'{_BARS}<text x="33" y="18.5" textLength="92" lengthAdjust="spacingAndGlyphs" font-family="system-ui,'
    ' sans-serif" font-size="18" font-weight="600" fill="{text}">infermeter</text></svg>'
)


def main() -> None:
    """One run of the script."""
    colours = theme.palette(st.context.theme.type)
    ink = {"quiet": colours.lines[0], "accent": colours.accent, "text": colours.text}
    st.set_page_config(page_title="infermeter", page_icon=ICON.format(**ink), layout="wide")
    st.logo(LOGO.format(**ink), size="medium")
    _keep_view_over_pages()
    lang = words.language(parts.seen().lang, st.context.locale)
    chosen = st.navigation(list(book.pages(lang).values()), position="top")
    parts.arrive(chosen.url_path)
    _remember_page()
    incident_known = _incident_of_link(chosen.url_path)
    at = parts.here()
    _controls(at)
    _faults(at, incident_known)
    chosen.run()


def _keep_view_over_pages() -> None:
    """The page bar's links carry no parameters: time, project, language of the page before are put back.

    Only there: on the same page an empty query is the usual view, and Back and Forward bring their own.
    """
    run: Any = get_script_run_ctx()
    came_by_link = (
        run.page_script_hash != st.session_state.get("shown_page") and not run.is_history_navigation
    )
    kept = st.session_state.get(parts.SHARED_VIEW)
    if came_by_link and kept and not st.query_params.to_dict():
        st.query_params.from_dict(kept)


def _remember_page() -> None:
    run: Any = get_script_run_ctx()
    st.session_state["shown_page"] = run.page_script_hash  # as st.navigation has just settled it
    parts.share(parts.seen())


def _controls(at: parts.Here) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _time(at)
        _filters(at)
        st.space("stretch")
        if runtime.current().simulated:
            st.badge(at.say("simulated"), icon=":material/science:", color="violet")
        zone = form.plain(str(at.zone))
        st.markdown(f":small[:gray[{at.say('times_in', zone=zone)}]]", width="content")
        parts.choose("control_lang", at.lang)
        st.segmented_control(
            at.say("language"),
            view.LANGUAGES,
            key="control_lang",
            required=True,
            format_func=lambda lang: {"en": "EN", "zh": "中文"}[lang],
            on_change=lambda: parts.change(lang=st.session_state["control_lang"]),
            label_visibility="collapsed",
        )


def _time(at: parts.Here) -> None:
    parts.choose("control_range", at.view.range if at.view.live else None)
    st.segmented_control(
        at.say("range"),
        list(view.RANGES),
        key="control_range",
        format_func=lambda name: at.say(f"range_{name}"),
        on_change=_range_chosen,
        label_visibility="collapsed",
    )
    if not at.view.live:
        start, end = at.clock(at.window.start), at.clock(at.window.end)
        st.markdown(f"**{start} – {end}**", width="content")
    button: Any = {"type": "tertiary"}
    st.button(
        "",
        key="control_earlier",
        icon=":material/chevron_left:",
        help=at.say("earlier"),
        on_click=_move,
        args=(-0.5,),
        **button,
    )
    if at.view.live:
        st.button(
            "", key="control_hold", icon=":material/pause:", help=at.say("hold"), on_click=_hold, **button
        )
    else:
        st.button(
            "",
            key="control_later",
            icon=":material/chevron_right:",
            help=at.say("later"),
            on_click=_move,
            args=(0.5,),
            **button,
        )
        st.button(
            "",
            key="control_live",
            icon=":material/play_arrow:",
            help=at.say("back_to_live"),
            on_click=_back_to_live,
            **button,
        )


def _range_chosen() -> None:
    # Clicking the chosen one again takes it away: then the range stays as it was, live.
    chosen = st.session_state["control_range"]
    parts.change(range=chosen or parts.seen().range, start=None, end=None)


def _move(windows: float) -> None:
    parts.put(view.moved(parts.seen(), runtime.current().clock(), windows))


def _hold() -> None:
    parts.put(view.held(parts.seen(), runtime.current().clock()))


def _back_to_live() -> None:
    parts.change(start=None, end=None)


def _filters(at: parts.Here) -> None:
    for name, offered in facts.projects(at.store).items():
        if not offered:
            continue
        key = f"control_{name}"
        parts.choose(key, getattr(at.view, name))
        st.selectbox(
            at.say(name),
            ["", *offered],
            key=key,
            format_func=partial(_or_all, at.say(f"all_{name}s")),
            on_change=_filter_chosen,
            args=(name, key),
            label_visibility="collapsed",
            width=170,
        )


def _or_all(everything: str, value: str) -> str:
    return value or everything


def _filter_chosen(name: str, key: str) -> None:
    parts.change(**{name: st.session_state[key]})


def _incident_of_link(path: str) -> bool:
    """Whether the incident that the URL names is stored; on GPUs without a GPU, its GPU is opened."""
    at = parts.here()
    if not at.view.incident or at.view.gpu:
        return True
    found = facts.incidents(at.store, at.view, at.window).filter(pl.col("incident_id") == at.view.incident)
    if found.is_empty():
        return False
    if path == "gpus" and (subject := states.subject_of(found["subject"][0], found["labels"][0])):
        parts.change(gpu=subject.gpu, mig=subject.mig)
    return True


def _faults(at: parts.Here, incident_known: bool) -> None:
    """What the link says that was not understood: said once, above the page."""
    seen, faults = parts.read_url()
    choices = {"range": view.RANGES, "measure": view.MEASURES, "lang": view.LANGUAGES}
    said = [
        at.say(
            fault.reason,
            name=fault.name,
            value=form.plain(form.shorten(fault.value, 60)),
            choices=", ".join(choices.get(fault.name, ())),
        )
        for fault in faults
    ]
    said += [
        at.say("fault_unknown", name=name, value=form.plain(getattr(seen, name)))
        for name in ("project", "environment")
        if getattr(seen, name) != getattr(at.view, name)
    ]
    if not incident_known:
        said.append(at.say("fault_incident", value=form.plain(form.shorten(seen.incident, 60))))
    if said:
        st.warning("  \n".join(said), icon=":material/link_off:")


main()
