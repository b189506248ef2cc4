"""Numbers, lengths of time and sizes as people read them. Pure: no clock, no Streamlit.

Two or three significant digits, the unit beside the number, `–` for what is not known, never `nan`.
Thousands are set apart by a narrow space; number and unit do not part at a line's end.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from alerts import words

UNKNOWN = "–"
"""What stands for a value that is not known; the reason goes into the help beside it."""

_THIN = "\u202f"
_SPACE = "\u00a0"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~$:&])")
_JOINER = "\u2060"
"""Word joiner: invisible, no place to break a line."""
_READ_AFTER_ESCAPES = re.compile(
    r"""(?ix)
    : (?! \d{1,2}: ) (?= [\w+/-]+ : )              # :fire:, :material/home:, not 13:20:05
    | (?:https?|ftp|mailto|xmpp) : (?= \S )  # http://x.y
    | www (?= \. )                                 # www.x.y
    | (?<=[\w.+-]) @ (?= [\w-]+ \. )                            # a@x.y
    | (?<! \S ) [<>~-] (?= (?: -> | [=>-] ) (?! \S ) )  # -> <- <-> -- >= <= ~=
    """
)
"""What Streamlit's Markdown turns into icons, links and arrows after it has taken the backslashes away
(remark-emoji, GFM's literal autolinks, its typographical symbols)."""
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
"""Signs that turn the direction of the text after them, and control characters."""


def is_known(value: float | None) -> bool:
    """True for a finite number; None, NaN and infinities are not known."""
    return value is not None and math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """A number at `digits` significant digits: 1843 → `1 840`, 12.345 → `12.3`, 0.00419 → `0.00419`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    if rounded and math.floor(math.log10(abs(rounded))) > math.floor(math.log10(abs(value))):
        decimals -= 1  # 9.996 became 10.00: one decimal too many
    return f"{rounded:,.{max(decimals, 0)}f}".replace(",", _THIN)


def count(value: float | None) -> str:
    """A whole number, every digit: 1843 → `1 843`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{round(value):,}".replace(",", _THIN)


def with_unit(value: float | None, unit: str, digits: int = 3) -> str:
    """`significant` and its unit: 312.4, "W" → `312 W`."""
    text = significant(value, digits)
    return text if text == UNKNOWN else f"{text}{_SPACE}{unit}"


def percent(ratio: float | None) -> str:
    """A ratio 0–1 in percent, as `alerts.words.percent`: 0.614 → `61.4 %`, 0.7996 → `79.9 %`."""
    if ratio is None or not math.isfinite(ratio):
        return UNKNOWN
    return words.percent(ratio).replace(" ", _SPACE)


def latency(seconds: float | None) -> str:
    """Seconds with the unit that suits: 0.0412 → `41.2 ms`, 1.234 → `1.23 s`, 2560 → `2 560 s`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds == 0 or abs(seconds) >= 0.9995:
        return with_unit(seconds, "s")
    if abs(seconds) >= 0.0009995:
        return with_unit(seconds * 1e3, "ms")
    return with_unit(seconds * 1e6, "µs")


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units: 4 → `4 s`, 125 → `2 m 5 s`, 4320 → `1 h 12 m`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    left = max(round(seconds), 0)
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        whole, left = divmod(left, size)
        if whole or parts or unit == "s":
            parts.append((whole, unit))
    return _SPACE.join(f"{whole}{_SPACE}{unit}" for whole, unit in parts[:2] if whole or len(parts) == 1)


def gibibytes(value: float | None) -> str:
    """Memory: bytes as GiB (MiB below a tenth of one): 78e9 → `72.6 GiB`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value and abs(value) < 0.1 * 2**30:
        return with_unit(value / 2**20, "MiB")
    return with_unit(value / 2**30, "GiB")


def transfer(value: float | None) -> str:
    """What crossed the wire: bytes as B, kB or MB (powers of 1000)."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= size:
            return with_unit(value / size, unit)
    return f"{count(value)}{_SPACE}B"


def megahertz(value: float | None) -> str:
    """A clock: hertz as MHz, whole: 1.98e9 → `1 980 MHz`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{count(value / 1e6)}{_SPACE}MHz"


def zone(name: str | None) -> ZoneInfo:
    """The reader's zone; UTC where the browser names none or one that is not known here."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def from_unix(seconds: float) -> datetime:
    """Unix seconds as UTC without zone, as the store writes times."""
    return datetime(1970, 1, 1) + timedelta(seconds=seconds)  # noqa: DTZ001


def local(moment: datetime, reader: ZoneInfo) -> datetime:
    """A UTC time without zone, as the store writes it, in the reader's zone."""
    return moment.replace(tzinfo=ZoneInfo("UTC")).astimezone(reader)


def clock(moment: datetime | None, reader: ZoneInfo, now: datetime, *, seconds: bool = False) -> str:
    """`14:05`, `14:05:09` with seconds, and with its day (`30 Nov 14:05`) when that is not today."""
    if moment is None:
        return UNKNOWN
    there, today = local(moment, reader), local(now, reader)
    time = f"{there:%H:%M:%S}" if seconds else f"{there:%H:%M}"
    if there.date() == today.date():
        return time
    year = f"{_SPACE}{there.year}" if there.year != today.year else ""
    return f"{there.day}{_SPACE}{there:%b}{year}{_SPACE}{time}"


def age(moment: datetime | None, now: datetime) -> timedelta | None:
    """How old a time is; None where it is not known, never below zero."""
    return None if moment is None else max(now - moment, timedelta())


def plain(text: str | None) -> str:
    """Text from outside, safe inside Markdown: no character of it is read as markup, icon, arrow or link.

    A backslash does not keep all of them off: where such a pattern would match, an invisible word joiner
    parts it. What turns the direction of text, and control characters, are shown as `�`.
    """
    if not text:
        return UNKNOWN
    flat = _BIDI.sub("\ufffd", " ".join(text.split()))
    return _MARKDOWN.sub(r"\\\1", _READ_AFTER_ESCAPES.sub(rf"\g<0>{_JOINER}", flat))


def shorten(text: str, width: int) -> str:
    """At most `width` characters, the cut shown: long pod and target names."""
    return text if len(text) <= width else text[: width - 1] + "…"
