"""With nothing configured: which exporters, engines and GPUs are on this machine, and what to do next.

Only 127.0.0.1 is asked, on the ports and paths that programs use unless told otherwise, and NVIDIA's driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import aiohttp

from collectors.fetch import Fetched, fetch, new_session
from collectors.gpu import nvml_words
from collectors.gpu.nvml import KIND as NVML_KIND
from collectors.gpu.nvml_way import NvmlWay
from collectors.target import NVML, NVML_URL, Target
from collectors.urls import DEFAULT_PATH

PROBE_TIMEOUT_SECONDS = 2.0
"""On the same machine even a large exposition comes well within a second; a busy engine may take longer."""

NVML_TIMEOUT_SECONDS = 5.0
"""Without persistence mode the first call loads the driver, which takes seconds."""

NVIDIA_EXPORTERS = ("dcgm", "nvidia_gpu_exporter")
"""Kinds that show the GPUs of this machine: beside one of them NVML would show each GPU twice."""


class Probe(NamedTuple):
    """A port to ask, and who is usually there."""

    port: int
    usual: str
    source: str
    """Where it says that this is the usual port."""
    paths: tuple[str, ...] = (DEFAULT_PATH,)
    """Asked one after the other, until one is read."""


PROBES = (
    Probe(9400, "dcgm-exporter", "NVIDIA/dcgm-exporter README.md"),
    Probe(9835, "nvidia_gpu_exporter", "utkuozdemir/nvidia_gpu_exporter README.md"),
    Probe(5000, "AMD device-metrics-exporter", "ROCm/device-metrics-exporter README.md"),
    Probe(9100, "node_exporter", "prometheus/node_exporter README.md"),
    # TensorRT-LLM's own /metrics (JSON) is emptied by whoever reads it: its Prometheus form comes first.
    Probe(
        8000,
        "vLLM, TensorRT-LLM, NIM, Dynamo",
        "vLLM docs, `vllm serve --port`; NIM docs, observability; TensorRT-LLM docs, `trtllm-serve`",
        ("/prometheus/metrics", "/v1/metrics", DEFAULT_PATH),
    ),
    Probe(8080, "llama.cpp, TGI in Docker", "llama.cpp tools/server/README.md `--port`; TGI quick tour"),
    Probe(30000, "SGLang", "SGLang docs, server arguments, `--port`"),
    Probe(3000, "TGI", "text-generation-launcher `--port`"),
    Probe(8002, "Triton", "Triton docs/user_guide/metrics.md"),
    Probe(23333, "LMDeploy", "LMDeploy docs, `api_server --server-port`"),
    Probe(4000, "LiteLLM", "LiteLLM proxy docs, `--port`, Prometheus metrics", ("/metrics/",)),
    Probe(11434, "Ollama", "Ollama docs/faq.md, OLLAMA_HOST; docs/api.md", ("/api/ps",)),
)
"""All ports are asked at the same time."""

AskNvml = Callable[[Target], Awaitable[Fetched]]


class Discovery(NamedTuple):
    """What was found on this machine."""

    found: list[Target]
    notes: list[str]
    """What was found, what was not, and what to write into the configuration: lines for a person."""


async def discover(
    probes: Sequence[Probe] = PROBES,
    *,
    timeout_seconds: float = PROBE_TIMEOUT_SECONDS,
    nvml: AskNvml | None = None,
) -> Discovery:
    """Ask every probe, and NVML, at the same time. Never raises for what answers or does not.

    `nvml` asks the driver; left out, `collectors/gpu/nvml_way.py` does.
    """
    driver = Target(name=NVML, url=NVML_URL, kind=NVML, timeout_seconds=NVML_TIMEOUT_SECONDS)
    async with new_session() as session:
        asking = [_ask(session, probe, timeout_seconds) for probe in probes]
        answers, gpus = await asyncio.gather(asyncio.gather(*asking), (nvml or _ask_nvml)(driver))
    found = []
    notes = []
    silent = []
    for probe, (target, note) in zip(probes, answers, strict=True):
        if note is None:
            silent.append(f"{probe.port} ({probe.usual})")
            continue
        if target is not None:
            found.append(target)
        notes.append(note)
    if silent:
        notes.append("nothing listens on port " + ", ".join(silent))
    exporter = next((target for target in found if target.kind in NVIDIA_EXPORTERS), None)
    reads, note = _judge_nvml(gpus, exporter)
    if reads:
        found.append(Target(name=NVML, url=NVML_URL, kind=NVML))
    notes += [note, _next_step(found)]
    return Discovery(found, notes)


async def _ask(
    session: aiohttp.ClientSession, probe: Probe, timeout_seconds: float
) -> tuple[Target | None, str | None]:
    """What is there, and the note about it; no note when nothing listens there."""
    from collectors.registry import UnknownKindError, detect  # late, as in collectors/target.py

    why = ""
    for path in probe.paths:
        target = Target(
            name=f"localhost:{probe.port}",
            url=f"http://127.0.0.1:{probe.port}{path}",
            timeout_seconds=timeout_seconds,
        )
        answer = await fetch(session, target, close=True)
        if answer.error is None:
            try:
                kind = detect(answer.body).name
            except UnknownKindError as error:
                why = str(error)
                continue
            return target.model_copy(update={"kind": kind}), f"found {kind} at {target.shown_url}"
        if answer.status is None and answer.error.startswith("cannot connect"):
            return None, None
        why = answer.error
        if answer.status is None:  # it hangs, or speaks no HTTP: at another path as well
            break
    return None, f"port {probe.port} ({probe.usual}) cannot be read: {why}"


async def _ask_nvml(target: Target) -> Fetched:
    way = NvmlWay()
    try:
        return await way.fetch(target)
    finally:
        await way.aclose()


def _judge_nvml(answer: Fetched, exporter: Target | None) -> tuple[bool, str]:
    """Whether the driver's GPUs are to be read by NVML, and the note about it."""
    if answer.error is not None:
        if answer.error == nvml_words.STARTING and exporter is None:
            return True, f"found nvml: {answer.error}"
        return False, answer.error
    count = len({gpu.gpu_uuid for gpu in NVML_KIND.reader()(answer.body).gpus})
    gpus, them = ("1 GPU", "it is") if count == 1 else (f"{count} GPUs", "they are")
    if exporter is not None:
        return False, f"NVML finds {gpus}; {them} read from {exporter.kind} at {exporter.shown_url}"
    return True, f"found nvml: {gpus}, read from NVIDIA's driver"


def _next_step(found: list[Target]) -> str:
    line = 'targets: [{url: "http://gpu-node-1:9400/metrics"}]'
    start = "to watch other machines too" if found else "nothing to watch here; to watch other machines"
    return f"{start}, write their URLs into infermeter.yaml: {line}"
