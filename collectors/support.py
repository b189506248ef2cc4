"""Which canonical columns a kind can yield, and by which names: for the Sources page and the docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collectors.engines.table import EngineKind, Named
from collectors.gpu.table import GpuKind
from collectors.source import Kind


class Alias(NamedTuple):
    """One name of a column or histogram metric."""

    name: str
    """As the source spells it, with what of its labels decides (`{status=4*}`)."""
    unit: str
    """What one of it is in the column's unit (`× 1e-06`), "" where it is the same."""
    versions: str
    """Which versions show it; "" where all do, or where that is not known."""


def aliases(kind: Kind) -> Mapping[str, tuple[Alias, ...]]:
    """Canonical column or metric → its names, first present wins. Empty for what a kind cannot yield."""
    if isinstance(kind, EngineKind):
        return _of_engine(kind)
    if isinstance(kind, GpuKind):
        return {
            column: tuple(
                Alias(one.name, _unit(one.unit.multiplier / one.unit.divisor), one.versions) for one in names
            )
            for column, names in kind.columns.items()
        }
    told: Mapping[str, tuple[Alias, ...]] = getattr(kind, "aliases", {})
    return told


def impossible(kind: Kind) -> Mapping[str, str]:
    """Canonical column or metric → why this kind can never yield it."""
    told: Mapping[str, str] = getattr(kind, "impossible", {})
    return told


def _of_engine(kind: EngineKind) -> dict[str, tuple[Alias, ...]]:
    found: dict[str, list[Alias]] = {}
    for names_of, prefixes in (
        (kind.columns, kind.prefixes),
        (kind.histograms, kind.prefixes),
        (kind.endpoint, ("",)),
    ):
        for column, names in names_of.items():
            found.setdefault(column, []).extend(
                alias_of(name, prefix) for prefix in prefixes for name in names
            )
    for metric, means in kind.means.items():
        for mean in means:
            parts = [alias_of(part, kind.prefixes[0]) for part in (mean.sum, mean.count)]
            words = f"mean: {parts[0].name} ÷ {parts[1].name}"
            found.setdefault(metric, []).append(Alias(words, parts[0].unit, parts[0].versions))
    for column, summed in kind.added.items():
        found.setdefault(column, []).append(Alias(" + ".join(_part(kind, one) for one in summed), "", ""))
    for column, more in kind.plus.items():
        words = " + ".join(_part(kind, one) for one in (column, *more))
        found.setdefault(column, []).append(Alias(words, "", "with what of it is there"))
    for column, (part, whole) in kind.ratios.items():
        found.setdefault(column, []).append(Alias(f"{_part(kind, part)} ÷ {_part(kind, whole)}", "", ""))
    for column, words in kind.made.items():
        found.setdefault(column, []).append(Alias(words, "", ""))
    return {column: tuple(names) for column, names in found.items() if column in kind.yields}


def _part(kind: EngineKind, column: str) -> str:
    """What a column made of others is made of, by the name that the source gives it."""
    names = kind.columns.get(column)
    return alias_of(names[0], kind.prefixes[0]).name if names else column


def alias_of(name: str | Named, prefix: str = "") -> Alias:
    """The name as a table has it, with the labels that decide."""
    if isinstance(name, str):
        return Alias(prefix + name, "", "")
    where = ", ".join(f"{label}={text}" for label, text in name.where.items())
    label = f"{{{name.in_label}}}" if name.in_label else f"{{{where}}}" if where else ""
    return Alias(f"{prefix}{name.name}{label}", _unit(name.scale), name.versions)


def _unit(scale: float) -> str:
    return "" if scale == 1 else f"× {scale:.10g}"
