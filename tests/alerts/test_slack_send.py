"""One try against a server that answers as Slack does, and the secrecy of the webhook's address."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from alerts.channels import slack
from alerts.channels.contract import Refused, Retry, SendResult, Sent
from alerts.channels.slack import SlackChannel, send
from alerts.settings import AlertSettings
from tests.alerts.facts import WEBHOOK
from tests.alerts.slack_server import SECRET, SlackServer, slack_server

PAYLOAD = {"text": "▲ WARNING node-2 GPU 3", "blocks": [{"type": "divider"}]}


def channel(url: str) -> SlackChannel:
    return SlackChannel.model_validate({"name": "ops", "kind": "slack", "webhook_url": url})


def tried(*answers: tuple[int, str], **headers: str) -> tuple[SendResult, SlackServer]:
    async def main() -> tuple[SendResult, SlackServer]:
        async with slack_server() as (server, session):
            for answer in answers:
                server.answer(answer[0], answer[1], **headers)
            return await send(session, channel(server.url), PAYLOAD), server

    return asyncio.run(main())


def test_ok_is_sent_with_text_and_blocks() -> None:
    result, server = tried((200, "ok"))
    assert result == Sent()
    assert server.received == [PAYLOAD]


def test_429_waits_as_long_as_it_is_told() -> None:
    result, server = tried((429, "rate_limited"), Retry_After="17")
    assert result == Retry("HTTP 429 rate_limited: too many messages", 17.0)
    assert len(server.received) == 1


@pytest.mark.parametrize("header", ["", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "-5", "nan", "inf"])
def test_429_with_an_unreadable_time_is_left_to_the_back_off(header: str) -> None:
    result, _ = tried((429, ""), Retry_After=header)
    assert isinstance(result, Retry)
    assert result.after_seconds is None


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 407, 422, 451])
def test_trouble_on_the_other_side_or_on_the_way_is_tried_again_later(status: int) -> None:
    result, server = tried((status, "rollup_error"))
    assert result == Retry(f"HTTP {status} rollup_error")
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (404, "no_service"), (404, "channel_not_found"), (403, "action_prohibited"), (403, "invalid_token"),
        (410, "channel_is_archived"), (400, "invalid_token"), (400, "no_service"), (400, "no_team"),
        (400, "channel_is_archived"), (404, ""), (410, ""), (401, ""), (403, ""), (405, ""),
    ],
)  # fmt: skip
def test_a_webhook_that_is_gone_fails_its_channel(status: int, word: str) -> None:
    result, server = tried((status, word))
    assert isinstance(result, Refused)
    assert result.why.startswith(f"HTTP {status} {word}".strip())
    assert len(server.received) == 1


@pytest.mark.parametrize("word", ["msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_payload"])
def test_a_message_refused_for_its_form_is_sent_once_more_as_plain_text(word: str) -> None:
    result, server = tried((400, word), (200, "ok"))
    assert result == Sent()
    assert server.received == [PAYLOAD, {"text": PAYLOAD["text"]}]


def test_a_message_refused_as_plain_text_too_is_tried_again_later() -> None:
    result, server = tried((400, "invalid_payload"), (400, "invalid_payload"), (200, "ok"))
    assert result == Retry("HTTP 400 invalid_payload")
    assert len(server.received) == 2


def test_a_web_page_is_no_receipt() -> None:
    """A wrong address is led on to a page that answers 200; nobody would have read the message."""
    result, _ = tried((200, "<!DOCTYPE html><html>"))
    assert result == Refused("answered with a web page; the address is no webhook")


def test_nobody_there_is_tried_again_later() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def main() -> SendResult:
        async with slack_server() as (_, session):
            return await send(session, channel(f"http://127.0.0.1:{port}/services/{SECRET}"), PAYLOAD)

    result = asyncio.run(main())
    assert result == Retry("no connection to 127.0.0.1 (ClientConnectorError)")


def test_no_answer_in_time_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack, "TIMEOUT_SECONDS", 0.05)

    async def main() -> SendResult:
        async with slack_server() as (server, session):
            server.delay_seconds = 0.5
            return await send(session, channel(server.url), PAYLOAD)

    assert asyncio.run(main()) == Retry("no answer within 0 s")


@pytest.mark.parametrize(
    "answer",
    [(200, "ok"), (404, f"no webhook {SECRET}"), (500, f"/services/{SECRET}"), (400, SECRET), (429, SECRET)],
)
def test_the_address_stands_in_no_log_and_no_result(
    answer: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("slack_sdk").setLevel(logging.DEBUG)
    result, _ = tried(answer)
    assert SECRET not in repr(result)
    assert "sEcReT" not in repr(result)
    assert "sEcReT" not in caplog.text


def test_the_address_stands_in_no_representation_and_no_error() -> None:
    one = channel(WEBHOOK)
    settings = AlertSettings(channels=[one])
    for shown in (repr(one), str(one), repr(settings), one.model_dump_json(), str(one.model_dump())):
        assert "verysecret" not in shown
    bad = [
        {"name": "ops", "kind": "slack", "webhook_url": f"ftp://hooks.slack.com/{SECRET}"},
        {"name": "ops", "kind": "slack", "webhook_url": f"http://hooks.slack.com/{SECRET}"},
        {"name": "ops", "kind": "slack", "webhook_url": f"https://hooks.slack.com/{SECRET} "[:-1] + "\n\x00"},
        {"name": "ops", "kind": "slack", "webhok_url": f"https://hooks.slack.com/{SECRET}"},
        {"name": "ops", "kind": "slack", "webhook_url": WEBHOOK, "update_message": True},
        {"name": "ops", "kind": "teams", "webhook_url": f"https://hooks.slack.com/{SECRET}"},
        {"kind": "slack", "webhook_url": f"https://hooks.slack.com/{SECRET}"},
    ]
    for data in bad:
        with pytest.raises(ValidationError) as caught:
            AlertSettings.model_validate({"channels": [data]})
        assert "sEcReT" not in str(caught.value)
        assert "verysecret" not in str(caught.value)


def test_what_a_webhook_cannot_do_is_refused_with_the_reason() -> None:
    with pytest.raises(ValidationError, match="update_message: a webhook can neither change nor answer"):
        SlackChannel.model_validate(
            {"name": "ops", "kind": "slack", "webhook_url": WEBHOOK, "update_message": True}
        )


@pytest.mark.parametrize(
    "url", ["", "hooks.slack.com/services/x", "ftp://x/y", "https://", "https://h:99999/"]
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match=r"looks like https://hooks\.slack\.com/services/"):
        channel(url)


def test_the_address_may_come_from_a_file_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "webhook"
    one = SlackChannel.model_validate({"name": "ops", "kind": "slack", "webhook_url_file": str(path)})

    async def main() -> list[SendResult]:
        async with slack_server() as (server, session):
            results = [await send(session, one, PAYLOAD)]
            path.write_text("no address\n")
            results.append(await send(session, one, PAYLOAD))
            path.write_text(server.url + "\n")
            return [*results, await send(session, one, PAYLOAD)]

    absent, wrong, good = asyncio.run(main())
    assert isinstance(absent, Retry)
    assert absent.why == f"{path} cannot be read: No such file or directory"
    assert isinstance(wrong, Retry)
    assert wrong.why.startswith(f"what {path} holds is no web address")
    assert good == Sent()


def test_one_of_address_and_file_is_needed_and_no_more() -> None:
    with pytest.raises(ValidationError, match="`webhook_url` or `webhook_url_file` is needed"):
        SlackChannel.model_validate({"name": "ops", "kind": "slack"})
    with pytest.raises(ValidationError, match="keep one of the two"):
        SlackChannel.model_validate(
            {"name": "ops", "kind": "slack", "webhook_url": WEBHOOK, "webhook_url_file": "/x"}
        )
