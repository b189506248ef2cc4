"""`rocm-smi … --json`: an object per card, values as texts, units in the keys, which change with releases.

Keys of ROCm 5.7 to 6.1. `GPU memory use (%)` is not read: it does not tell memory in use from how busy the
memory is. The junction (hot spot) temperature stands before the edge's: it is what clocks are held down for.
Partitions of one card (CPX, DPX) are cards of their own here, which all show the card's unique id.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from collectors.gpu.printed import (
    NOT_PRINTED,
    Columns,
    Notes,
    Who,
    gpu_sample,
    index_of,
    known_values,
    reading,
    said,
    text_of,
)
from collectors.reading import GpuSample, Reading
from collectors.source import Families
from collectors.support import Alias
from collectors.urls import DEFAULT_PATH

COLUMNS: Columns = {
    "utilization_ratio": ("%", ("GPU use (%)",)),
    "memory_controller_ratio": ("%", ("GPU Memory Read/Write Activity (%)",)),
    "memory_used_bytes": ("B", ("VRAM Total Used Memory (B)",)),
    "memory_total_bytes": ("B", ("VRAM Total Memory (B)",)),
    "memory_used_ratio": ("%", ("GPU Memory Allocated (VRAM%)",)),
    "temperature_celsius": ("C", ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")),
    "memory_temperature_celsius": ("C", ("Temperature (Sensor memory) (C)",)),
    "power_watts": (
        "W",
        (
            "Current Socket Graphics Package Power (W)",
            "Average Graphics Package Power (W)",
        ),
    ),
    "power_limit_watts": ("W", ("Max Graphics Package Power (W)",)),
    "energy_joules_total": ("uJ", ("Accumulated Energy (uJ)",)),
    "sm_clock_hertz": ("MHz", ("sclk clock speed:", "sclk clock speed", "sclk clock level")),
    "memory_clock_hertz": ("MHz", ("mclk clock speed:", "mclk clock speed", "mclk clock level")),
}
_ZERO_IS_UNKNOWN = frozenset({"energy_joules_total", "memory_temperature_celsius"})
_MODEL = ("Card series", "Card Series", "Device Name", "Card model", "Card Model")
_ID = "Unique ID"
_CARD = re.compile(r"card(\d{1,4})")
_OBJECT = re.compile(r'\{\s*"')
_STARTS = 8
_IN_BRACKETS = re.compile(r"(?:\d{1,3} )?\(([^()]*)\)")
_MARKS = (
    b"VRAM Total",
    b"GPU use (%)",
    b"Temperature (Sensor",
    b"Graphics Package Power",
    b"GPU Memory Allocated",
)


class RocmSmi:
    """The kind."""

    name = "rocm_smi"
    role = "gpu"
    default_path = DEFAULT_PATH
    columns: Mapping[str, Sequence[str]] = {column: keys for column, (_, keys) in COLUMNS.items()}
    aliases: Mapping[str, Sequence[Alias]] = {
        column: tuple(Alias(key, "", "") for key in keys) for column, (_, keys) in COLUMNS.items()
    }
    impossible: Mapping[str, str] = {
        **NOT_PRINTED,
        "memory_reserved_bytes": "AMD's driver tells no reserved memory",
        "throttle_reasons": "its throttle words are not read",
        "xid_last": "XIDs are NVIDIA's",
    }
    yields = (*COLUMNS, "memory_free_bytes")

    def score(self, body: bytes, families: Families) -> int:
        """Many when it is JSON that speaks of cards in rocm-smi's words."""
        del families
        if b'"card' not in body or b"{" not in body[:_PREAMBLE] or not any(mark in body for mark in _MARKS):
            return 0
        return 1000

    def reader(self) -> Callable[[bytes], Reading]:
        """Reads a document; nothing is remembered from one to the next."""
        return lambda body: _read(text_of(body))


_PREAMBLE = 4096
"""Bytes of warnings that may stand before the JSON."""


def _read(text: str) -> Reading:
    notes = Notes()
    gpus: dict[str, GpuSample] = {}
    found: dict[str, str] = {}
    cards, rejected = _cards(text, notes)
    driver = said(_text(cards.get("system"), "Driver version"))
    of_id = Counter(said(_text(card, _ID)) for name, card in cards.items() if _CARD.fullmatch(name))
    count = 0
    for key, card in cards.items():
        number = _CARD.fullmatch(key)
        if number is None:
            continue
        count += 1
        if not isinstance(card, dict):
            rejected += 1
            continue
        uuid = said(_text(card, _ID))
        if uuid is not None and of_id[uuid] > 1:
            notes.add(f"{uuid} is shown for {of_id[uuid]} cards (partitions?): they are told apart by number")
            uuid = f"#gpu{int(number[1])}"
        elif uuid is None:
            uuid = f"#gpu{int(number[1])}"
            notes.add("a card shows no unique id: it is told by its number, which can change")
        model = next((name for field in _MODEL if (name := said(_text(card, field)))), None)
        who = Who(uuid, "", index_of(number[1]), None, model, driver)
        gpus[uuid] = gpu_sample(who, _values(card, who, found, notes), notes, nothing_reserved=True)
    return reading(
        RocmSmi.name, gpus.values(), (), lines=max(count, rejected), rejected=rejected, yields=RocmSmi.yields,
        found=found, notes=notes,
    )  # fmt: skip


def _cards(text: str, notes: Notes) -> tuple[dict[str, Any], int]:
    """The object, and 1 when there is none."""
    trouble: Exception | None = None
    document: object = None
    # Warnings may stand before it, with braces of their own, and anything behind it.
    for start in islice(_OBJECT.finditer(text), _STARTS):
        try:
            document, _ = json.JSONDecoder().raw_decode(text, start.start())
            break
        except (ValueError, RecursionError) as error:
            trouble = trouble or error
    if document is None and trouble is not None:
        notes.add(f"the JSON cannot be read: {str(trouble)[:200]}. Is it cut short?")
        return {}, 1
    if not isinstance(document, dict) or not any(_CARD.fullmatch(name) for name in document):
        notes.add("the JSON shows no card: it is not that of rocm-smi --json")
        return {}, 1
    return document, 0


def _values(
    card: Mapping[str, Any], who: Who, found: dict[str, str], notes: Notes
) -> dict[str, float | None]:
    values = known_values(COLUMNS, lambda key: _value_text(card, key), who.uuid, found, notes)
    return {
        column: None if value == 0 and column in _ZERO_IS_UNKNOWN else value
        for column, value in values.items()
    }


def _value_text(card: Mapping[str, Any], key: str) -> str | None:
    text = _text(card, key)
    in_brackets = _IN_BRACKETS.fullmatch(text.strip()) if text is not None else None  # "0 (300Mhz)"
    return in_brackets[1] if in_brackets else text


def _text(card: object, key: str) -> str | None:
    value = card.get(key) if isinstance(card, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value).encode("utf-8", "replace").decode()  # half a surrogate pair (\ud800) cannot be stored


KIND = RocmSmi()
