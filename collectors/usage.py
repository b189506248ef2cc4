"""Raw usage counters → what a project used since its last row, over restarts of either side. Pure.

A row is written at most once a minute and only when something was used; with it the raw values that it counts
up to are written (`usage_base`), in the same transaction. So a restart of infermeter goes on exactly there:
no token is lost and none is counted twice. The state is an `Account` per target and usage key.

The same tokens can be counted at a gateway and at the engines behind it. Both stand in `project_usage` and
are never added: sum one `source` ("litellm", "otel" for gateways, "target" for engines with a configured
project), not all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from datetime import datetime, timedelta
from typing import NamedTuple

from collectors.multiworker import Counting, is_fall
from collectors.reading import EngineSample, Histogram, Reading, UsageKey

ROW_EVERY = timedelta(minutes=1)
"""The first scrape this long after the last row writes the next."""

NEVER = datetime(1970, 1, 1)  # noqa: DTZ001 (the store's UTC without a zone)

TARGET = "target"
"""The source of counters made from an engine's own, for its target's configured project."""

PROMPT_WITHOUT_CACHED = frozenset({"llamacpp"})
"""Engines whose prompt tokens are without the cached ones (newer builds of llama.cpp): added here."""


class Totals(NamedTuple):
    """Raw values, or increases of them, in the order of the columns."""

    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    generation_tokens: float | None = None
    requests: float | None = None
    spend_usd: float | None = None


NOTHING = Totals()
ZERO = Totals(0.0, 0.0, 0.0, 0.0, 0.0)


class Raw(NamedTuple):
    """One replica's raw values at its last counted scrape."""

    ts: datetime
    totals: Totals


class Account(NamedTuple):
    """What is remembered of one usage key on one target."""

    row_at: datetime
    """Of the last row (or the first sight)."""
    since: datetime
    """The next row covers the time from here: the last scrape before anything of it was used."""
    counted_at: datetime
    """The last counted scrape."""
    raws: Mapping[str, Raw]
    """Replica → raw values; a gateway's own counters have the one replica ""."""
    pending: Totals = NOTHING
    """Used since the last row."""
    unwritten: bool = False
    """Its raw values are not those of `usage_base`: they are written at the next scrape, used or not."""
    restored: bool = False
    """From the store: a value it does not hold may be one that the infermeter before did not read."""


class Row(NamedTuple):
    """What goes into `project_usage`."""

    ts: datetime
    interval_seconds: float
    used: Totals


class Step(NamedTuple):
    """What comes of one scrape."""

    account: Account | None
    row: Row | None = None
    base: Account | None = None
    """Whose raw values are to be written, with its `counted_at`; None: they need not be."""


def counters(
    reading: Reading, engines: Iterable[EngineSample], own: bool
) -> dict[UsageKey, dict[str, Totals]]:
    """The usage counters of one answer by key and replica.

    Those of the reading itself. Where it has none and never had (`own`), and for targets with a project,
    those made of `engines`, rows of the target's own role alone (a Dynamo frontend is not added to its
    workers).
    """
    found: dict[UsageKey, dict[str, Totals]] = {}
    if reading.usage or own:
        for counter in reading.usage:
            replicas = found.setdefault(counter.key, {})
            replicas[""] = _plus(replicas.get("", NOTHING), Totals(*counter[1:]))
        return found
    if reading.role not in ("engine", "gateway"):
        return found
    ended = _requests_ended(reading.histograms)
    for engine in engines:
        if engine.role == reading.role and (totals := _of_engine(engine, ended)) != NOTHING:
            found.setdefault(UsageKey(None, None, engine.model, None, TARGET), {})[engine.replica] = totals
    return found


def _requests_ended(histograms: Iterable[Histogram]) -> dict[tuple[str, str | None], float | None]:
    """(replica, model) → how many requests had their time taken; each once, when it ends."""
    return {(one.replica, one.model): one.count for one in histograms if one.metric == "e2e"}


def _of_engine(engine: EngineSample, ended: Mapping[tuple[str, str | None], float | None]) -> Totals:
    prompt = engine.prompt_tokens_total
    # Where no prompt tokens are told, hits are blocks of the cache (TensorRT-LLM's JSON).
    cached = None if prompt is None else engine.prefix_cache_hits_total
    if engine.engine in PROMPT_WITHOUT_CACHED and prompt is not None and cached is not None:
        prompt += cached
    requests = _finished(engine)
    if requests is None and (prompt is not None or engine.generation_tokens_total is not None):
        # Durations are of all that ended. Without tokens it is the worker of a gateway (Dynamo's) that counts
        # the same requests.
        requests = ended.get((engine.replica, engine.model), ended.get((engine.replica, None)))
    return Totals(prompt, cached, engine.generation_tokens_total, requests)


def _finished(engine: EngineSample) -> float | None:
    """All requests. None where those that went well are not told: what failed is not what was asked for
    (SGLang, TGI and Dynamo count that alone by its reason)."""
    well = (engine.finished_stop_total, engine.finished_length_total)
    if well == (None, None):
        return None
    return sum(count or 0 for count in (*well, engine.finished_abort_total, engine.finished_error_total))


def fell(account: Account, seen: Mapping[str, Totals]) -> dict[str, float]:
    """The replicas of which a value is under its last counted one, and the first such value."""
    found = {}
    for replica, totals in seen.items():
        raw = account.raws.get(replica)
        if raw is None or raw.totals == totals:
            continue
        for old, new in zip(raw.totals, totals, strict=True):
            if is_fall(old, new):
                found[replica] = new or 0.0
                break
    return found


