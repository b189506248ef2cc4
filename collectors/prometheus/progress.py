"""How far a source was read, in the store: written in the transaction that writes the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa

from collectors.batch import Scraped
from collectors.prometheus.upstream import Identity, identity_of
from sql.store import Store, Writer, to_json

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (UTC without a zone, as the store has it)


class Span(NamedTuple):
    """A stretch of the past, after `begin_ms` up to `end_ms` (Unix); read up to `done_ms`."""

    begin_ms: int
    end_ms: int
    done_ms: int


class Progress(NamedTuple):
    """Where an earlier process ended."""

    identities: dict[str, Identity]
    """Target → its labels at the source."""
    last_ms: dict[str, int]
    """Target → its newest scrape in the store."""
    spans: list[Span]


def moment(ms: int) -> datetime:
    """Unix milliseconds as the store has time."""
    return _EPOCH + timedelta(milliseconds=ms)


def milliseconds(ts: datetime) -> int:
    """The other way round, rounded down."""
    return int(ts.replace(tzinfo=UTC).timestamp() * 1000)


def load(store: Store, source: str) -> Progress:
    """What is known of a source."""
    rows = store.query_rows("pull_progress", source=source)
    spans = store.query_rows("backfill_progress", source=source)
    return Progress(
        {target: identity_of(labels) for target, labels, _ in rows},
        {target: milliseconds(ts) for target, _, ts in rows},
        [Span(*(milliseconds(ts) for ts in row)) for row in spans],
    )


def note_pulled(
    writer: Writer, source: str, scraped: Sequence[Scraped], identities: Mapping[str, Identity]
) -> None:
    """The newest scrape of each target of a batch."""
    newest: dict[str, datetime] = {}
    for one in scraped:
        newest[one.target.name] = max(one.ts, newest.get(one.target.name, one.ts))
    writer.run("remove_pull_progress", source=source, targets=list(newest))
    rows = {
        "source": [source] * len(newest),
        "target": list(newest),
        "labels": [to_json(dict(identities[target])) for target in newest],
        "last_ts": pa.array(newest.values(), pa.timestamp("us")),
    }
    writer.append("pull_progress", pa.table(rows))


def begin_span(store: Store, source: str, begin_ms: int, end_ms: int) -> Span:
    """Leave a stretch of the past to be read apart; live reading begins at its end, after a restart too."""
    span = Span(begin_ms, end_ms, begin_ms)
    with store.write() as writer:
        writer.run("add_backfill", source=source, begin_ts=moment(begin_ms), end_ts=moment(end_ms))
        writer.run("raise_pull_progress", source=source, floor_ts=moment(end_ms))
    return span


def note_backfilled(writer: Writer, source: str, span: Span, done_ms: int) -> None:
    """Up to where a span was read."""
    writer.run(
        "advance_backfill", source=source, begin_ts=moment(span.begin_ms), end_ts=moment(span.end_ms),
        done_ts=moment(done_ms),
    )  # fmt: skip


def forget(store: Store, source: str, targets: Sequence[str]) -> None:
    """Targets that are gone: one that comes back is a new one."""
    with store.write() as writer:
        writer.run("remove_pull_progress", source=source, targets=list(targets))
