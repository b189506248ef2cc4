"""All kinds of targets, and which of them an answer is."""

from __future__ import annotations

import re

from collectors.engines import llamacpp, vllm
from collectors.exposition import parse
from collectors.gpu import dcgm, nvml
from collectors.probe import kind as probe
from collectors.source import Families, Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        dcgm.KIND,
        nvml.KIND,
        vllm.KIND,
        llamacpp.KIND,
        probe.KIND,
    )
}
"""Every kind by its name in the configuration. Adding a kind is a file and a line here."""

_SHOWN_FAMILIES = 8
_SUFFIX = re.compile(r"_(bucket|sum|count|created)$")


class UnknownKindError(Exception):
    """No kind reads this answer; the message says what it shows and what is known."""


def kind_named(name: str) -> Kind:
    """The kind of that name. Raises UnknownKindError with the names there are."""
    try:
        return KINDS[name]
    except KeyError:
        raise UnknownKindError(f"there is no kind {name!r}; the kinds are {_names()} and auto") from None


def detect(body: bytes) -> Kind:
    """The kind that reads most of an answer. Raises UnknownKindError when none does."""
    return detect_all(body)[0]


def detect_all(body: bytes) -> list[Kind]:
    """All kinds that read something of an answer, the one that reads most first.

    Raises UnknownKindError when there is none.
    """
    families = _families(body)
    scores = [(kind.score(body, families), kind) for kind in KINDS.values()]
    found = sorted((pair for pair in scores if pair[0] > 0), key=lambda pair: -pair[0])
    if not found:
        raise UnknownKindError(_what_it_is(body, families))
    return [kind for _, kind in found]


def _families(body: bytes) -> Families:
    found: dict[str, set[str]] = {}
    for sample in parse(body).samples:
        found.setdefault(sample.name, set()).update(key.lower() for key in sample.labels)
    return {name: frozenset(labels) for name, labels in found.items()}


def _names() -> str:
    return ", ".join(sorted(KINDS))


def _what_it_is(body: bytes, families: Families) -> str:
    start = body.lstrip()[:40].decode("utf-8", "replace")
    if not start:
        return "the answer is empty: no metric at all. Are metrics turned on there?"
    if start[0] in "{[<" and not families:
        return (
            f"the answer is not a Prometheus exposition, it starts with {start!r}. Check the path of the "
            "URL (/metrics, as a rule) and that metrics are turned on (llama-server: --metrics)"
        )
    if not families:
        return f"no line of the answer is a sample; it starts with {start!r}. Check the path of the URL"
    names = sorted({_SUFFIX.sub("", name) for name in families})
    shown = names[:_SHOWN_FAMILIES]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return (
        f"no known kind of target shows these metrics: {', '.join(shown)}{more}. Known kinds: {_names()}. "
        "Set the target's kind if it is one of them, or take it off the list"
    )
