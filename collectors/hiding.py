"""Keeps secrets out of words that a target had a say in: it may quote the key that it was sent. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

WINDOW = 8
"""Characters in a row that give a secret away: less than that is found in ordinary words by chance."""
SHORT = 4
"""What is shorter is put out only where it stands alone."""

HIDDEN = "…"
_REST = re.compile(r"[A-Za-z0-9_.~+/=*-]*")


def secrets_of(authorization: str | None) -> tuple[str, ...]:
    """What of an Authorization header nobody may see: the token; of a user and password the password too."""
    scheme, _, token = (authorization or "").partition(" ")
    if not token:
        return ()
    if scheme.lower() != "basic":
        return (token,)
    try:
        pair = base64.b64decode(token).decode()
    except (binascii.Error, UnicodeDecodeError):
        return (token,)
    return tuple(secret for secret in (token, pair.partition(":")[2]) if secret)


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text, every word that holds a piece of a secret (`WINDOW` characters, or all of it) put out.

    >>> hide("HTTP 401 (bad key sk-0123456789)", ["sk-0123456789"])
    'HTTP 401 (bad key …)'
    """
    for secret in secrets:
        if len(secret) < SHORT:
            text = whole_word(text, secret)
            continue
        width = min(WINDOW, len(secret))
        pieces = {secret[start : start + width] for start in range(len(secret) - width + 1)}
        for piece in sorted(pieces):
            if piece in text:
                around = re.compile(f"{_REST.pattern}{re.escape(piece)}{_REST.pattern}")
                text = around.sub(HIDDEN, text)
    return text


def whole_word(text: str, word: str) -> str:
    """The text without the word, where it stands alone."""
    return re.sub(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", HIDDEN, text) if word else text
