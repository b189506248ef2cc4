"""What a streamed chat completion says, event by event, and when: tokens, end, error. Pure.

The text of the answer is looked at only for whether there is any; it is kept nowhere.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from collectors.probe.sse import Event

TOKENS_END = 10_000_000
"""No probe has as many tokens; a usage beyond it is none."""

_CONTENT = ("content", "reasoning_content", "reasoning", "refusal")
"""Where a delta carries generated text: `reasoning_content` is DeepSeek's, vLLM's and SGLang's name,
`reasoning` that of OpenRouter, Groq and newer vLLM."""

_REASONING = ("reasoning_content", "reasoning")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")


def word(value: Any) -> str | None:
    """A value that is one word (a code, a type); None for anything longer, which may quote what was asked."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in a text, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass
class Answer:
    """What the stream has said so far. Times are seconds since the request was sent."""

    first_token_at: float | None = None
    """The first piece of text or of reasoning; a piece that only names the role is none."""
    last_token_at: float | None = None
    ended_at: float | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    hidden_tokens: int = 0
    """Of the generated ones: reasoning that was counted and not sent."""
    finish_reason: str | None = None
    error: str | None = None
    """An error object within the stream, in words."""
    events: int = 0
    """Events that were JSON objects."""
    whole: bool = False
    """`[DONE]` has come."""
    _reasoning_shown: bool = False

    def take(self, event: Event, at: float) -> None:
        """One event that came at `at`. Never raises, whatever it holds."""
        if self.whole:  # what comes behind the end is no part of the answer
            return
        if event.data.strip() == "[DONE]":
            self.whole = True
            return
        message = json_object(event.data)
        if message is None:
            return
        self.events += 1
        error = message.get("error")
        if event.name == "error" or error:
            self.error = self.error or _error_words(error if isinstance(error, dict) else message)
            return
        self._usage(message)
        choices = message.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._choice(choices[0], at)

    def _choice(self, choice: dict[str, Any], at: float) -> None:
        delta = choice.get("delta")
        pieces = delta if isinstance(delta, dict) else {"content": choice.get("text")}
        if any(pieces.get(name) for name in _CONTENT):
            self._reasoning_shown |= any(pieces.get(name) for name in _REASONING)
            if self.first_token_at is None:
                self.first_token_at = at
            self.last_token_at = at
        if reason := choice.get("finish_reason"):
            self.finish_reason = word(reason) or "other"

    def _usage(self, message: dict[str, Any]) -> None:
        usage = message.get("usage")
        if not isinstance(usage, dict):
            groq = message.get("x_groq")  # Groq without stream_options
            usage = groq.get("usage") if isinstance(groq, dict) else None
        if not isinstance(usage, dict):
            return
        prompt, generated = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
        self.prompt_tokens = self.prompt_tokens if prompt is None else prompt
        self.generation_tokens = self.generation_tokens if generated is None else generated
        details = usage.get("completion_tokens_details")
        if isinstance(details, dict):
            self.hidden_tokens = _tokens(details.get("reasoning_tokens")) or 0

    @property
    def tpot_seconds(self) -> float | None:
        """(Last - first token) ÷ (tokens - 1); None where the tokens are not known, or all came at once.

        Reasoning tokens that were counted and never sent are left out: they came before the first.
        """
        first, last, tokens = self.first_token_at, self.last_token_at, self.generation_tokens
        if first is None or last is None or tokens is None or last <= first:
            return None
        sent = tokens if self._reasoning_shown else tokens - self.hidden_tokens
        return (last - first) / (sent - 1) if sent > 1 else None


def _tokens(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TOKENS_END:
        return None
    return value


def _error_words(error: dict[str, Any]) -> str:
    found = [word(error.get(name)) for name in ("code", "type")]
    named = ", ".join(dict.fromkeys(name for name in found if name))
    return "the endpoint sent an error within the stream" + (f" ({named})" if named else "")
