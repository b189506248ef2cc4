"""The pages and their URL paths: one line each."""

from __future__ import annotations

import streamlit as st

from app import view, words
from app.pages import engines, gpus, oncall, sources


def pages(lang: str = "en") -> dict[str, st.Page]:
    """URL path → page, in the order of the bar."""
    bodies = {"": oncall.page, "engines": engines.page, "gpus": gpus.page, "sources": sources.page}
    assert tuple(bodies) == view.PAGES
    return {
        path: st.Page(
            body,
            title=words.say(lang, f"page_{path or 'oncall'}"),
            url_path=path or None,
            default=path == "",
        )
        for path, body in bodies.items()
    }
