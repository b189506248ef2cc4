"""What a probe sends and where, and what a refusal says. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from collectors.probe.answer import json_object, word
from collectors.probe.settings import ProbeSettings

CHAT = "/chat/completions"
MODELS = "/models"
OPTIONAL = ("stream_options", "max_tokens", "temperature")
"""Parts of the request that some servers refuse: they are left out, or written as `max_completion_tokens`."""

LONGEST_WAIT = timedelta(days=1)
"""A `Retry-After` beyond it is cut: a wrong date must not end a probe for good."""

_NAMES = re.compile(r"\b(" + "|".join(OPTIONAL) + r")\b")


def chat_url(url: str) -> str:
    """Where completions are asked: the base URL and /chat/completions; a URL that ends so, as it is."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=_base(parts) + CHAT))


def models_url(url: str) -> str:
    """Where the served models are listed."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=_base(parts) + MODELS))


def _base(parts: SplitResult) -> str:
    return parts.path.rstrip("/").removesuffix(CHAT)


def chat_request(settings: ProbeSettings, model: str, refused: Iterable[str] = ()) -> dict[str, Any]:
    """The JSON body of a streamed completion, without what the server has `refused` (of `OPTIONAL`)."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": settings.prompt}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": settings.max_tokens,
    }
    for name in refused:
        del body[name]
        if name == "max_tokens":  # OpenAI's reasoning models take this name alone
            body["max_completion_tokens"] = settings.max_tokens
    return body


class Refusal(NamedTuple):
    """What an answer that is no 200 says of why. Not its message: that may quote the prompt or the key."""

    codes: tuple[str, ...] = ()
    """`code` and `type` of the error object, where they are one word."""
    names: tuple[str, ...] = ()
    """Which of `OPTIONAL` it speaks of, the one meant most likely first."""


def refusal(body: bytes) -> Refusal:
    """Read the body of an answer that is no 200. Never raises."""
    message = json_object(body)
    error = message.get("error") if message is not None else None
    source = error if isinstance(error, dict) else message or {}
    codes = tuple(dict.fromkeys(code for key in ("code", "type") if (code := word(source.get(key)))))
    found = [str(source["param"])] if isinstance(source.get("param"), str) else []
    found += _NAMES.findall(body.decode("utf-8", "replace"))
    return Refusal(codes, tuple(dict.fromkeys(name for name in found if name in OPTIONAL)))


def retry_at(value: str | None, now: datetime) -> datetime | None:
    """The time that a `Retry-After` header names (seconds or a date: RFC 9110, 10.2.3); UTC without a zone.

    None where there is none, it cannot be read, or it is past.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
        if not math.isfinite(seconds):
            return None
        at = now + min(timedelta(seconds=min(seconds, 1e8)), LONGEST_WAIT)
    except (ValueError, OverflowError):
        try:
            date = parsedate_to_datetime(value)
        except (TypeError, ValueError, OverflowError, IndexError):
            return None
        zoned = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        try:
            at = min(zoned.astimezone(UTC).replace(tzinfo=None), now + LONGEST_WAIT)
        except (OverflowError, ValueError):
            return None
    return at if at > now else None


def served_model(body: bytes) -> tuple[str | None, int]:
    """The model that /models lists when it is one, and how many there are."""
    listed = (json_object(body) or {}).get("data")
    names = {
        entry["id"]
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    }
    only = next(iter(names)) if len(names) == 1 else None
    fit = only is not None and 0 < len(only) <= 200 and only.isprintable()
    return (only if fit else None), len(names)
