import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from collectors import nvml_count
from collectors.discovery import PROBES, Discovery, Probe, discover, nvml_note
from tests.shared import SHARED, needs_shared

DCGM = """# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",Hostname="node-1"} 91
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",Hostname="node-1"} 5000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",Hostname="node-1"} 10000
"""

VLLM = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 4.0
vllm:num_requests_waiting{model_name="m"} 12.0
vllm:prompt_tokens_total{model_name="m"} 100.0
vllm:generation_tokens_total{model_name="m"} 100.0
"""

HOW_TO = 'write their URLs into infermeter.yaml: targets: [{url: "http://gpu-node-1:9400/metrics"}]'
NO_GPU = {"error": 12}


def answering(status: int, body: str) -> web.Application:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    return application


def hanging() -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        await asyncio.Event().wait()  # ends when the client goes away and the handler is cancelled
        return web.Response()

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    return application


def discovered(
    *applications: web.Application, silent: int = 0, nvml: Mapping[str, Any] = NO_GPU
) -> tuple[Discovery, list[int]]:
    """What is found where these applications listen, and on `silent` more ports where none does."""

    async def run() -> tuple[Discovery, list[int]]:
        servers = [TestServer(application) for application in applications]
        for server in servers:
            await server.start_server()
        ports = [server.port or 0 for server in servers] + [unused_port() for _ in range(silent)]
        probes = [Probe(port, f"engine {number}", "") for number, port in enumerate(ports, 1)]
        try:
            return await discover(probes, timeout_seconds=0.3, nvml=lambda: nvml), ports
        finally:
            for server in servers:
                await server.close()

    return asyncio.run(run())


def test_what_answers_is_found_by_what_it_says() -> None:
    found, ports = discovered(answering(200, DCGM), answering(200, VLLM), silent=2, nvml={"count": 1})
    assert [(target.name, target.kind, target.url) for target in found.found] == [
        (f"localhost:{ports[0]}", "dcgm", f"http://127.0.0.1:{ports[0]}/metrics"),
        (f"localhost:{ports[1]}", "vllm", f"http://127.0.0.1:{ports[1]}/metrics"),
    ]
    assert found.notes == [
        f"found dcgm at http://127.0.0.1:{ports[0]}/metrics",
        f"found vllm at http://127.0.0.1:{ports[1]}/metrics",
        f"nothing listens on port {ports[2]} (engine 3), {ports[3]} (engine 4)",
        "NVML finds 1 GPU; dcgm-exporter has it read",
        f"to watch other machines too, {HOW_TO}",
    ]


def test_nothing_found_says_what_to_write() -> None:
    found, ports = discovered(silent=1, nvml={"count": 2})
    assert found.found == []
    assert found.notes == [
        f"nothing listens on port {ports[0]} (engine 1)",
        "NVML finds 2 GPUs; start dcgm-exporter to have them read",
        f"nothing to watch here; to watch other machines, {HOW_TO}",
    ]


def test_what_answers_but_cannot_be_read_is_told_with_the_cure() -> None:
    found, ports = discovered(
        answering(501, '{"error": "This server does not support metrics endpoint."}'),
        answering(200, "grafana_build_info 1\n"),
        answering(200, "<html>hello</html>"),
        hanging(),
    )
    assert found.found == []
    told = found.notes[:4]
    assert told[0].startswith(
        f"port {ports[0]} (engine 1) cannot be read: HTTP 501; llama.cpp's server needs --metrics"
    )
    assert told[1].startswith(
        f"port {ports[1]} (engine 2) cannot be read: no known kind of target shows these"
    )
    assert told[2].startswith(f"port {ports[2]} (engine 3) cannot be read: ")
    assert told[3] == f"port {ports[3]} (engine 4) cannot be read: no whole answer within 0.3 s"


def test_each_usual_port_is_asked_once_and_says_where_it_comes_from() -> None:
    ports = [probe.port for probe in PROBES]
    assert len(set(ports)) == len(ports)
    assert {9400, 8000, 8080, 30000, 3000, 8002} <= set(ports)
    assert all(probe.usual and probe.source for probe in PROBES)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ({"count": 0}, "NVML finds no GPU"),
        ({"error": 12}, "NVML: no NVIDIA driver on this machine"),
        ({"error": 9}, "NVML: the NVIDIA kernel module is not loaded; `nvidia-smi` says why"),
        (
            {"error": 18},
            "NVML: the NVIDIA driver was upgraded and is not running yet; reboot this machine",
        ),
        (
            {"error": 999},
            (
                "NVML: this container has lost its GPUs (`systemctl daemon-reload` on the host does that);"
                " restart the container"
            ),
        ),
        (
            {"error": 4},
            "NVML: no permission to see the GPUs; run infermeter as a user who can run `nvidia-smi`",
        ),
        ({"error": 27}, "NVML fails with error 27; `nvidia-smi` says more"),
        (
            {"package": "missing"},
            "NVML: the Python package nvidia-ml-py is not installed, so local GPUs were not looked for",
        ),
        (
            {"package": "old"},
            (
                "NVML: an abandoned package hides nvidia-ml-py; run `pip uninstall pynvml`, then"
                " `pip install --force-reinstall nvidia-ml-py`"
            ),
        ),
        ({"package": "hung"}, "NVML does not answer: the NVIDIA driver hangs; look at `dmesg`"),
        ({}, "NVML: the program that counts GPUs ended without an answer; try `nvidia-smi`"),
    ],
)
def test_each_answer_of_nvml_has_its_words(answer: dict[str, Any], note: str) -> None:
    assert nvml_note(answer, gpus_are_read=False) == note


def count_in_child(**environment: str) -> object:
    done = subprocess.run(
        [sys.executable, "-P", str(Path(nvml_count.__file__))],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def nvml_stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in for NVIDIA's library that reads its world from the file `$NVMLSTUB`."""
    folder = tmp_path_factory.mktemp("nvml")
    source = SHARED / "reference" / "nvml-stub.c"
    library = folder / "libnvidia-ml.so.1"
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wl,-soname,libnvidia-ml.so.1",
        "-o",
        str(library),
        str(source),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("gcc is not installed")
    return folder


@needs_shared
@pytest.mark.parametrize(
    ("state", "answer"),
    [("count=2\n", {"count": 2})] + [(f"init={code}\n", {"error": code}) for code in (9, 4, 12, 18, 999)],
)
def test_the_child_counts_gpus_or_gives_nvmls_error(nvml_stub: Path, state: str, answer: object) -> None:
    world = nvml_stub / "state"
    world.write_text(state)
    assert count_in_child(NVMLSTUB=str(world), LD_LIBRARY_PATH=str(nvml_stub)) == answer


def test_an_abandoned_pynvml_package_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("")
    assert count_in_child(PYTHONPATH=str(tmp_path)) == {"package": "old"}


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("collectors.discovery.NVML_TIMEOUT_SECONDS", 0.2)
    found = asyncio.run(discover([]))
    assert found.notes[0] == "NVML does not answer: the NVIDIA driver hangs; look at `dmesg`"


def test_a_child_that_crashes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text("import os\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = asyncio.run(discover([]))
    assert found.notes[0] == "NVML: the program that counts GPUs ended without an answer; try `nvidia-smi`"
