"""Rows of further sources beside the fleet of `tests/app/data.py`: a TGI with means alone, a gateway, a
probe, who uses which GPU, processes, a host, and the names that figures are read by."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sql.store import Store, to_json
from tests.app.data import FULL_GPU, GIB, INF, INTERVAL, frame, gpu_uuid

MEAN_SECONDS = 0.82
"""TTFT of every request of the TGI."""


def target_rows(now: datetime) -> list[dict[str, Any]]:
    base = {
        "kind": "auto", "labels": "{}", "interval_seconds": INTERVAL, "first_seen": now - timedelta(days=1),
        "last_seen": now, "missing": [], "notes": [], "origin": "config",
    }  # fmt: skip
    tgi_names = {"requests_running": "tgi_batch_current_size", "requests_waiting": "tgi_queue_size"}
    return [
        {**base, "target": "tgi-1", "found_kind": "tgi", "role": "engine", "url": "http://tgi-1:80/metrics",
         "project": "search", "environment": "prod", "found_names": to_json(tgi_names),
         "origin": "kubernetes", "missing": ["kv_cache_used_ratio"]},
        {**base, "target": "lite-1", "found_kind": "litellm", "role": "gateway", "project": None,
         "url": "http://lite-1:4000/metrics/", "found_names": "{}"},
        {**base, "target": "node-3-host", "found_kind": "node", "role": "host",
         "url": "http://node-3:9100/metrics", "found_names": "{}"},
        {**base, "target": "together", "found_kind": "probe", "role": "probe", "kind": "probe",
         "url": "https://api.example.com/v1", "interval_seconds": 60.0, "found_names": "{}"},
    ]  # fmt: skip


def probe_rows(now: datetime) -> list[dict[str, Any]]:
    """One a minute for an hour, every tenth refused; TTFT 300 ms + 10 ms a minute of age."""
    rows: list[dict[str, Any]] = []
    for minute in range(60):
        head = {"ts": now - timedelta(minutes=minute), "target": "together", "model": "meta/llama"}
        if minute % 10 == 9:
            rows.append({**head, "ok": False, "http_status": 429, "error": "HTTP 429: too many requests"})
            continue
        rows.append(
            {
                **head, "ok": True, "http_status": 200, "ttft_seconds": 0.3 + 0.01 * minute,
                "tpot_seconds": 0.02, "e2e_seconds": 1.0, "prompt_tokens": 20.0, "generation_tokens": 32.0,
                "cost": Decimal("0.000100000"), "currency": "USD", "finish_reason": "length",
            }
        )  # fmt: skip
    return rows


def fill(store: Store, now: datetime, minutes: int = 70) -> None:
    """Everything up to and including `now`."""
    moments = [now - timedelta(seconds=INTERVAL * step) for step in range(round(minutes * 60 / INTERVAL) + 1)]
    engine = {"replica": "0", "process_start_time_seconds": None}
    engines: list[dict[str, Any]] = []
    histograms: list[dict[str, Any]] = []
    hosts: list[dict[str, Any]] = []
    scrapes: list[dict[str, Any]] = []
    for moment in moments:
        engines += [
            {**engine, "ts": moment, "target": "tgi-1", "engine": "tgi", "role": "engine", "model": "falcon",
             "requests_running": 3.0, "requests_waiting": 2.0},
            {**engine, "ts": moment, "target": "lite-1", "engine": "litellm", "role": "gateway",
             "model": "gpt-large", "requests_running": None, "requests_waiting": 500.0},
        ]  # fmt: skip
        if not (now - moment).seconds % 60:
            engines.append(
                {**engine, "ts": moment, "target": "together", "engine": "probe", "role": "probe",
                 "model": "meta/llama"}
            )  # fmt: skip
        histograms.append(
            {
                "ts": moment, "target": "tgi-1", "replica": "0", "model": "falcon", "metric": "ttft",
                "edge_set_id": 9, "interval_seconds": INTERVAL, "increases": [5.0],
                "sum_increase_seconds": 5 * MEAN_SECONDS, "sum_seconds": 1000.0, "count": 1000.0,
            }
        )  # fmt: skip
        hosts.append(
            {
                "ts": moment, "target": "node-3-host", "host": "node-3.example.com", "cpu_count": 32,
                "cpu_busy_seconds_total": 0.25 * moment.timestamp() * 32,
                "cpu_seconds_total": moment.timestamp() * 32, "memory_total_bytes": 512 * GIB,
                "memory_available_bytes": 300 * GIB,
            }
        )  # fmt: skip
        scrapes += [
            {"ts": moment, "target": name, "ok": True, "duration_seconds": 0.01, "bytes": 9000, "lines": 90,
             "rejected_lines": 0, "unowned_lines": 0}
            for name in ("tgi-1", "lite-1", "together", "node-3-host")
        ]  # fmt: skip
    placed = {"replica": "", "mig_instance": "", "first_seen": now - timedelta(hours=3), "last_seen": now}
    process = {
        "ts": now,
        "target": "dcgm-node-3",
        "gpu_uuid": FULL_GPU,
        "mig_instance": "",
        "kind": "compute",
    }
    with store.write() as writer:
        writer.append("target", frame(target_rows(now)))
        writer.append("edge_set", frame([{"edge_set_id": 9, "edges_seconds": [INF]}]))
        writer.append("engine_sample", frame(engines))
        writer.append("engine_histogram", frame(histograms))
        writer.append("host_sample", frame(hosts))
        writer.append("scrape", frame(scrapes))
        writer.append("probe", frame(probe_rows(now)))
        writer.append(
            "engine_gpu",
            frame(
                [
                    {**placed, "target": "llama-70b", "gpu_uuid": FULL_GPU, "source": "config"},
                    {**placed, "target": "llama-70b", "gpu_uuid": FULL_GPU, "source": "pod"},
                    {**placed, "target": "tgi-1", "gpu_uuid": gpu_uuid(2, 6), "source": "pod",
                     "last_seen": now - timedelta(seconds=20)},
                ]
            ),
        )  # fmt: skip
        writer.append(
            "gpu_process",
            frame(
                [
                    {**process, "pid": 4711, "name": "VLLM::EngineCor", "memory_used_bytes": 60 * GIB},
                    {**process, "pid": 815, "name": None, "memory_used_bytes": None},
                ]
            ),
        )
