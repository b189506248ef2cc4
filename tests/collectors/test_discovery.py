import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from collectors.discovery import PROBES, Discovery, Probe, discover
from collectors.fetch import Fetched
from collectors.gpu import nvml_words
from collectors.target import Target

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
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NO_DRIVER = "NVML: no NVIDIA driver on this machine"


def gpus(count: int) -> Fetched:
    """What NVML says where there are so many GPUs."""
    shown = [
        {"index": index, "uuid": f"GPU-{index}", "values": {"nvmlDeviceGetPowerUsage": 70000}}
        for index in range(count)
    ]
    return Fetched(200, json.dumps({"nvml": 1, "gpus": shown}).encode(), 0.01, None)


def no_gpus(error: str) -> Fetched:
    return Fetched(None, b"", 0.01, error)


def answering(status: int, body: str, path: str = "/metrics") -> web.Application:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    application = web.Application()
    application.router.add_get(path, metrics)
    return application


def hanging() -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        await asyncio.Event().wait()  # ends when the client goes away and the handler is cancelled
        return web.Response()

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    return application


def discovered(
    *applications: web.Application,
    silent: int = 0,
    nvml: Fetched | None = None,
    paths: tuple[str, ...] = ("/metrics",),
) -> tuple[Discovery, list[int]]:
    """What is found where these applications listen, and on `silent` more ports where none does."""

    async def driver(_target: Target) -> Fetched:
        return nvml or no_gpus(NO_DRIVER)

    async def run() -> tuple[Discovery, list[int]]:
        servers = [TestServer(application) for application in applications]
        for server in servers:
            await server.start_server()
        ports = [server.port or 0 for server in servers] + [unused_port() for _ in range(silent)]
        probes = [Probe(port, f"engine {number}", "", paths) for number, port in enumerate(ports, 1)]
        try:
            return await discover(probes, timeout_seconds=0.3, nvml=driver), ports
        finally:
            for server in servers:
                await server.close()

    return asyncio.run(run())


def test_what_answers_is_found_by_what_it_says() -> None:
    found, ports = discovered(answering(200, DCGM), answering(200, VLLM), silent=2, nvml=gpus(1))
    assert [(target.name, target.kind, target.url) for target in found.found] == [
        (f"localhost:{ports[0]}", "dcgm", f"http://127.0.0.1:{ports[0]}/metrics"),
        (f"localhost:{ports[1]}", "vllm", f"http://127.0.0.1:{ports[1]}/metrics"),
    ]
    assert found.notes == [
        f"found dcgm at http://127.0.0.1:{ports[0]}/metrics",
        f"found vllm at http://127.0.0.1:{ports[1]}/metrics",
        f"nothing listens on port {ports[2]} (engine 3), {ports[3]} (engine 4)",
        f"NVML finds 1 GPU; it is read from dcgm at http://127.0.0.1:{ports[0]}/metrics",
        f"to watch other machines too, {HOW_TO}",
    ]


def test_nothing_found_says_what_to_write() -> None:
    found, ports = discovered(silent=1)
    assert found.found == []
    assert found.notes == [
        f"nothing listens on port {ports[0]} (engine 1)",
        NO_DRIVER,
        f"nothing to watch here; to watch other machines, {HOW_TO}",
    ]


def test_gpus_that_no_exporter_shows_are_read_from_the_driver() -> None:
    found, ports = discovered(answering(200, VLLM), nvml=gpus(2))
    assert [(target.name, target.kind) for target in found.found] == [
        (f"localhost:{ports[0]}", "vllm"),
        ("nvml", "nvml"),
    ]
    assert found.notes[1:] == [
        "found nvml: 2 GPUs, read from NVIDIA's driver",
        f"to watch other machines too, {HOW_TO}",
    ]


def test_a_driver_that_still_starts_is_watched_and_one_that_fails_is_told() -> None:
    found, _ = discovered(nvml=no_gpus(nvml_words.STARTING))
    assert [target.kind for target in found.found] == ["nvml"]
    found, _ = discovered(nvml=no_gpus(nvml_words.HUNG))
    assert found.found == []
    assert found.notes[0] == nvml_words.HUNG


def test_a_port_is_asked_at_its_paths_until_one_is_read() -> None:
    paths = ("/prometheus/metrics", "/v1/metrics", "/metrics")
    asked = []

    @web.middleware
    async def write_down(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked.append(request.path)
        return await handler(request)

    application = answering(200, VLLM, "/v1/metrics")
    application.middlewares.append(write_down)
    found, ports = discovered(application, paths=paths)
    assert [target.url for target in found.found] == [f"http://127.0.0.1:{ports[0]}/v1/metrics"]
    assert asked == ["/prometheus/metrics", "/v1/metrics"]


def test_of_several_paths_the_usual_one_says_what_is_wrong() -> None:
    found, ports = discovered(answering(501, ""), paths=("/prometheus/metrics", "/metrics"))
    assert found.notes[0] == (
        f"port {ports[0]} (engine 1) cannot be read: HTTP 501; llama.cpp's server needs --metrics"
    )


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


def test_engines_that_answer_elsewhere_are_asked_there() -> None:
    """engines.md: LiteLLM redirects /metrics, NIM and Ollama have none."""
    paths = {probe.port: probe.paths for probe in PROBES}
    assert paths[4000] == ("/metrics/",)
    assert paths[11434] == ("/api/ps",)
    assert paths[8000] == ("/prometheus/metrics", "/v1/metrics", "/metrics")
    assert paths[9400] == ("/metrics",)


def test_a_machine_without_a_driver_is_told_by_the_driver_s_own_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text(
        "class NVMLError(Exception):\n    value = 12\ndef nvmlInit():\n    raise NVMLError\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = asyncio.run(discover([]))
    assert (found.found, found.notes[0]) == ([], NO_DRIVER)