def step(
    before: Account | None,
    seen: Mapping[str, Totals],
    ts: datetime,
    counting: Counting,
    zero_since: Mapping[str, datetime],
    fallen: Set[str] = frozenset(),
) -> Step:
    """Count one scrape.

    `zero_since`: the replicas whose counters, seen for the first time, count from 0, and since when; without
    an entry their past is unknown and only what follows is counted. `fallen` (with SETTLED and SHIFTED):
    the replicas whose counters fell. With RESTARTED what is not in `seen` stands at 0: the new process shows
    it once it is used.
    """
    if counting in (Counting.HELD, Counting.OFF):
        return _not_counted(before, seen, ts, counting)
    if counting is Counting.ANEW:
        begun = Account(ts, ts, ts, _raws(before, seen, ts))
        return Step(begun, None, begun)
    if before is None:
        zeros = [zero_since[replica] for replica in seen if replica in zero_since]
        if not zeros:
            begun = Account(ts, ts, ts, _raws(None, seen, ts))
            return Step(begun, None, begun)
        before = Account(NEVER, min(zeros), min(zeros), {})
    restarted: Set[str] = frozenset()
    if counting is Counting.RESTARTED:
        restarted = seen.keys()
    elif counting is Counting.SETTLED:
        restarted = fallen
    absent = before.raws.keys() - seen.keys() if counting is Counting.RESTARTED else frozenset()
    pending, write_base = before.pending, before.unwritten or bool(absent)
    for replica, totals in seen.items():
        raw = before.raws.get(replica)
        anew = replica in restarted
        if (raw is None and replica not in zero_since) or (
            counting is Counting.SHIFTED and replica in fallen
        ):
            write_base = True  # its past is not known: it counts from here
            continue
        write_base = write_base or anew
        old = NOTHING if raw is None or anew else raw.totals
        pending = _plus(
            pending, _gained(old, totals, appeared_counts=anew or raw is None or not before.restored)
        )
    used = any(pending)
    since = before.since if used else ts
    if used and not any(before.pending) and zero_since:
        since = max(since, min(zero_since.values()))  # it may not have been shown for long
    if ts <= before.counted_at:  # the clock went back: how long it took is not known, the row waits
        since = ts
    raws = _raws(before, seen, ts, restarted | fallen)
    raws |= {replica: raws[replica]._replace(totals=ZERO) for replica in absent}
    account = Account(min(before.row_at, ts), since, ts, raws, pending, before.unwritten)
    # At a restart the row is not put off: what was used before it is in no counter any more.
    if used and since < ts and (write_base or ts - before.row_at >= ROW_EVERY):
        return _written(account)
    if write_base and not used:
        account = account._replace(unwritten=False)
        return Step(account, None, account)
    return Step(account)


def settled(account: Account) -> Step:
    """Write what no row holds yet: nothing may follow that would."""
    if any(account.pending) and account.since < account.counted_at:
        return _written(account)
    return Step(account)


def _not_counted(
    before: Account | None, seen: Mapping[str, Totals], ts: datetime, counting: Counting
) -> Step:
    """While a fall is held, all waits. Where workers alternate, what no row holds yet is dropped: a leap up
    from one worker to another looks like use until the first fall."""
    if before is None or counting is Counting.HELD:
        return Step(before)
    return Step(Account(before.row_at, ts, ts, _raws(before, seen, ts)))


def _written(account: Account) -> Step:
    row = Row(account.counted_at, (account.counted_at - account.since).total_seconds(), account.pending)
    after = Account(account.counted_at, account.counted_at, account.counted_at, account.raws)
    return Step(after, row, after)


def _raws(
    before: Account | None, seen: Mapping[str, Totals], ts: datetime, anew: Set[str] = frozenset()
) -> dict[str, Raw]:
    """The raw values after a scrape; one that is not shown for the moment keeps its last."""
    raws = dict(before.raws) if before is not None else {}
    for replica, totals in seen.items():
        raw = raws.get(replica)
        if raw is not None and replica not in anew and None in totals:
            kept = [new if new is not None else old for old, new in zip(raw.totals, totals, strict=True)]
            totals = Totals(*kept)
        raws[replica] = Raw(ts, totals)
    return raws


def _gained(old: Totals, new: Totals, *, appeared_counts: bool) -> Totals:
    """A value that was not shown before counts from 0 when `appeared_counts`: counters appear at their first
    use."""
    gained: list[float | None] = []
    for then, now in zip(old, new, strict=True):
        if now is None:
            gained.append(None)
        elif then is None:
            gained.append(now if appeared_counts else None)
        else:
            gained.append(max(now - then, 0.0))
    return Totals(*gained)


def _plus(one: Totals, other: Totals) -> Totals:
    pairs = zip(one, other, strict=True)
    return Totals(*[b if a is None else a if b is None else a + b for a, b in pairs])


def still_shown(account: Account, since: datetime) -> Account | None:
    """The account without the replicas not shown since then; None when none is left.

    Replicas and keys come and go; memory must not grow with all that ever were.
    """
    raws = {replica: raw for replica, raw in account.raws.items() if raw.ts >= since}
    if len(raws) == len(account.raws):
        return account
    return account._replace(raws=raws) if raws else None
