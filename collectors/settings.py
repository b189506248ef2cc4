"""What every group of settings has in common, and the pace of scraping.

In YAML the two lengths of time are called `interval` and `timeout`; in Python their names say the unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from collectors.durations import Duration, format_duration, parse_duration
from collectors.urls import shown_url

DEFAULT_INTERVAL_SECONDS = 10.0
DEFAULT_TIMEOUT_SECONDS = 5.0


class Settings(BaseModel):
    """A group of settings: unknown keys are refused, values do not change, errors never show an input."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        validate_by_alias=True,
        validate_by_name=True,
        protected_namespaces=(),
    )


class ShownUrl(Settings):
    """Settings with a `url` that may hold secrets: neither a dump nor a repr shows them."""

    if TYPE_CHECKING:
        url: str  # the subclass has it, at its own place among the settings

    @field_serializer("url", check_fields=False)
    def _dumped_url(self, _value: str) -> str:
        return self.shown_url

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, self.shown_url if name == "url" else value

    @property
    def shown_url(self) -> str:
        """The URL as people may see it: no credentials, no value of a secret-looking parameter."""
        return shown_url(self.url)


class Pace(Settings):
    """How often a target is scraped, and how long it may take."""

    interval_seconds: Duration = Field(default=DEFAULT_INTERVAL_SECONDS, validation_alias="interval")
    """Time between two scrapes."""
    timeout_seconds: Duration = Field(default=DEFAULT_TIMEOUT_SECONDS, validation_alias="timeout")
    """How long one scrape may take: at most the interval; left out and longer than that, the interval."""

    @model_validator(mode="before")
    @classmethod
    def _timeout_within_interval(cls, data: Any) -> Any:
        return with_pace(data, DEFAULT_INTERVAL_SECONDS, DEFAULT_TIMEOUT_SECONDS)

    @field_validator("interval_seconds")
    @classmethod
    def _not_nothing(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("must be more than 0s")
        return value

    @field_validator("timeout_seconds")
    @classmethod
    def _at_most_interval(cls, value: float, info: ValidationInfo) -> float:
        if value <= 0:
            raise ValueError("must be more than 0s")
        interval = info.data.get("interval_seconds")
        if interval is not None and value > interval:
            raise ValueError(
                f"{format_duration(value)} is longer than the interval of {format_duration(interval)};"
                " a scrape must end before the next begins"
            )
        return value


def with_pace(data: Any, interval_seconds: float, timeout_seconds: float) -> Any:
    """The settings with interval and timeout filled in where absent; the timeout cut to the interval."""
    if not isinstance(data, dict):
        return data
    data = dict(data)
    if data.keys().isdisjoint(("interval", "interval_seconds")):
        data["interval"] = interval_seconds
    if data.keys().isdisjoint(("timeout", "timeout_seconds")):
        try:
            longest = parse_duration(data.get("interval", data.get("interval_seconds")))
        except ValueError:
            longest = timeout_seconds  # the interval's own validation says what is wrong with it
        data["timeout"] = min(timeout_seconds, longest) if longest > 0 else timeout_seconds
    return data
