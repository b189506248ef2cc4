"""The URL is the state of a page: what is written is read back, what is not understood is left out."""

from datetime import datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import view
from app.view import View

NOW = datetime(2026, 11, 30, 13, 20, 7, 500_000)
names = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=40)
moments = st.datetimes(datetime(2001, 1, 1), datetime(2100, 1, 1)).map(lambda one: one.replace(microsecond=0))
spans = st.none() | st.tuples(moments, st.timedeltas(timedelta(seconds=1), view.LONGEST))


@st.composite
def views(draw: st.DrawFn) -> View:
    span = draw(spans)
    start, end = (None, None) if span is None else (span[0], (span[0] + span[1]).replace(microsecond=0))
    if start is not None and end == start:
        end = start + timedelta(seconds=1)
    texts = {
        name: draw(names) for name in ("project", "environment", "gpu", "mig", "engine", "replica", "model")
    }
    return View(
        range=draw(st.sampled_from(list(view.RANGES))) if start is None else "1h",
        start=start,
        end=end,
        measure=draw(st.sampled_from(view.MEASURES)),
        lang=draw(st.sampled_from(("", *view.LANGUAGES))),
        incident=draw(names),
        **texts,
    )


@settings(max_examples=150)
@given(views(), st.sampled_from(view.PAGES))
def test_a_link_is_read_back_as_the_view_it_was_made_from(seen: View, page: str) -> None:
    parts = urlsplit(view.link(page, seen))
    assert parts.path == f"/{page}"
    assert view.parse(dict(parse_qsl(parts.query, keep_blank_values=True))) == (seen, [])


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from(["range", "from", "to", "lang", "measure", "gpu", "x"]), st.text(max_size=30)
    )
)
def test_no_query_string_is_an_error(parameters: dict[str, str]) -> None:
    seen, faults = view.parse(parameters)
    assert seen.range in view.RANGES
    assert seen.measure in view.MEASURES
    for fault in faults:
        assert fault.value == parameters.get(fault.name, "")


def test_the_link_that_an_alert_carries() -> None:
    seen, faults = view.parse(
        {
            "gpu": "GPU-1",
            "mig": "",
            "from": "2026-11-30T12:50:00Z",
            "to": "2026-11-30T13:50:00Z",
            "incident": "i1",
        }
    )
    assert faults == []
    assert seen == View(
        gpu="GPU-1", start=datetime(2026, 11, 30, 12, 50), end=datetime(2026, 11, 30, 13, 50), incident="i1"
    )
    assert not seen.live
    assert view.link("gpus", seen) == (
        "/gpus?from=2026-11-30T12%3A50%3A00Z&to=2026-11-30T13%3A50%3A00Z&gpu=GPU-1&incident=i1"
    )


def test_what_has_its_usual_value_is_not_written() -> None:
    assert view.link("", View()) == "/"
    assert view.link("gpus", View(range="6h")) == "/gpus?range=6h"


@pytest.mark.parametrize(
    ("parameters", "faults"),
    [
        ({"range": "2y"}, [("range", "fault_choice")]),
        ({"measure": "money", "lang": "fr"}, [("measure", "fault_choice"), ("lang", "fault_choice")]),
        ({"from": "yesterday", "to": "2026-11-30T13:00:00Z"}, [("from", "fault_time")]),
        ({"from": "2026-11-30T13:00:00Z"}, [("to", "fault_time")]),
        ({"from": "2026-11-30T13:00:00Z", "to": "2026-11-30T12:00:00Z"}, [("from", "fault_span")]),
        ({"from": "2020-01-01", "to": "2026-01-01"}, [("from", "fault_span")]),
        (
            {"from": "0001-01-01T00:00:00+14:00", "to": "9999-12-31"},
            [("from", "fault_time"), ("to", "fault_time")],
        ),
        ({"gpu": "x" * 201}, [("gpu", "fault_text")]),
        ({"engine": "a\x00b"}, [("engine", "fault_text")]),
    ],
)
def test_a_value_that_is_not_understood_is_left_out_and_named(
    parameters: dict[str, str], faults: list[tuple[str, str]]
) -> None:
    seen, found = view.parse(parameters)
    assert [(fault.name, fault.reason) for fault in found] == faults
    assert seen == View()


