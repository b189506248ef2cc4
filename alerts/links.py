"""URLs of our own pages, as messages and pages carry them: absolute times, so that a link shows then what it
showed when it was sent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from alerts.incidents import Incident

AROUND = timedelta(minutes=30)
"""How much a link shows before and after the moment it is about."""


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z"


def _url(base_url: str, path: str, **parameters: Any) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value not in (None, "")})
    return f"{base_url.rstrip('/')}/{path}" + (f"?{query}" if query else "")


def _span(around: datetime) -> dict[str, str]:
    return {"from": _iso(around - AROUND), "to": _iso(around + AROUND)}


def gpu_link(base_url: str, gpu_uuid: str, mig: str, around: datetime, incident_id: str | None = None) -> str:
    """`/gpus` with this GPU (and MIG instance; left out when ""), half an hour around the moment."""
    return _url(base_url, "gpus", gpu=gpu_uuid, mig=mig, **_span(around), incident=incident_id)


def engine_link(base_url: str, target: str, around: datetime, incident_id: str | None = None) -> str:
    """`/engines` with this target, half an hour around the moment."""
    return _url(base_url, "engines", engine=target, **_span(around), incident=incident_id)


def incident_link(base_url: str, incident_id: str) -> str:
    """The on-call page with this incident."""
    return _url(base_url, "", incident=incident_id)


def links(base_url: str | None, incident: Incident) -> dict[str, str]:
    """What a message links to: `dashboard` at the incident's time, `incident`. Empty without a base."""
    if base_url is None:
        return {}
    found = {"incident": incident_link(base_url, incident.incident_id)}
    around = incident.fired_at or incident.started_at
    if uuid := incident.labels.get("gpu_uuid"):
        mig = str(incident.labels.get("mig_instance") or "")
        found["dashboard"] = gpu_link(base_url, str(uuid), mig, around, incident.incident_id)
    elif target := incident.labels.get("engine_target"):
        found["dashboard"] = engine_link(base_url, str(target), around, incident.incident_id)
    return found
