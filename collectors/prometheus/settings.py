"""How a Prometheus-compatible API is read as a source."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from collectors.durations import Duration
from collectors.settings import Settings

_MATCHER = r'[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
_SELECTOR = re.compile(rf"\{{\s*{_MATCHER}(?:\s*,\s*{_MATCHER})*\s*,?\s*\}}")
_TENANT = re.compile(r"[\x21-\x7e]+")


class PrometheusSettings(Settings):
    """What is read from a Prometheus-compatible API."""

    backfill: Duration = Field(default=0.0, ge=0)
    """How much of the past is read at first start."""
    lag: Duration = Field(default=5.0, ge=0)
    """Samples younger than this are left for the next pull: they may not be complete yet."""
    match: str | None = None
    """A label selector that restricts what is read, like `{cluster="prod"}`."""
    tenant: str | None = None
    """Sent as `X-Scope-OrgID`: whose data is meant, where one Mimir or Cortex serves several."""

    @field_validator("match")
    @classmethod
    def _selector(cls, value: str | None) -> str | None:
        if value is None:
            return None
        value = value.strip()
        if not _SELECTOR.fullmatch(value):
            raise ValueError("is no label selector; write it like '{cluster=\"prod\"}', braces and all")
        if re.search(r"[{,]\s*__name__\s*[=!]", value):
            raise ValueError("restricts `__name__`, which infermeter sets itself; restrict other labels")
        return value

    @field_validator("tenant")
    @classmethod
    def _header(cls, value: str | None) -> str | None:
        if value is not None and not _TENANT.fullmatch(value):
            raise ValueError("must be letters, digits and signs without spaces, as Mimir's tenants are")
        return value

    @property
    def matchers(self) -> str:
        """What stands between the braces of `match`; "" without one."""
        return "" if self.match is None else self.match[1:-1].strip().removesuffix(",").strip()
