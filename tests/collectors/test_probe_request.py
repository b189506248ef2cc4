"""What a refusal and a list of models say, and how long `Retry-After` is."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.probe.request import Refusal, chat_url, models_url, refusal, retry_at, served_model

NOW = datetime(2026, 12, 1, 12, 0, 0)


def test_the_models_stand_beside_the_completions() -> None:
    assert models_url("https://h/v1/chat/completions") == "https://h/v1/models"
    assert models_url("https://h/openai/v1/?a=b") == "https://h/openai/v1/models?a=b"
    assert chat_url("https://h/v1/chat/completions/") == "https://h/v1/chat/completions"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # vLLM's, OpenAI's and FastAPI's forms; words that only look like the names are none.
        (b'{"object":"error","message":"max_tokens is too large","type":"BadRequestError","code":400}',
         Refusal(("400", "BadRequestError"), ("max_tokens",))),
        (b'{"error":{"message":"max_completion_tokens or stream_options","param":"temperature","code":"x"}}',
         Refusal(("x",), ("temperature", "stream_options"))),
        (b'{"detail":[{"loc":["body","stream_options"],"msg":"extra"}]}', Refusal((), ("stream_options",))),
        (b"<html>temperature_celsius</html>", Refusal()),
        (b"[1]", Refusal()),
        (b"", Refusal()),
        (b'{"error":{"code":"a secret sentence","type":null,"param":["x"]}}', Refusal()),
    ],
)  # fmt: skip
def test_a_refusal_is_read_in_every_form(body: bytes, expected: Refusal) -> None:
    assert refusal(body) == expected


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_no_body_makes_reading_it_raise(body: bytes) -> None:
    refusal(body)
    served_model(body)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("120", NOW + timedelta(seconds=120)),
        ("1.5", NOW + timedelta(seconds=1.5)),
        # RFC 9110, 5.6.7: a date is in GMT.
        ("Tue, 01 Dec 2026 12:00:30 GMT", NOW + timedelta(seconds=30)),
        ("Tue, 01 Dec 2026 11:59:00 GMT", None),
        ("0", None),
        ("-5", None),
        ("1e300", NOW + timedelta(days=1)),
        ("Tue, 01 Dec 2099 12:00:30 GMT", NOW + timedelta(days=1)),
        ("inf", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_at_most_a_day(
    header: str | None, expected: datetime | None
) -> None:
    assert retry_at(header, NOW) == expected


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_no_retry_after_raises(header: str) -> None:
    at = retry_at(header, NOW)
    assert at is None or NOW < at <= NOW + timedelta(days=1)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([{"id": "a"}], ("a", 1)),
        ([{"id": "a"}, {"id": "a"}], ("a", 1)),
        ([{"id": "a"}, {"id": "b"}], (None, 2)),
        ([{"id": "a\nb"}], (None, 1)),
        ([{"id": ""}], (None, 1)),
        ([{"name": "a"}, "b"], (None, 0)),
    ],
)
def test_the_served_model_is_known_when_it_is_one(
    listed: list[object], expected: tuple[str | None, int]
) -> None:
    assert served_model(json.dumps({"data": listed}).encode()) == expected
