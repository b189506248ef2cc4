"""A channel that refuses or asks for too long a pause: what fires is told in the end, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alerts.channels.slack import SlackChannel
from alerts.outbox import Delivery
from alerts.settings import AlertSettings
from sql.store import Store
from tests.alerts.desk import Desk, at_the_desk
from tests.alerts.facts import at, fleet, gpu, rows, run

DAY, MINUTES_15 = 24 * 3600.0, 900.0
REFUSALS = [
    (403, "invalid_token"), (401, ""), (404, "no_service"), (405, "<html>"), (403, "<html>proxy</html>"),
    (200, "<!DOCTYPE html>"),
]  # fmt: skip


def judge(desk: Desk, begin: float, end: float, ratio: float) -> None:
    """Judge two GPUs at that level; they fire after 20 s over 80 %. The desk's clock is at the end then."""
    config = AlertSettings(channels=desk.channels).model_copy(update={"vram_high": _settings().vram_high})
    run(desk.store, begin, end, lambda _: ([gpu("GPU-1", ratio), gpu("GPU-2", ratio)], []), config)
    desk.clock.now = at(end)


def _settings() -> AlertSettings:
    return AlertSettings.model_validate({"vram_high": {"for": "20s"}})


def from_file(path: Path) -> SlackChannel:
    return SlackChannel.model_validate({"name": "ops", "kind": "slack", "webhook_url_file": str(path)})


@pytest.mark.parametrize(("status", "body"), REFUSALS)
def test_a_refusal_shows_the_channel_failed_and_heals_by_itself(status: int, body: str) -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.server.answer(status, body)
        assert await desk.deliver() == Delivery(waiting=1)
        row = desk.channel_row()
        assert (row["state"], row["last_error_at"]) == ("failed", at(0))
        assert row["last_error"] == rows(desk.store, "outbox")[0]["last_error"]
        assert "<" not in row["last_error"]
        desk.write(2)
        assert await desk.deliver(after=MINUTES_15 - 0.1) == Delivery()
        assert await desk.deliver(after=0.1) == Delivery(posted=1, told=2)
        assert desk.texts()[1].startswith("2 alerts: 2 firing")
        assert (desk.channel_row()["state"], desk.channel_row()["last_error"]) == ("ok", None)

    at_the_desk(test)


def test_a_dead_webhook_is_asked_four_times_an_hour_and_no_more() -> None:
    async def test(desk: Desk) -> None:
        desk.server.answers = [(404, "no_service", {})] * 1000
        for number in range(6 * 60):
            desk.write(number)
            await desk.deliver(after=60)
        assert len(desk.server.received) == 24
        assert set(desk.states().values()) == {"waiting"}

    at_the_desk(test)


def test_a_restart_tries_a_failed_channel_again_and_tells_what_still_fires() -> None:
    async def test(desk: Desk) -> None:
        judge(desk, 0, 20, 0.9)
        desk.server.answer(403, "invalid_token")
        await desk.deliver(after=1)
        judge(desk, 30, 60, 0.95)
        assert await desk.deliver() == Delivery()
        done = await desk.deliver(after=60, run="second run")
        assert done == Delivery(posted=1, told=2)
        assert desk.texts()[1].startswith("2 alerts: 2 firing.")
        judge(desk, 130, 130, 0.5)
        assert await desk.deliver(run="second run") == Delivery(posted=1, told=2)
        assert desk.texts()[2].startswith("2 alerts: 2 resolved.")
        assert await desk.deliver(after=DAY, run="third run") == Delivery()

    at_the_desk(test, fleet())


def test_what_ended_while_the_channel_was_broken_is_told_with_what_still_fires() -> None:
    async def test(desk: Desk) -> None:
        judge(desk, 0, 20, 0.9)
        desk.server.answer(403, "invalid_token")
        await desk.deliver()
        judge(desk, 30, 30, 0.5)
        judge(desk, 40, 60, 0.9)
        assert await desk.deliver(after=5, run="second run") == Delivery(posted=1, told=6)
        assert desk.texts()[1].startswith("4 alerts: 2 firing, 2 resolved.")
        assert set(desk.states().values()) == {"sent"}

    at_the_desk(test, fleet())


