"""Bodies that look like the last ones: what is seen of them at once, and what some scans later."""

from __future__ import annotations

import math
import random
from collections import deque

import pytest

from collectors.exposition import Nowhere, Scan, SeriesMemory, parse
from collectors.series_memory import FULL_EVERY
from tests.collectors.exposition_texts import DCGM, EVERY_KIND, OPENMETRICS, VLLM

Place = tuple[str, tuple[tuple[str, str], ...]]


def place(name: str, labels: dict[str, str]) -> Place | Nowhere:
    """Wants what does not begin with `no` or `lost`."""
    if name.startswith("no"):
        return Nowhere.UNWANTED
    return Nowhere.UNOWNED if name.startswith("lost") else (name, tuple(sorted(labels.items())))


def read(scan: Scan[Place]) -> dict[str, float]:
    """Series without labels, by name."""
    return {name: value for (name, _), value in zip(scan.places, scan.values, strict=True)}


def steady(body: bytes) -> SeriesMemory[Place]:
    """A memory that has seen `body` often enough to look at nothing but what it wants."""
    memory = SeriesMemory(place)
    for _ in range(3):
        memory.scan(body)
    return memory


BODY = b"""# HELP a first
a 1
no_a 1
a_total 2
lost_x 1
# b 7
no_b{x="b 8"} 9
b 3
bad line here
no_c 4
c 5
"""


def test_values_are_read_while_lines_that_nobody_wants_change_as_they_like() -> None:
    memory = steady(BODY)
    places = memory.scan(BODY).places
    for number in range(3 * FULL_EVERY):
        body = (
            BODY.replace(b"a 1\nno_a 1", b"a %d\nno_a %d" % (number, 10**number))
            .replace(b"# b 7", b"# b%s" % (b" 7" * number))
            .replace(b"c 5", b"c %d.5" % number)
        )
        scan = memory.scan(body)
        assert scan.places is places
        assert read(scan) == {"a": number, "a_total": 2, "b": 3, "c": number + 0.5}
        assert (scan.lines, scan.rejected, scan.unowned) == (9, 1, 1)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"b 3\n", b"", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b"b 3\nd 4\n", {"a": 1, "a_total": 2, "b": 3, "c": 5, "d": 4}),
        (b"b 3\n", b"d 4\n", {"a": 1, "a_total": 2, "c": 5, "d": 4}),
        (b"b 3\n", b"bb 3\n", {"a": 1, "a_total": 2, "c": 5, "bb": 3}),
        (b"b 3\n", b" b 4\n", {"a": 1, "a_total": 2, "b": 4, "c": 5}),
        (b"b 3\n", b"b\t4\n", {"a": 1, "a_total": 2, "b": 4, "c": 5}),
        (b"b 3\n", b"b 4 1700000000000\n", {"a": 1, "a_total": 2, "b": 4, "c": 5}),
        (b"b 3\n", b'b 4 # {x="1"} 2\n', {"a": 1, "a_total": 2, "b": 4, "c": 5}),
        (b"b 3\n", b"b 4\r\n", {"a": 1, "a_total": 2, "b": 4, "c": 5}),
        (b"b 3\n", b"b 1_0\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b"b N/A\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b"b\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b"3\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b" 3\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b"nan\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b"\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"b 3\n", b"# b 3\n", {"a": 1, "a_total": 2, "c": 5}),
        (b"a 1\nno_a 1\n", b"no_a 1\na 6\n", {"a": 6, "a_total": 2, "b": 3, "c": 5}),
        (b"bad line here\n", b"bad 8\n", {"a": 1, "a_total": 2, "b": 3, "c": 5, "bad": 8}),
        (b"bad line here\nno_c 4\nc 5\n", b"b 8\nno_c 4\nc 5\n", {"a": 1, "a_total": 2, "b": 8, "c": 5}),
        (b"c 5\n", b"c 5", {"a": 1, "a_total": 2, "b": 3, "c": 5}),
        (b"c 5\n", b"c 5\nd 6", {"a": 1, "a_total": 2, "b": 3, "c": 5, "d": 6}),
        (b"# HELP a first\n", b"\xef\xbb\xbf# HELP a first\n", {"a": 1, "a_total": 2, "b": 3, "c": 5}),
        (BODY, BODY.replace(b"\n", b"\r\n"), {"a": 1, "a_total": 2, "b": 3, "c": 5}),
        (BODY, b"", {}),
    ],
)
def test_what_happens_to_wanted_and_rejected_lines_is_seen_at_once(
    old: bytes, new: bytes, expected: dict[str, float]
) -> None:
    memory = steady(BODY)
    assert BODY.count(old) == 1
    changed = BODY.replace(old, new)
    scan = memory.scan(changed)
    exposition = parse(changed)
    assert read(scan) == expected
    assert (scan.lines, scan.rejected) == (exposition.lines, len(exposition.rejected))
    assert read(memory.scan(BODY)) == {"a": 1, "a_total": 2, "b": 3, "c": 5}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"# b 7\n", b"d 7\n", ({"a": 1, "a_total": 2, "b": 3, "c": 5, "d": 7}, 10, 1, 1)),
        (b"no_c 4\n", b"d 4\n", ({"a": 1, "a_total": 2, "b": 3, "c": 5, "d": 4}, 9, 1, 1)),
        (b"no_c 4\n", b"b 4\n", ({"a": 1, "a_total": 2, "b": 4, "c": 5}, 9, 1, 1)),
        (b"no_c 4\n", b"not good\n", ({"a": 1, "a_total": 2, "b": 3, "c": 5}, 9, 2, 1)),
        (b"no_c 4\n", b"lost_y 4\n", ({"a": 1, "a_total": 2, "b": 3, "c": 5}, 9, 1, 2)),
    ],
)
def test_what_takes_the_place_of_an_unwanted_line_is_seen_within_full_every_scans(
    old: bytes, new: bytes, expected: tuple[dict[str, float], int, int, int]
) -> None:
    memory = SeriesMemory(place)
    memory.scan(BODY)
    memory.scan(BODY)  # the second look in full: the longest time without one begins
    changed = BODY.replace(old, new)
    for _ in range(FULL_EVERY):
        scan = memory.scan(changed)
    assert (read(scan), scan.lines, scan.rejected, scan.unowned) == expected


