"""The `alerts:` part of the configuration, and every threshold of a rule with where it comes from."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from alerts.channels.slack import SlackChannel
from alerts.words import percent
from collectors.durations import Duration
from collectors.settings import Settings

MIB = 2**20


class VramHighSettings(Settings):
    """GPU memory: 80 % in use where nothing explains it; else what a preallocated GPU should not do."""

    enabled: bool = True
    """Whether the rule is judged. Switched off, its open incidents are resolved."""

    # Without a known reservation. 80 % and 75 % are the product's promise; others alert at 90 to 95 %.
    fire_above: float = Field(default=0.80, gt=0, le=1)
    """Share of usable memory in use (used ÷ (total − reserved)) at which the rule fires."""
    clear_below: float = Field(default=0.75, gt=0, lt=1, validate_default=True)
    """Share of usable memory in use under which it resolves; between the two it stays as it is."""
    hold_seconds: Duration = Field(default=120.0, validation_alias="for")
    """How long the share must stay at `fire_above` or more before it fires."""

    # With a known reservation: what an engine that took its memory at start should not do.
    margin_bytes: int = Field(default=512 * MIB, gt=0)
    """What headroom and growth are measured against: at least this much, about one more CUDA context."""
    margin_ratio: float = Field(default=0.02, gt=0, lt=1)
    """And at least this share of the GPU's memory (1.6 GiB of 80); the larger of the two counts."""
    headroom_hold_seconds: Duration = Field(default=300.0, validation_alias="headroom_for")
    """How long free memory must be under the margin."""
    growth_hold_seconds: Duration = Field(default=900.0, validation_alias="growth_for")
    """How long memory in use must be over its level after warm-up by more than the margin."""
    over_reservation_ratio: float = Field(default=0.08, gt=0, lt=1)
    """How far over its reservation an engine may go: CUDA graphs come on top. 97 % in use with a reservation
    of 90 % was normal (vllm#7553)."""
    over_reservation_hold_seconds: Duration = Field(default=300.0, validation_alias="over_reservation_for")
    """How long it must be further over than that."""
    hysteresis_ratio: float = Field(default=0.25, ge=0, lt=1)
    """These three resolve when the value is back by this share of its limit, so that none flaps."""
    warm_up_seconds: Duration = Field(default=600.0, validation_alias="warm_up")
    """After an engine's start, memory is not looked at for this long: weights load, graphs are captured."""
    plateau_seconds: Duration = Field(default=1800.0, gt=0, validation_alias="plateau")
    """The level after warm-up is the median over this long."""
    reservation_valid_seconds: Duration = Field(default=900.0, validation_alias="reservation_valid")
    """How long what an engine said about its reservation counts after it was last heard of: long enough for a
    restart (memory is full before /metrics answers), short enough that memory nobody owns is told."""

    stale_intervals: float = Field(default=3.0, ge=1)
    """A sample older than this many scrape intervals is no value: nothing fires or resolves on it."""

    @field_validator("clear_below")
    @classmethod
    def _below_fire(cls, value: float, info: ValidationInfo) -> float:
        fire_above = info.data.get("fire_above")
        if fire_above is not None and value >= fire_above:
            raise ValueError(
                f"{percent(value)} is not below fire_above ({percent(fire_above)}); an incident would resolve"
                f" while it still fires. Write for instance clear_below: {max(fire_above - 0.05, 0.01):.2f}"
            )
        return value


class AlertSettings(Settings):
    """Rules, and where their messages go."""

    evaluate_interval: Duration = 10.0
    """Time between two judgements of all rules."""
    vram_high: VramHighSettings = VramHighSettings()
    """GPU memory."""
    channels: list[SlackChannel] = Field(default_factory=list)
    """Where messages go; every channel gets every message."""

    @field_validator("evaluate_interval")
    @classmethod
    def _not_nothing(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("must be more than 0s")
        return value

    @field_validator("channels")
    @classmethod
    def _unique_names(cls, value: list[SlackChannel]) -> list[SlackChannel]:
        names = [channel.name for channel in value]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two channels are called {', '.join(doubled)}; a channel's name must be unique")
        return value
