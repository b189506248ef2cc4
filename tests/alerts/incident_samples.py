"""Incidents as the judge writes them, for tests of messages."""

from __future__ import annotations

from typing import Any

from alerts.channels.contract import Item
from alerts.incidents import Incident
from alerts.links import links
from tests.alerts.facts import GIB, at

BASE_URL = "https://infermeter.example"


def incident(number: int = 1, state: str = "firing", **more: Any) -> Incident:
    labels = {
        "gpu_uuid": f"GPU-{number}", "mig_instance": "", "host": "node-2", "gpu_index": 3,
        "gpu_model": "NVIDIA H100 80GB HBM3", "project": "chat", "environment": "prod", "namespace": "llm",
        "pod": "llama-70b-0",
    } | more.pop("labels", {})  # fmt: skip
    summary = "node-2 GPU 3 (H100): VRAM 84 % of 80.0 GiB since 13:20 UTC, over 80 % for 2 min"
    if state == "resolved":
        summary = "node-2 GPU 3 (H100): VRAM high resolved at 13:50 UTC after 30 min, peak 91 %"
    values: dict[str, Any] = {
        "incident_id": f"id{number}", "name": "vram_high", "check_name": "occupancy",
        "subject": f"gpu:GPU-{number}", "severity": "warning", "state": state, "reason": "over_threshold",
        "reason_text": "over 80 % for 2 min", "title": "VRAM high", "summary": summary,
        "value": 0.84 if state == "firing" else 0.7, "peak_value": 0.91, "threshold": 0.8, "unit": "ratio",
        "started_at": at(1200), "fired_at": at(1320),
        "resolved_at": at(3000) if state == "resolved" else None,
        "last_seen_at": at(1320), "no_data_since": None, "labels": labels,
        "evidence": {
            "used_bytes": 67 * GIB, "free_bytes": 13 * GIB, "total_bytes": 80 * GIB,
            "series_used_bytes": [[1_796_043_600 + 60 * i, (60 + i) * GIB] for i in range(8)],
        },
    }  # fmt: skip
    return Incident(**(values | more))


def item(number: int = 1, event: str = "fired", **more: Any) -> Item:
    one = incident(number, "firing" if event == "fired" else "resolved", **more)
    return Item(one, event, links(BASE_URL, one))
