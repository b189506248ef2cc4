"""Replay: a recording through the whole pipeline, on its own clock, as fast as it goes.

The same `Ingest` and `judge` as live. Between two evaluations the answers of one interval are written in
one transaction, then the rules are judged at that moment of the recording.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from alerts.judge import Event, judge
from app.config import Config
from collectors.batch import Scraped
from collectors.ingest import Ingest
from collectors.recording import Answer, Faults, in_order
from collectors.registry import KINDS
from collectors.target import NVML, NVML_URL, Target
from sql.store import Store

LATE_SECONDS = 30.0
"""A recording's line stands where the answer came, with the time of the request: behind newer ones by as
much as a target took to answer. More than this (or than the longest timeout) is no recording's order."""


def moment(t: float) -> datetime:
    """Unix seconds → the store's UTC without a zone."""
    return datetime.fromtimestamp(t, UTC).replace(tzinfo=None)


def replay(
    answers: Iterable[Answer],
    config: Config,
    store: Store,
    evaluate_seconds: float | None = None,
    faults: Faults | None = None,
) -> Iterator[Event]:
    """Every finding and incident change, by the recording's own times.

    The rules are judged every `evaluate_seconds` of the recording, as configured when None. Answers too far
    behind newer ones are skipped and counted in `faults`. Raises RecordingError where `answers` does, after
    what came before it has been judged.

    Targets take their settings (project, gpus, reservation) from the configuration's target of the same
    name; others are taken as the recording describes them. Nothing is sent to any channel unless
    `config.alerts.channels` names one and the caller delivers.
    """
    targets = {target.name: target for target in config.targets}
    step = evaluate_seconds or config.alerts.evaluate_interval
    ingest = Ingest(store)
    ingest.restore()
    batch: list[Scraped] = []
    tick: float | None = None
    known = 0
    faults = faults if faults is not None else Faults()
    for answer in in_order(answers, _window_seconds(config), faults):
        if tick is None:
            tick = (math.floor(answer.t / step) + 1) * step
        while answer.t >= tick:
            yield from _judge(ingest, batch, config, store, tick)
            batch = []
            # Over a long gap one evaluation every interval would only repeat "no data"; a few show it.
            behind = answer.t - tick
            tick += step if behind < 100 * step else math.floor(behind / step) * step
        target = _target(answer, targets, config)
        if len(targets) != known:
            known = len(targets)
            ingest.sync_targets(targets.values(), moment(answer.t))
        batch.append(ingest.read(target, moment(answer.t), answer.fetched))
    if tick is not None:
        yield from _judge(ingest, batch, config, store, tick)
    if faults.broken is not None:
        raise faults.broken


def _window_seconds(config: Config) -> float:
    paces = (config.scrape, *config.targets, *config.lists)
    return max(LATE_SECONDS, *(pace.timeout_seconds for pace in paces))


def _judge(
    ingest: Ingest, batch: list[Scraped], config: Config, store: Store, tick: float
) -> Iterator[Event]:
    if batch:
        ingest.commit(batch)
    yield from judge(store, config.alerts, moment(tick), config.links_base)


def _target(answer: Answer, targets: dict[str, Target], config: Config) -> Target:
    if answer.name not in targets:
        kind = answer.kind if answer.kind in KINDS else "auto"
        targets[answer.name] = Target(
            name=answer.name,
            kind=kind,
            url=NVML_URL if kind == NVML else "http://recording.invalid/metrics",
            labels=answer.labels,
            project=answer.labels.get("project"),
            environment=answer.labels.get("environment"),
            interval_seconds=config.scrape.interval_seconds,
            timeout_seconds=config.scrape.timeout_seconds,
        )
    return targets[answer.name]
