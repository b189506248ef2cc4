"""What is remembered of a target's last good scrape, and what that says of the counters of the next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from collectors import usage
from collectors.multiworker import Counting, is_fall
from collectors.reading import EngineSample, UsageKey

Replica = tuple[str, str | None]
"""(replica, model) of an engine row."""

COUNTERS = tuple(column for column in EngineSample._fields if column.endswith("_total"))
_UNCOUNTED: dict[str, Any] = dict.fromkeys(COUNTERS)


class Known(NamedTuple):
    """What is remembered of a target's last good scrape."""

    last_ok: datetime | None = None
    counted_at: datetime | None = None
    """The last good scrape whose counters were counted."""
    replicas: Mapping[Replica, tuple[float | None, ...]] = {}
    """Of each engine row then: the counters that tell a restart."""
    described: tuple[Any, ...] | None = None
    """(found kind, role, missing, notes, found names) as written to table `target`."""
    read_here: bool = False
    """Whether this process has read it, so that usage keys not seen then did not exist."""
    own_usage: bool = False
    """Whether it has shown usage counters of its own."""
    payer: tuple[str | None, str | None] = (None, None)
    """The target's project and environment."""


def telling(engine: EngineSample) -> tuple[float | None, ...]:
    """The counters of a row that tell a restart: each engine has one of them, and all only grow."""
    return (engine.prompt_tokens_total, engine.generation_tokens_total, engine.finished_stop_total)


def falls(
    before: Mapping[Replica, tuple[float | None, ...]], now: Mapping[Replica, tuple[float | None, ...]]
) -> dict[Any, float]:
    """The replicas of which a telling counter is under its value before, and its value now."""
    found: dict[Any, float] = {}
    for replica, counters in now.items():
        old = before.get(replica)
        if old is None or old == counters:
            continue
        for then, value in zip(old, counters, strict=True):
            if is_fall(then, value):
                found[replica] = value or 0.0
                break
    return found


def process_start(engines: list[EngineSample]) -> float | None:
    """When the process that answered started; None where it is not told, or the rows are of several."""
    if not engines:
        return None
    start = engines[0].process_start_time_seconds
    if len(engines) > 1 and any(engine.process_start_time_seconds != start for engine in engines):
        return None
    return start


def uncounted(engines: list[EngineSample], counting: Counting) -> list[EngineSample]:
    """Rows without counters, which would give rates that nobody measured; and, where workers alternate,
    without the start of a process that is another one at each scrape."""
    if counting is Counting.OFF:
        return [engine._replace(**_UNCOUNTED, process_start_time_seconds=None) for engine in engines]
    return [engine._replace(**_UNCOUNTED) for engine in engines]


def histograms_since(engines: list[EngineSample], known: Known) -> dict[Replica, datetime]:
    """For which replicas a histogram seen for the first time counts from 0, and since when.

    Those that were there at the last counted scrape (the engine made the series since), those whose process
    started after it, and those of a gateway, which makes a model's series at its first request.
    """
    if known.counted_at is None:
        return {}
    zero_since = {}
    for engine in engines:
        replica = (engine.replica, engine.model)
        if replica in known.replicas or _begins_at_0(engine, known.counted_at):
            zero_since[replica] = known.counted_at
    return zero_since


def _begins_at_0(engine: EngineSample, counted_at: datetime) -> bool:
    """Whether the counters of a row that was not there at the last counted scrape count from 0.

    An OpenTelemetry collector is no such gateway: it takes series away that nobody sent for some minutes, and
    shows them again as they were.
    """
    return (engine.role == "gateway" and engine.engine != "otel") or _started_since(engine, counted_at)


def _started_since(engine: EngineSample, moment: datetime) -> bool:
    started = engine.process_start_time_seconds
    return started is not None and started >= moment.replace(tzinfo=UTC).timestamp()


def usage_since(
    key: UsageKey, replicas: Mapping[str, Any], engines: list[EngineSample], known: Known
) -> dict[str, datetime]:
    """Which usage counters seen for the first time count from 0, and since when.

    A gateway makes a key's series at its first request, so on a gateway that was read before, the series was
    not there before. An engine's count from 0 when its process started since, and when its row was there
    before without them: some make them at their first use (TGI, Ray, Dynamo's frontend). (One that was there
    uncounted, when `project` is configured later, has a past that is nobody's here.)
    """
    if known.counted_at is None:
        return {}
    if key.source != usage.TARGET:
        return {"": known.counted_at} if known.read_here or known.own_usage else {}
    return {
        engine.replica: known.counted_at
        for engine in engines
        if engine.model == key.model
        and engine.replica in replicas
        and _used_first_since(engine, known, known.counted_at)
    }


def _used_first_since(engine: EngineSample, known: Known, counted_at: datetime) -> bool:
    replica = (engine.replica, engine.model)
    if replica not in known.replicas:
        return _begins_at_0(engine, counted_at)
    # A row of the process before may be one whose counters were not counted.
    return known.read_here and not _tells(known.replicas[replica]) and _tells(telling(engine))


def _tells(counters: tuple[float | None, ...]) -> bool:
    return any(value is not None for value in counters)
