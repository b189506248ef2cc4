"""Scrapes of one target, read fast: each series text is understood once and then only recognised.

Three ways to read a body, each right on its own and slower than the one before:
1. Every line starts as the line at its place did last time: only the wanted values are read.
2. A line's series text is known: one dictionary look-up.
3. A line is read in full: new series, and lines with a timestamp or an exemplar.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from collectors.exposition_line import (
    BLANKS,
    BadLineError,
    carries_sample,
    find_series,
    read_numbers,
    read_series,
    read_tail,
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
    """Lines that could not be read. A value that nobody wants is looked at until it was good once."""
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

    starts: tuple[bytes, ...]
    """What each line starts with."""
    exact: tuple[tuple[int, bytes], ...]
    """Line index and whole text of blank and rejected lines."""
    bare: tuple[int, ...]
    """Lines without labels. Their start alone does not tell: `name 1` may become `name {a="b"} 1`."""
    values: tuple[tuple[int, int], ...]
    """Line index and where in the line the value starts, for each place."""
    lines: int
    rejected: int
    unowned: int


class SeriesMemory(Generic[P]):
    """Remembers the series texts of one target. Not for use from two threads at once."""

    def __init__(self, place: Place[P]) -> None:
        self._place = place
        self._known: dict[bytes, _Series[P]] = {}
        self._known_bytes = 0
        self._order: tuple[_Series[P], ...] = ()
        self._places: tuple[P, ...] = ()
        self._shape: _Shape | None = None
        self.cut_labels = 0
        """Label values found too long and cut so far, each series text counted once."""

    def scan(self, body: bytes) -> Scan[P]:
        """The values of the wanted series. Never raises for what stands in the body.

        `place` is asked once about each series text that is new (or was long gone and forgotten); what it
        raises goes through to the caller.
        Where a series stands twice, the last readable value counts.
        """
        lines = split_lines(body)
        return self._scan_as_before(lines) or self._scan_by_text(lines, len(body))

    def _scan_as_before(self, lines: list[bytes]) -> Scan[P] | None:
        shape = self._shape
        if (
            shape is None
            or len(lines) != len(shape.starts)
            or not all(map(bytes.startswith, lines, shape.starts))
            or any(lines[index] != text for index, text in shape.exact)
            or any(b"{" in lines[index] for index in shape.bare)
        ):
            return None
        values = read_numbers([lines[index][start:] for index, start in shape.values])
        if values is None:
            return None
        return Scan(self._places, values, shape.lines, shape.rejected, shape.unowned)

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
                steady = steady and line.startswith(series.start)
                steady = steady and (not series.wanted or line[len(series.start) :].strip(BLANKS) == value)
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
        unowned = sum(series.unowned for series in found)
        starts = tuple(series.start for series in found)
        self._shape = None
        # The first way reads one line a place, and would not see that the other cannot be read.
        if steady and len(values) == len(present) and all(len(lines[i]) <= _EXACT_BYTES for i in rejected):
            where = dict(zip(present, wanted, strict=True))
            self._shape = _Shape(
                starts,
                exact=tuple((index, lines[index]) for index in blank + rejected),
                bare=tuple(index for index, start in enumerate(starts) if start[-1:] == b" "),
                values=tuple((where[series], len(series.start)) for series in self._order),
                lines=count,
                rejected=len(rejected),
                unowned=unowned,
            )
        self._forget(found, body_bytes)
        return Scan(self._places, [values[one] for one in self._order], count, len(rejected), unowned)

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
