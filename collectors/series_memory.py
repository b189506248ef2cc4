"""Scrapes of one target, read fast: each series text is understood once and then only recognised.

Three ways to read a body, each slower than the one before:
1. As many lines as last time, and the wanted series where they stood: nothing but their lines is looked at.
2. A line's series text is known: one dictionary look-up.
3. A line is read in full: new series, and lines with a timestamp or an exemplar.

The first way does not see what happens on lines that nobody wants: a wanted series that takes the place of
such a line (a comment, say) while the number of lines stays, or a change among those that cannot be read or
are unowned. So it is taken only after two bodies in a row that were read in the other ways were alike, and at
least every `FULL_EVERY`th body is read in the other ways: that long such a change may go unseen, no longer.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable
from enum import Enum
from itertools import compress
from operator import length_hint
from typing import Any, Final, Generic, NamedTuple, TypeVar

from collectors.exposition_line import (
    BLANKS,
    BadLineError,
    carries_sample,
    find_series,
    read_numbers,
    read_series,
    read_tail,
    read_values,
    split_lines,
)


class Nowhere(Enum):
    """What a `Place` may answer instead of a place."""

    UNWANTED = "unwanted"
    """Nobody asks for this metric."""
    UNOWNED = "unowned"
    """The metric is wanted, but its labels name nothing that it could belong to."""


P = TypeVar("P")
Place = Callable[[str, dict[str, str]], P | Nowhere]
"""(metric name, unescaped labels) → where its value goes."""

FULL_EVERY = 16
"""Bodies of which one, at least, is read whole. Reading one whole costs four times as much: at 16 that is a
fifth more per body, and at the usual 10 s a change that only it sees is seen within 160 s."""

# What a memory may hold beyond two bodies' worth before it forgets what the last body did not have.
_SPARE_TEXTS = 1000
_SPARE_BYTES = 2**20
# A rejected line is kept, to be recognised, up to this length.
_EXACT_BYTES = 1000


class Scan(NamedTuple, Generic[P]):
    """The wanted values of one body."""

    places: tuple[P, ...]
    """Places whose series stand in the body: the same object as last time while the set is the same."""
    values: list[float]
    """One per place."""
    lines: int
    """Lines that should carry a sample, rejected ones included."""
    rejected: int
    """Lines that could not be read. A value that nobody wants is looked at until it was good once.
    This and `unowned` are those of the last body read whole, at most `FULL_EVERY` scans ago."""
    unowned: int
    """Lines of series that `place` called `UNOWNED`."""


class _Series(Generic[P]):
    """One series as the exporter spells it. Equal only to itself."""

    __slots__ = ("place", "start", "unowned", "wanted")

    def __init__(self, start: bytes, place: P | Nowhere) -> None:
        self.start = start
        """What its lines start with."""
        self.place = place
        self.wanted = not isinstance(place, Nowhere)
        self.unowned = place is Nowhere.UNOWNED


# Stand in for a series at lines that have none, or none that could be read.
_COMMENT: Final[_Series[Any]] = _Series(b"#", Nowhere.UNWANTED)
_NOTHING: Final[_Series[Any]] = _Series(b"", Nowhere.UNWANTED)


class _Shape(NamedTuple):
    """What stood where in the last body, as far as it must be the same again for the first way."""

    looked_at: bytes
    """One byte per line, 1 for wanted and rejected ones. One more 1 follows, where no line should be."""
    starts: tuple[bytes, ...]
    """What each wanted line starts with, in the order of the lines."""
    exact: tuple[tuple[int, bytes], ...]
    """Position among the lines looked at, and whole text, of rejected lines."""
    order: tuple[int, ...] | None
    """For each place the position of its value among the wanted lines; None: they are in that order."""
    lines: int
    unowned: int


class SeriesMemory(Generic[P]):
    """Remembers the series texts of one target. Not for use from two threads at once.

    One of `full_every` bodies is read whole, whatever it looks like.
    """

    def __init__(self, place: Place[P], full_every: int = FULL_EVERY) -> None:
        self._place = place
        self._full_every = full_every
        self._known: dict[bytes, _Series[P]] = {}
        self._known_bytes = 0
        self._order: tuple[_Series[P], ...] = ()
        self._places: tuple[P, ...] = ()
        self._shape: _Shape | None = None
        self._until_full = 0
        """How many bodies may still be read in the first way."""
        self.cut_labels = 0
        """Label values found too long and cut so far, each series text counted once."""

    def scan(self, body: bytes) -> Scan[P]:
        """The values of the wanted series. Never raises for what stands in the body.

        `place` is asked once about each series text that is new (or was long gone and forgotten); what it
        raises goes through to the caller.
        Where a series stands twice, the last readable value counts.
        """
        if self._until_full > 0 and self._shape is not None:
            self._until_full -= 1
            if scan := self._scan_as_before(body, self._shape):
                return scan
        self._until_full = 0
        return self._scan_by_text(split_lines(body), len(body))

    def _scan_as_before(self, body: bytes, shape: _Shape) -> Scan[P] | None:
        # A line that is not looked at is gone before the next is made, so this stays in the fastest memory.
        looked_at = iter(shape.looked_at)
        found = list(compress(io.BytesIO(body.removeprefix(codecs.BOM_UTF8)), looked_at))
        if length_hint(looked_at) != 1 or len(found) != len(shape.starts) + len(shape.exact):
            return None
        for position, text in reversed(shape.exact):
            if found.pop(position).removesuffix(b"\n") != text:
                return None
        values = read_values(found, shape.starts)
        if values is None:
            return None
        if shape.order is not None:
            values = [values[position] for position in shape.order]
        return Scan(self._places, values, shape.lines, len(shape.exact), shape.unowned)

    def _scan_by_text(self, lines: list[bytes], body_bytes: int) -> Scan[P]:
        # 1. Look every line up, and read in full those that are not known.
        get = self._known.get
        found = [get(line.rpartition(b" ")[0], _NOTHING) for line in lines]
        blank: list[int] = []
        rejected: list[int] = []
        comments = 0
        steady = True
        for index in [index for index, series in enumerate(found) if series is _NOTHING]:
            line = lines[index]
            if line[:1] == b"#":
                found[index] = _COMMENT
                comments += 1
            elif not carries_sample(line):
                blank.append(index)
            else:
                try:
                    series, value = self._read(line)
                except BadLineError:
                    rejected.append(index)
                    continue
                found[index] = series
                # From here on the line is a plain one. Unless it was one, the first way cannot read it.
                lines[index] = series.start + value
                if series.wanted and steady:
                    start, rest = line[: len(series.start)], line[len(series.start) :]
                    steady = start == series.start and rest.strip(BLANKS) == value
        # 2. Read the wanted values.
        wanted = [index for index, series in enumerate(found) if series.wanted]
        texts = [lines[index][len(found[index].start) :] for index in wanted]
        numbers = read_numbers(texts)
        if numbers is None:
            numbers = []
            for index, text in zip(wanted, texts, strict=True):
                try:
                    numbers.append(read_tail(text.strip(BLANKS)).value)
                except BadLineError:
                    rejected.append(index)
                    found[index] = _NOTHING
            wanted = [index for index in wanted if found[index] is not _NOTHING]
            texts = [lines[index][len(found[index].start) :] for index in wanted]
            steady = steady and read_numbers(texts) is not None
        present = [found[index] for index in wanted]
        values = dict(zip(present, numbers, strict=True))
        # 3. Keep what the next scan needs.
        if values.keys() != set(self._order):
            self._order = tuple(values)
            self._places = tuple(one.place for one in values if not isinstance(one.place, Nowhere))
        count = len(lines) - comments - len(blank)
        unowned = len([series for series in found if series.unowned])
        shape = None
        # The first way reads one line a place, and would not see that another cannot be read.
        if (
            steady
            and wanted
            and len(values) == len(present)
            and all(len(lines[i]) <= _EXACT_BYTES for i in rejected)
        ):
            shape = self._shape_of(lines, wanted, present, sorted(rejected), count, unowned)
            if shape == self._shape:
                self._until_full = self._full_every - 1
        self._shape = shape
        self._forget(found, body_bytes)
        return Scan(self._places, [values[one] for one in self._order], count, len(rejected), unowned)

    def _shape_of(
        self,
        lines: list[bytes],
        wanted: list[int],
        present: list[_Series[P]],
        rejected: list[int],
        count: int,
        unowned: int,
    ) -> _Shape:
        # A line end at the end of the body is not the beginning of another line.
        looked_at = bytearray(len(lines) if lines[-1] else len(lines) - 1)
        for index in wanted + rejected:
            looked_at[index] = 1
        position_of = {index: position for position, index in enumerate(sorted(wanted + rejected))}
        order = None
        if tuple(present) != self._order:
            where = {series: position for position, series in enumerate(present)}
            order = tuple(where[series] for series in self._order)
        return _Shape(
            bytes(looked_at) + b"\1",
            tuple(series.start for series in present),
            tuple((position_of[index], lines[index]) for index in rejected),
            order,
            count,
            unowned,
        )

    def _read(self, raw: bytes) -> tuple[_Series[P], bytes]:
        """One line in full: its series and the text of its value. Raises `BadLineError`."""
        line = raw.strip(BLANKS)
        end = find_series(line)
        text = line[:end]
        series = self._known.get(text)
        if series is not None and not series.wanted:
            return series, b""
        tail = read_tail(line[end:])
        if series is None:
            name, labels, cut = read_series(text)
            # Closing braces end a series. A bare name needs its blank: it may start a longer name.
            series = _Series(text if text.endswith(b"}") else text + b" ", self._place(name, labels))
            self.cut_labels += cut
            self._known[text] = series
            self._known_bytes += len(text)
        return series, tail.value_text

    def _forget(self, found: list[_Series[P]], body_bytes: int) -> None:
        """Drop what the last body did not have, once that is most of it: labels may change each scrape."""
        if (
            len(self._known) <= 2 * len(found) + _SPARE_TEXTS
            and self._known_bytes <= 2 * body_bytes + _SPARE_BYTES
        ):
            return
        present = set(found)
        self._known = {text: series for text, series in self._known.items() if series in present}
        self._known_bytes = sum(map(len, self._known))
