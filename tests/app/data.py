"""A small made-up fleet as rows of the store: what the page tests and a trial server show.

Every value is a function of the moment, so a longer fill holds the same past. 4 nodes × 8 GPUs (one of
them split by MIG, one without a memory sensor), 5 vLLM engines and one llama.cpp; node-3 GPU 5 runs full.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from sql.store import Store, to_json

INTERVAL = 10.0
GIB = 2**30
INF = math.inf
TTFT_EDGES = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
              20.0, 40.0, 80.0, 160.0, 640.0, 2560.0, INF]  # fmt: skip
E2E_EDGES = [0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
             480.0, 960.0, 1920.0, 7680.0, INF]  # fmt: skip
ITL_EDGES = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
             40.0, 80.0, INF]  # fmt: skip
EDGES = {1: TTFT_EDGES, 2: E2E_EDGES, 3: ITL_EDGES}
METRICS = {"ttft": (1, 0.35, 0.6), "e2e": (2, 9.0, 0.5), "itl": (3, 0.032, 0.4)}
"""Metric → edge set, median seconds, sigma of a log-normal."""

ENGINES = [
    # target, engine, model, project, environment, requests per second, GPUs it uses
    ("llama-70b", "vllm", "meta-llama/Llama-3.3-70B-Instruct", "chat", "prod", 6.0, ["node-3/4", "node-3/5"]),
    ("llama-70b-b", "vllm", "meta-llama/Llama-3.3-70B-Instruct", "chat", "prod", 6.0, ["node-1/0"]),
    ("qwen-7b", "vllm", "Qwen/Qwen2.5-7B-Instruct", "search", "prod", 14.0, ["node-2/1"]),
    ("mistral-small", "vllm", "mistralai/Mistral-Small-24B", "search", "staging", 0.02, ["node-2/2"]),
    ("embed", "vllm", "BAAI/bge-m3", "search", "prod", 2.0, ["node-4/6"]),
    ("phi-edge", "llamacpp", "phi-4-mini", "edge", "dev", 0.4, ["node-4/0"]),
]
NODES = ("node-1", "node-2", "node-3", "node-4")
FULL_GPU = "GPU-0003-0005"


def gpu_uuid(node: int, index: int) -> str:
    return f"GPU-{node:04d}-{index:04d}"


def wave(moment: datetime, seed: float, period: float) -> float:
    """0 to 1, smooth, another for each seed."""
    seconds = moment.timestamp()
    return 0.5 + 0.25 * (
        math.sin(2 * math.pi * seconds / period + seed)
        + math.sin(2 * math.pi * seconds / (period * 0.37) + 2.3 * seed)
    )


def gpu_rows(moment: datetime, nodes: int = 4, full_since: datetime | None = None) -> list[dict[str, Any]]:
    rows = []
    for node in range(1, nodes + 1):
        for index in range(8):
            seed = node * 8 + index
            busy = wave(moment, seed, 1400)
            used = int((20 + 36 * wave(moment, seed * 0.7, 9000)) * GIB)
            if gpu_uuid(node, index) == FULL_GPU:
                since = 0.0 if full_since is None else (moment - full_since).total_seconds()
                used = int((58 + min(max(since + 900, 0) / 1800, 1) * 15.5) * GIB)
            reserved, total = int(0.6 * GIB), 80 * GIB
            rows.append(
                {
                    "ts": moment, "target": f"dcgm-node-{node}", "gpu_uuid": gpu_uuid(node, index),
                    "mig_instance": "", "gpu_index": index, "host": f"node-{node}",
                    "gpu_model": "NVIDIA H100 80GB HBM3", "driver_version": "570.86.15",
                    "utilization_ratio": round(busy, 3), "sm_active_ratio": busy * 0.7,
                    "tensor_active_ratio": busy * 0.35, "dram_active_ratio": busy * 0.5,
                    "memory_used_bytes": used, "memory_free_bytes": total - reserved - used,
                    "memory_reserved_bytes": reserved, "memory_total_bytes": total,
                    "memory_used_ratio": used / (total - reserved),
                    "temperature_celsius": 38 + 40 * busy, "memory_temperature_celsius": 42 + 38 * busy,
                    "power_watts": 90 + 600 * busy, "power_limit_watts": 700.0,
                    "sm_clock_hertz": int(1.98e9 - (busy > 0.8) * 0.3e9), "memory_clock_hertz": 2_619_000_000,
                    "throttle_reasons": (4 if busy > 0.8 else 0) | (1 if busy < 0.12 else 0),
                    "pod": f"llm-{node}-{index}", "namespace": "inference",
                }
            )  # fmt: skip
    for instance, share in (("1", 0.91), ("2", 0.4)):
        total = 20 * GIB
        rows.append(
            {
                "ts": moment, "target": "dcgm-node-4", "gpu_uuid": gpu_uuid(4, 7), "mig_instance": instance,
                "gpu_index": 7, "host": "node-4", "gpu_model": "NVIDIA H100 80GB HBM3",
                "graphics_active_ratio": 1.29 * share, "sm_active_ratio": 1.29 * share,
                "memory_used_bytes": int(total * share * 0.8),
                "memory_free_bytes": int(total * (1 - share * 0.8)),
                "memory_total_bytes": total, "memory_used_ratio": share * 0.8,
            }
        )  # fmt: skip
    return rows


def engine_rows(moment: datetime, start: datetime) -> list[dict[str, Any]]:
    rows = []
    elapsed = (moment - start).total_seconds() + 86_400
    for number, (target, engine, model, _, _, rate, _) in enumerate(ENGINES):
        busy = wave(moment, number, 2100)
        row: dict[str, Any] = {
            "ts": moment, "target": target, "engine": engine, "role": "engine", "replica": "0",
            "model": model, "requests_running": round(16 * busy),
            "requests_waiting": max(round(30 * (busy - 0.6)), 0),
            "prompt_tokens_total": rate * 800 * elapsed, "generation_tokens_total": rate * 220 * elapsed,
            "process_start_time_seconds": start.timestamp() - 86_400,
        }  # fmt: skip
        if engine == "vllm":
            row |= {
                "kv_cache_used_ratio": 0.2 + 0.7 * busy, "preemptions_total": float(int(elapsed / 600)),
                "memory_reservation_ratio": 0.9,
            }  # fmt: skip
        rows.append(row)
    return rows


def log_normal_counts(edges: list[float], total: float, median: float, sigma: float) -> list[float]:
    """Cumulative counts of `total` log-normal values at each edge, whole numbers."""
    return [
        round(
            total
            * (1.0 if edge == INF else 0.5 * (1 + math.erf(math.log(edge / median) / (sigma * math.sqrt(2)))))
        )
        for edge in edges
    ]


def histogram_rows(moment: datetime, first: bool = False) -> list[dict[str, Any]]:
    rows = []
    for number, (target, engine, model, _, _, rate, _) in enumerate(ENGINES):
        if engine == "llamacpp":
            continue
        busy = wave(moment, number, 2100)
        for metric, (edge_set, median, sigma) in METRICS.items():
            requests = rate * INTERVAL * (0.5 + busy)
            if requests < 1:  # rare requests come one at a time
                requests = float(int(moment.timestamp()) % round(INTERVAL / max(requests, 0.01)) < INTERVAL)
            counts = log_normal_counts(EDGES[edge_set], requests, median * (0.5 + 2 * busy), sigma)
            rows.append(
                {
                    "ts": moment, "target": target, "replica": "0", "model": model, "metric": metric,
                    "edge_set_id": edge_set, "interval_seconds": None if first else INTERVAL,
                    "increases": None if first else counts,
                    "sum_increase_seconds": None if first else requests * median * 1.2,
                    "sum_seconds": 1000.0, "count": 1000.0,
                }
            )  # fmt: skip
    return rows


def scrape_rows(moment: datetime, nodes: int = 4) -> list[dict[str, Any]]:
    names = [*(f"dcgm-node-{node}" for node in range(1, nodes + 1)), *(engine[0] for engine in ENGINES)]
    good = {
        "ts": moment, "ok": True, "http_status": 200, "duration_seconds": 0.012, "bytes": 55_000,
        "lines": 640, "rejected_lines": 0, "unowned_lines": 0, "error": None,
    }  # fmt: skip
    error = "connection refused by 10.0.0.9:8000; is the engine running there?"
    bad = {"ts": moment, "target": "vllm-old", "ok": False, "duration_seconds": 0.002, "error": error}
    return [*({**good, "target": name} for name in names), bad]


def target_rows(now: datetime, nodes: int = 4) -> list[dict[str, Any]]:
    base = {
        "kind": "auto", "labels": "{}", "interval_seconds": INTERVAL, "first_seen": now - timedelta(days=3),
        "last_seen": now,
    }  # fmt: skip
    rows: list[dict[str, Any]] = [
        {
            **base, "target": f"dcgm-node-{node}", "found_kind": "dcgm", "role": "gpu",
            "url": f"http://node-{node}:9400/metrics",
            "missing": ["energy_joules_total"] if node == 4 else [],
            "notes": ["SM_ACTIVE above 1 on a MIG instance: shown as 100 %"] if node == 4 else [],
        }
        for node in range(1, nodes + 1)
    ]  # fmt: skip
    for target, engine, _, project, environment, _, gpus in ENGINES:
        rows.append(
            {
                **base, "target": target, "found_kind": engine, "role": "engine", "project": project,
                "environment": environment, "url": f"http://{target}:8000/metrics", "gpus": gpus,
                "missing": ["ttft", "itl", "e2e", "kv_cache_used_ratio"] if engine == "llamacpp" else [],
                "notes": [],
            }
        )  # fmt: skip
    rows.append(
        {
            **base, "target": "vllm-old", "found_kind": None, "role": None, "project": "chat",
            "environment": "staging", "url": "http://10.0.0.9:8000/metrics", "missing": [], "notes": [],
        }
    )  # fmt: skip
    return rows


def incident_rows(now: datetime) -> list[dict[str, Any]]:
    labels = {
        "host": "node-3", "gpu_index": 5, "gpu_model": "NVIDIA H100 80GB HBM3", "target": "dcgm-node-3",
        "project": "chat", "environment": "prod", "pod": "llm-3-5",
    }  # fmt: skip
    return [
        {
            "incident_id": "i-firing", "name": "vram_high", "check_name": "vram_high",
            "subject": f"gpu:{FULL_GPU}",
            "severity": "critical", "state": "firing", "reason": "over_threshold",
            "reason_text": "over 80 % for 12 min", "title": "VRAM high",
            "summary": "node-3 GPU 5: VRAM 92 % (73.5 of 79.4 GiB), over 80 % for 12 min; 5.9 GiB left.",
            "value": 0.92, "peak_value": 0.93, "threshold": 0.8, "unit": "ratio",
            "started_at": now - timedelta(minutes=14), "fired_at": now - timedelta(minutes=12),
            "resolved_at": None, "last_seen_at": now, "no_data_since": None,
            "labels": to_json(labels), "evidence": to_json({"series": "memory_used_ratio"}),
        },
        {
            "incident_id": "i-pending", "name": "vram_high", "check_name": "vram_high",
            "subject": f"gpu:{gpu_uuid(4, 7)}/1", "severity": "warning", "state": "pending",
            "reason": "pending", "reason_text": "over 80 % for 1 of 2 min",
            "title": "VRAM high", "summary": "node-4 GPU 7 MIG 1: VRAM 82 %, over 80 % for 1 min.",
            "value": 0.82, "peak_value": 0.82, "threshold": 0.8, "unit": "ratio",
            "started_at": now - timedelta(minutes=1), "fired_at": None, "resolved_at": None,
            "last_seen_at": now, "no_data_since": None,
            "labels": to_json({"host": "node-4", "gpu_index": 7, "target": "dcgm-node-4"}),
            "evidence": "{}",
        },
        {
            "incident_id": "i-resolved", "name": "vram_high", "check_name": "vram_high",
            "subject": f"gpu:{gpu_uuid(2, 1)}", "severity": "critical", "state": "resolved",
            "reason": "cleared",
            "reason_text": "below 75 %", "title": "VRAM high",
            "summary": "node-2 GPU 1: VRAM peaked at 88 %.", "value": 0.7, "peak_value": 0.88,
            "threshold": 0.8, "unit": "ratio", "started_at": now - timedelta(minutes=50),
            "fired_at": now - timedelta(minutes=48),
            "resolved_at": now - timedelta(minutes=30), "last_seen_at": now - timedelta(minutes=30),
            "no_data_since": None,
            "labels": to_json({"host": "node-2", "gpu_index": 1, "target": "dcgm-node-2"}),
            "evidence": "{}",
        },
    ]  # fmt: skip


def failed_channel(now: datetime) -> dict[str, Any]:
    error = "404 no_service: the webhook was removed in Slack; make a new one and name it in webhook_url"
    return {
        "channel": "slack", "kind": "slack", "state": "failed", "last_error": error, "failures": 1,
        "run": "1", "last_error_at": now - timedelta(hours=1), "last_sent_at": now - timedelta(hours=3),
        "next_send_at": now,
    }  # fmt: skip


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def fill(store: Store, now: datetime, minutes: int = 70, nodes: int = 4, incidents: bool = True) -> None:
    """The fleet's last `minutes`, up to and including `now`."""
    start = now - timedelta(minutes=minutes)
    moments = [
        start + timedelta(seconds=INTERVAL * step) for step in range(round(minutes * 60 / INTERVAL) + 1)
    ]
    full_since = now - timedelta(minutes=14)
    with store.write() as writer:
        writer.append("target", frame(target_rows(now, nodes)))
        writer.append(
            "edge_set", frame([{"edge_set_id": key, "edges_seconds": edges} for key, edges in EDGES.items()])
        )
        writer.append("scrape", frame([row for moment in moments for row in scrape_rows(moment, nodes)]))
        writer.append(
            "gpu_sample", frame([row for moment in moments for row in gpu_rows(moment, nodes, full_since)])
        )
        writer.append(
            "engine_sample", frame([row for moment in moments for row in engine_rows(moment, start)])
        )
        writer.append(
            "engine_histogram",
            frame(
                [row for number, moment in enumerate(moments) for row in histogram_rows(moment, number == 0)]
            ),
        )
        if incidents:
            writer.append("incident", frame(incident_rows(now)))
            writer.append("channel", frame([failed_channel(now)]))


def tick(store: Store, moment: datetime, start: datetime, full_since: datetime, nodes: int = 4) -> None:
    """One more scrape round of the fleet: for a trial server."""
    with store.write() as writer:
        writer.append("scrape", frame(scrape_rows(moment, nodes)))
        writer.append("gpu_sample", frame(gpu_rows(moment, nodes, full_since)))
        writer.append("engine_sample", frame(engine_rows(moment, start)))
        writer.append("engine_histogram", frame(histogram_rows(moment)))