def test_a_time_with_an_offset_becomes_utc() -> None:
    assert view.parse_time("2026-11-30T14:20:00+01:00") == datetime(2026, 11, 30, 13, 20)
    assert view.parse_time("2026-11-30T13:20:00") == datetime(2026, 11, 30, 13, 20)


def test_a_live_window_ends_now_and_a_still_one_where_it_says() -> None:
    live = view.window(View(range="15m"), NOW)
    assert (live.start, live.end, live.live) == (NOW - timedelta(minutes=15), NOW, True)
    still = view.window(View(start=datetime(2026, 1, 1), end=datetime(2026, 1, 2)), NOW)
    assert (still.seconds, still.live) == (86_400, False)


@pytest.mark.parametrize(
    ("range_name", "interval", "step"),
    [
        ("15m", 10, 10),
        ("1h", 10, 10),
        ("1h", 30, 30),
        ("1h", 25, 30),
        ("6h", 10, 60),
        ("24h", 10, 300),
        ("7d", 10, 1800),
    ],
)
def test_steps_are_usual_ones_few_enough_and_not_finer_than_the_interval(
    range_name: str, interval: float, step: int
) -> None:
    shown = view.window(View(range=range_name), NOW, interval)
    assert shown.step_seconds == step
    assert shown.seconds / shown.step_seconds <= 400
    assert shown.coarser(40) >= shown.step_seconds


def test_a_step_is_found_for_the_longest_window_too() -> None:
    assert view.step_for(view.LONGEST.total_seconds(), 400) == 86_400
    assert view.step_for(100 * 365 * 86_400, 400) == 92 * 86_400  # 36 500 days ÷ 400 = 91.25


def test_holding_a_live_view_keeps_what_it_shows() -> None:
    held = view.held(View(range="1h", gpu="GPU-1"), NOW)
    assert (held.start, held.end) == (datetime(2026, 11, 30, 12, 20, 7), datetime(2026, 11, 30, 13, 20, 7))
    assert held.gpu == "GPU-1"


def test_moving_goes_by_window_lengths_and_not_past_now() -> None:
    seen = View(start=datetime(2026, 11, 30, 10), end=datetime(2026, 11, 30, 12))
    back = view.moved(seen, NOW, -0.5)
    assert (back.start, back.end) == (datetime(2026, 11, 30, 9), datetime(2026, 11, 30, 11))
    ahead = view.moved(seen, NOW, 5)
    assert ahead.end == NOW.replace(microsecond=0)
    assert view.moved(View(), NOW, 0.5).end == NOW.replace(microsecond=0)


def test_what_goes_along_to_another_page() -> None:
    seen = View(
        range="6h",
        project="p",
        environment="e",
        gpu="g",
        engine="x",
        incident="i",
        measure="power",
        lang="zh",
    )
    assert seen.shared() == View(range="6h", project="p", environment="e", measure="power", lang="zh")


def test_a_stretch_that_ends_ahead_of_now_ends_now() -> None:
    parameters = {"from": "2026-11-30T12:00:00Z", "to": "2026-11-30T15:00:00Z", "gpu": "GPU-1"}
    seen, faults = view.parse(parameters, NOW)
    assert faults == [view.Fault("to", "2026-11-30T15:00:00Z", "fault_ahead")]
    assert seen == View(start=datetime(2026, 11, 30, 12), end=datetime(2026, 11, 30, 13, 20, 7), gpu="GPU-1")


def test_an_alerts_link_opened_at_once_ends_now_without_a_word() -> None:
    parameters = {"from": "2026-11-30T12:50:00Z", "to": "2026-11-30T13:50:00Z", "gpu": "GPU-1"}
    seen, faults = view.parse(parameters, NOW)
    assert faults == []
    assert seen.end == datetime(2026, 11, 30, 13, 20, 7)


def test_a_stretch_that_begins_ahead_of_now_is_left_out() -> None:
    seen, faults = view.parse({"from": "2026-11-30T14:00:00Z", "to": "2026-11-30T15:00:00Z"}, NOW)
    assert faults == [view.Fault("from", "2026-11-30T14:00:00Z", "fault_future")]
    assert seen == View()


def test_a_view_that_is_held_now_is_no_view_of_the_future() -> None:
    held = view.held(View(), NOW)
    assert view.parse(view.to_parameters(held), NOW) == (held, [])
