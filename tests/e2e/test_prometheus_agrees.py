"""Prometheus and infermeter on the same simulated fleet, beside each other, say the same.

The fleet's clock is stopped twice. While it stands both scrape the same values, so gauges must be equal, and
what counters and buckets gained between the two stops must be equal too, whoever scraped when.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from app.config import load_text
from app.demo.settings import demo_config
from app.monitor import Monitor
from app.runtime import utc_now
from app.targets import TargetList
from collectors.quantiles import histogram_quantile
from sql.store import Store
from tests.e2e.demo_server import Demo, demo_server
from tests.e2e.prometheus_server import Prometheus, Series, needs_prometheus, prometheus_server

pytestmark = [pytest.mark.wide, needs_prometheus]

INTERVAL_SECONDS = 1
LIVE_SECONDS = 40
DEADLINE_SECONDS = 30

MIB = 2**20
GPU_GAUGES: dict[str, dict[str, float]] = {
    # canonical column: {name in the exposition: factor to the canonical unit}
    "utilization_ratio": {"DCGM_FI_DEV_GPU_UTIL": 0.01, "DCGM_FI_DEV_GPU_UTIL_RATIO": 1},
    "graphics_active_ratio": {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": 1},
    "tensor_active_ratio": {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 1, "DCGM_FI_PROF_TENSOR_UTIL_RATIO": 1},
    "dram_active_ratio": {"DCGM_FI_PROF_DRAM_ACTIVE": 1, "DCGM_FI_PROF_DRAM_UTIL_RATIO": 1},
    "memory_used_bytes": {"DCGM_FI_DEV_FB_USED": MIB, "DCGM_FI_DEV_FB_USED_BYTES": 1},
    "memory_free_bytes": {"DCGM_FI_DEV_FB_FREE": MIB, "DCGM_FI_DEV_FB_FREE_BYTES": 1},
    "temperature_celsius": {"DCGM_FI_DEV_GPU_TEMP": 1, "DCGM_FI_DEV_GPU_TEMP_CELSIUS": 1},
    "power_watts": {"DCGM_FI_DEV_POWER_USAGE": 1, "DCGM_FI_DEV_BOARD_POWER_WATTS": 1},
    "sm_clock_hertz": {"DCGM_FI_DEV_SM_CLOCK": 1e6, "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1},
}
GPU_ENERGY = {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 0.001, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": 1}
ENGINE_GAUGES = {
    "requests_running": ("vllm:num_requests_running", "llamacpp:requests_processing"),
    "requests_waiting": ("vllm:num_requests_waiting", "llamacpp:requests_deferred"),
    "kv_cache_used_ratio": ("vllm:kv_cache_usage_perc",),
}
ENGINE_COUNTERS = {
    "prompt_tokens_total": ("vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total"),
    "generation_tokens_total": ("vllm:generation_tokens_total", "llamacpp:tokens_predicted_total"),
}
HISTOGRAMS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
}

GpuKey = tuple[str, str]
"""UUID and MIG instance."""
EngineKey = tuple[str, str]
"""Target and replica."""


@dataclass
class Stop:
    """What both said while the clock stood."""

    prometheus_times: dict[str, float]
    """Target → unix time of Prometheus' newest scrape."""
    gpus: dict[GpuKey, dict[str, Any]]
    engines: dict[EngineKey, dict[str, Any]]
    gauges: dict[str, list[Series]] = field(default_factory=dict)


@dataclass
class SideBySide:
    """Both, after the two stops."""

    prometheus: Prometheus
    store: Store
    names: dict[str, str]
    """URL → our name of the target."""
    first: Stop
    second: Stop

    @property
    def stops(self) -> tuple[Stop, Stop]:
        return self.first, self.second

    def window(self, url: str) -> tuple[str, float]:
        """Prometheus' scrapes from the first stop to the second: a range selector and its end.

        From sample to sample, so that `increase()` has nothing to extrapolate. The millisecond more is for
        Prometheus 3, whose ranges leave out their left end.
        """
        start, end = self.first.prometheus_times[url], self.second.prometheus_times[url]
        return f"[{round((end - start) * 1000) + 1}ms]", end


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.1)


