"""A desk for the outbox tests: a store, a Slack, a clock of the test's, and one or more channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from aiohttp import ClientSession

from alerts.channels.slack import SlackChannel
from alerts.outbox import Delivery, Sender
from alerts.records import append, incident_json
from sql.store import Store, to_json
from tests.alerts.facts import at, rows
from tests.alerts.incident_samples import item
from tests.alerts.slack_server import SlackServer, slack_server


class Clock:
    def __init__(self) -> None:
        self.now: datetime = at(0)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Desk:
    """A store, a Slack, a clock, and one or more channels."""

    def __init__(self, server: SlackServer, session: ClientSession, store: Store | None = None) -> None:
        self.server, self.session, self.clock = server, session, Clock()
        self.store = store or Store.open(":memory:")
        self.channels = [self.channel("ops")]
        self.senders: dict[str, Sender] = {}

    def channel(self, name: str) -> SlackChannel:
        return SlackChannel.model_validate({"name": name, "kind": "slack", "webhook_url": self.server.url})

    def write(self, number: int, event: str = "fired", channel: str = "ops") -> None:
        one = item(number, event)
        payload = to_json({"incident": incident_json(one.incident), "links": one.links})
        row = (
            f"id{number}:{event}:{channel}", f"id{number}", channel, event, self.clock.now, payload,
            "waiting", 0, self.clock.now,
        )  # fmt: skip
        with self.store.write() as writer:
            append(writer, "outbox", [row])

    async def deliver(self, after: float = 0.0, run: str = "first run") -> Delivery:
        self.clock.forward(after)
        return await self.sender(run).deliver()

    def sender(self, run: str) -> Sender:
        """The one of this run."""
        if run not in self.senders:
            self.senders[run] = Sender(self.store, self.channels, self.clock, self.session, run)
        return self.senders[run]

    def states(self) -> dict[str, str]:
        return {row["message_id"]: row["state"] for row in rows(self.store, "outbox")}

    def channel_row(self) -> dict[str, Any]:
        return next(row for row in rows(self.store, "channel") if row["channel"] == "ops")

    def texts(self) -> list[str]:
        return [message["text"] for message in self.server.received]


def at_the_desk(test: Callable[[Desk], Awaitable[None]], store: Store | None = None) -> None:
    async def main() -> None:
        async with slack_server() as (server, session):
            await test(Desk(server, session, store))

    asyncio.run(main())
