"""The outbox: messages are rows, written with the decision they tell, and sent from here.

A row goes waiting → sending → sent, or back to waiting. It is claimed by a conditional UPDATE, so one sender
at a time serves a channel. A process that dies between claim and answer leaves rows in `sending`; the next
run, which knows them by their `claimed_by`, sends them again: nothing is lost, and one message at most comes
twice. What waits for a channel goes out as one message, so a burst or a long outage is one message too.

No answer ends a row: what is wrong with a channel may be mended or pass by. A channel that refuses is
`failed` and tried again slowly, at a restart, and as soon as its address is another. What still fires waits
as long as it fires; what has ended is given up a day after its end.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import aiohttp

from alerts.channels import KINDS
from alerts.channels.contract import Channel, Item, Refused, Retry, SendResult, Sent
from alerts.incidents import Incident
from alerts.records import incident_from_json, open_incidents
from sql.store import Store, Writer

SPACING = timedelta(seconds=1)
"""Between two messages of a channel: Slack takes about one a second (api.slack.com/docs/rate-limits)."""
FIRST_BACK_OFF_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 900.0
"""The back-off is doubled at each failure in between. A `Retry-After` goes before, up to this: Slack asks for
seconds to a minute, and what asks for a day is not to be believed."""
REFUSED_PAUSE = timedelta(minutes=15)
"""Before a channel that refused is tried again. Four requests an hour: a proxy's page or a lost permission
passes by without anyone's help, and to a dead webhook it is no flood."""
GIVE_UP = timedelta(hours=24)
"""That something was, but is no more, is no news a day later: it fails, visibly."""
LONGEST_SEND = timedelta(seconds=60)
"""A claim older than this is nobody's: two tries of 10 s each, and a slow disk."""
LATE = timedelta(seconds=60)
"""A message that has waited longer tells what is so now, not what was so when it was written."""
PATIENCE_SECONDS = 1.0
"""How long `deliver` waits for answers; a channel that takes longer goes on by itself."""

RUN = uuid4().hex
"""This run of infermeter, as claims name it."""
_MARK_KEY = secrets.token_bytes(32)


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
    created_at: datetime


class _Work(NamedTuple):
    """What has been claimed: what to tell, an incident once; the rows that tells; and how many were ended."""

    items: list[Item]
    message_ids: list[str]
    untold: int


