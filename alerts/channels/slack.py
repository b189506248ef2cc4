"""Slack by incoming webhook: the settings, and one try to send. The messages: `slack_message.py`.

What Slack answers: https://api.slack.com/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks. The
webhook's address is a secret: who has it can post. It stands in no message, row, log or exception of ours.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import aiohttp
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from slack_sdk.webhook.async_client import AsyncWebhookClient

from alerts.channels.contract import Refused, Retry, SendResult, Sent
from alerts.channels.slack_message import compose, message
from collectors.settings import Settings

__all__ = ["SlackChannel", "compose", "message", "send"]

TIMEOUT_SECONDS = 10.0
"""For one try, connecting included."""

NEEDS_BOT = {"update_message", "thread", "threads", "thread_ts"}
"""What people look for and a webhook cannot do: it answers `ok` and no message id (alertmanager#2165)."""

PAYLOAD_REFUSED = (400, 413)
"""`msg_too_long`, `msg_blocks_too_long`, `invalid_blocks`, …: the plain text may still get through."""

CHANNEL_GONE = {
    "invalid_token", "no_service", "no_service_id", "no_team", "team_disabled", "no_active_hooks",
    "channel_is_archived", "channel_not_found", "action_prohibited", "user_not_found",
    "posting_to_general_channel_denied",
}  # fmt: skip
"""What Slack says, with whatever status, of a webhook that hardly works again by itself."""

_WORD = re.compile(r"[a-z_]{2,60}")

CURES = {
    "invalid_token": "the webhook was revoked; make a new one in Slack and put its URL in the configuration",
    "no_service": "the webhook was removed; make a new one in Slack and put its URL in the configuration",
    "channel_is_archived": "the Slack channel is archived; unarchive it or make a webhook for another",
    "channel_not_found": "the Slack channel is gone; make a webhook for another",
    "action_prohibited": "an administrator forbids this webhook to post; ask them",
}


def _checked_url(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(
            "is no web address; a Slack webhook looks like https://hooks.slack.com/services/T…/B…/…"
        )
    if parts.hostname == "hooks.slack.com" and parts.scheme != "https":
        raise ValueError("must begin with https://, or everyone on the way can read it")
    return SecretStr(text)


WebhookUrl = Annotated[
    SecretStr,
    AfterValidator(_checked_url),
    # Hidden before anything can go wrong with it, so that no error holds the text.
    BeforeValidator(lambda value: SecretStr(value) if isinstance(value, str) else value),
]


class SlackChannel(Settings):
    """An incoming webhook of Slack, or of what speaks like it (Mattermost)."""

    name: str = Field(min_length=1, max_length=100)
    """What pages and logs call it; must be unique."""
    kind: Literal["slack"]
    """`slack`."""
    webhook_url: WebhookUrl | None = None
    """The webhook's address, a secret; best as `${SLACK_WEBHOOK_URL}`."""
    webhook_url_file: str | None = Field(default=None, validate_default=True)
    """A file that holds the address instead; read at each message: a new one needs no restart."""

    @model_validator(mode="before")
    @classmethod
    def _possible_with_a_webhook(cls, data: Any) -> Any:
        if isinstance(data, dict) and (found := sorted(NEEDS_BOT & data.keys())):
            raise ValueError(
                f"{', '.join(found)}: a webhook can neither change nor answer its messages; remove it. That"
                " an incident is over is told in a message of its own"
            )
        return data

    @field_validator("webhook_url_file")
    @classmethod
    def _one_of_the_two(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "webhook_url" in info.data:
            if value is not None and info.data["webhook_url"] is not None:
                raise ValueError("`webhook_url` is set too; keep one of the two")
            if value is None and info.data["webhook_url"] is None:
                raise ValueError("`webhook_url` or `webhook_url_file` is needed")
        return value

    def address(self) -> str:
        """The webhook's address, for `send` alone. Raises ValueError, naming the file, when it holds none."""
        if self.webhook_url is not None:
            return self.webhook_url.get_secret_value()
        assert self.webhook_url_file is not None
        try:
            text = Path(self.webhook_url_file).read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"{self.webhook_url_file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{self.webhook_url_file} is not UTF-8 text") from None
        try:
            return _checked_url(SecretStr(text)).get_secret_value()
        except ValueError as error:
            raise ValueError(f"what {self.webhook_url_file} holds {error}") from None


_SILENT = logging.Logger("slack-webhook", level=logging.CRITICAL + 1)
"""slack_sdk logs the address at debug level; this logger drops everything."""


async def send(
    session: aiohttp.ClientSession, channel: SlackChannel, payload: Mapping[str, Any]
) -> SendResult:
    """Try once. A message that Slack finds too long or ill-formed is tried once more as plain text: the first
    line alone, in which nothing is left to find fault with."""
    try:
        address = channel.address()
    except ValueError as error:
        return Retry(str(error))
    result, refused = await _post(session, address, payload)
    if refused:
        result, refused = await _post(session, address, {"text": payload["text"]})
    return result


async def _post(
    session: aiohttp.ClientSession, address: str, payload: Mapping[str, Any]
) -> tuple[SendResult, bool]:
    """The result, and whether it was the payload that was refused."""
    client = AsyncWebhookClient(address, session=session, retry_handlers=[], logger=_SILENT)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            response = await client.send_dict(dict(payload))
    except TimeoutError:
        return Retry(f"no answer within {TIMEOUT_SECONDS:.0f} s"), False
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # The words of these errors may hold the address; their type says enough.
        return Retry(f"no connection to {urlsplit(address).hostname} ({type(error).__name__})"), False
    body = (response.body or "").strip()
    if body and body in address:  # an echo of the request must not carry the secret into a row
        body = "…"
    return _read_answer(response.status_code, body, response.headers.get("Retry-After"))


def _read_answer(status: int, body: str, retry_after: str | None) -> tuple[SendResult, bool]:
    """What an answer means. `body` is Slack's one-word reason, or `ok`; anything else is not repeated."""
    word = body if _WORD.fullmatch(body) else ""
    if 200 <= status < 300:
        if body.startswith("<"):  # a wrong address is led on to a page, and nobody has read the message
            return Refused("answered with a web page; the address is no webhook"), False
        return Sent(), False
    why = f"HTTP {status}" + (f" {word}" if word else "")
    if status == 429:
        return Retry(f"{why}: too many messages", _seconds(retry_after)), False
    if word in CHANNEL_GONE or status in (401, 403, 404, 405, 410):
        return Refused(f"{why}; {CURES[word]}" if word in CURES else why), False
    return Retry(why), status in PAYLOAD_REFUSED


def _seconds(retry_after: str | None) -> float | None:
    """The header's seconds; None when it is absent or something else."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
