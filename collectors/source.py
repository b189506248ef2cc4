"""What a kind of target is, and the reader that a scrape loop keeps for one target.

A kind is one file in `collectors/gpu/` or `collectors/engines/` with one line in `collectors/registry.py`.
A kind whose answer is a Prometheus exposition derives from `ExpositionKind`: it says where each series
goes (`place`) and, once per set of series, how values become rows (`layout`). Any other answer (JSON,
CSV) needs `score` and `reader` alone.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

from collectors.exposition import Nowhere, SeriesMemory
from collectors.reading import (
    EngineSample,
    GpuProcess,
    GpuSample,
    Histogram,
    HostSample,
    Reading,
    UsageCounter,
)
from collectors.urls import DEFAULT_PATH

Families = Mapping[str, frozenset[str]]
"""Sample names of an exposition as exposed → all label keys seen on them."""

GROWN = 1.1
"""Of the lines of an answer: so much more is worth reading every line of it, to find out its kind again."""

P = TypeVar("P")
_Match = Callable[[str], re.Match[str] | None]

NOTES_CAP = 50
"""Notes of one reading: beyond that nobody reads them, and they are stored."""


def plain(name: str) -> str:
    """A name as it is compared: lower case, `:` as `_`.

    Managed pipelines lower-case DCGM's names (dcgm-exporter #577), routers rewrite vLLM's and SGLang's
    colon (sglang #12618), Ray does both.
    """
    return name.lower().replace(":", "_")


class Kind(Protocol):
    """Something that answers a scrape."""

    @property
    def name(self) -> str:
        """As written in the configuration: dcgm, vllm, …"""

    @property
    def role(self) -> str:
        """gpu, engine, router, gateway, host or probe."""

    @property
    def default_path(self) -> str:
        """Where it answers, for a URL without a path."""

    def score(self, body: bytes, families: Families) -> int:
        """How much of an answer is of this kind; 0 when none. The highest kind wins."""

    def reader(self) -> Callable[[bytes], Reading]:
        """A function that reads the answers of one target, scrape after scrape."""


class Rows(NamedTuple):
    """What one scrape's values say."""

    gpus: list[GpuSample]
    engines: list[EngineSample]
    histograms: list[Histogram]
    notes: tuple[str, ...]
    """What was odd in this scrape's values."""
    processes: Sequence[GpuProcess] = ()
    hosts: Sequence[HostSample] = ()
    usage: Sequence[UsageCounter] = ()


class Layout(Protocol):
    """How the values of one set of series become rows. Made once, used while the set stays."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Canonical names the kind can yield and this set of series does not."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about this set of series."""

    @property
    def found_names(self) -> tuple[tuple[str, str], ...]:
        """Canonical name → the name it is read by, as exposed."""

    def rows(self, values: list[float]) -> Rows:
        """The rows; `values` are aligned with the places the layout was made from."""


@dataclass(frozen=True, kw_only=True)
class ExpositionKind(ABC, Generic[P]):
    """A kind that answers with a Prometheus exposition. `P` is where the value of a series goes."""

    name: str
    role: str
    default_path: str = DEFAULT_PATH
    marks: tuple[str, ...]
    """Names (compared as `plain`, `*` allowed) that only this kind shows; `score` counts them."""
    not_marks: tuple[str, ...] = ()
    """Names that look like marks and are of another program (vLLM's router shows `vllm_router_*`)."""
    not_with_labels: frozenset[str] = frozenset()
    """A marked name with one of these labels belongs to another kind (a router that repeats it)."""
    own: frozenset[str] = frozenset()
    """Names (as `plain`) that no router repeats: where one has such a label, somebody else put it there."""

    def score(self, body: bytes, families: Families) -> int:
        """The number of families that carry one of the kind's marks."""
        del body
        not_with = frozenset() if self.labelled_by_others(families) else self.not_with_labels
        return sum(self.marked(name) for name, labels in families.items() if not not_with & labels)

    def labelled_by_others(self, families: Families) -> bool:
        """Whether the labels of `not_with_labels` are no router's, but of whoever passed the answer on."""
        return any(
            labels & self.not_with_labels for name, labels in families.items() if plain(name) in self.own
        )

    def wants(self, name: str) -> bool:
        """Whether a series of that name can say something, whatever its labels; for whoever asks by name."""
        return self.place(name, {}) is not Nowhere.UNWANTED

    def marked(self, name: str) -> bool:
        """Whether the name is one that only this kind shows."""
        name = plain(name)
        is_mark, is_not = self._patterns
        return is_mark(name) is not None and is_not(name) is None

    @cached_property
    def _patterns(self) -> tuple[_Match, _Match]:
        """Of `marks` and of `not_marks`, made once: every kind is asked about every name of an answer."""
        is_mark, is_not = (
            re.compile("|".join(map(translate, patterns)) or "(?!)").match
            for patterns in (self.marks, self.not_marks)
        )
        return is_mark, is_not

    def reader(self) -> Callable[[bytes], Reading]:
        """A reader with its own memory of series."""
        return _ExpositionReader(self).read

    @abstractmethod
    def place(self, name: str, labels: dict[str, str]) -> P | Nowhere:
        """Where the value of a series goes. A pure function: it is asked once per series text."""

    @abstractmethod
    def layout(self, places: tuple[P, ...]) -> Layout:
        """How values aligned with `places` become rows."""


class _ExpositionReader(Generic[P]):
    def __init__(self, kind: ExpositionKind[P]) -> None:
        self._kind = kind
        self._series = SeriesMemory(kind.place)
        self._places: tuple[P, ...] | None = None
        self._layout: Layout = kind.layout(())

    def read(self, body: bytes) -> Reading:
        scan = self._series.scan(body)
        if scan.places is not self._places:
            self._layout = self._kind.layout(scan.places)
            self._places = scan.places
        layout = self._layout
        rows = layout.rows(scan.values)
        return Reading(
            self._kind.name, self._kind.role, rows.gpus, rows.engines, rows.histograms,
            scan.lines, scan.rejected, scan.unowned, layout.missing, _few(layout.notes + rows.notes),
            layout.found_names, rows.processes, rows.hosts, rows.usage,
        )  # fmt: skip


def _few(notes: tuple[str, ...]) -> tuple[str, ...]:
    if len(notes) <= NOTES_CAP:
        return notes
    return (*notes[:NOTES_CAP], f"{len(notes) - NOTES_CAP} more notes are left out")


class TargetReader:
    """Reads the answers of one target; remembers its series between scrapes."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._read = kind.reader()
        self._lines: int | None = None

    def read(self, body: bytes) -> Reading:
        """The canonical rows of one answer. Never raises on what the body holds: bad lines are counted."""
        return self._read(body)

    def outgrown(self, lines: int) -> bool:
        """Whether an answer of that many lines has so much more than when this was last said (or first
        asked) that another kind may read more of it: a Dynamo worker shows its engine's names at its first
        request."""
        if self._lines is not None and lines <= self._lines * GROWN:
            return False
        first, self._lines = self._lines is None, lines
        return not first
