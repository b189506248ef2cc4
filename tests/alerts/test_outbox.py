"""From rows to messages: claims, spacing, merging, retries. The clock is the test's."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.outbox import Delivery, Sender
from sql.store import Store
from tests.alerts.desk import Desk, at_the_desk
from tests.alerts.facts import at, rows


def test_a_message_is_sent_once() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        assert await desk.deliver() == Delivery(posted=1, told=1)
        for _ in range(5):
            assert await desk.deliver(after=10) == Delivery()
        assert len(desk.server.received) == 1
        (row,) = rows(desk.store, "outbox")
        assert (row["state"], row["attempts"], row["sent_at"]) == ("sent", 1, at(0))
        assert desk.channel_row()["last_sent_at"] == at(0)

    at_the_desk(test)


def test_at_most_one_message_a_second_and_the_rest_merged() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        await desk.deliver()
        for number in range(2, 32):
            desk.write(number)
        assert await desk.deliver(after=0.4) == Delivery()
        assert await desk.deliver(after=0.5) == Delivery()
        assert await desk.deliver(after=0.1) == Delivery(posted=1, told=30)
        assert desk.texts()[1].startswith("30 alerts: 30 firing.")
        assert desk.server.received[1]["blocks"][-1]["text"]["text"].startswith("and 10 more, <https://")

    at_the_desk(test)


def test_retry_after_is_honoured_to_the_second() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.server.answer(429, "rate_limited", Retry_After="30")
        assert await desk.deliver() == Delivery(waiting=1)
        assert (desk.channel_row()["state"], desk.channel_row()["next_send_at"]) == ("retrying", at(30))
        assert rows(desk.store, "outbox")[0]["next_attempt_at"] == at(30)
        desk.write(2)
        assert await desk.deliver(after=29.9) == Delivery()
        assert await desk.deliver(after=0.1) == Delivery(posted=1, told=2)
        assert desk.channel_row()["state"] == "ok"
        assert desk.channel_row()["last_error"] is None

    at_the_desk(test)


def test_other_trouble_is_retried_with_doubled_pauses_of_at_most_a_quarter_of_an_hour() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        pauses = []
        for _ in range(10):
            desk.server.answer(503)
            assert await desk.deliver() == Delivery(waiting=1)
            next_send_at = desk.channel_row()["next_send_at"]
            pauses.append((next_send_at - desk.clock.now).total_seconds())
            desk.clock.now = next_send_at
        assert pauses == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]
        assert desk.channel_row()["last_error"] == "HTTP 503"
        assert await desk.deliver() == Delivery(posted=1, told=1)
        assert rows(desk.store, "outbox")[0]["attempts"] == 11

    at_the_desk(test)


def test_fired_and_resolved_that_both_wait_are_one_message() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.write(1, "resolved")
        assert await desk.deliver() == Delivery(posted=1, told=2)
        (text,) = desk.texts()
        assert text.startswith("✓ RESOLVED")
        assert "It fired at 13:22 UTC" in text

    at_the_desk(test)


def test_a_resolve_follows_its_fire() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        await desk.deliver()
        desk.write(1, "resolved")
        assert await desk.deliver(after=5) == Delivery(posted=1, told=1)
        assert desk.texts()[1].endswith("after 30 min, peak 91 %")

    at_the_desk(test)


def test_a_resolve_is_not_told_where_the_fire_never_was() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1, "resolved")
        desk.write(2)
        assert await desk.deliver(after=5) == Delivery(posted=1, told=1, failed=1)
        assert desk.texts()[-1].startswith("▲ WARNING")
        resolve = next(row for row in rows(desk.store, "outbox") if row["event"] == "resolved")
        assert resolve["last_error"] == "not sent: that it fired was never told here"

    at_the_desk(test)


def test_two_senders_at_once_send_one_message() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        desk.server.delay_seconds = 0.05
        senders = [Sender(desk.store, desk.channels, desk.clock, desk.session, "one run") for _ in range(5)]
        done = await asyncio.gather(*(sender.deliver() for sender in senders + senders))
        assert sum(one.posted for one in done) == 1
        assert len(desk.server.received) == 1

    at_the_desk(test)


def test_what_a_dead_run_was_sending_is_sent_by_the_next(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store.duckdb")

    async def dies(desk: Desk) -> None:
        desk.write(1)
        desk.server.hold = True
        sending = asyncio.create_task(desk.deliver())
        await desk.server.arrived.wait()
        tasks = [task for task in asyncio.all_tasks() if task.get_name() == "send to ops"]
        for task in (sending, *tasks):
            task.cancel()
        await asyncio.gather(sending, *tasks, return_exceptions=True)
        assert desk.states() == {"id1:fired:ops": "sending"}

    async def goes_on(desk: Desk) -> None:
        assert await desk.deliver(after=2, run="second run") == Delivery(posted=1, told=1)
        assert desk.states() == {"id1:fired:ops": "sent"}

    at_the_desk(dies, store)
    at_the_desk(goes_on, store)
    store.close()


def test_a_claim_of_this_run_that_nobody_holds_any_more_is_released_after_a_minute() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1)
        await desk.deliver()  # looks after the channel
        desk.write(2)
        with desk.store.write() as writer:
            writer.run("outbox_claim", channel="ops", now=at(5), run="first run")
        assert desk.states()["id2:fired:ops"] == "sending"
        assert await desk.deliver(after=30) == Delivery()
        assert await desk.deliver(after=40) == Delivery(posted=1, told=1)

    at_the_desk(test)


def test_a_channel_that_is_configured_no_more_keeps_its_rows_until_they_are_given_up() -> None:
    async def test(desk: Desk) -> None:
        desk.write(1, channel="removed")
        assert await desk.deliver() == Delivery()
        await desk.deliver(after=24 * 3600 + 1)
        assert desk.states() == {"id1:fired:removed": "failed"}

    at_the_desk(test)


def test_nothing_to_do_writes_nothing() -> None:
    async def test(desk: Desk) -> None:
        def no_write() -> None:
            raise AssertionError("wrote")

        desk.store.write = no_write  # type: ignore[method-assign, assignment]
        assert await desk.deliver() == Delivery()

    at_the_desk(test)


def test_the_secret_stands_in_no_row(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store.duckdb")

    async def test(desk: Desk) -> None:
        secret = desk.server.url.rpartition("/")[2]
        for number, answer in enumerate(
            [(500, secret), (404, f"no {secret}"), (400, secret), (200, "ok")], 1
        ):
            desk.write(number)
            desk.server.answer(*answer)
            await desk.deliver(after=1000, run=str(number))
        for table in ("outbox", "channel"):
            assert secret not in repr(rows(store, table))

    at_the_desk(test, store)
    store.close()
    for path in tmp_path.iterdir():
        assert b"sEcReT" not in path.read_bytes()


ANSWERS = st.sampled_from(
    [(200, "ok"), (429, ""), (500, ""), (400, "invalid_blocks"), (503, ""), (403, "invalid_token"),
     (200, "<html>"), (405, "")]
)  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4000), ANSWERS, st.booleans()), max_size=12),
)
@settings(max_examples=15, deadline=None)
def test_whatever_slack_answers_every_row_ends_sent_and_none_is_sent_twice(
    moves: list[tuple[int, int, tuple[int, str], bool]],
) -> None:
    async def test(desk: Desk) -> None:
        number, told, last_post = 0, 0, None
        for count, pause, answer, restart in moves:
            for _ in range(count):
                number += 1
                desk.write(number)
            desk.server.answer(*answer)
            posts = len(desk.server.received)
            done = await desk.deliver(after=pause / 1000, run=f"run {number}" if restart else "run")
            if len(desk.server.received) > posts:
                assert last_post is None or desk.clock.now - last_post >= timedelta(seconds=1)
                last_post = desk.clock.now
            told += done.told
        desk.server.answers.clear()
        told += (await desk.deliver(after=901, run="last")).told
        assert set(desk.states().values()) <= {"sent"}
        assert told == number

    at_the_desk(test)


def test_a_claim_takes_nothing_from_a_channel_that_is_busy_or_rests() -> None:
    """The claim itself says so, whoever asks."""

    async def test(desk: Desk) -> None:
        def claim(seconds: float) -> int:
            with desk.store.write() as writer:
                return len(writer.run("outbox_claim", channel="ops", now=at(seconds), run="first run"))

        desk.write(1)
        desk.server.answer(429, "", Retry_After="30")
        await desk.deliver()
        assert claim(29.9) == 0
        assert claim(30) == 1
        desk.write(2)
        assert claim(60) == 0

    at_the_desk(test)