class Sender:
    """Sends what the outbox holds. One a run; it lives in one event loop.

    `clock` gives UTC without a zone. Each channel has its own task, so that one that hangs delays no other;
    tasks still under way end when the loop's owner cancels them.
    """

    def __init__(
        self,
        store: Store,
        channels: Sequence[Channel],
        clock: Callable[[], datetime],
        session: aiohttp.ClientSession,
        run: str = RUN,
    ) -> None:
        self._store, self._channels, self._clock = store, channels, clock
        self._session, self._run = session, run
        self._sending: dict[str, asyncio.Task[Delivery]] = {}
        self._marks: dict[str, bytes | None] = {}

    async def deliver(self) -> Delivery:
        """Send what is due, at most one message a channel. Call it every second or few.

        Returns what has ended since the call before; after `PATIENCE_SECONDS` at the latest. Never raises for
        what the other side does; that stands in the rows.
        """
        due = await asyncio.to_thread(self._due, self._clock(), frozenset(self._sending))
        begun = []
        for channel in self._channels:
            if channel.name in due and channel.name not in self._sending:
                task = asyncio.create_task(self._deliver_to(channel), name=f"send to {channel.name}")
                self._sending[channel.name] = task
                begun.append(task)
        if begun:
            await asyncio.wait(begun, timeout=PATIENCE_SECONDS)
        done = Delivery()
        for name in [name for name, task in self._sending.items() if task.done()]:
            ended = self._sending.pop(name).result()
            done = Delivery(*(a + b for a, b in zip(done, ended, strict=True)))
        return done

    def _due(self, now: datetime, busy: AbstractSet[str]) -> set[str]:
        """Put right what an earlier run left, and name the channels that may send now."""
        rows = self._store.query("outbox_due").rows(named=True)
        configured = {channel.name: channel for channel in self._channels}
        idle = [row for row in rows if row["channel"] not in busy]
        ours = [row for row in idle if row["channel"] in configured]
        new = [configured[row["channel"]] for row in ours if row["run"] != self._run]
        broken = [row["channel"] for row in ours if row["channel_state"] in ("retrying", "failed")]
        mended = [name for name in broken if self._has_another_address(configured[name])]
        too_old = any(row["ended"] is not None and row["ended"] < now - GIVE_UP for row in rows)
        if new or mended or too_old or any(row["sending"] for row in idle):
            with self._store.write() as writer:
                writer.run(
                    "outbox_release", run=self._run, claimed_before=now - LONGEST_SEND, busy=list(busy)
                )
                writer.run("outbox_give_up", ended_before=now - GIVE_UP, why="given up after 24 h")
                for channel in new:
                    writer.run(
                        "outbox_look_after_channel", channel=channel.name, kind=channel.kind, now=now,
                        run=self._run,
                    )  # fmt: skip
                for name in mended:
                    writer.run("outbox_channel_mended", channel=name, now=now)
            rows = self._store.query("outbox_due").rows(named=True)
        return {
            row["channel"]
            for row in rows
            if row["channel_state"] is not None and row["next_send_at"] <= now and not row["sending"]
        }

    def _has_another_address(self, channel: Channel) -> bool:
        """Whether it is not the one that was tried last."""
        mark = _mark(channel)
        return self._marks.setdefault(channel.name, mark) != mark

    async def _deliver_to(self, channel: Channel) -> Delivery:
        work = await asyncio.to_thread(self._claim, channel, self._clock())
        if not work.items:
            return Delivery(failed=work.untold)
        kind = KINDS[channel.kind]
        result = await kind.send(self._session, channel, kind.compose(work.items))
        done = await asyncio.to_thread(_record, self._store, channel, work.message_ids, result, self._clock())
        return done._replace(failed=done.failed + work.untold)

    def _claim(self, channel: Channel, now: datetime) -> _Work:
        self._marks[channel.name] = _mark(channel)
        return _claim(self._store, channel, now, self._run)


def _mark(channel: Channel) -> bytes | None:
    """Tells one address from another and nothing else: keyed anew in each run, and never written down."""
    try:
        address = channel.address()
    except ValueError:
        return None
    return hashlib.blake2b(address.encode(), key=_MARK_KEY).digest()


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
    late = any(row.event == "fired" and row.created_at < now - LATE for row in rows)
    current = open_incidents(store) if late else {}
    items = []
    for incident_id, events in by_incident.items():
        if "resolved" not in events:
            items.append(_as_it_is_now(_item(events["fired"].payload, "fired"), current))
        elif "fired" in events:
            items.append(_item(events["resolved"].payload, "both"))
        elif incident_id in told:
            items.append(_item(events["resolved"].payload, "resolved"))
    return _Work(items, [row.message_id for row in rows if row.message_id not in untold], len(untold))


def _item(payload: str, event: str) -> Item:
    content: Mapping[str, Any] = json.loads(payload)
    return Item(incident_from_json(content["incident"]), event, content["links"])


def _as_it_is_now(item: Item, current: Mapping[str, Incident]) -> Item:
    return item._replace(incident=current.get(item.incident.incident_id, item.incident))


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
            case Refused(why):
                later = now + REFUSED_PAUSE
                _settle(writer, message_ids, "waiting", next_attempt_at=later, why=why)
                _not_sent(writer, channel, "failed", why, now, later)
                return Delivery(waiting=count)


def _pause(writer: Writer, channel: Channel, after_seconds: float | None) -> timedelta:
    """How long the channel rests: as asked, else doubled at each failure in a row; with an end to both."""
    if after_seconds is None:
        failures = writer.run("outbox_channel_failures", channel=channel.name)[0][0]
        after_seconds = FIRST_BACK_OFF_SECONDS * 2.0 ** min(failures, 20)
    return max(timedelta(seconds=min(after_seconds, LONGEST_PAUSE_SECONDS)), SPACING)


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
