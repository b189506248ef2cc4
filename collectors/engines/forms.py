"""One program, several forms of answer: another path, another role, JSON or an exposition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from collectors.reading import Reading
from collectors.source import Families, Kind
from collectors.support import Alias, aliases, impossible
from collectors.urls import DEFAULT_PATH


class Yielding(Kind, Protocol):
    """A kind that says what it can give."""

    @property
    def yields(self) -> tuple[str, ...]:
        """Canonical columns and histogram metrics."""


class Form(NamedTuple):
    """One form of answer."""

    sign: Callable[[bytes], bool]
    """Whether an answer is of this form, or rather of one that follows. Asked at each scrape."""
    kind: Yielding


def lines_starting(*starts: bytes) -> Callable[[bytes], bool]:
    """Whether a line of an answer starts with one of these; substring searches alone, which are fast."""
    inside = tuple(b"\n" + start for start in starts)
    return lambda body: body.startswith(starts) or any(line in body for line in inside)


@dataclass(frozen=True, kw_only=True)
class FormsKind:
    """A kind whose answers are read by the first form whose sign they show, by the last where none does."""

    name: str
    forms: tuple[Form, ...]
    default_path: str = DEFAULT_PATH

    @property
    def role(self) -> str:
        """That of the first form; a reading says its own."""
        return self.forms[0].kind.role

    @property
    def yields(self) -> tuple[str, ...]:
        """What one form or another can give."""
        return tuple(dict.fromkeys(name for form in self.forms for name in form.kind.yields))

    @property
    def aliases(self) -> Mapping[str, Sequence[Alias]]:
        """Canonical column or metric → its names in all forms."""
        found: dict[str, dict[Alias, None]] = {}
        for form in self.forms:
            for column, names in aliases(form.kind).items():
                found.setdefault(column, {}).update(dict.fromkeys(names))
        return {column: tuple(names) for column, names in found.items()}

    @property
    def impossible(self) -> Mapping[str, str]:
        """Canonical column or metric → why no form can ever give it."""
        told = {column: why for form in self.forms for column, why in impossible(form.kind).items()}
        return {column: why for column, why in told.items() if column not in self.yields}

    @property
    def notes(self) -> tuple[str, ...]:
        """What anyone who reads the rows must know, of whichever form."""
        return tuple(note for form in self.forms for note in getattr(form.kind, "notes", ()))

    @property
    def marks(self) -> tuple[str, ...]:
        """Names that only this kind shows, those of all forms."""
        return tuple(mark for form in self.forms for mark in getattr(form.kind, "marks", ()))

    def score(self, body: bytes, families: Families) -> int:
        """As the form says that says most."""
        return max(form.kind.score(body, families) for form in self.forms)

    def wants(self, name: str) -> bool:
        """Whether a series of that name can say something in one form or another."""
        return any(wants(name) for form in self.forms if (wants := getattr(form.kind, "wants", None)))

    def marked(self, name: str) -> bool:
        """Whether the name is one that only this kind shows."""
        return any(marked(name) for form in self.forms if (marked := getattr(form.kind, "marked", None)))

    def reader(self) -> Callable[[bytes], Reading]:
        """A reader that keeps a memory of each form that it has met."""
        readers: dict[int, Callable[[bytes], Reading]] = {}
        last = len(self.forms) - 1

        def read(body: bytes) -> Reading:
            number = next((n for n, form in enumerate(self.forms) if form.sign(body)), last)
            if number not in readers:
                readers[number] = self.forms[number].kind.reader()
            return readers[number](body)

        return read
