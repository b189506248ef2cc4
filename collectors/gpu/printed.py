"""Figures as nvidia-smi and rocm-smi print them for people: `1235 MiB`, `0x4`, `[N/A]`, `ERR!`."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from collectors.exposition import LABEL_CAP
from collectors.gpu.memory import memory, whole
from collectors.gpu.throttle import REASONS
from collectors.plausible import GPU, cannot_be
from collectors.reading import GpuProcess, GpuSample, Reading
from collectors.source import NOTES_CAP

_UNITS: Mapping[str, tuple[str, float, float]] = {
    "b": ("_bytes", 1, 1),
    "kib": ("_bytes", 2**10, 1),
    "mib": ("_bytes", 2**20, 1),
    "gib": ("_bytes", 2**30, 1),
    "%": ("_ratio", 1, 100),
    "w": ("_watts", 1, 1),
    "mw": ("_watts", 1, 1000),
    "hz": ("_hertz", 1, 1),
    "mhz": ("_hertz", 10**6, 1),
    "ghz": ("_hertz", 10**9, 1),
    "c": ("_celsius", 1, 1),
    "j": ("_joules_total", 1, 1),
    "uj": ("_joules_total", 1, 10**6),
}
"""Printed unit → ending of the columns it fits, and how to come to their unit: × and ÷."""
_NUMBER = re.compile(r"([-+]?\d{1,40}(?:\.\d{1,40})?(?:[eE][-+]?\d{1,3})?)\s*([A-Za-z%°]{0,4})")
_UNAVAILABLE = frozenset(
    {
        "", "n/a", "none", "not supported", "not available", "not found", "no data", "function not found",
        "insufficient permissions", "requested functionality has been deprecated",
    }
)  # fmt: skip
_FAULTS = frozenset(
    {
        "err!", "error", "unknown error", "gpu is lost", "gpu requires reset",
        "gpu access blocked by the operating system",
    }
)  # fmt: skip
"""Texts in place of a value that say the GPU, or the way to it, is ill."""
_PID_DIGITS = 18
_SHOWN = 80
MEASURES = frozenset(GPU)
Columns = Mapping[str, tuple[str, Sequence[str]]]
"""Canonical column → the unit where none is printed, and names; the first with a value counts."""
NOT_PRINTED: Mapping[str, str] = dict.fromkeys(
    ("graphics_active_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"),
    "what only a profiler tells is not in this output",
)
"""Canonical column → why no printed source tells it."""


class BadValueError(ValueError):
    """The text is neither a value in a unit that fits nor a way to say that there is none."""


def text_of(body: bytes) -> str:
    """The text; PowerShell's `>` writes UTF-16."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16", "replace")
    return body.decode("utf-8-sig", "replace")


def is_unavailable(text: str) -> bool:
    """Whether a text stands for "no value": empty, `[N/A]`, `N/A`, `[Not Supported]`, `ERR!` …"""
    bare = text.strip()
    if bare[:1] == "[" and bare[-1:] == "]":
        return True
    return bare.lower() in _UNAVAILABLE or bare.lower() in _FAULTS


def is_fault(text: str) -> bool:
    """Whether a text in place of a value says that the GPU is ill: `ERR!`, `[GPU is lost]` …"""
    return text.strip().strip("[]").strip().lower() in _FAULTS


def said(text: str | None) -> str | None:
    """The text, at most `LABEL_CAP` characters of it, or None where it stands for "no value"."""
    return None if text is None or is_unavailable(text) else text.strip()[:LABEL_CAP]


def value_of(column: str, text: str, unit: str) -> float | None:
    """A printed value in the unit of the column; `unit` is meant where none is printed.

    Raises BadValueError.
    """
    if is_unavailable(text):
        return None
    if column in ("throttle_reasons", "xid_last"):
        return float(_mask(text))
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise BadValueError(f"{text.strip()[:_SHOWN]!r} is no value")
    known = _UNITS.get((found[2] or unit).strip("°").lower())
    if known is None or not column.endswith(known[0]):
        raise BadValueError(f"{text.strip()[:_SHOWN]!r} has a unit that does not fit")
    value = float(found[1]) * known[1] / known[2]
    if not math.isfinite(value):
        raise BadValueError(f"{text.strip()[:_SHOWN]!r} is no value")
    return value


def _mask(text: str) -> int:
    bare = text.strip().lower()
    if re.fullmatch(r"0x[0-9a-f]{1,16}", bare):
        return int(bare, 16)
    if re.fullmatch(r"[0-9]{1,18}", bare):
        return int(bare)
    raise BadValueError(f"{text.strip()[:_SHOWN]!r} is no bit mask")


