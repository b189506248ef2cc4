"""Reading the demo's pages with another implementation: prometheus_client's parser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

_SAMPLE = re.compile(r"([^{\s]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass
class Shape:
    """Names, help, types, label keys in order, and bucket edges of a page; no values."""

    types: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """Families in the order of their TYPE lines."""
    series: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    """Sample name → the label key tuples, as written."""
    edges: dict[str, list[str]] = field(default_factory=dict)
    """Histogram → the `le` of its first series."""


def shape(text: str) -> Shape:
    """The shape of a page, read line by line."""
    found = Shape()
    firsts: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            found.types[name] = kind
            found.order.append(name)
        elif line.startswith("# HELP "):
            _, _, name, help_ = line.split(" ", 3)
            found.helps[name] = help_
        elif match := _SAMPLE.fullmatch(line):
            name, labels, _ = match.groups()
            pairs = _LABEL.findall(labels or "")
            found.series.setdefault(name, set()).add(tuple(key for key, _ in pairs))
            if name.endswith("_bucket"):
                others = str([pair for pair in pairs if pair[0] != "le"])
                if firsts.setdefault(name, others) == others:
                    found.edges.setdefault(name.removesuffix("_bucket"), []).append(dict(pairs)["le"])
    return found


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, sorted labels) → value, by prometheus_client's parser. Raises ValueError on a bad line."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    """The one sample of that name with (at least) these labels."""
    wanted = set(labels.items())
    found = [
        number for (known, pairs), number in samples(text).items() if known == name and wanted <= set(pairs)
    ]
    assert len(found) == 1, f"{name}{labels}: {len(found)} samples"
    return found[0]
