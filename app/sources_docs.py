"""`docs/sources.md`: which figures each kind of target yields and by which names, made from the registry.

`python -m app.sources_docs > docs/sources.md` writes it anew; a test fails where that was forgotten.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

import collectors
from collectors.engines.forms import FormsKind
from collectors.engines.table import METRICS
from collectors.reading import EngineSample, GpuSample, HostSample
from collectors.registry import KINDS, MINIMUM
from collectors.source import Kind
from collectors.support import Alias, aliases, impossible

INTRODUCTION = """\
# Sources

<!-- Made by `python -m app.sources_docs > docs/sources.md`; change the tables in the code. -->

What infermeter reads of each kind of target, and by which names. `kind: auto` finds the kind from the
answer; a `kind` in the configuration settles it. What a target itself shows, and by which of these names it
was read, stands on the Sources page and in `infermeter read FILE --json`.

- Of several names **the first that is there is read**; names of one figure are never added up. Names and
  labels are compared without regard to case, `:` is the same as `_`, and a counter may lack its `_total` or
  have one that the engine does not write.
- The **unit belongs to the name**: `× 1e-06` is what makes seconds of microseconds. Ratios are 0 to 1.
- A figure that a target does not show is not known (`–`, NULL), never 0. What a kind can never tell is named
  with the reason.
- What there is no figure for is not read of any kind: limits and settings (context length, largest batch,
  blocks), LoRA adapters, sleep, FLOPs, the queue by reason, speculative decoding, histograms of tokens. Nor
  is what an engine has worked out itself where its counters say more: tokens a second, hit rates, averages.
- **Roles**: figures of a router, a gateway or a probe are never added to those of engines: they show the
  same requests once more.
- A metric marked *mean* has a sum and a count and no buckets: a mean is shown and no percentile. So it is
  with any histogram whose buckets were dropped on the way, lack `+Inf` or differ from series to series.
"""

PULLED = """\
## `prometheus`

A Prometheus-compatible API (Prometheus, Thanos, Mimir, VictoriaMetrics) is no kind of answer: its series are
those of many targets. They are sorted back into the targets that were scraped, and read by the kinds above,
so that the rows are those of scraping directly. See [Configuration](configuration.md) for
`targets[].prometheus`.
"""

_COLUMNS = {
    "gpu": GpuSample._fields[GpuSample._fields.index("utilization_ratio") : GpuSample._fields.index("pod")],
    "host": HostSample._fields[1:],
}
_OF_ENGINES = (*EngineSample._fields[4:], *METRICS)


def markdown() -> str:
    """The whole page."""
    modules = _modules()
    rows = [
        f"| [`{kind.name}`](#{kind.name}) | {_first_sentence(modules[kind.name])} | {_roles(kind)}"
        f" | {_path(kind)} | {len(aliases(kind))} |"
        for kind in KINDS.values()
    ]
    overview = "\n".join(["| kind | reads | role | path | figures |", "|---|---|---|---|---|", *rows])
    minimum = ", ".join(f"`{name}`" for name in MINIMUM)
    least = (
        f"An engine that shows {minimum} has what the Kubernetes Gateway API inference extension asks of a"
        " model server.\n"
    )
    parts = [_section(kind, modules[kind.name]) for kind in KINDS.values()]
    return "\n".join([INTRODUCTION, overview, "", least, *parts, PULLED])


def _section(kind: Kind, about: str) -> str:
    found = aliases(kind)
    order = _COLUMNS.get(kind.role, _OF_ENGINES)
    names = sorted(found, key=lambda name: (order.index(name) if name in order else len(order), name))
    lines = [f"## `{kind.name}`", "", *about.strip().splitlines(), ""]
    if names:
        lines += ["| figure | read by, first present wins | unit | versions |", "|---|---|---|---|"]
        lines += [_row(name, found[name]) for name in names]
        lines.append("")
    never = impossible(kind)
    if never:
        lines.append("Never known here:")
        lines.append("")
        lines += [f"- `{name}`: {_cell(reason)}" for name, reason in never.items()]
        lines.append("")
    rest = [name for name in order if name not in found and name not in never]
    if rest:
        lines += ["Not told by it: " + ", ".join(f"`{name}`" for name in rest) + ".", ""]
    notes: tuple[str, ...] = getattr(kind, "notes", ())
    lines += [f"> {_cell(note)}\n" for note in notes]
    return "\n".join(lines)


def _row(name: str, names: tuple[Alias, ...]) -> str:
    told = any(one.versions for one in names)
    cells = (
        [f"`{_cell(one.name)}`" for one in names],
        [one.unit for one in names] if any(one.unit for one in names) else [],
        [_cell(one.versions) or "–" for one in names] if told else [],
    )
    return f"| `{name}` | " + " | ".join("<br>".join(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _roles(kind: Kind) -> str:
    """Of all forms of its answer, where it has several."""
    forms = kind.forms if isinstance(kind, FormsKind) else ()
    return ", ".join(dict.fromkeys((kind.role, *(form.kind.role for form in forms))))


def _path(kind: Kind) -> str:
    return f"`{kind.default_path}`" if kind.default_path else "–"


def _first_sentence(about: str) -> str:
    return _cell(about.strip().split("\n\n")[0].split(". ")[0].rstrip("."))


def _modules() -> dict[str, str]:
    """Name of a kind → the documentation of its file."""
    return {
        module.KIND.name: module.__doc__ or ""
        for module in _all_modules()
        if getattr(module, "KIND", None) in KINDS.values()
    }


def _all_modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(collectors.__path__, f"{collectors.__name__}."):
        if not found.name.endswith("nvml_gateway"):  # a program of its own, not to be imported here
            yield importlib.import_module(found.name)


if __name__ == "__main__":
    sys.stdout.write(markdown())
