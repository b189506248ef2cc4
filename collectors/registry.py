"""All kinds of targets, and which of them an answer is."""

from __future__ import annotations

import re
from collections.abc import Callable

from collectors.engines import (
    dynamo,
    litellm,
    llamacpp,
    lmdeploy,
    nim,
    ollama,
    otel,
    ray,
    sglang,
    tgi,
    triton,
    trtllm,
    vllm,
    vllm_router,
)
from collectors.exposition import parse
from collectors.gpu import (
    amd,
    dcgm,
    nvidia_gpu_exporter,
    nvidia_smi_csv,
    nvidia_smi_xml,
    nvml,
    rocm_smi,
)
from collectors.host import node_exporter
from collectors.probe import kind as probe
from collectors.source import Families, Kind
from collectors.strangers import who

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        dcgm.KIND,
        nvml.KIND,
        nvidia_gpu_exporter.KIND,
        amd.KIND,
        nvidia_smi_csv.KIND,
        nvidia_smi_xml.KIND,
        rocm_smi.KIND,
        vllm.KIND,
        llamacpp.KIND,
        sglang.KIND,
        tgi.KIND,
        nim.KIND,
        lmdeploy.KIND,
        ray.KIND,
        trtllm.KIND,
        triton.KIND,
        dynamo.KIND,
        litellm.KIND,
        ollama.KIND,
        vllm_router.KIND,
        otel.KIND,
        probe.KIND,
        node_exporter.KIND,
    )
}
"""Every kind by its name in the configuration. Adding a kind is a file and a line here."""

_REPEATS = {"vllm_router": "vllm"}
"""Kinds that repeat another's names and have some more of that sort: what those look like is the other's only
where there is more of it (several answers in one, as a Prometheus' /federate gives)."""

MINIMUM = ("requests_running", "requests_waiting", "kv_cache_used_ratio")
"""What the Kubernetes Gateway API inference extension asks of a model server (its proposal 003): running and
queued requests, and KV cache use."""

_SHOWN_FAMILIES = 8
_LOOKED_AT = 1000
"""Names that are looked at for one behind a prefix; engines have some hundred in all."""
_PARTS = re.compile("[_:]")
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
    scores = {name: kind.score(body, families) for name, kind in KINDS.items()}
    for repeater, original in _REPEATS.items():
        if scores[repeater] >= scores[original]:
            scores[original] = 0
    found = sorted((name for name, score in scores.items() if score > 0), key=lambda name: -scores[name])
    if not found:
        raise UnknownKindError(_what_it_is(body, families))
    return [KINDS[name] for name in found]


def _families(body: bytes) -> Families:
    found: dict[str, set[str]] = {}
    for sample in parse(body).samples:
        found.setdefault(sample.name, set()).update(key.lower() for key in sample.labels)
    return {name: frozenset(labels) for name, labels in found.items()}


def _renamed(families: Families) -> tuple[Kind, str] | None:
    """The kind some of whose names stand there behind a prefix, and the prefix."""
    names = sorted(families)[:_LOOKED_AT]
    for kind in KINDS.values():
        marked: Callable[[str], bool] | None = getattr(kind, "marked", None)
        wants: Callable[[str], bool] | None = getattr(kind, "wants", None)
        if marked is None or wants is None or getattr(kind, "only_with", None):
            continue  # NIM's names are anyone's
        for name in names:
            for end in _PARTS.finditer(name):
                if marked(own := name[end.end() :]) and wants(own):
                    return kind, name[: end.end()]
    return None


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
    if stranger := who(families):
        return (
            f"these metrics are of {stranger.program}, which is not read: {stranger.cure}. "
            f"It shows {', '.join(shown)}{more}"
        )
    if renamed := _renamed(families):
        kind, prefix = renamed
        return (
            f"these metrics are named as those of {kind.name} with {prefix!r} put before: whatever passes "
            "them on (an OpenTelemetry collector's `namespace`, a relabelling) must leave names as they are. "
            f"It shows {', '.join(shown)}{more}"
        )
    return (
        f"no known kind of target shows these metrics: {', '.join(shown)}{more}. Known kinds: {_names()}. "
        "Set the target's kind if it is one of them, or take it off the list"
    )
