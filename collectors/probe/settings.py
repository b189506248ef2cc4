"""What a probe sends, how often it may, and what it may cost."""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field

from collectors.settings import Settings

PROBE_INTERVAL_SECONDS = 60.0
"""A probe is a paid request on a managed platform: once a minute unless told otherwise."""

PROBE_TIMEOUT_SECONDS = 30.0
"""A cold start or a long queue is what a probe is there to see."""


class ProbePrices(Settings):
    """What the endpoint asks per million tokens."""

    prompt_per_million: Decimal = Field(ge=0)
    """Price of a million prompt tokens."""
    generation_per_million: Decimal = Field(ge=0)
    """Price of a million generated tokens."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    """Of both prices (ISO 4217)."""


class ProbeSettings(Settings):
    """The request that a probe sends."""

    prompt: str = Field(default="Count from one to twenty in words.", min_length=1)
    """What is asked."""
    max_tokens: int = Field(default=32, ge=2, le=4096)
    """The most tokens that are generated."""
    prices: ProbePrices | None = None
    """What it costs; without it, requests are counted and their cost is unknown."""
    spend_per_day: Decimal | None = Field(default=None, gt=0)
    """No more is spent on this target in a UTC day, in the currency of `prices`; needs them."""
