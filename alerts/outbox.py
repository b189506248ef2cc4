"""The outbox: messages are rows, written with the decision they tell, and sent from here.

A row goes waiting → sending → sent or failed. It is claimed by a conditional UPDATE, so one sender at a time
serves a channel. A process that dies between claim and answer leaves rows in `sending`; the next run, which
knows them by their `claimed_by`, sends them again: nothing is lost, and one message at most comes twice.
What waits for a channel goes out as one message, so a burst or a long outage is one message too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import aiohttp

from alerts.channels import KINDS
from alerts.channels.contract import Channel, Item, Permanent, Retry, SendResult, Sent
from alerts.records import incident_from_json
from sql.store import Store, Writer

SPACING = timedelta(seconds=1)
"""Between two messages of a channel: Slack takes about one a second (api.slack.com/docs/rate-limits)."""
FIRST_BACK_OFF_SECONDS = 5.0
LONGEST_BACK_OFF_SECONDS = 900.0
"""Doubled at each failure in between; a `Retry-After` goes before."""
GIVE_UP = timedelta(hours=24)
"""An alert that could not be told for a day is news no more: it fails, visibly."""
LONGEST_SEND = timedelta(seconds=60)
"""A claim older than this is nobody's: two tries of 10 s each, and a slow disk."""

RUN = uuid4().hex
"""This run of infermeter, as claims name it."""


class Delivery(NamedTuple):
    """What one call did."""

    posted: int = 0
    """Messages that got through; each may tell several incidents."""
    told: int = 0
    """Rows that are now sent."""
    waiting: int = 0
    """Rows put off to a later try."""
    failed: int = 0
    """Rows that will not be sent."""


class _Row(NamedTuple):
    message_id: str
    incident_id: str
    event: str
    payload: str


class _Work(NamedTuple):
    """What has been claimed: what to tell, an incident once; the rows that tells; and how many were ended."""

    items: list[Item]
    message_ids: list[str]
    untold: int


async def deliver(
    store: Store,
    channels: Sequence[Channel],
    clock: Callable[[], datetime],
    session: aiohttp.ClientSession,
    run: str = RUN,
) -> Delivery:
    """Send what is due, once: at most one message a channel. Call it every second or few.

    `clock` gives UTC without a zone. Never raises for what the other side does; that stands in the rows.
    """
    due = await asyncio.to_thread(_prepare, store, channels, clock(), run)
    wanted = [channel for channel in channels if channel.name in due]
    done = await asyncio.gather(*(_deliver_to(store, channel, clock, session, run) for channel in wanted))
    return Delivery(*(sum(numbers) for numbers in zip(*done, strict=True))) if done else Delivery()


def _prepare(store: Store, channels: Sequence[Channel], now: datetime, run: str) -> set[str]:
    """Put right what an earlier run left, and name the channels that may send now."""
    rows = store.query("outbox_due").rows(named=True)
    if not rows:
        return set()
    configured = {channel.name: channel for channel in channels}
    new = [configured[row["channel"]] for row in rows if row["channel"] in configured and row["run"] != run]
    if new or any(row["sending"] or row["oldest"] < now - GIVE_UP for row in rows):
        with store.write() as writer:
            writer.run("outbox_release", run=run, claimed_before=now - LONGEST_SEND)
            writer.run("outbox_give_up", created_before=now - GIVE_UP, why="given up after 24 h")
            for channel in new:
                writer.run(
                    "outbox_look_after_channel", channel=channel.name, kind=channel.kind, now=now, run=run
                )
        rows = store.query("outbox_due").rows(named=True)
    return {
        row["channel"]
        for row in rows
        if row["channel_state"] not in (None, "failed") and row["next_send_at"] <= now and not row["sending"]
    }


