"""The monitor: scraping, judging, telling and housekeeping, in a thread and an event loop of its own.

APScheduler starts the jobs, coalesced and one instance each. The loop is not the web server's, so a slow
page cannot delay a scrape, and a hung exporter cannot delay an alert: each job waits only for its own work.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import aiohttp
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from alerts.judge import judge
from alerts.outbox import Sender
from app.config import Config
from app.housekeeping import housekeeping
from app.pulling import BACKFILL_EVERY_SECONDS, Pulling, backfill_job, pull_job, pull_limit_seconds
from app.targets import TargetList
from collectors.fetch import new_session
from collectors.ingest import Ingest
from collectors.placement import place_engines
from collectors.rounds import Rounds
from sql.store import Store

log = logging.getLogger("infermeter")

DELIVER_EVERY_SECONDS = 5.0
"""When nothing has happened. A decision has the outbox looked at right away; as long as something was sent
or put off, it is looked at again after `DELIVER_AGAIN_SECONDS`."""

DELIVER_AGAIN_SECONDS = 1.0
DELIVER_IDLE_SECONDS = 60.0
"""Without a channel there is nothing to send; what is left of one that was taken out is put away."""

TARGETS_EVERY_SECONDS = 5.0
HOUSEKEEPING_EVERY_SECONDS = 3600.0
PLACE_EVERY_SECONDS = 60.0
PLACE_DELAY_SECONDS = 5.0
"""The first time after the first answers."""

STOP_SECONDS = 2.5
"""Ctrl-C must end the process within 5 s, open pages and the store's last write included."""

STALLED_INTERVALS = 3
STALLED_AT_LEAST_SECONDS = 15.0


OF_TARGETS = ("scrape every ", pull_job(""), backfill_job(""))
"""How the names of jobs begin that come and go with targets."""


def scrape_job(interval: float) -> str:
    """The name of the job that runs the rounds of one interval."""
    return f"scrape every {interval:g} s"


@dataclass
class JobState:
    """How a job is doing; shown by /healthz and /metrics."""

    added: datetime
    runs: int = 0
    failures: int = 0
    last_ok: datetime | None = None
    last_error: str | None = None
    """In words; None when the last run went well."""