def test_a_restart_keeps_a_retry_after_of_seconds_and_waits_a_minute_at_most() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.server.answer(429, "", Retry_After="30")
        await desk.deliver()
        assert await desk.deliver(after=29.9, run="2") == Delivery()
        desk.server.answer(429, "", Retry_After="800")
        assert await desk.deliver(after=0.1, run="2") == Delivery(waiting=1)
        assert await desk.deliver(run="3") == Delivery()
        assert await desk.deliver(after=60, run="3") == Delivery(posted=1, told=1)

    at_the_desk(test)


@pytest.mark.parametrize("answer", [(403, "invalid_token"), (503, "")])
def test_a_rewritten_webhook_file_is_tried_at_once_without_a_restart(
    answer: tuple[int, str], tmp_path: Path
) -> None:
    async def test(desk: Desk) -> None:
        path = tmp_path / "webhook"
        path.write_text(desk.server.url + "0\n")
        desk.channels[:] = [from_file(path)]
        judge(desk, 0, 20, 0.9)
        for _ in range(3):
            desk.server.answer(*answer)
            await desk.deliver(after=1000)
        assert len(desk.server.received) == 3
        path.write_text(desk.server.url + "0\n")  # written again, and the same
        assert await desk.deliver(after=2) == Delivery()
        path.write_text(desk.server.url + "1\n")
        assert await desk.deliver() == Delivery(posted=1, told=2)
        assert await desk.deliver(after=1000) == Delivery()

    at_the_desk(test, fleet())


