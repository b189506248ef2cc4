"""The `alerts:` part of the configuration: its defaults, and what is refused, in which words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from alerts.channels import KINDS
from alerts.channels.slack import SlackChannel
from alerts.settings import AlertSettings, VramHighSettings
from tests.alerts.facts import MIB, WEBHOOK


def test_the_defaults_are_those_of_the_reference() -> None:
    rule = AlertSettings().vram_high
    assert (rule.fire_above, rule.clear_below, rule.hold_seconds) == (0.80, 0.75, 120)
    assert (rule.margin_bytes, rule.margin_ratio) == (512 * MIB, 0.02)
    assert (rule.headroom_hold_seconds, rule.growth_hold_seconds) == (300, 900)
    assert (rule.over_reservation_ratio, rule.over_reservation_hold_seconds) == (0.08, 300)
    assert (rule.warm_up_seconds, rule.plateau_seconds, rule.stale_intervals) == (600, 1800, 3)


@pytest.mark.parametrize(("text", "seconds"), [("2m", 120), ("90s", 90), ("1.5h", 5400), (45, 45), ("0s", 0)])
def test_for_takes_a_duration(text: str | int, seconds: float) -> None:
    assert VramHighSettings.model_validate({"for": text}).hold_seconds == seconds


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"vram_high": {"fire_above": 0.8, "clear_below": 0.8}},
            r"80 % is not below fire_above \(80 %\); .* Write for instance clear_below: 0\.75",
        ),
        ({"vram_high": {"fire_above": 0.7}}, r"75 % is not below fire_above \(70 %\)"),
        ({"vram_high": {"fire_above": 80}}, "less than or equal to 1"),
        ({"vram_high": {"for": "soon"}}, "not a length of time; write it like 30s"),
        ({"vram_high": {"threshold": 0.8}}, "vram_high.threshold\n  Extra inputs are not permitted"),
        ({"evaluate_interval": 0}, "must be more than 0s"),
        ({"chanels": []}, "chanels\n  Extra inputs are not permitted"),
        (
            {"channels": [{"name": "a", "kind": "slack", "webhook_url": WEBHOOK}] * 2},
            "two channels are called a; a channel's name must be unique",
        ),
        (
            {"channels": [{"name": "a", "kind": "pager", "webhook_url": WEBHOOK}]},
            "kind\n  Input should be 'slack'",
        ),
    ],
)
def test_a_mistake_is_refused_with_the_cure(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AlertSettings.model_validate(data)


def test_the_default_clear_must_also_be_below_a_configured_fire() -> None:
    with pytest.raises(ValidationError, match="clear_below"):
        VramHighSettings.model_validate({"fire_above": 0.75})


def test_every_setting_says_what_it_is() -> None:
    for model in (AlertSettings, VramHighSettings, SlackChannel):
        for name, found in model.model_fields.items():
            assert found.description, f"{model.__name__}.{name} has no description"


def test_every_kind_of_channel_composes_and_sends() -> None:
    assert KINDS.keys() == {"slack"}
    for kind in KINDS.values():
        assert callable(kind.compose)
        assert callable(kind.send)
