"""Nothing that stands in a body makes a reader raise, and every line is accounted for."""

from __future__ import annotations

import contextlib
import math
import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from collectors.exposition import BodyError, Nowhere, SeriesMemory, decompress, parse
from tests.collectors.exposition_texts import DCGM, EVERY_KIND, OPENMETRICS, VLLM

INPUTS = 100_000
LINES = [line for body in (DCGM, VLLM, OPENMETRICS, EVERY_KIND) for line in body.split(b"\n")]
PIECES = [
    *(bytes([byte]) for byte in b'\\"{}=,# \t\r\n\v\f\0_.+-e0\x80\xff'),
    b"NaN", b"Inf", b'{"', b'"}', b'",', b" # {", b"} 1 2", b"1e999", b"nan(ind)", b"\xc3\xa9", b"# EOF\n",
    b"# TYPE ", b" 1700000000000", b'\\"', b"\\n", b"__name__",
]  # fmt: skip


Place = tuple[str, tuple[tuple[str, str], ...]]


def place(name: str, labels: dict[str, str]) -> Place:
    return name, tuple(sorted(labels.items()))


def picky(name: str, labels: dict[str, str]) -> Place | Nowhere:
    return Nowhere.UNWANTED if len(name) % 2 else place(name, labels)


def assert_accounts_for_all(body: bytes, memory: SeriesMemory[Place], *, all_wanted: bool = True) -> None:
    """`memory` may know anything from before, but reads each body whole: a scan says what `parse` says."""
    exposition = parse(body)
    assert len(exposition.samples) + len(exposition.rejected) == exposition.lines
    scan = memory.scan(body)
    assert scan.lines == exposition.lines, body
    if all_wanted:
        assert scan.rejected == len(exposition.rejected), body
    else:  # values that nobody wants are not looked at again
        assert scan.rejected <= len(exposition.rejected), body
    expected: dict[Place, list[float]] = {}
    for name, labels, value, _ in exposition.samples:
        where = place(name, labels) if all_wanted else picky(name, labels)
        if not isinstance(where, Nowhere):
            expected.setdefault(where, []).append(value)
    assert set(scan.places) == set(expected), body
    for where, value in zip(scan.places, scan.values, strict=True):
        values = expected[where]
        # Where one series stands in several spellings, each spelling has a value of its own.
        assert value in values or (math.isnan(value) and any(map(math.isnan, values))), body
        if scan.places.count(where) == 1:
            assert value == values[-1] or (math.isnan(value) and math.isnan(values[-1])), body


def mutated(body: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(body) + 1)
        upto = min(len(body), at + chance.choice((0, 1, 1, 2, 5, 20)))
        match chance.randrange(5):
            case 0:  # put in, or in place of something
                body = body[:at] + chance.choice(PIECES) + body[upto:]
            case 1:  # cut
                body = body[:at] + body[upto:]
            case 2:  # one byte becomes any other
                body = body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
            case 3:  # a piece comes twice
                body = body[:upto] + body[at:]
            case _:  # another body goes on here
                body = body[:at] + chance.choice(LINES)[chance.randrange(20) :] + body[upto:]
    return body


def lines_of_some(chance: random.Random) -> bytes:
    return b"\n".join(chance.choices(LINES, k=chance.choice((1, 2, 3, 4))))


def test_survives_a_hundred_thousand_mutated_bodies() -> None:
    chance = random.Random(20261130)
    memory = SeriesMemory(place, full_every=1)
    for _ in range(INPUTS):
        body = lines_of_some(chance)
        memory.scan(body)
        assert_accounts_for_all(mutated(body, chance), memory)


def test_series_that_nobody_wants_do_not_disturb_the_others() -> None:
    chance = random.Random(20261201)
    memory = SeriesMemory(picky, full_every=1)
    for _ in range(INPUTS // 5):
        body = lines_of_some(chance)
        memory.scan(body)
        assert_accounts_for_all(mutated(body, chance), memory, all_wanted=False)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(PIECES + LINES)).map(b"".join)))
@example(b'a{x="' + b'\\"' * 10_000)
@example(b'a{x="' + b'"' * 10_000)
@example(b"{" * 10_000)
@example(b"a" * 60_000)
@example(b" " * 60_000 + b"1")
@example(b"a 1 " + b"# " * 10_000)
def test_survives_any_bytes(body: bytes) -> None:
    memory = SeriesMemory(place)
    for _ in range(4):
        assert_accounts_for_all(body, memory)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_unpacking_any_bytes_gives_bytes_or_says_why_not(body: bytes) -> None:
    with contextlib.suppress(BodyError):
        assert len(decompress(b"\x1f\x8b\x08" + body, 1000)) <= 1000