def test_a_webhook_file_that_was_not_there_is_used_as_soon_as_it_is(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        path = tmp_path / "webhook"
        desk.channels[:] = [from_file(path)]
        desk.write(1)
        assert await desk.deliver() == Delivery(waiting=1)
        path.write_text(desk.server.url)
        assert await desk.deliver(after=1) == Delivery(posted=1, told=1)

    at_the_desk(test)


def test_the_address_leaves_no_trace_in_the_store_not_even_a_hash_of_it(tmp_path: Path) -> None:
    """A run's marks are keyed with a key of its own: the same address has no lasting fingerprint."""
    store, marks = Store.open(tmp_path / "store.duckdb"), list[bytes]()

    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.server.answer(403, "invalid_token")
        await desk.deliver()
        names = {name for table in ("outbox", "channel") for row in rows(store, table) for name in row}
        assert not {
            name for name in names if any(word in name for word in ("hash", "address", "url", "mark"))
        }
        (mark,) = desk.sender("first run")._marks.values()
        assert mark is not None
        marks.append(mark)

    at_the_desk(test, store)
    store.close()
    (mark,) = marks
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert not [secret for secret in (mark, mark.hex().encode(), b"sEcReT") if secret in content]


def test_what_still_fires_is_never_given_up_and_is_told_as_it_is_then() -> None:
    async def test(desk: Desk) -> None:
        judge(desk, 0, 20, 0.9)
        desk.server.answers = [(404, "no_service", {})] * 200
        for _ in range(200):
            await desk.deliver(after=MINUTES_15)
        assert set(desk.states().values()) == {"waiting"}
        desk.server.answers.clear()
        later = 3 * DAY
        judge(desk, later, later, 0.97)
        assert await desk.deliver() == Delivery(posted=1, told=2)
        (text, first, *_) = [block["text"]["text"] for block in desk.server.received[-1]["blocks"]]
        assert text == "2 alerts: 2 firing"
        assert "VRAM 97 % of 80.0 GiB since 30 Nov 13:00 UTC" in first

    at_the_desk(test, fleet())


def test_what_ended_is_given_up_24_hours_after_its_end_visibly() -> None:
    async def test(desk: Desk) -> None:
        judge(desk, 0, 20, 0.9)
        judge(desk, DAY, DAY, 0.5)
        desk.server.answer(503)
        assert await desk.deliver() == Delivery(waiting=4)
        desk.server.answer(503)
        assert await desk.deliver(after=DAY - 1) == Delivery(waiting=4)
        assert await desk.deliver(after=2) == Delivery()
        assert set(desk.states().values()) == {"failed"}
        assert {row["last_error"] for row in rows(desk.store, "outbox")} == {"given up after 24 h: HTTP 503"}
        assert await desk.deliver(after=1000) == Delivery()

    at_the_desk(test, fleet())


def test_each_incident_is_given_up_by_its_own_end() -> None:
    async def test(desk: Desk) -> None:
        config = _settings().model_copy(update={"channels": desk.channels})
        ends = {"GPU-1": 20 * 3600.0, "GPU-2": 9 * DAY, "GPU-3": 3600.0}

        def facts(t: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
            return [gpu(uuid, 0.9 if t < end else 0.5) for uuid, end in ends.items()], []

        for moment in (0, 10, 20, 3600, 20 * 3600):
            run(desk.store, moment, moment, facts, config)
        desk.clock.now = at(3600 + DAY + 1)
        desk.server.answer(503)
        assert await desk.deliver() == Delivery(waiting=3)
        subjects = {row["incident_id"]: row["subject"] for row in rows(desk.store, "incident")}
        outbox = [
            (subjects[row["incident_id"]], row["event"], row["state"]) for row in rows(desk.store, "outbox")
        ]
        assert sorted(outbox) == [
            ("gpu:GPU-1", "fired", "waiting"), ("gpu:GPU-1", "resolved", "waiting"),
            ("gpu:GPU-2", "fired", "waiting"),
            ("gpu:GPU-3", "fired", "failed"), ("gpu:GPU-3", "resolved", "failed"),
        ]  # fmt: skip

    at_the_desk(test, fleet())


def test_a_message_about_no_known_incident_is_given_up_24_hours_after_it_was_written() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.server.answer(503)
        await desk.deliver()
        desk.write(2)
        await desk.deliver(after=DAY + 1)
        assert desk.states() == {"id1:fired:ops": "failed", "id2:fired:ops": "failed"}
        errors = {row["last_error"] for row in rows(desk.store, "outbox")}
        assert errors == {"given up after 24 h: HTTP 503", "given up after 24 h"}

    at_the_desk(test)


def test_a_channel_configured_later_is_told_what_still_fires_once() -> None:
    """As when a webhook is mended under another name, or the first channel is added."""

    async def test(desk: Desk) -> None:
        channels, desk.channels = desk.channels, []
        judge(desk, 0, 20, 0.9)
        assert rows(desk.store, "outbox") == []
        desk.channels = channels
        judge(desk, 30, 60, 0.9)
        assert await desk.deliver() == Delivery(posted=1, told=2)
        desk.channels.append(desk.channel("second"))
        judge(desk, 70, 90, 0.9)
        assert await desk.deliver() == Delivery(posted=1, told=2)
        judge(desk, 100, 120, 0.5)
        assert await desk.deliver() == Delivery(posted=2, told=4)
        judge(desk, 130, 150, 0.5)
        assert await desk.deliver(after=100) == Delivery()
        assert [text.split(". ")[0] for text in desk.texts()] == [
            "2 alerts: 2 firing", "2 alerts: 2 firing", "2 alerts: 2 resolved", "2 alerts: 2 resolved",
        ]  # fmt: skip

    at_the_desk(test, fleet())


def test_retention_keeps_what_was_told_of_an_incident_until_it_ends() -> None:
    async def test(desk: Desk) -> None:
        def expire(before: float) -> None:
            with desk.store.write() as writer:
                writer.run("expire_outbox", before=at(before))

        judge(desk, 0, 20, 0.9)
        await desk.deliver()
        end = 40 * DAY
        expire(end - DAY)
        judge(desk, end - 10, end - 10, 0.9)
        assert await desk.deliver() == Delivery()
        judge(desk, end, end, 0.5)
        expire(end - DAY)
        assert await desk.deliver() == Delivery(posted=1, told=2)
        expire(end)
        assert len(rows(desk.store, "outbox")) == 4
        expire(end + 1)
        assert rows(desk.store, "outbox") == []

    at_the_desk(test, fleet())


@pytest.mark.parametrize(
    ("header", "pause"),
    [("60", 60), ("0", 1), ("899", 899), ("86400", 900), ("1e99", 900), ("-5", 5), ("nan", 5), ("inf", 5),
     ("soon", 5), ("", 5)],
)  # fmt: skip
def test_retry_after_is_believed_up_to_a_quarter_of_an_hour(header: str, pause: float) -> None:
    """What is no number of seconds leaves it to the back-off, which begins with 5 s."""

    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.server.answer(429, "", Retry_After=header)
        assert await desk.deliver() == Delivery(waiting=1)
        assert desk.channel_row()["next_send_at"] == at(pause)
        assert await desk.deliver(after=pause - 0.1) == Delivery()
        assert await desk.deliver(after=0.1) == Delivery(posted=1, told=1)

    at_the_desk(test)
