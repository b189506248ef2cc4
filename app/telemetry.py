"""What infermeter says of itself at /metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from app.runtime import Runtime


class _Own(Collector):
    """Reads the monitor's counters when asked; nothing is counted twice."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        monitor = self._runtime.monitor
        if monitor is None:
            return
        scrapes = CounterMetricFamily("infermeter_scrapes", "Scrapes by result.", labels=["result"])
        targets = GaugeMetricFamily("infermeter_targets", "Targets in the list.")
        targets.add_metric([], len(monitor.targets.targets))
        yield targets
        if monitor.rounds is not None:
            stats = monitor.rounds.stats
            scrapes.add_metric(["ok"], stats.scrapes_ok)
            scrapes.add_metric(["failed"], stats.scrapes_failed)
            scrapes.add_metric(["skipped"], stats.skipped)
            scrapes.add_metric(["left_alone"], stats.left_alone)
            yield scrapes
            yield CounterMetricFamily("infermeter_scrape_rounds", "Rounds committed.", value=stats.rounds)
            yield GaugeMetricFamily(
                "infermeter_scrape_round_seconds",
                "Duration of the last round, first request to last commit.",
                value=stats.last_round_seconds,
            )
            if stats.last_commit is not None:
                age = (self._runtime.clock() - stats.last_commit).total_seconds()
                yield GaugeMetricFamily(
                    "infermeter_last_commit_age_seconds", "Time since rows were last written.", value=age
                )
        runs = CounterMetricFamily("infermeter_job_runs", "Runs of a job.", labels=["job"])
        failures = CounterMetricFamily("infermeter_job_failures", "Runs that raised.", labels=["job"])
        for name, job in list(monitor.jobs.items()):
            runs.add_metric([name], job.runs)
            failures.add_metric([name], job.failures)
        yield runs
        yield failures
        waiting = GaugeMetricFamily("infermeter_outbox_messages", "Messages by state.", labels=["state"])
        for state, count in self._runtime.store.query_rows("outbox_states"):
            waiting.add_metric([state], count)
        yield waiting
        yield GaugeMetricFamily(
            "infermeter_healthy",
            "1 when /healthz answers 200.",
            value=0 if monitor.trouble(self._runtime.clock()) else 1,
        )


def exposition(runtime: Runtime) -> tuple[bytes, str]:
    """The exposition and its content type."""
    registry = CollectorRegistry()
    registry.register(_Own(runtime))
    ProcessCollector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST
