"""The controls of the page bar: range, filters, hold and let go, and what they leave in the URL."""

from collections.abc import Callable
from typing import Any

import pytest
import streamlit
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app import view
from app.pages import parts
from sql.store import Store
from tests.app import data
from tests.app.opening import Open, first_line, url


def test_a_range_is_chosen_in_the_url_and_kept_on_another_page(filled: Store, opened: Open) -> None:
    test = opened(filled)
    assert url(test) == {}
    control = next(one for one in test.button_group if one.key == "control_range")
    control.set_value("24h").run()
    assert url(test)["range"] == "24h"
    open_by_page_bar(test, "gpus")
    assert url(test)["range"] == "24h"


@pytest.mark.parametrize(
    "before", [{"range": "6h"}, {"measure": "power"}, {"project": "chat"}, {"lang": "zh"}]
)
def test_a_choice_of_the_usual_view_is_kept_on_this_page_and_the_next(
    filled: Store, opened: Open, before: dict[str, str]
) -> None:
    test = opened(filled, **before)
    usual = {"range": "1h", "measure": "vram", "project": "", "lang": "en"}
    (name,) = before
    if name == "project":
        test.selectbox(key="control_project").set_value("").run()
    else:
        key = "oncall_tiles_measure" if name == "measure" else f"control_{name}"
        next(one for one in test.button_group if one.key == key).set_value(usual[name]).run()
    kept = {"lang": "en"} if name == "lang" else {}
    assert url(test) == kept
    open_by_page_bar(test, "gpus")
    assert url(test) == kept


def test_a_held_page_without_another_choice_is_let_go(filled: Store, opened: Open) -> None:
    test = opened(filled, from_="2026-11-30T12:00:00Z", to="2026-11-30T12:30:00Z")
    test.button(key="control_live").click().run()
    assert url(test) == {}
    assert "as it was at" not in first_line(test)


def test_an_address_without_a_query_is_the_usual_view_on_the_page_that_is_shown(
    filled: Store, opened: Open
) -> None:
    test = opened(filled)
    test.query_params["range"] = "6h"
    test.run()
    test.query_params.clear()  # Back
    test.run()
    assert url(test) == {}


def open_by_page_bar(test: AppTest, path: str) -> None:
    """The page bar's links carry no parameters."""
    test._page_hash = calc_hash(path)
    test.query_params.clear()
    test.run()
    assert not test.exception


def test_a_page_that_a_row_leads_to_takes_the_query_of_that_row(filled: Store, opened: Open) -> None:
    test = opened(filled, project="chat")
    test.session_state["going"] = ("engines", {"project": "chat", "engine": "llama-70b"})
    test._page_hash = calc_hash("engines")
    test.run()
    assert url(test) == {"project": "chat", "engine": "llama-70b"}
    assert "**llama-70b**" in first_line(test)
    test.query_params["engine"] = "llama-70b-b"
    test.run()
    assert url(test)["engine"] == "llama-70b-b"


def test_a_live_page_can_be_held_moved_and_let_go(filled: Store, opened: Open) -> None:
    test = opened(filled, "gpus", gpu=data.FULL_GPU)
    test.button(key="control_hold").click().run()
    assert url(test)["to"] == "2026-11-30T13:00:00Z"
    test.button(key="control_earlier").click().run()
    assert url(test)["to"] == "2026-11-30T12:30:00Z"
    assert "as it was at 12:30:00" in first_line(test)
    test.button(key="control_live").click().run()
    assert url(test) == {"gpu": data.FULL_GPU}


def test_only_a_live_window_is_drawn_again_by_itself(
    filled: Store, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, Any]] = []
    depth = 0
    make = streamlit.fragment

    def watched(body: Callable[[], None], *, run_every: Any = None) -> Callable[[], None]:
        asked.append((depth, run_every))

        def inner() -> None:
            nonlocal depth
            depth += 1
            body()
            depth -= 1

        return make(inner, run_every=run_every)

    monkeypatch.setattr(streamlit, "fragment", watched)
    span = {"from_": "2026-11-30T12:00:00Z", "to": "2026-11-30T13:00:00Z"}
    for path in view.PAGES:
        opened(filled, path)
        opened(filled, path, **span)
    # One fragment a page, none within another, and a timer only where the window is live.
    assert asked == [(0, parts.REFRESH_SECONDS), (0, None)] * len(view.PAGES)
