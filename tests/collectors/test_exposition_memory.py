"""`SeriesMemory` says what `parse` says, at the first scan and at every later one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from collectors.exposition import LABEL_CAP, LINE_CAP, Nowhere, Scan, SeriesMemory, parse
from collectors.series_memory import FULL_EVERY
from tests.collectors.exposition_texts import (
    DCGM,
    EVERY_KIND,
    OPENMETRICS,
    VLLM,
    openmetrics_expositions,
    text_expositions,
)
from tests.shared import SHARED, needs_shared

Identity = tuple[str, tuple[tuple[str, str], ...]]


def identity(name: str, labels: dict[str, str]) -> Identity:
    return name, tuple(sorted(labels.items()))


class Asked:
    """Wants every series but those named `no…`, owns all but those named `lost…`, and notes the questions."""

    def __init__(self) -> None:
        self.questions: list[Identity] = []

    def __call__(self, name: str, labels: dict[str, str]) -> Identity | Nowhere:
        self.questions.append(identity(name, labels))
        if name.startswith("no"):
            return Nowhere.UNWANTED
        return Nowhere.UNOWNED if name.startswith("lost") else identity(name, labels)


def read(scan: Scan[Identity]) -> dict[Identity, float | str]:
    """What a scan says; NaN as text, as it does not equal itself."""
    return {
        place: "NaN" if math.isnan(value) else value
        for place, value in zip(scan.places, scan.values, strict=True)
    }


def parsed(body: bytes) -> dict[Identity, float | str]:
    return {
        identity(name, labels): "NaN" if math.isnan(value) else value
        for name, labels, value, _ in parse(body).samples
    }


def assert_scan_is_parse(scan: Scan[Identity], body: bytes) -> None:
    exposition = parse(body)
    assert read(scan) == parsed(body)
    assert (scan.lines, scan.rejected, scan.unowned) == (exposition.lines, len(exposition.rejected), 0)


BODIES = {
    "dcgm": DCGM,
    "vllm": VLLM,
    "openmetrics": OPENMETRICS,
    "every kind of line": EVERY_KIND,
    "crlf": VLLM.replace(b"\n", b"\r\n"),
    "tabs": DCGM.replace(b"} ", b"}\t"),
    "several blanks": DCGM.replace(b"} ", b"}   ") + b"up   1\n",
    "no blanks": DCGM.replace(b"} ", b"}"),
    "leading blanks": DCGM.replace(b"\nDCGM", b"\n  DCGM"),
    "timestamps": DCGM.replace(b"\nDCGM", b" 1700000000000\nDCGM"),
    "tab before the timestamp": b'a{x="1"} 1\t1700000000000\nb 2\t1700000000000\nb 3\n',
    "blank lines": VLLM.replace(b"\n", b"\n\n"),
    "bad lines": DCGM + b'a{...} 1\nb{x="1"} ERROR - FAILED\nc one\nd\n' + VLLM,
    "odd numbers": b"a 1_0\nb -nan(ind)\nc nan\nd 0x1\ne 1e+011\nf\x0b1\ng 1\x0c\n",
    "a series twice": b"a 1\nb 2\na 3\nb x\n",
    "twice in two spellings": b"a 1\na  2\na\t3\n a 4\n",
    "huge line": b"a 1\n" + b'b{x="' + b"x" * LINE_CAP + b'"} 2\nc 3\n',
    "long label": b'a{x="' + b"x" * LABEL_CAP + b'y"} 2\n',
    "nothing": b"",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_says_what_parse_says_however_often_it_reads(body: bytes) -> None:
    asked = Asked()
    memory = SeriesMemory(asked)
    first = memory.scan(body)
    assert_scan_is_parse(first, body)
    questions = list(asked.questions)
    for _ in range(FULL_EVERY + 3):
        again = memory.scan(body)
        assert_scan_is_parse(again, body)
        assert again.places is first.places
    assert asked.questions == questions
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_says_what_parse_says_after_any_other_body(body: bytes) -> None:
    for before in BODIES.values():
        memory = SeriesMemory(Asked())
        memory.scan(before)
        memory.scan(before)
        assert_scan_is_parse(memory.scan(body), body)


@settings(max_examples=60, deadline=None)
@given(text_expositions(), text_expositions(), openmetrics_expositions())
def test_says_what_parse_says_on_any_valid_exposition(
    first: tuple[bytes, object], second: tuple[bytes, object], third: tuple[bytes, object]
) -> None:
    memory = SeriesMemory(identity)
    for body, _ in (first, first, second, third, first):
        scan = memory.scan(body)
        exposition = parse(body)
        assert (scan.lines, scan.rejected) == (exposition.lines, 0)
        expected = parsed(body)
        assert set(scan.places) == set(expected)
        if len(scan.places) == len(expected):  # the same series may stand in the body in two spellings
            assert read(scan) == expected


@needs_shared
def test_says_what_parse_says_on_every_collected_file() -> None:
    paths = sorted((SHARED / "fixtures").glob("[eg]*/*.txt"))
    assert len(paths) >= 40
    shared_memory = SeriesMemory(Asked())
    for path in paths:
        body = path.read_bytes()
        memory = SeriesMemory(Asked())
        for scan in (memory.scan(body), memory.scan(body), shared_memory.scan(body), memory.scan(body)):
            assert_scan_is_parse(scan, body)


def test_changed_values_are_read_and_places_stay_the_same_object() -> None:
    memory = SeriesMemory(identity)
    first = memory.scan(b'a{x="1"} 1\nb 2\n')
    second = memory.scan(b'a{x="1"} 1.5e3\nb NaN\n')
    assert second.places is first.places
    assert second.places == (("a", (("x", "1"),)), ("b", ()))
    assert second.values[0] == 1500.0
    assert math.isnan(second.values[1])
    assert first.values == [1.0, 2.0]


def test_shuffled_lines_keep_places_and_values_together() -> None:
    lines = [b'a{x="%d"} %d' % (number, number) for number in range(50)]
    memory = SeriesMemory(identity)
    first = memory.scan(b"\n".join(lines))
    shuffle = random.Random(1).shuffle
    for _ in range(5):
        shuffle(lines)
        scan = memory.scan(b"\n".join(lines))
        assert scan.places is first.places
        assert scan.values == first.values == [float(number) for number in range(50)]


def test_a_series_that_appears_or_vanishes_makes_new_places() -> None:
    asked = Asked()
    memory = SeriesMemory(asked)
    one = memory.scan(b"a 1\n")
    two = memory.scan(b"a 1\nb 2\n")
    assert read(two) == {("a", ()): 1.0, ("b", ()): 2.0}
    assert two.places is not one.places
    gone = memory.scan(b"b 3\n")
    assert read(gone) == {("b", ()): 3.0}
    back = memory.scan(b"a 4\nb 5\n")
    assert read(back) == {("a", ()): 4.0, ("b", ()): 5.0}
    assert memory.scan(b"b 6\na 7\n").places is back.places
    assert asked.questions == [("a", ()), ("b", ())]


def test_a_wanted_value_that_cannot_be_read_is_rejected_and_its_place_absent() -> None:
    memory = SeriesMemory(identity)
    good = memory.scan(b"a 1\nb 2\n")
    bad = memory.scan(b"a ERROR - FAILED TO CONVERT TO STRING\nb 2\n")
    assert (read(bad), bad.lines, bad.rejected) == ({("b", ()): 2.0}, 2, 1)
    bad = memory.scan(b"a 1_0\nb 2\n")
    assert (read(bad), bad.lines, bad.rejected) == ({("b", ()): 2.0}, 2, 1)
    assert read(memory.scan(b"a 1\nb 2\n")) == read(good)


def test_the_last_readable_value_of_a_series_counts() -> None:
    memory = SeriesMemory(identity)
    for _ in range(2):
        scan = memory.scan(b"a 1\na 2\na x\n")
        assert (read(scan), scan.lines, scan.rejected) == ({("a", ()): 2.0}, 3, 1)


def test_unwanted_lines_count_as_lines_and_unowned_ones_at_each_scan() -> None:
    asked = Asked()
    memory = SeriesMemory(asked)
    for _ in range(3):
        scan = memory.scan(b'no_one{x="1"} 1\nlost{x="1"} 2\nlost{x="2"} 3\na 4\n')
        assert scan == ((("a", ()),), [4.0], 4, 0, 2)
    scan = memory.scan(b'no_one{x="1"} 1\nlost{x="2"} 3\na 4\n')
    assert scan == ((("a", ()),), [4.0], 3, 0, 1)
    assert len(asked.questions) == 4


def test_an_unwanted_series_with_a_bad_value_is_rejected_while_it_is_new() -> None:
    memory = SeriesMemory(Asked())
    for _ in range(2):
        assert memory.scan(b"no_one 1 x\na 1\n").rejected == 1
    assert memory.scan(b"no_one 1\na 1\n").rejected == 0


def test_place_gets_unescaped_labels() -> None:
    asked = Asked()
    SeriesMemory(asked).scan(b'{"my.name",path="C:\\\\x",text="a\\"b\\n"} 1\n')
    assert asked.questions == [("my.name", (("path", "C:\\x"), ("text", 'a"b\n')))]


def test_a_name_is_not_taken_for_a_longer_one_nor_for_one_with_labels() -> None:
    asked = Asked()
    memory = SeriesMemory(asked)
    memory.scan(b"a 1\nno 2\n")
    scan = memory.scan(b"ab 3\nno 2\n")
    assert read(scan) == {("ab", ()): 3.0}
    scan = memory.scan(b'ab 3\nno {x="1"} 4\n')
    assert ("no", (("x", "1"),)) in asked.questions
    scan = memory.scan(b'ab {x="1"} 3\nno 2\n')
    assert read(scan) == {("ab", (("x", "1"),)): 3.0}


def test_what_place_raises_comes_through_and_it_is_asked_again() -> None:
    failures = iter([True, False])

    def place(name: str, labels: dict[str, str]) -> str:
        if name == "b" and next(failures):
            raise KeyError("no such thing")
        return name

    memory = SeriesMemory(place)
    memory.scan(b"a 1\n")
    with pytest.raises(KeyError, match="no such thing"):
        memory.scan(b"a 1\nb 2\n")
    assert memory.scan(b"a 1\n").values == [1.0]
    assert memory.scan(b"a 1\nb 2\n").values == [1.0, 2.0]


def test_cut_label_values_are_counted_once() -> None:
    memory = SeriesMemory(identity)
    body = b'a{x="' + b"x" * (LABEL_CAP + 1) + b'"} 1\n'
    for _ in range(2):
        ((_, labels),) = memory.scan(body).places
        assert labels == (("x", "x" * LABEL_CAP),)
    assert memory.cut_labels == 1


def churn_of_labels(scrape: int, line: int) -> str:
    return f'a{{pod="{scrape}-{line}"}} 1'


def churn_of_timestamps(scrape: int, line: int) -> str:
    return f'a{{x="{line}"}} {scrape} {1700000000000 + scrape}'


def churn_of_exemplars(scrape: int, line: int) -> str:
    return f'a_bucket{{le="{line}"}} 1 # {{trace_id="{scrape}-{line}"}} 0.{scrape}'


def churn_of_comments(scrape: int, line: int) -> str:
    return f"# written at {scrape} {line}"


def churn_of_rubbish(scrape: int, line: int) -> str:
    return f"{scrape} {line}"


@pytest.mark.parametrize(
    "line",
    [churn_of_labels, churn_of_timestamps, churn_of_exemplars, churn_of_comments, churn_of_rubbish],
)
def test_memory_stays_bounded(line: Callable[[int, int], str]) -> None:
    memory = SeriesMemory(identity)
    texts = 300
    for scrape in range(100):
        body = "\n".join(line(scrape, number) for number in range(texts)).encode()
        scan = memory.scan(body)
        assert read(scan) == parsed(body)
        assert len(memory._known) <= 2 * texts + 1000
    if line is not churn_of_labels:
        assert len(memory._known) <= texts


def test_memory_stays_bounded_in_bytes() -> None:
    memory = SeriesMemory(identity)
    for scrape in range(100):
        memory.scan(b'a{x="%d",y="' % scrape + b"x" * 60_000 + b'"} 1\n')
    assert sum(map(len, memory._known)) < 1.5 * 2**20


def test_forgetting_does_not_disturb_the_series_that_stay() -> None:
    asked = Asked()
    memory = SeriesMemory(asked)
    first = memory.scan(b"a 1\n")
    for scrape in range(50):
        scan = memory.scan(b"a %d\n" % scrape + b"".join(b"no%d_%d 1\n" % (scrape, i) for i in range(200)))
        assert scan.places is first.places
        assert scan.values == [float(scrape)]
    assert asked.questions.count(("a", ())) == 1
