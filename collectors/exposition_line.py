"""The grammar of one line of a metrics exposition: Prometheus text 0.0.4 and 1.0.0, and OpenMetrics.

A line is `series value [timestamp] [# exemplar]`; a series is a metric name with or without labels in
braces, or braces in which the name stands in quotes. Nothing here knows about other lines.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

LINE_CAP = 64 * 2**10
"""Bytes of one line. The longest seen in the wild is a configuration spelled out in labels, some 10 KB."""
LABEL_CAP = 4 * 2**10
"""UTF-8 bytes of one label value; the rest is cut off."""
LINES_CAP = 500_000
"""Lines of one exposition. In a body of 16 MiB that is 33 bytes a line, less than any exporter needs."""

BLANKS = b" \t\r"
"""What may stand around the parts of a line. The carriage return belongs to CRLF line ends."""


class BadLineError(ValueError):
    """The line is not valid; the text says why."""


class Tail(NamedTuple):
    """What stands behind the series."""

    value: float
    value_text: bytes
    timestamp: float | None
    """As written: milliseconds in the text format, seconds in OpenMetrics."""


_NAME = rb"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_BRACES = rb'\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\}'
_SERIES = re.compile(rb"%b(?:[ \t\r]*+%b)?+|%b" % (_NAME, _BRACES, _BRACES))
_WORD = rb"([^ \t\r#][^ \t\r]*+)"
_TAIL = re.compile(rb"[ \t\r]*+%b(?:[ \t\r]++%b)?+(?:[ \t\r]++(#.*+))?+" % (_WORD, _WORD))
_EXEMPLAR = re.compile(rb"#[ \t\r]*+%b[ \t\r]*+%b(?:[ \t\r]++%b)?+" % (_BRACES, _WORD, _WORD))
_QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
_KEY = rf"(?:([a-zA-Z_][a-zA-Z0-9_]*+)|{_QUOTED})"
_LABEL = re.compile(rf"[ \t\r]*+{_KEY}[ \t\r]*+(?:=[ \t\r]*+{_QUOTED}[ \t\r]*+)?+(?:,|\Z)")
_TYPE = re.compile(rf"#[ \t]++TYPE[ \t]++(?:([^ \t\"]++)|{_QUOTED})[ \t]++([^ \t]++)")
_ESCAPE = re.compile(r'\\([\\n"])')
# How C libraries print a NaN that Python does not read; llama.cpp on Windows sends -nan(ind).
_C_NAN = re.compile(rb"[-+]?nan\(s?(?:ind|nan)\)", re.IGNORECASE)


def split_lines(body: bytes) -> list[bytes]:
    r"""Lines without their `\n`. Past `LINES_CAP` lines the rest stands as one line, which is not valid."""
    lines = body.removeprefix(codecs.BOM_UTF8).split(b"\n", LINES_CAP)
    if b"\n" in lines[-1]:
        lines[-1] = b"(%d bytes past the first %d lines)" % (len(lines[-1]), LINES_CAP)
    return lines


def carries_sample(line: bytes) -> bool:
    """Whether the line is neither blank nor a comment, and so should carry a sample."""
    return line.strip(BLANKS)[:1] not in (b"", b"#")


def find_series(line: bytes) -> int:
    """Where the series text of a line without surrounding blanks ends. Raises `BadLineError`."""
    if len(line) > LINE_CAP:
        raise BadLineError(f"{len(line)} bytes, longer than {LINE_CAP}")
    found = _SERIES.match(line)
    if found is None:
        raise BadLineError("does not start with a metric name or closed braces")
    end = found.end()
    if line[end - 1 : end] != b"}" and line[end : end + 1] not in (b" ", b"\t", b"\r"):
        raise BadLineError("no value" if end == len(line) else "invalid metric name, or labels not closed")
    return end


def read_series(series: bytes) -> tuple[str, dict[str, str], int]:
    """Metric name, labels (unescaped, in the order written) and how many values were cut to `LABEL_CAP`.

    Raises `BadLineError`.
    """
    try:
        text = series.decode()
    except UnicodeDecodeError as error:
        raise BadLineError("not UTF-8") from error
    name, brace, inside = text.partition("{")
    name = name.rstrip(" \t\r")
    labels: dict[str, str] = {}
    if brace:
        inner = inside.removesuffix("}").strip(" \t\r")
        position = 0
        while position < len(inner):
            found = _LABEL.match(inner, position)
            if found is None:
                raise BadLineError(f"invalid labels from {inner[position : position + 40]!r} on")
            position = found.end()
            plain, quoted, value = found.groups()
            key = plain if quoted is None else _unescape(quoted)
            if value is None or (key == "__name__" and not name):
                if name or (value is None and quoted is None):
                    raise BadLineError(
                        f"{key!r} has no label value" if quoted is None else "two metric names"
                    )
                name = key if value is None else _unescape(value)
                if not name:
                    raise BadLineError("empty metric name")
            elif key in labels or not key or key == "__name__":
                raise BadLineError(f"label {key!r} stands twice" if key in labels else "invalid label name")
            else:
                labels[key] = _unescape(value)
    if not name:
        raise BadLineError("no metric name")
    # Only a long series can hold a long label value: the usual line pays one comparison.
    return name, labels, _cut_long_values(labels) if len(series) > LABEL_CAP else 0


def read_tail(tail: bytes) -> Tail:
    """Value and timestamp from what stands behind the series. Raises `BadLineError`."""
    found = _TAIL.fullmatch(tail)
    if found is None:
        raise BadLineError("no value" if not tail.strip(BLANKS) else _not_a_number(tail))
    value, timestamp, exemplar = found.groups()
    number = read_number(value)
    when = None if timestamp is None else _read_timestamp(timestamp)
    if exemplar is not None:
        parts = _EXEMPLAR.fullmatch(exemplar)
        if parts is None:
            raise BadLineError("invalid exemplar")
        read_number(parts[1])
        if parts[2] is not None:
            _read_timestamp(parts[2])
    return Tail(number, value, when)


def read_number(text: bytes) -> float:
    """One value, blanks around it allowed. Raises `BadLineError`."""
    if not _is_foreign(text):
        try:
            return float(text)
        except ValueError:
            if _C_NAN.fullmatch(text.strip(BLANKS)):
                return math.nan
    raise BadLineError(_not_a_number(text))


def read_numbers(texts: Sequence[bytes]) -> list[float] | None:
    """All values at once, at the speed of `float`; None when one of them needs `read_number`."""
    if _is_foreign(b"".join(texts)):
        return None
    try:
        return list(map(float, texts))
    except ValueError:
        return None


def read_values(lines: Sequence[bytes], starts: Sequence[bytes]) -> list[float] | None:
    """What stands behind the start of each line, as a number, at the speed of `float`.

    None when a line does not start as it should, or when a value needs `read_number`.
    """
    texts = list(map(bytes.removeprefix, lines, starts))
    if len(b"".join(lines)) - len(b"".join(texts)) != len(b"".join(starts)):
        return None  # a line without its start is taken as it is, and is longer than it should be
    return read_numbers(texts)


def read_type(line: bytes) -> tuple[str, str] | None:
    """Metric name and type from a `# TYPE` line; None for every other comment."""
    try:
        found = _TYPE.fullmatch(line.strip(BLANKS).decode())
    except UnicodeDecodeError:
        return None
    if found is None:
        return None
    plain, quoted, kind = found.groups()
    return (plain if quoted is None else _unescape(quoted)), kind


def _is_foreign(text: bytes) -> bool:
    """Whether the text holds what Python's `float` takes and the format does not."""
    return b"_" in text or b"\v" in text or b"\f" in text


def _not_a_number(text: bytes) -> str:
    return f"{text.strip(BLANKS)[:60].decode(errors='replace')!r} is not a number"


def _read_timestamp(text: bytes) -> float:
    number = read_number(text)
    if not math.isfinite(number):
        raise BadLineError("the timestamp is not finite")
    return number


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def _cut_long_values(labels: dict[str, str]) -> int:
    cut = 0
    for key, value in labels.items():
        raw = value.encode()
        if len(raw) > LABEL_CAP:
            labels[key] = raw[:LABEL_CAP].decode(errors="ignore")
            cut += 1
    return cut
