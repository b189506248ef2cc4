"""How a Prometheus-compatible API is read as a source."""

from __future__ import annotations

from pydantic import Field

from collectors.durations import Duration
from collectors.settings import Settings


class PrometheusSettings(Settings):
    """What is read from a Prometheus-compatible API."""

    backfill: Duration = Field(default=0.0, ge=0)
    """How much of the past is read at first start."""
    lag: Duration = Field(default=5.0, ge=0)
    """Samples younger than this are left for the next pull: they may not be complete yet."""
    match: str | None = None
    """A label selector that restricts what is read, like `{cluster="prod"}`."""
