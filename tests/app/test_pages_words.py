"""Every phrase a page asks for is there, in both languages, with the same values in it."""

import re
import string
from pathlib import Path

import pytest

import app
from app import view, words
from app.pages import gpu_charts, states
from app.words_about import ABOUT

FOLDER = Path(app.__file__).parent
ALL = {**words.WORDS, **ABOUT}
ASKED = re.compile(r'say\(\s*f?"([^"]+)"')


def values_in(phrase: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(phrase) if name}


@pytest.mark.parametrize("key", list(ALL))
def test_both_languages_say_it_with_the_same_values(key: str) -> None:
    english, chinese = ALL[key]
    assert english
    assert chinese
    assert values_in(english) == values_in(chinese)
    assert "!" not in english


def test_no_key_stands_twice() -> None:
    assert not words.WORDS.keys() & ABOUT.keys()


def asked_for() -> set[str]:
    return {
        key
        for file in [FOLDER / "main.py", *(FOLDER / "pages").glob("*.py")]
        for key in ASKED.findall(file.read_text(encoding="utf-8"))
    }


def test_every_phrase_that_a_page_asks_for_is_there() -> None:
    assert len(asked_for()) > 100
    assert {key for key in asked_for() if "{" not in key} <= ALL.keys()


def test_phrases_that_are_asked_for_by_a_part_of_their_name_are_there_for_each() -> None:
    families = {
        "range": view.RANGES,
        "measure": view.MEASURES,
        "tile": view.MEASURES,
        "metric": ("ttft", "itl", "tpot", "e2e"),
        "about": ("ttft", "itl", "tpot", "e2e"),
        "state": (*states.STATES, "pending", "resolved", "later"),
        "severity": ("critical", "warning", "info"),
        "role": ("gpu", "engine", "router", "gateway"),
        "target": ("ok", "stale", "waiting", "failing"),
        "page": ("oncall", *view.PAGES[1:]),
    }
    for family, members in families.items():
        assert {f"{family}_{member}" for member in members} <= ALL.keys(), family
    assert set(gpu_charts.REASONS.values()) <= ALL.keys()


def test_one_of_a_thing_is_not_said_in_the_plural() -> None:
    assert words.say("en", "n_engines", n=1) == words.say("en", "n_engines", n="1") == "1 engine"
    assert words.say("en", "n_engines", n=2) == "2 engines"
    assert words.say("zh", "n_engines", n=1) == "1 个引擎"


@pytest.mark.parametrize(
    ("chosen", "locale", "language"),
    [
        ("zh", "en-US", "zh"),
        ("en", "zh-CN", "en"),
        ("", "zh-CN", "zh"),
        ("", "de-DE", "en"),
        ("", None, "en"),
    ],
)
def test_the_link_chooses_the_language_then_the_browser(
    chosen: str, locale: str | None, language: str
) -> None:
    assert words.language(chosen, locale) == language


@pytest.mark.parametrize(
    ("mask", "bits"),
    [
        (None, []),
        (0, []),
        (0x4, [2]),
        (0x60, [5, 6]),
        (0x1FF, list(range(9))),
        (1 << 40 | 1, [0, 40]),
        (-1, []),
    ],
)
def test_a_throttle_mask_is_read_bit_by_bit_and_keeps_unknown_ones(mask: int | None, bits: list[int]) -> None:
    assert gpu_charts.decode(mask) == bits
