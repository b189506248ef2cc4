"""What a probe sends, how often it may, and what it may cost."""

from __future__ import annotations

import re
from decimal import Decimal

from pydantic import Field, field_validator, model_validator

from collectors.settings import Settings

PROBE_INTERVAL_SECONDS = 60.0
"""A probe is a paid request on a managed platform: once a minute unless told otherwise."""

PROBE_TIMEOUT_SECONDS = 30.0
"""A cold start or a long queue is what a probe is there to see."""

TEMPLATE_TOKENS = 256
"""What a chat template may add to a prompt: role marks and a default system message. Those of the Llama,
Qwen, Mistral and gpt-oss families add between 4 and about 80; this is meant to be more than any."""

_PER_MILLION = 1_000_000
_COST_STEP = Decimal("0.000000001")  # column probe.cost
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110, 5.6.2
_OWN_HEADERS = {"accept", "accept-encoding", "authorization", "connection", "content-length", "content-type",
                "host", "transfer-encoding", "user-agent"}  # fmt: skip


class ProbePrices(Settings):
    """What the endpoint asks per million tokens."""

    prompt_per_million: Decimal = Field(ge=0, le=1_000_000)
    """Price of a million prompt tokens."""
    generation_per_million: Decimal = Field(ge=0, le=1_000_000)
    """Price of a million generated tokens."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    """Of both prices (ISO 4217)."""

    def cost(self, prompt_tokens: int, generation_tokens: int) -> Decimal:
        """Of one request, to the nanounit that the store keeps."""
        exact = self.prompt_per_million * prompt_tokens + self.generation_per_million * generation_tokens
        return (exact / _PER_MILLION).quantize(_COST_STEP)


class ProbeSettings(Settings):
    """The request that a probe sends."""

    prompt: str = Field(default="Count from one to twenty in words.", min_length=1, max_length=100_000)
    """What is asked."""
    max_tokens: int = Field(default=32, ge=2, le=4096)
    """The most tokens that are generated."""
    api_key_header: str | None = None
    """The header that the token goes into where it is not `Authorization: Bearer …` (Azure: `api-key`)."""
    prices: ProbePrices | None = None
    """What it costs; without it, requests are counted and their cost is unknown."""
    spend_per_day: Decimal | None = Field(default=None, gt=0)
    """No more is spent on this target in a UTC day, in the currency of `prices`; needs them."""

    @field_validator("api_key_header")
    @classmethod
    def _free_header(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not _HEADER_NAME.fullmatch(value):
            raise ValueError("is no name of a header; write it like api-key")
        if value.lower() in _OWN_HEADERS:
            raise ValueError(
                f"{value} is set by infermeter itself; leave it out for `Authorization: Bearer …`"
            )
        return value

    @model_validator(mode="after")
    def _cap_that_can_hold(self) -> ProbeSettings:
        if self.spend_per_day is None:
            return self
        if self.prices is None:
            raise ValueError("`spend_per_day` needs `prices`: without them nobody knows what a probe costs")
        largest = self.largest_cost
        if largest is not None and largest > self.spend_per_day:
            raise ValueError(
                f"`spend_per_day` of {self.spend_per_day:f} {self.prices.currency} is less than one probe may"
                f" cost ({largest.normalize():f}); raise it, or take a smaller `max_tokens` or `prompt`"
            )
        return self

    @property
    def largest_cost(self) -> Decimal | None:
        """What one probe may cost at most, without knowing its tokenizer; None without prices.

        A token is at least one byte of the prompt; the chat template adds `TEMPLATE_TOKENS`.
        """
        if self.prices is None:
            return None
        return self.prices.cost(
            len(self.prompt.encode("utf-8", "replace")) + TEMPLATE_TOKENS, self.max_tokens
        )
