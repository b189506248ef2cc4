"""Numbers and times as text: values worked out by hand."""

import re
from datetime import datetime, timedelta
from math import inf, nan
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts import words
from app import format as form

THIN, SPACE = "\u202f", "\u00a0"


def spaced(text: str) -> str:
    """What a format returns, with plain spaces."""
    return text.replace(THIN, " ").replace(SPACE, " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1843, "1 843"), (0, "0"), (12.34, "12"), (None, "–"), (nan, "–"), (inf, "–"), (1_234_567, "1 234 567")],
)
def test_a_count_keeps_every_digit(value: float | None, text: str) -> None:
    assert spaced(form.count(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1843, "1 840"),
        (12.345, "12.3"),
        (0.00419, "0.00419"),
        (9.996, "10.0"),
        (999.6, "1 000"),
        (0, "0"),
        (-12.345, "-12.3"),
        (None, "–"),
        (nan, "–"),
        (-inf, "–"),
    ],
)
def test_three_significant_digits(value: float | None, text: str) -> None:
    assert spaced(form.significant(value)) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.614, "61.4 %"),
        (0.7996, "79.9 %"),
        (0.29, "29 %"),
        (0.0042, "0.42 %"),
        (0.042, "4.2 %"),
        (0, "0 %"),
        (1, "100 %"),
        (0.99996, "99.9 %"),
        (0.9949, "99.4 %"),
        (1.29, "129 %"),
        (None, "–"),
        (nan, "–"),
    ],
)
def test_a_ratio_in_percent_never_reads_full_before_it_is(ratio: float | None, text: str) -> None:
    assert spaced(form.percent(ratio)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0412, "41.2 ms"),
        (1.234, "1.23 s"),
        (2560, "2 560 s"),
        (0.04, "40.0 ms"),
        (0.0000005, "0.500 µs"),
        (0.00123, "1.23 ms"),
        (0.9999, "1.00 s"),
        (0, "0 s"),
        (None, "–"),
        (inf, "–"),
    ],
)
def test_a_latency_has_the_unit_that_suits(seconds: float | None, text: str) -> None:
    assert spaced(form.latency(seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4, "4 s"),
        (125, "2 m 5 s"),
        (4320, "1 h 12 m"),
        (3600, "1 h"),
        (60, "1 m"),
        (90_061, "1 d 1 h"),
        (0, "0 s"),
        (-5, "0 s"),
        (59.6, "1 m"),
        (None, "–"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float | None, text: str) -> None:
    assert spaced(form.duration(seconds)) == text


def test_a_ratio_reads_the_same_on_pages_and_in_messages() -> None:
    for step in range(10_001):
        assert spaced(form.percent(step / 10_000)) == words.percent(step / 10_000)
    assert spaced(form.percent(0.875)) == "87.5 %"
    assert spaced(form.percent(0.84)) == "84 %"


def test_memory_is_in_powers_of_1024_and_transfer_in_powers_of_1000() -> None:
    assert spaced(form.gibibytes(80 * 2**30)) == "80.0 GiB"
    assert spaced(form.gibibytes(447 * 2**20)) == "0.437 GiB"
    assert spaced(form.gibibytes(8 * 2**20)) == "8.00 MiB"
    assert spaced(form.gibibytes(0)) == "0 GiB"
    assert spaced(form.transfer(55_123)) == "55.1 kB"
    assert spaced(form.transfer(999)) == "999 B"
    assert spaced(form.transfer(16_777_216)) == "16.8 MB"
    assert form.gibibytes(None) == form.transfer(None) == "–"
    assert spaced(form.megahertz(1_980_000_000)) == "1 980 MHz"


def test_a_time_is_in_the_readers_zone_and_names_its_day_only_when_that_is_not_today() -> None:
    now = datetime(2026, 11, 30, 12, 0)
    berlin = ZoneInfo("Europe/Berlin")
    assert form.clock(datetime(2026, 11, 30, 11, 5, 9), berlin, now) == "12:05"
    assert form.clock(datetime(2026, 11, 30, 11, 5, 9), berlin, now, seconds=True) == "12:05:09"
    # 23:30 UTC of the 29th is already the 30th in Berlin.
    assert form.clock(datetime(2026, 11, 29, 23, 30), berlin, now) == "00:30"
    assert spaced(form.clock(datetime(2026, 11, 29, 22, 30), berlin, now)) == "29 Nov 23:30"
    assert spaced(form.clock(datetime(2025, 7, 1, 12, 0), berlin, now)) == "1 Jul 2025 14:00"
    assert form.clock(None, berlin, now) == "–"


@pytest.mark.parametrize("name", [None, "", "Not/AZone", "../../etc/passwd", "Europe/Berlin\x00"])
def test_an_unknown_zone_is_utc(name: str | None) -> None:
    assert str(form.zone(name)) == "UTC"


def test_an_age_is_never_negative() -> None:
    now = datetime(2026, 11, 30)
    assert form.age(now + timedelta(seconds=3), now) == timedelta()
    assert form.age(None, now) is None


def test_text_from_outside_is_not_read_as_markup() -> None:
    assert form.plain("a*b*_c_ [x](y) <b> $1 :material/x: `q`") == (
        r"a\*b\*\_c\_ \[x\]\(y\) \<b\> \$1 \:JOINmaterial/x\: \`q\`".replace("JOIN", "\u2060")
    )
    assert form.plain("two\nlines") == "two lines"
    assert form.plain(None) == form.plain("") == "–"


# What Streamlit 1.67's Markdown replaces in text whose backslashes are gone, as its frontend writes it.
LIVE = [
    r":\+1:|:-1:|:[\w-]+:",
    r":material/\w+:",
    r"(https?://|www(?=\.))([-.\w]+)",
    r"[-.\w+]+@[-\w]+(?:\.[-\w]+)+",
    *(rf"(^|\s){arrow}(\s|$)" for arrow in ("<->", "->", "<-", "--", ">=", "<=", "~=")),
]


@pytest.mark.parametrize(
    "text",
    [
        ":fire: x :+1: a:b:c:d",
        ":material/home:",
        "http://x.y and HTTPS://x.y _http://x.y",
        "see www.evil.example/x",
        "x@evil.example",
        "a -> b <- c >= d <= e <-> f -- g ~= h ->",
    ],
)
def test_text_from_outside_is_no_icon_no_link_and_no_arrow(text: str) -> None:
    seen = re.sub(r"\\(?=[!-/:-@\[-`{-~])", "", form.plain(text))
    assert [live for live in LIVE if re.search(live, text, re.IGNORECASE)]
    assert not [live for live in LIVE if re.search(live, seen, re.IGNORECASE)]
    assert seen.replace("\u2060", "") == text


@pytest.mark.parametrize(
    "text",
    [
        "gpu-node-1", "Llama-3.3-70B", "v0.9.2", "since 13:20:05 UTC", "meta/llama:8b", "a--b", "chat/prod",
        "@ops", "node-1:9400", "3 > 2", "1 - 2",
    ],
)  # fmt: skip
def test_ordinary_names_can_be_copied_as_they_are(text: str) -> None:
    assert form.plain(text).replace("\\", "") == text


def test_nothing_from_outside_turns_the_direction_of_text() -> None:
    assert form.plain("gpu\u202etxt\u2066x\x07") == "gpu�txt�x�"


@settings(max_examples=200)
@given(st.floats(allow_nan=True, allow_infinity=True) | st.none())
def test_no_format_says_nan_or_inf(value: float | None) -> None:
    for write in (
        form.count,
        form.significant,
        form.percent,
        form.latency,
        form.duration,
        form.gibibytes,
        form.transfer,
        form.megahertz,
    ):
        if value is None or abs(value) < 1e15 or value != value or abs(value) == inf:
            text = write(value)
            assert "nan" not in text
            assert "inf" not in text
            assert text
