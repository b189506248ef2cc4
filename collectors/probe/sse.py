"""Server-sent events, from bytes in whatever pieces they come (WHATWG HTML, 9.2.6). Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    """One event."""

    name: str
    """Its `event:` field; "" where there is none."""
    data: str
    """Its `data:` lines, joined by line breaks."""


class Events:
    """Feed it bytes as they come; it gives the events that are whole."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of the line that has not ended
        self._after_cr = False  # a \n now ends no line: it belongs to the \r before
        self._first = True
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in this piece. Never raises, whatever the bytes are."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        *ends, rest = _LINE_END.split(chunk)
        found = []
        for end in ends:
            self._line.append(end)
            line = b"".join(self._line)
            self._line = []
            if (event := self._take(line)) is not None:
                found.append(event)
        if rest:
            self._line.append(rest)
        return found

    def end(self) -> list[Event]:
        """The event that no empty line has ended, if there is one: servers leave the last one out."""
        return self.feed(b"\n\n")

    def _take(self, line: bytes) -> Event | None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            event = Event(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data = "", []
            return event
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "error":  # llama.cpp's server until 2025 wrote `error: {…}` instead of `data:`
            self._name = "error"
            self._data.append(value)
        return None