def known_value(column: str, text: str, unit: str, of: str, notes: Notes) -> float | None:
    """As `value_of`; a text that is no value is not known, and a note says so. `of`: whose value it is."""
    try:
        return value_of(column, text, unit)
    except BadValueError as error:
        notes.add(f"{of}: {error}, it is not known")
        return None


def known_values(
    columns: Columns, text: Callable[[str], str | None], uuid: str, found: dict[str, str], notes: Notes
) -> dict[str, float | None]:
    """The values of one GPU. `text`: what stands under a name; `found` gets each column's first name."""
    values: dict[str, float | None] = {}
    for column, (unit, names) in columns.items():
        for name in names:
            if values.get(column) is None and (shown := text(name)) is not None:
                found.setdefault(column, name)
                values[column] = known_value(column, shown, unit, f"{name} of {uuid}", notes)
    return values


def mask_of(flags: Iterable[tuple[str, str]]) -> float | None:
    """The bit mask of (reason, `Active` or `Not Active`); None when no flag is known."""
    mask, known = 0, False
    for reason, text in flags:
        state = text.strip().lower()
        if state in ("active", "not active"):
            known = True
            mask |= REASONS[reason] if state == "active" else 0
    return float(mask) if known else None


def pid_of(text: str | None) -> int | None:
    """A process id, or None."""
    bare = (text or "").strip()
    return int(bare) if bare.isascii() and bare.isdecimal() and len(bare) <= _PID_DIGITS else None


def index_of(text: str | None) -> int | None:
    """A GPU's index, or None."""
    found = pid_of(text)
    return found if found is not None and found < 2**15 else None


class Who(NamedTuple):
    """What a GPU is."""

    uuid: str
    instance: str = ""
    gpu_index: int | None = None
    host: str | None = None
    model: str | None = None
    driver: str | None = None


class Notes:
    """Notes of one reading, each once, at most `NOTES_CAP`."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        self._more = 0

    def add(self, note: str) -> None:
        """Keep it, or count it."""
        if len(self._said) < NOTES_CAP or note in self._said:
            self._said[note] = None
        else:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        """All notes, and how many were left out."""
        more = (f"{self._more} more notes are left out",) if self._more else ()
        return (*self._said, *more)


def gpu_sample(
    who: Who, values: Mapping[str, float | None], notes: Notes, *, nothing_reserved: bool = False
) -> GpuSample:
    """A row from values in canonical units: what cannot be is not known, and memory is made to fit."""
    of = who.uuid + (f"/{who.instance}" if who.instance else "")
    kept: dict[str, float | None] = {}
    for column, value in values.items():
        limits = GPU[column]
        if value is not None and not limits.low <= value <= limits.high:
            notes.add(cannot_be(column, value, limits, of))
            value = None
        kept[column] = value
    figures = memory(*(kept.get(f"memory_{name}") for name in _MEMORY), nothing_reserved=nothing_reserved)
    if figures.fault is not None:
        notes.add(f"{of}: {figures.fault}")
    kept |= {f"memory_{name}": figure for name, figure in zip(_MEMORY, figures[:-1], strict=True)}
    whole_numbers = {column: whole(kept.get(column)) for column in _WHOLE_NUMBERS}
    return GpuSample(
        gpu_uuid=who.uuid, mig_instance=who.instance, gpu_index=who.gpu_index, host=who.host,
        gpu_model=who.model, driver_version=who.driver, **(kept | whole_numbers),  # type: ignore[arg-type]
    )  # fmt: skip


_MEMORY = ("used_bytes", "free_bytes", "reserved_bytes", "total_bytes", "used_ratio")
_WHOLE_NUMBERS = ("sm_clock_hertz", "memory_clock_hertz", "throttle_reasons", "xid_last")


def reading(
    source: str,
    gpus: Iterable[GpuSample],
    processes: Iterable[GpuProcess],
    *,
    lines: int,
    rejected: int,
    yields: Iterable[str],
    found: Mapping[str, str],
    notes: Notes,
) -> Reading:
    """What a printed source says, put together."""
    gpus = list(gpus)
    known = {column for gpu in gpus for column in MEASURES if getattr(gpu, column) is not None}
    return Reading(
        source, "gpu", gpus, [], [], lines, rejected, 0,
        tuple(column for column in yields if column not in known), notes.all(),
        tuple((column, name) for column, name in found.items() if column in known), tuple(processes),
    )  # fmt: skip
