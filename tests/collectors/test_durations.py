from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from collectors.durations import Duration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("2m", 120),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("500ms", 0.5),
        ("1m500ms", 60.5),
        ("30d", 2_592_000),
        ("2w", 1_209_600),
        (" 10s ", 10),
        ("10", 10),
        ("0.25", 0.25),
        (10, 10),
        (2.5, 2.5),
        (0, 0),
        ("0s", 0),
        (timedelta(minutes=3), 180),
    ],
)
def test_a_duration_is_read_into_seconds(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("10x", "'10x' is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        ("", "'' is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        ("5 minutes", "'5 minutes' is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        ("1h 30m", "'1h 30m' is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        ("-5s", "'-5s' is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        ("١s", "'١s' is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        (True, "True is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        (None, "None is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        ([], "a list is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        ({}, "a mapping is not a length of time; write it like 30s, 5m, 1h30m or 500ms"),
        (-1, "-1 is out of range; a length of time is from 0s to 100 years"),
        (float("nan"), "nan is out of range; a length of time is from 0s to 100 years"),
        (float("inf"), "inf is out of range; a length of time is from 0s to 100 years"),
        (10**400, "that number is out of range; a length of time is from 0s to 100 years"),
        ("99999999d", "'99999999d' is out of range; a length of time is from 0s to 100 years"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_cure(written: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(written)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0s"), (0.5, "500ms"), (90, "1m30s"), (7200, "2h"), (2_592_000, "30d"), (1.25, "1s250ms")],
)
def test_a_duration_is_written_short(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written


@given(st.integers(min_value=0, max_value=10**12))
@settings(max_examples=100)
def test_what_is_written_reads_back_the_same(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans()))
@settings(max_examples=200)
def test_anything_is_read_or_refused_as_a_value_error(value: object) -> None:
    try:
        assert parse_duration(value) >= 0
    except ValueError as error:
        assert type(error) is ValueError  # noqa: PT017 - int() and float() raise subclasses with other words


def test_a_pydantic_field_takes_durations() -> None:
    class Settings(BaseModel):
        interval: Duration = 10.0

    assert Settings.model_validate({"interval": "1m"}).interval == 60
    with pytest.raises(ValidationError, match="'soon' is not a length of time"):
        Settings.model_validate({"interval": "soon"})