def test_without_a_steady_past_everything_is_seen_at_once() -> None:
    memory = SeriesMemory(place)
    for number in range(40):
        body = BODY.replace(b"# b 7", b"d%d 7" % number)
        assert read(memory.scan(body)) == {"a": 1, "a_total": 2, "b": 3, "c": 5, f"d{number}": 7}


def test_lines_in_another_order_keep_places_and_values_together_also_when_steady() -> None:
    memory = steady(b"a 1\nb 2\nno 0\nc 3\n")
    places = memory.scan(b"a 1\nb 2\nno 0\nc 3\n").places
    for number in range(2 * FULL_EVERY):
        scan = memory.scan(b"c %d\nno 0\na 7\nb 8\n" % number)
        assert scan.places is places
        assert read(scan) == {"a": 7, "b": 8, "c": number}


def changed(lines: list[bytes], chance: random.Random, pool: list[bytes]) -> list[bytes]:
    """The lines of the next scrape: mostly other values alone, at times something else."""
    lines = list(lines)
    for index, line in enumerate(lines):
        series, blank, value = line.rpartition(b" ")
        if blank and line[:1] != b"#" and chance.random() < 0.3:
            lines[index] = series + blank + chance.choice((b"1", b"22.5", b"NaN", b"1e+06", b"+Inf", value))
    match chance.randrange(24):
        case 0:
            lines[chance.randrange(len(lines))] = chance.choice(pool)
        case 1:
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(pool))
        case 2 if len(lines) > 1:
            del lines[chance.randrange(len(lines))]
        case 3:
            first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
        case 4:
            at = chance.randrange(len(lines))
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
        case _:
            pass
    return lines


@pytest.mark.parametrize("seed", range(40))
def test_a_memory_says_what_a_fresh_one_says_but_for_what_it_may_see_later(seed: int) -> None:
    chance = random.Random(seed)
    pool = [line for body in (BODY, DCGM, VLLM, OPENMETRICS, EVERY_KIND) for line in body.split(b"\n")]
    wanted = {name for name in {line.partition(b"{")[0] for line in pool} if chance.random() < 0.6}

    def some(name: str, labels: dict[str, str]) -> Place | Nowhere:
        return place(name, labels) if name.encode() in wanted or name == "a" else Nowhere.UNWANTED

    memory = SeriesMemory(some)
    lines = [b"a 1", *chance.sample(pool, 12)]
    since: dict[Place, int] = {}
    counts: deque[tuple[int, int, int]] = deque(maxlen=FULL_EVERY)
    exact = 0
    for number in range(400):
        lines = changed(lines, chance, pool)
        body = b"\n".join(lines) + b"\n" * chance.randrange(2)
        scan, fresh = memory.scan(body), SeriesMemory(some).scan(body)
        # Every value is one that the body has for it: the last one, or that of another line of the series.
        values: dict[Place, list[float]] = {}
        for name, labels, value, _ in parse(body).samples:
            where = some(name, labels)
            if not isinstance(where, Nowhere):
                values.setdefault(where, []).append(value)
        for where, value in zip(scan.places, scan.values, strict=True):
            assert any(value == one or (math.isnan(value) and math.isnan(one)) for one in values[where]), body
        # What a fresh memory sees, this one has seen within FULL_EVERY scans.
        since = {where: since.get(where, number) for where in fresh.places}
        for where in since.keys() - set(scan.places):
            assert number - since[where] < FULL_EVERY - 1, body
        counts.append((fresh.lines, fresh.rejected, fresh.unowned))
        assert scan.lines in {lines for lines, _, _ in counts}
        assert scan.unowned in {unowned for _, _, unowned in counts}
        exact += set(scan.places) == set(fresh.places) and scan.lines == fresh.lines
    assert exact > 300
