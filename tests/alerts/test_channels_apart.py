"""Channels are independent: what one does with its messages is nothing to another."""

from __future__ import annotations

import asyncio
from pathlib import Path

from alerts.channels.slack import SlackChannel
from alerts.outbox import Delivery
from tests.alerts.desk import Desk, at_the_desk
from tests.alerts.slack_server import slack_server


def test_channels_do_not_wait_for_each_other() -> None:
    async def test(desk: Desk) -> None:
        desk.channels.append(desk.channel("second"))
        desk.write(1)
        desk.write(1, channel="second")
        desk.server.answer(429, "", Retry_After="3600")
        assert await desk.deliver() == Delivery(posted=1, told=1, waiting=1)
        desk.write(2, channel="second")
        desk.write(2)
        done = await desk.deliver(after=1)
        assert (done.posted, done.told) == (1, 1)

    at_the_desk(test)


def test_a_channel_that_hangs_delays_no_other_and_is_not_sent_to_twice() -> None:
    async def test(desk: Desk) -> None:
        async with slack_server() as (hanging, _):
            hanging.hold = True
            stuck = SlackChannel.model_validate(
                {"name": "stuck", "kind": "slack", "webhook_url": hanging.url}
            )
            desk.channels.insert(0, stuck)
            desk.write(1)
            desk.write(1, channel="stuck")
            loop = asyncio.get_running_loop()
            begin = loop.time()
            assert await desk.deliver() == Delivery(posted=1, told=1)
            assert loop.time() - begin < 5  # the hanging one has 10 s
            await hanging.arrived.wait()
            desk.write(2, channel="stuck")
            for number in range(2, 6):
                desk.write(number)
                desk.channels.append(desk.channel(f"ops{number}"))  # has a run's left-overs looked at
                desk.write(number, channel=f"ops{number}")
                begin = loop.time()
                # Its claim is old enough to be nobody's, but this run knows that it is under way.
                assert await desk.deliver(after=100) == Delivery(posted=2, told=2)
                assert loop.time() - begin < 0.9, "waited for the hanging channel"
            assert len(hanging.received) == 1
            hanging.hold = False
            hanging.end.set()
            await asyncio.wait(desk.sender("first run")._sending.values())
            assert await desk.deliver() == Delivery(posted=1, told=1)
            assert await desk.deliver(after=1) == Delivery(posted=1, told=1)
            assert desk.states()["id2:fired:stuck"] == "sent"
            assert len(hanging.received) == 2

    at_the_desk(test)


def test_an_address_changed_while_a_try_is_under_way_is_tried_after_it(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        path = tmp_path / "webhook"
        path.write_text(desk.server.url)
        desk.channels[:] = [
            SlackChannel.model_validate({"name": "ops", "kind": "slack", "webhook_url_file": str(path)})
        ]
        desk.write(1)
        desk.server.answer(503)
        desk.server.answer(403, "invalid_token")
        assert await desk.deliver() == Delivery(waiting=1)
        desk.server.hold = True
        assert await desk.deliver(after=5) == Delivery()
        path.write_text(desk.server.url + "new")
        assert await desk.deliver(after=5) == Delivery()
        desk.server.hold = False
        desk.server.end.set()
        await asyncio.wait(desk.sender("first run")._sending.values())
        assert await desk.deliver() == Delivery(waiting=1)
        assert await desk.deliver(after=1) == Delivery(posted=1, told=1)

    at_the_desk(test)