async def _deliver_to(
    store: Store, channel: Channel, clock: Callable[[], datetime], session: aiohttp.ClientSession, run: str
) -> Delivery:
    work = await asyncio.to_thread(_claim, store, channel, clock(), run)
    if not work.items:
        return Delivery(failed=work.untold)
    kind = KINDS[channel.kind]
    result = await kind.send(session, channel, kind.compose(work.items))
    done = await asyncio.to_thread(_record, store, channel, work.message_ids, result, clock())
    return done._replace(failed=done.failed + work.untold)


def _claim(store: Store, channel: Channel, now: datetime, run: str) -> _Work:
    """Take what waits for the channel; a resolve whose fire was never told here is not told either."""
    with store.write() as writer:
        rows = [_Row(*row) for row in writer.run("outbox_claim", channel=channel.name, now=now, run=run)]
        by_incident: dict[str, dict[str, _Row]] = {}
        for row in rows:
            by_incident.setdefault(row.incident_id, {})[row.event] = row
        alone = [incident_id for incident_id, events in by_incident.items() if "fired" not in events]
        told = {row[0] for row in writer.run("outbox_told", channel=channel.name, incident_ids=alone)}
        untold = [
            by_incident[incident_id]["resolved"].message_id
            for incident_id in alone
            if incident_id not in told
        ]
        if untold:
            why = "not sent: that it fired was never told here"
            _settle(writer, untold, "failed", why=why)
    items = []
    for incident_id, events in by_incident.items():
        if "resolved" not in events:
            items.append(_item(events["fired"].payload, "fired"))
        elif "fired" in events:
            items.append(_item(events["resolved"].payload, "both"))
        elif incident_id in told:
            items.append(_item(events["resolved"].payload, "resolved"))
    return _Work(items, [row.message_id for row in rows if row.message_id not in untold], len(untold))


def _item(payload: str, event: str) -> Item:
    content: Mapping[str, Any] = json.loads(payload)
    return Item(incident_from_json(content["incident"]), event, content["links"])


def _record(
    store: Store, channel: Channel, message_ids: list[str], result: SendResult, now: datetime
) -> Delivery:
    """Write what became of one try."""
    count = len(message_ids)
    with store.write() as writer:
        match result:
            case Sent():
                _settle(writer, message_ids, "sent", sent_at=now)
                writer.run("outbox_channel_sent", channel=channel.name, now=now, next_send_at=now + SPACING)
                return Delivery(posted=1, told=count)
            case Retry(why, after_seconds):
                later = now + _pause(writer, channel, after_seconds)
                _settle(writer, message_ids, "waiting", next_attempt_at=later, why=why)
                _not_sent(writer, channel, "retrying", why, now, later)
                return Delivery(waiting=count)
            case Permanent(why, channel_failed):
                _settle(writer, message_ids, "failed", why=why)
                _not_sent(writer, channel, "failed" if channel_failed else "ok", why, now, now + SPACING)
                return Delivery(failed=count)


def _pause(writer: Writer, channel: Channel, after_seconds: float | None) -> timedelta:
    """How long the channel rests: as asked, else doubled at each failure in a row."""
    if after_seconds is None:
        failures = writer.run("outbox_channel_failures", channel=channel.name)[0][0]
        after_seconds = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(failures, 20), LONGEST_BACK_OFF_SECONDS)
    return min(max(timedelta(seconds=min(after_seconds, 1e6)), SPACING), GIVE_UP)


def _settle(
    writer: Writer,
    message_ids: Sequence[str],
    state: str,
    *,
    sent_at: datetime | None = None,
    next_attempt_at: datetime | None = None,
    why: str | None = None,
) -> None:
    writer.run(
        "outbox_settle", message_ids=list(message_ids), state=state, sent_at=sent_at,
        next_attempt_at=next_attempt_at, last_error=why,
    )  # fmt: skip


def _not_sent(
    writer: Writer, channel: Channel, state: str, why: str, now: datetime, next_send_at: datetime
) -> None:
    writer.run(
        "outbox_channel_not_sent", channel=channel.name, state=state, last_error=why, now=now,
        next_send_at=next_send_at,
    )  # fmt: skip
