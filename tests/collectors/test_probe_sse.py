"""Server-sent events: the same bytes give the same events, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.probe.sse import Event, Events


def events(*chunks: bytes) -> list[Event]:
    reader = Events()
    found = [event for chunk in chunks for event in reader.feed(chunk)]
    return found + reader.end()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        # The examples of WHATWG HTML, 9.2.6, but that a last event needs no empty line here.
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Event("", "YHOO\n+2\n10")]),
        (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
         [Event("", "first event"), Event("", "second event"), Event("", " third event")]),
        (b"data\n\ndata\ndata\n\ndata:", [Event("", ""), Event("", "\n"), Event("", "")]),
        (b"data:test\n\ndata: test\n\n", [Event("", "test"), Event("", "test")]),
        (b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n",
         [Event("add", "73857293"), Event("remove", "2153")]),
        # Line ends of all three kinds, and a byte order mark.
        (b"\xef\xbb\xbfdata: a\r\n\r\ndata: b\r\rdata: c\n\n",
         [Event("", "a"), Event("", "b"), Event("", "c")]),
        (b'error: {"code":500}\n\n', [Event("error", '{"code":500}')]),
        (b"event: ping\n\nretry: 5\n\n", []),
        (b"", []),
    ],
)  # fmt: skip
def test_events_are_read_as_the_standard_says(stream: bytes, expected: list[Event]) -> None:
    assert events(stream) == expected


def test_an_event_is_given_with_the_piece_that_ends_it() -> None:
    reader = Events()
    assert reader.feed(b"data: a") == []
    assert reader.feed(b"b\n") == []
    assert reader.feed(b"\n") == [Event("", "ab")]


PIECES = st.sampled_from(
    [b"data", b":", b" ", b"x", b"\r", b"\n", b"\r\n", b"\n\n", b"event: e\n", b"\xff", b"\xe4"]
)
STREAMS = st.lists(PIECES | st.binary(max_size=4), max_size=30).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 120), max_size=12))
@settings(max_examples=200, deadline=None)
def test_any_cutting_of_the_same_bytes_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    whole = events(stream)
    assert events(*chunks) == whole
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == whole
