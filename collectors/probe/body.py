"""A probe as JSON: what its way gives and its reader reads, so that recordings hold probes like any scrape.

`{"infermeter_probe": {…}}`; neither the prompt nor the answer's text nor a key is in it.
"""

from __future__ import annotations

from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collectors.probe.answer import TOKENS_END
from collectors.reading import ProbeResult

MARK = b'{"infermeter_probe"'
"""How the body begins."""

_SECONDS_END = 1e6
_RESULT_FIELDS = set(ProbeResult._fields)


class ProbeBody(BaseModel):
    """One round of a probe. The fields of `ProbeResult`, and what is said beside them."""

    model_config = ConfigDict(frozen=True, protected_namespaces=(), allow_inf_nan=False)

    sent: bool
    """Whether a request was sent; False where the spend cap kept it back."""
    note: str | None = Field(default=None, max_length=500)
    connect_seconds: float | None = Field(default=None, ge=0, le=_SECONDS_END)
    """Name look-up, TCP and TLS; in none of the other times."""
    model: str | None = None
    ok: bool = False
    http_status: int | None = Field(default=None, ge=100, le=999)
    ttft_seconds: float | None = Field(default=None, ge=0, le=_SECONDS_END)
    tpot_seconds: float | None = Field(default=None, ge=0, le=_SECONDS_END)
    e2e_seconds: float | None = Field(default=None, ge=0, le=_SECONDS_END)
    prompt_tokens: int | None = Field(default=None, ge=0, le=TOKENS_END)
    generation_tokens: int | None = Field(default=None, ge=0, le=TOKENS_END)
    cost: Decimal | None = Field(default=None, ge=0, max_digits=18, decimal_places=9)
    currency: str | None = Field(default=None, max_length=3)
    finish_reason: str | None = Field(default=None, max_length=60)
    error: str | None = Field(default=None, max_length=1000)

    def result(self) -> ProbeResult:
        """The row of table `probe`."""
        return ProbeResult(**self.model_dump(include=_RESULT_FIELDS))


class _Envelope(BaseModel):
    infermeter_probe: ProbeBody


def encode(body: ProbeBody) -> bytes:
    """The body that stands for what came of a probe."""
    return _Envelope(infermeter_probe=body).model_dump_json(exclude_none=True).encode()


def decode(body: bytes) -> ProbeBody | None:
    """The probe in a body; None for anything else. Never raises."""
    try:
        return _Envelope.model_validate_json(body).infermeter_probe
    except ValidationError:
        return None