@dataclass
class Monitor:
    """Start once, stop once. `clock` gives UTC without a zone."""

    store: Store
    config: Config
    targets: TargetList
    clock: Callable[[], datetime]
    jobs: dict[str, JobState] = field(default_factory=dict)
    started_at: datetime | None = None
    rounds: Rounds | None = None
    pulling: Pulling | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _stopping: asyncio.Event | None = None
    _thread: threading.Thread | None = None
    _ready: threading.Event = field(default_factory=threading.Event)
    _failed: BaseException | None = None
    _stop_by: float | None = None

    def start(self) -> None:
        """Start the thread; returns when the first jobs are scheduled. Raises what kept it from starting."""
        self._thread = threading.Thread(target=self._run, name="infermeter-monitor", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """End the jobs; a transaction that has begun is finished first. At most `STOP_SECONDS`, of all calls
        together."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + STOP_SECONDS
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(max(0.0, self._stop_by - time.monotonic()))

    @property
    def ended(self) -> bool:
        """Whether the thread has ended (or never began)."""
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())  # which awaits a commit in its thread
            if self.rounds is not None and self._stop_by is not None and time.monotonic() < self._stop_by:
                self.rounds.ingest.commit([], ending=True)
        except BaseException as error:  # noqa: BLE001 (handed to start(), or logged: this is a thread's top)
            self._failed = error
            log.error("the monitor ended: %s: %s", type(error).__name__, error)
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        ingest = Ingest(self.store)
        await asyncio.to_thread(ingest.restore)
        async with new_session() as session, aiohttp.ClientSession() as telling:
            self.rounds = Rounds(ingest, session, self.clock, self.config.scrape.body_limit_bytes)
            self.pulling = Pulling(self.targets, self.rounds, self.clock)
            scheduler = AsyncIOScheduler(
                timezone="UTC",
                executors={"default": AsyncIOExecutor()},
                job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            )
            self.started_at = self.clock()
            await self._sync_targets(scheduler, first=True)
            alerts = self.config.alerts
            sender = Sender(self.store, alerts.channels, self.clock, telling)
            if self.targets.lists:
                self._add(scheduler, "targets", TARGETS_EVERY_SECONDS, partial(self._sync_targets, scheduler))
            self._add(scheduler, "judge", alerts.evaluate_interval, partial(self._judge, scheduler))
            often = DELIVER_EVERY_SECONDS if alerts.channels else DELIVER_IDLE_SECONDS
            self._add(scheduler, "deliver", often, partial(self._deliver, scheduler, sender))
            self._add(scheduler, "housekeeping", HOUSEKEEPING_EVERY_SECONDS, self._housekeeping, delay=60.0)
            self._add(scheduler, "place", PLACE_EVERY_SECONDS, self._place, delay=PLACE_DELAY_SECONDS)
            scheduler.start()
            self._ready.set()
            try:
                await self._stopping.wait()
            finally:
                scheduler.shutdown(wait=False)
                self.pulling.close()
                await self._end_tasks()
                await self.rounds.aclose()

    async def _end_tasks(self) -> None:
        """Cancel what is in flight; work already in a thread (a commit) is awaited by `asyncio.run`."""
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _add(
        self,
        scheduler: AsyncIOScheduler,
        name: str,
        seconds: float,
        work: Callable[[], Awaitable[None]],
        delay: float = 0.0,
    ) -> None:
        state = self.jobs.setdefault(name, JobState(self.clock()))

        async def job() -> None:
            await self._guarded(name, state, work)

        first = self.clock() + timedelta(seconds=delay)
        scheduler.add_job(
            job, "interval", seconds=seconds, id=name, name=name, next_run_time=first, replace_existing=True
        )

    async def _guarded(self, name: str, state: JobState, work: Callable[[], Awaitable[None]]) -> None:
        state.runs += 1
        try:
            await work()
        except asyncio.CancelledError:
            if self._stopping is None or not self._stopping.is_set():
                raise
        except Exception as error:
            state.failures += 1
            state.last_error = f"{type(error).__name__}: {error}"
            log.exception("job %s failed", name)
        else:
            state.last_ok = self.clock()
            state.last_error = None

    async def _sync_targets(self, scheduler: AsyncIOScheduler, first: bool = False) -> None:
        changed = await asyncio.to_thread(self.targets.refresh, self.clock())
        if not changed and not first:
            return
        rounds, pulling = self.rounds, self.pulling
        assert rounds is not None
        assert pulling is not None
        await asyncio.to_thread(pulling.update)
        async with rounds.committing:
            listed = self.targets
            await asyncio.to_thread(
                rounds.ingest.sync_targets, listed.targets, self.clock(), listed.origins, listed.unsettled
            )
        wanted: dict[str, tuple[float, Callable[[], Awaitable[None]]]] = {}
        for interval in self.targets.by_interval():
            wanted[scrape_job(interval)] = (interval, partial(self._scrape, interval))
        for source in pulling.sources():
            pull = partial(pulling.pull, source.name)
            wanted[pull_job(source.name)] = (source.interval_seconds, pull)
            backfill = partial(pulling.backfill, source.name)
            wanted[backfill_job(source.name)] = (BACKFILL_EVERY_SECONDS, backfill)
        for job in scheduler.get_jobs():
            if job.id.startswith(OF_TARGETS) and job.id not in wanted:
                job.remove()
                self.jobs.pop(job.id, None)
        present = {job.id for job in scheduler.get_jobs()}
        for name, (interval, work) in wanted.items():
            if name not in present:
                self._add(scheduler, name, interval, work)

    async def _scrape(self, interval: float) -> None:
        assert self.rounds is not None
        # Looked up at each round, so that a changed list needs no new job.
        await self.rounds.run(self.targets.by_interval().get(interval, []), interval)

    async def _judge(self, scheduler: AsyncIOScheduler) -> None:
        now, base = self.clock(), self.config.links_base
        events = await asyncio.to_thread(judge, self.store, self.config.alerts, now, base)
        if any(event.kind == "incident" for event in events):
            scheduler.modify_job("deliver", next_run_time=now)

    async def _deliver(self, scheduler: AsyncIOScheduler, sender: Sender) -> None:
        done = await sender.deliver()
        if done.posted or done.waiting:
            again = self.clock() + timedelta(seconds=DELIVER_AGAIN_SECONDS)
            scheduler.modify_job("deliver", next_run_time=again)

    async def _place(self) -> None:
        await asyncio.to_thread(place_engines, self.store, self.clock())

    async def _housekeeping(self) -> None:
        await asyncio.to_thread(housekeeping, self.store, self.config.retention, self.clock())
        if self.rounds is not None:
            async with self.rounds.committing:
                await asyncio.to_thread(self.rounds.ingest.forget)

    def trouble(self, now: datetime) -> list[str]:
        """Why the monitor cannot be trusted at the moment, in words; empty when it can."""
        if self._failed is not None:
            return [f"the monitor ended: {self._failed}"]
        if self._thread is None or not self._thread.is_alive() or self.started_at is None:
            return ["the monitor is not running"]
        reasons = []
        limits = {}
        for interval, targets in self.targets.by_interval().items():
            timeout = max(target.timeout_seconds for target in targets)
            name = scrape_job(interval)
            limits[name] = (
                f"scraping every {interval:g} s has stalled: no round has ended",
                interval,
                timeout,
            )
        for source in self.pulling.sources() if self.pulling is not None else ():
            what = f"pulling from {source.name} has stalled: no pull has ended"
            limits[pull_job(source.name)] = (what, source.interval_seconds, pull_limit_seconds(source))
        limits["judge"] = ("alerts have not been judged", self.config.alerts.evaluate_interval, 0.0)
        for name, (what, interval, timeout) in limits.items():
            limit = max(STALLED_INTERVALS * interval + timeout, STALLED_AT_LEAST_SECONDS)
            job = self.jobs.get(name)
            since = job.last_ok or job.added if job is not None else self.started_at
            if (age := (now - since).total_seconds()) > limit:
                reasons.append(f"{what} for {age:.0f} s (limit {limit:.0f} s)")
        reasons.extend(
            f"job {name}: {state.last_error}" for name, state in self.jobs.items() if state.last_error
        )
        return reasons
