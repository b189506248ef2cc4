"""With nothing configured: which exporters and engines answer on this machine, and what to do next.

Only 127.0.0.1 is asked, on the ports that programs use unless told otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from collectors import nvml_count
from collectors.fetch import Fetched, fetch, new_session
from collectors.target import Target

PROBE_TIMEOUT_SECONDS = 2.0
"""On the same machine even a large exposition comes well within a second; a busy engine may take longer."""

NVML_TIMEOUT_SECONDS = 5.0
"""Without persistence mode the first call loads the driver, which takes seconds."""


class Probe(NamedTuple):
    """A port to ask, and who is usually there."""

    port: int
    usual: str
    source: str
    """Where it says that this is the usual port."""


PROBES = (
    Probe(9400, "dcgm-exporter", "NVIDIA/dcgm-exporter README.md"),
    Probe(8000, "vLLM, TensorRT-LLM, NIM, Dynamo", "vLLM docs, `vllm serve --port`"),
    Probe(8080, "llama.cpp, TGI in Docker", "llama.cpp tools/server/README.md `--port`; TGI quick tour"),
    Probe(30000, "SGLang", "SGLang docs, server arguments, `--port`"),
    Probe(3000, "TGI", "text-generation-launcher `--port`"),
    Probe(8002, "Triton", "Triton docs/user_guide/metrics.md"),
    Probe(23333, "LMDeploy", "LMDeploy docs, `api_server --server-port`"),
    Probe(4000, "LiteLLM", "LiteLLM proxy docs, `--port`"),
)
"""Asked at `/metrics`, all at the same time."""


class Discovery(NamedTuple):
    """What was found on this machine."""

    found: list[Target]
    notes: list[str]
    """What was found, what was not, and what to write into the configuration: lines for a person."""


async def discover(
    probes: Sequence[Probe] = PROBES,
    *,
    timeout_seconds: float = PROBE_TIMEOUT_SECONDS,
    nvml: Callable[[], Mapping[str, Any]] | None = None,
) -> Discovery:
    """Ask every probe, and NVML, at the same time. Never raises for what answers or does not.

    `nvml` gives what `collectors/nvml_count.py` prints; left out, that program is run.
    """
    async with new_session() as session:
        targets = [_probed(probe, timeout_seconds) for probe in probes]
        asking = [fetch(session, target, close=True) for target in targets]
        answers, counted = await asyncio.gather(asyncio.gather(*asking), _count_gpus(nvml))
    found = []
    notes = []
    silent = []
    for probe, target, answer in zip(probes, targets, answers, strict=True):
        if answer.status is None and answer.error is not None and answer.error.startswith("cannot connect"):
            silent.append(f"{probe.port} ({probe.usual})")
            continue
        kind, note = _judged(probe, target, answer)
        if kind is not None:
            found.append(target.model_copy(update={"kind": kind}))
        notes.append(note)
    if silent:
        notes.append("nothing listens on port " + ", ".join(silent))
    gpus_are_read = any(target.kind == "dcgm" for target in found)
    notes.append(nvml_note(counted, gpus_are_read=gpus_are_read))
    notes.append(_next_step(found))
    return Discovery(found, notes)


def _probed(probe: Probe, timeout_seconds: float) -> Target:
    return Target(
        name=f"localhost:{probe.port}",
        url=f"http://127.0.0.1:{probe.port}/metrics",
        timeout_seconds=timeout_seconds,
    )


def _judged(probe: Probe, target: Target, answer: Fetched) -> tuple[str | None, str]:
    """The kind that answered, or None, and the note about it."""
    from collectors.registry import UnknownKindError, detect  # late, as in collectors/target.py

    if answer.error is not None:
        return None, f"port {probe.port} ({probe.usual}) cannot be read: {answer.error}"
    try:
        kind = detect(answer.body).name
    except UnknownKindError as error:
        return None, f"port {probe.port} ({probe.usual}) cannot be read: {error}"
    return kind, f"found {kind} at {target.shown_url}"


def _next_step(found: list[Target]) -> str:
    line = 'targets: [{url: "http://gpu-node-1:9400/metrics"}]'
    start = "to watch other machines too" if found else "nothing to watch here; to watch other machines"
    return f"{start}, write their URLs into infermeter.yaml: {line}"


async def _count_gpus(nvml: Callable[[], Mapping[str, Any]] | None) -> Mapping[str, Any]:
    if nvml is not None:
        return nvml()
    # -P: the folder of this program must not hide modules of the standard library.
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-P", str(Path(nvml_count.__file__)),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(child.communicate(), NVML_TIMEOUT_SECONDS)
    except TimeoutError:
        child.kill()
        with contextlib.suppress(TimeoutError):  # a process hung in the driver does not die either
            await asyncio.wait_for(child.wait(), 1)
        return {"package": "hung"}
    try:
        answer = json.loads(output)
    except ValueError:
        return {"package": "crashed"}
    return answer if isinstance(answer, dict) else {"package": "crashed"}


_WITHOUT_COUNT = {
    "missing": "NVML: the Python package nvidia-ml-py is not installed, so local GPUs were not looked for",
    "old": "NVML: an abandoned package hides nvidia-ml-py; run `pip uninstall pynvml`, then"
    " `pip install --force-reinstall nvidia-ml-py`",
    "hung": "NVML does not answer: the NVIDIA driver hangs; look at `dmesg`",
    "crashed": "NVML: the program that counts GPUs ended without an answer; try `nvidia-smi`",
}

_NVML_ERRORS = {
    4: "NVML: no permission to see the GPUs; run infermeter as a user who can run `nvidia-smi`",
    9: "NVML: the NVIDIA kernel module is not loaded; `nvidia-smi` says why",
    12: "NVML: no NVIDIA driver on this machine",
    15: "NVML: a GPU has fallen off the bus; look for XID 79 in `dmesg`",
    16: "NVML: a GPU must be reset: `nvidia-smi --gpu-reset`, or reboot",
    18: "NVML: the NVIDIA driver was upgraded and is not running yet; reboot this machine",
    999: "NVML: this container has lost its GPUs (`systemctl daemon-reload` on the host does that);"
    " restart the container",
}
"""By nvmlReturn_t: what it means and what to do (NVIDIA/nvidia-container-toolkit#48 for 999)."""


def nvml_note(answer: Mapping[str, Any], *, gpus_are_read: bool) -> str:
    """What `collectors/nvml_count.py` said, for a person."""
    if (count := answer.get("count")) is not None:
        if count == 0:
            return "NVML finds no GPU"
        gpus = "1 GPU" if count == 1 else f"{count} GPUs"
        them = "it" if count == 1 else "them"
        if gpus_are_read:
            return f"NVML finds {gpus}; dcgm-exporter has {them} read"
        return f"NVML finds {gpus}; start dcgm-exporter to have {them} read"
    if (code := answer.get("error")) is not None:
        return _NVML_ERRORS.get(code, f"NVML fails with error {code}; `nvidia-smi` says more")
    return _WITHOUT_COUNT.get(str(answer.get("package")), _WITHOUT_COUNT["crashed"])
