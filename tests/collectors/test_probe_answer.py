"""What a streamed completion says: tokens, times, errors. Expected values are worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.probe.answer import Answer, word
from collectors.probe.sse import Event


def chunk(delta: dict[str, Any] | None = None, **more: Any) -> Event:
    choices = (
        [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": more.pop("finish", None)}]
    )
    return Event("", json.dumps({"choices": choices, **more}))


def usage(prompt: int, generated: int, **more: Any) -> Event:
    return chunk(usage={"prompt_tokens": prompt, "completion_tokens": generated, **more})


def heard(*timed: tuple[float, Event]) -> Answer:
    answer = Answer()
    for at, event in timed:
        answer.take(event, at)
    return answer


DONE = Event("", "[DONE]")


def test_the_first_token_is_the_first_piece_of_text_and_not_the_role() -> None:
    answer = heard(
        (0.1, chunk({"role": "assistant", "content": ""})),
        (0.2, chunk({"role": "assistant", "content": None})),
        (0.5, chunk({"content": "One"})),
        (0.9, chunk({"content": " two"})),
        (1.7, chunk({"content": " three"})),
        (1.8, chunk({}, finish="stop")),
        (1.9, usage(11, 4)),
        (2.0, DONE),
    )
    assert (answer.first_token_at, answer.last_token_at) == (0.5, 1.7)
    assert answer.tpot_seconds == pytest.approx((1.7 - 0.5) / 3)
    assert (answer.prompt_tokens, answer.generation_tokens) == (11, 4)
    assert (answer.finish_reason, answer.whole, answer.error) == ("stop", True, None)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_counts_as_the_first_token(name: str) -> None:
    answer = heard((0.3, chunk({name: "Hm"})), (0.8, chunk({"content": "1"})))
    assert (answer.first_token_at, answer.last_token_at) == (0.3, 0.8)


def test_without_a_usage_there_is_no_time_per_token_and_pieces_are_not_tokens() -> None:
    answer = heard((0.5, chunk({"content": "a"})), (0.9, chunk({"content": "b"}, finish="stop")), (1.0, DONE))
    assert (answer.generation_tokens, answer.tpot_seconds) == (None, None)


def test_tokens_that_came_all_at_once_have_no_time_each() -> None:
    answer = heard((0.5, chunk({"content": "a b c"})), (0.5, chunk({"content": "d"})), (0.6, usage(3, 4)))
    assert answer.tpot_seconds is None


def test_a_single_token_has_no_time_per_token() -> None:
    assert (
        heard((0.5, chunk({"content": "a"})), (0.9, chunk({"content": "b"})), (1, usage(1, 1))).tpot_seconds
        is None
    )


def test_reasoning_that_was_counted_and_not_sent_is_no_part_of_the_time_per_token() -> None:
    # 30 tokens, 20 of them hidden: 10 were sent, 9 intervals in 0.9 s.
    details = {"completion_tokens_details": {"reasoning_tokens": 20}}
    sent = ((1.0, chunk({"content": "a"})), (1.9, chunk({"content": "b"})))
    assert heard(*sent, (2.0, usage(5, 30, **details))).tpot_seconds == pytest.approx(0.1)
    # Where it was sent as well, all 30 are: 29 intervals in 1.9 - 0.45 s.
    shown = (0.45, chunk({"reasoning_content": "Hm"}))
    assert heard(shown, *sent, (2.0, usage(5, 30, **details))).tpot_seconds == pytest.approx(1.45 / 29)


def test_groqs_own_place_of_the_usage_is_read() -> None:
    event = chunk({}, finish="length", x_groq={"usage": {"prompt_tokens": 7, "completion_tokens": 32}})
    answer = heard((1.0, event))
    assert (answer.prompt_tokens, answer.generation_tokens, answer.finish_reason) == (7, 32, "length")


@pytest.mark.parametrize("count", [-1, 1e18, 10**30, "7", True, None, 2.5, [7]])
def test_a_count_that_cannot_be_is_not_known(count: Any) -> None:
    event = Event(
        "", json.dumps({"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": count}})
    )
    answer = heard((1.0, event))
    assert (answer.prompt_tokens, answer.generation_tokens) == (None, None)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event("", '{"error":{"code":500,"type":"server_error","message":"the prompt was: secret"}}'),
         "the endpoint sent an error within the stream (500, server_error)"),
        (Event("error", '{"code":503,"message":"secret"}'),
         "the endpoint sent an error within the stream (503)"),
        (Event("", '{"error":"secret words"}'), "the endpoint sent an error within the stream"),
    ],
)  # fmt: skip
def test_an_error_within_the_stream_is_told_by_its_code_and_not_by_its_text(event: Event, words: str) -> None:
    assert heard((0.5, chunk({"content": "a"})), (0.6, event)).error == words


def test_a_word_is_one_word() -> None:
    assert [word(value) for value in ("invalid_api_key", 404, "two words", True, None, "x" * 61)] == [
        "invalid_api_key", "404", None, None, None, None,
    ]  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "content", "usage", "error", "finish_reason", "x_groq",
                             "prompt_tokens", "completion_tokens", "completion_tokens_details", "code"]),
            inner, max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(JSON.map(json.dumps) | st.text(max_size=12), max_size=5))
@settings(max_examples=200, deadline=None)
def test_whatever_the_events_hold_nothing_raises(texts: list[str]) -> None:
    answer = heard(*((float(at), Event("", text)) for at, text in enumerate(texts)))
    tokens = (answer.prompt_tokens, answer.generation_tokens)
    assert all(count is None or 0 <= count <= 10_000_000 for count in tokens)
    assert answer.tpot_seconds is None or answer.tpot_seconds > 0


def test_what_comes_behind_the_end_is_no_part_of_the_answer() -> None:
    answer = heard(
        (0.1, chunk({"content": "One"}, finish="stop")),
        (0.2, usage(11, 4)),
        (0.3, DONE),
        (0.3, usage(9, 999)),
    )
    assert (answer.prompt_tokens, answer.generation_tokens) == (11, 4)
