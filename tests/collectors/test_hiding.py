"""Secrets that a target quotes."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from collectors.hiding import hide, secrets_of, whole_word

KEY = "sk-proj-0123456789abcdef"


def test_of_an_authorization_the_token_and_the_password_are_secret() -> None:
    assert secrets_of(f"Bearer {KEY}") == (KEY,)
    pair = base64.b64encode(b"ann:hunter2!").decode()
    assert secrets_of(f"Basic {pair}") == (pair, "hunter2!")
    assert secrets_of(None) == secrets_of("") == secrets_of("Bearer") == ()


def test_a_word_that_holds_a_piece_of_a_secret_is_put_out() -> None:
    assert hide(f"HTTP 401 ({KEY})", [KEY]) == "HTTP 401 (…)"
    assert hide(f"key={KEY[:12]}*** is wrong", [KEY]) == "… is wrong"
    assert hide(f"x {KEY[-8:]}, {KEY[4:14]}", [KEY]) == "x …, …"
    assert hide("HTTP 401 (invalid_api_key)", [KEY]) == "HTTP 401 (invalid_api_key)"


def test_a_short_secret_is_put_out_where_it_stands_alone() -> None:
    assert hide("an error of a (an)", ["an"]) == "… error of a (…)"
    assert whole_word("HTTP 400 (ping, pinging)", "ping") == "HTTP 400 (…, pinging)"


@given(st.text(max_size=60), st.text("abcXYZ019-_.", min_size=8, max_size=40), st.text(max_size=60))
def test_no_secret_is_left_whatever_stands_around_it(before: str, secret: str, after: str) -> None:
    left = hide(before + secret + after, [secret])
    assert not any(secret[start : start + 8] in left for start in range(len(secret) - 7))