def newest(store: Store) -> tuple[dict[GpuKey, dict[str, Any]], dict[EngineKey, dict[str, Any]]]:
    since = utc_now() - timedelta(minutes=10)
    gpus = store.query("api_gpus", since=since, project=None, environment=None, host=None)
    engines = store.query("api_engines", since=since, project=None, environment=None, target=None)
    return (
        {(row["gpu_uuid"], row["mig_instance"]): row for row in gpus.to_dicts()},
        {(row["target"], row["replica"]): row for row in engines.to_dicts()},
    )


def unix(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()


def stop(demo: Demo, prometheus: Prometheus, store: Store, targets: int) -> Stop:
    """Stop the clock, and let both scrape every target once more."""
    stopped = demo.stop_clock()

    def prometheus_times() -> dict[str, float]:
        return {
            series.labels["target"]: series.points[0][1] for series in prometheus.instant("timestamp(up)")
        }

    def both_have_scraped() -> bool:
        theirs = prometheus_times().values()
        gpus, engines = newest(store)
        rows = [*gpus.values(), *engines.values()]
        ours = {str(row["target"]): unix(row["ts"]) for row in rows}
        return len(theirs) == len(ours) == targets and min(theirs) > stopped and min(ours.values()) > stopped

    wait_until(both_have_scraped, "a scrape of every target while the clock stands")
    gpus, engines = newest(store)
    found = Stop(prometheus_times(), gpus, engines)
    names = [name for choices in [*GPU_GAUGES.values(), *ENGINE_GAUGES.values()] for name in choices]
    found.gauges = {name: prometheus.instant(name) for name in names}
    return found


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    with ExitStack() as stack:
        demo = stack.enter_context(demo_server())
        settings = demo_config(demo.url, ":memory:", 8501)
        settings["scrape"] = {"interval": f"{INTERVAL_SECONDS}s"}
        config = load_text(yaml.safe_dump(settings), "demo")
        names = {target.url: target.name for target in config.targets}
        prometheus = stack.enter_context(
            prometheus_server(
                list(names), tmp_path_factory.mktemp("prometheus"), interval_seconds=INTERVAL_SECONDS
            )
        )
        store = Store.open(":memory:")
        stack.callback(store.close)
        targets = TargetList(config, [])
        targets.refresh(utc_now())
        monitor = Monitor(store, config, targets, utc_now)
        monitor.start()
        stack.callback(monitor.stop)
        first = stop(demo, prometheus, store, len(names))
        demo.start_clock()
        time.sleep(LIVE_SECONDS)
        second = stop(demo, prometheus, store, len(names))
        yield SideBySide(prometheus, store, names, first, second)


def gpu_key(labels: dict[str, str]) -> GpuKey:
    return labels["UUID"], labels.get("GPU_I_ID", "")


def engine_key(labels: dict[str, str], names: dict[str, str]) -> EngineKey:
    return names[labels["target"]], labels.get("engine", "0")


@pytest.mark.parametrize("column", GPU_GAUGES)
def test_gpu_gauges_are_equal(side_by_side: SideBySide, column: str) -> None:
    compared = 0
    for stopped in side_by_side.stops:
        for name, factor in GPU_GAUGES[column].items():
            for series in stopped.gauges[name]:
                ours = stopped.gpus[gpu_key(series.labels)][column]
                # Ratios, watts and degrees are stored as 32-bit floats.
                assert ours == pytest.approx(series.points[0][1] * factor, rel=1e-6, abs=1e-9), series.labels
                compared += 1
        stored = [key for key, row in stopped.gpus.items() if row[column] is not None]
        assert compared >= len(stored) >= 30
    if column == "power_watts":
        moved = [key for key, row in side_by_side.first.gpus.items() if row != side_by_side.second.gpus[key]]
        assert len(moved) > 10, "a fleet that stands still proves little"


@pytest.mark.parametrize("column", ENGINE_GAUGES)
def test_engine_gauges_are_equal(side_by_side: SideBySide, column: str) -> None:
    compared = 0
    for stopped in side_by_side.stops:
        for name in ENGINE_GAUGES[column]:
            for series in stopped.gauges[name]:
                ours = stopped.engines[engine_key(series.labels, side_by_side.names)][column]
                assert ours == series.points[0][1], series.labels
                compared += 1
    assert compared >= 2 * 7


@pytest.mark.parametrize("column", ENGINE_COUNTERS)
def test_tokens_counted_over_the_window_are_equal(side_by_side: SideBySide, column: str) -> None:
    compared = 0
    for url, target in side_by_side.names.items():
        window, end = side_by_side.window(url)
        for name in ENGINE_COUNTERS[column]:
            for series in side_by_side.prometheus.instant(f'increase({name}{{target="{url}"}}{window})', end):
                key = engine_key(series.labels, side_by_side.names)
                before, after = side_by_side.first.engines[key], side_by_side.second.engines[key]
                assert key[0] == target
                gained = after[column] - before[column]
                assert gained == pytest.approx(series.points[0][1], rel=0.001)
                assert page_gain(side_by_side.store, before, after, column) == pytest.approx(gained, rel=1e-9)
                compared += gained > 0
    assert compared >= 6


def page_gain(store: Store, before: dict[str, Any], after: dict[str, Any], column: str) -> float:
    """What the engine page's rate comes to over the window."""
    (row,) = store.query(
        "page_engine_series", target=after["target"], replica=after["replica"], model=after["model"],
        from_ts=before["ts"] + timedelta(microseconds=1), to_ts=after["ts"], step=864_000, lead=60,
    ).to_dicts()  # fmt: skip
    seconds: float = (after["ts"] - before["ts"]).total_seconds()
    return float(row[f"{column.removesuffix('_total')}_per_second"]) * seconds


def test_energy_used_over_the_window_is_equal(side_by_side: SideBySide) -> None:
    compared = 0
    for url in side_by_side.names:
        window, end = side_by_side.window(url)
        for name, factor in GPU_ENERGY.items():
            for series in side_by_side.prometheus.instant(f'increase({name}{{target="{url}"}}{window})', end):
                key = gpu_key(series.labels)
                before, after = side_by_side.first.gpus[key], side_by_side.second.gpus[key]
                gained = after["energy_joules_total"] - before["energy_joules_total"]
                assert gained == pytest.approx(series.points[0][1] * factor, rel=0.001)
                compared += gained > 0
    assert compared >= 30


@pytest.mark.parametrize("metric", HISTOGRAMS)
def test_percentiles_equal_histogram_quantile(side_by_side: SideBySide, metric: str) -> None:
    compared = 0
    for url, target in side_by_side.names.items():
        rows = stored_increases(side_by_side, target, metric)
        window, end = side_by_side.window(url)
        buckets = f'increase({HISTOGRAMS[metric]}_bucket{{target="{url}"}}{window})'
        for q in (0.5, 0.95, 0.99):
            theirs = side_by_side.prometheus.instant(
                f"histogram_quantile({q}, sum by (le, target, engine) ({buckets}))", end
            )
            assert len(theirs) == len(rows)
            for series in theirs:
                row = rows[engine_key(series.labels, side_by_side.names)]
                ours = histogram_quantile(q, row["edges_seconds"], row["increases"])
                value = series.points[0][1]
                if math.isnan(value):
                    assert ours.value is None
                    assert row["increases"][-1] == 0
                elif ours.value is None:
                    # Prometheus answers the highest finite edge there; ours is "more than" that.
                    assert (ours.lo, ours.hi) == (value, math.inf)
                else:
                    assert ours.value == pytest.approx(value, rel=1e-9)
                    compared += 1
    assert compared >= 3 * 5


def test_bucket_increases_are_the_counts_prometheus_stored(side_by_side: SideBySide) -> None:
    compared = 0
    for url, target in side_by_side.names.items():
        rows = stored_increases(side_by_side, target, "ttft")
        window, end = side_by_side.window(url)
        for series in side_by_side.prometheus.instant(
            f'{HISTOGRAMS["ttft"]}_bucket{{target="{url}"}}{window}', end
        ):
            row = rows[engine_key(series.labels, side_by_side.names)]
            place = row["edges_seconds"].index(float(series.labels["le"]))
            assert row["increases"][place] == series.points[-1][1] - series.points[0][1]
            compared += 1
    assert compared >= 5 * 20


def stored_increases(side_by_side: SideBySide, target: str, metric: str) -> dict[EngineKey, dict[str, Any]]:
    """The latency page's rows from the first stop to the second, in one step."""
    before = [row["ts"] for (name, _), row in side_by_side.first.engines.items() if name == target]
    after = [row["ts"] for (name, _), row in side_by_side.second.engines.items() if name == target]
    if not before:
        return {}
    rows = side_by_side.store.query(
        "page_latency", targets=[target], metrics=[metric], from_ts=max(before), to_ts=max(after),
        step=864_000, origin=max(before), max_interval=120.0,
    ).to_dicts()  # fmt: skip
    return {(row["target"], row["replica"]): row for row in rows}
