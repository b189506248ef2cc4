"""Engines that answer with JSON: reading it, and keeping out what cannot be."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from collectors.engines.cells import MEASURES, odd_values, what_can_be
from collectors.plausible import OddValues
from collectors.reading import EngineSample
from collectors.support import Alias


class MalformedError(ValueError):
    """The answer, or a part of it, is not what the engine's answers are."""


def load(body: bytes) -> Any:
    """The JSON value; half a surrogate pair (`\\ud800` alone), which no store can hold, as `\ufffd`.

    Raises MalformedError.
    """
    try:
        value = json.loads(body)
        return _whole(value) if b"\\u" in body else value
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is a ValueError
        raise MalformedError("no JSON") from error


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(inner) for key, inner in value.items()}
    return value


def number(of: Mapping[str, Any], key: str) -> float | None:
    """A finite number; None where the key is absent or null. Raises MalformedError for anything else."""
    value = of.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedError(f"{key} is no number")
    try:
        found = float(value)
    except OverflowError:
        raise MalformedError(f"{key} is too large") from None
    return found if math.isfinite(found) else None


def table(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A nested object; an empty one where the key is absent or null.

    Raises MalformedError for anything else.
    """
    value = of.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(f"{key} is no object")
    return value


def quotient(part: float | None, whole: float | None) -> float | None:
    """`part` ÷ `whole`; None where one is not known or the whole is nothing."""
    return None if part is None or not whole else part / whole


def possible(samples: Sequence[EngineSample], odd: OddValues) -> tuple[list[EngineSample], tuple[str, ...]]:
    """The rows without the values that cannot be, and the notes on these."""
    rows: list[EngineSample] = []
    found: list[tuple[str, str]] = []
    for sample in samples:
        engine, role, replica, model = sample.engine, sample.role, sample.replica, sample.model
        measured = tuple(getattr(sample, column) for column in MEASURES)
        found.extend(odd_values((engine, role, replica, model), measured))
        rows.append(EngineSample(engine, role, replica, model, *what_can_be(measured)))
    return rows, tuple(odd.notes(found))


def found_in(fields: Mapping[str, str], rows: Sequence[EngineSample]) -> tuple[tuple[str, str], ...]:
    """Column and its field in the answer, of the columns that some row holds."""
    return tuple(
        (column, name)
        for column, name in fields.items()
        if any(getattr(row, column) is not None for row in rows)
    )


def aliases_of(fields: Mapping[str, str], form: str) -> Mapping[str, Sequence[Alias]]:
    """The table of support of columns that are read of one field each; `form`: in which answer."""
    return {column: (Alias(name, "", form),) for column, name in fields.items()}
