"""A server that plays the same answers to each client, one after the other, and what it plays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STEPS = 5
"""Answers in a row; then the last one stays."""


@dataclass
class Played:
    """A running server."""

    url: str
    bodies: Mapping[str, Sequence[bytes | None]]
    """Path → its answers in order; None is a 500."""
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(client, path) → requests so far."""

    def all_have(self, client: str, steps: int) -> bool:
        """Whether the client has been given so many answers of each path."""
        return all(self.asked[client, path] >= steps for path in self.bodies)


@contextmanager
def played_server(bodies: Mapping[str, Sequence[bytes | None]]) -> Iterator[Played]:
    """Serve until the block ends. Clients are told apart by the first word of their User-Agent."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            client = (self.headers.get("User-Agent") or "").partition("/")[0]
            steps = bodies.get(self.path)
            with lock:
                number = played.asked[client, self.path]
                played.asked[client, self.path] += 1
            body = steps[min(number, len(steps) - 1)] if steps else None
            with suppress(OSError):  # a client may have left
                self.send_response(500 if body is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    played = Played(f"http://127.0.0.1:{server.server_port}", bodies)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def bodies() -> dict[str, list[bytes | None]]:
    """Every kind of trouble that lies between an exporter and Prometheus' copy of it."""
    steps = range(STEPS)
    return {
        "/dcgm": [_dcgm(step) for step in steps],
        "/vllm": [_vllm(step) for step in steps],
        "/vllm-two": [_vllm(step, engines=("0", "1"), restart=3) for step in steps],
        "/llamacpp": [_llamacpp(step) for step in steps],
        "/sglang": [_sglang(step) for step in steps],
        "/node": [_node(step) for step in steps],
    }


def _dcgm(step: int) -> bytes:
    """Four GPUs: with a workload, without one, with empty labels as older exporters print, a MIG slice."""
    users = [
        ',pod="llama-70b-0",namespace="serving",container="vllm"',
        "",
        ',pod="",namespace="",container=""',
        ',GPU_I_ID="7",GPU_I_PROFILE="1g.10gb",pod="mig-job",namespace="batch",container="main"',
    ]
    lines = ["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for index, user in enumerate(users):
        labels = (
            f'gpu="{index}",UUID="GPU-{index}aa",pci_bus_id="0000:0{index}:00.0",device="nvidia{index}",'
            f'modelName="NVIDIA H100 80GB HBM3",Hostname="node-1",DCGM_FI_DRIVER_VERSION="550.90"{user}'
        )
        values = {
            "DCGM_FI_DEV_GPU_UTIL": 10 * index + step,
            "DCGM_FI_DEV_FB_USED": 40_000 + 1000 * step + index,
            "DCGM_FI_DEV_FB_FREE": 40_000 - 1000 * step - index,
            "DCGM_FI_DEV_FB_RESERVED": 559,
            "DCGM_FI_DEV_GPU_TEMP": 60 + step,
            "DCGM_FI_DEV_POWER_USAGE": 312.437 + step / 7,
            "DCGM_FI_DEV_SM_CLOCK": 1980,
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 123456789012 + 700_000 * step,
            "DCGM_FI_DEV_XID_ERRORS": 0 if step < 3 else 79,
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.123457 + step / 10,
            "DCGM_FI_DEV_SOMETHING_ELSE": 5,
        }
        lines += [f"{name}{{{labels}}} {value}" for name, value in values.items()]
    return _text(lines)


def _vllm(step: int, engines: Sequence[str] = ("0",), restart: int | None = None) -> bytes:
    """Buckets as client libraries spell them ("1.0", "+Inf"), NaN, an info metric, and process metrics."""
    since = step if restart is None or step < restart else step - restart
    lines = ["# TYPE vllm:num_requests_running gauge"]
    for engine in engines:
        labels = f'engine="{engine}",model_name="meta-llama/Llama-3.3-70B"'
        lines += [
            f"vllm:num_requests_running{{{labels}}} {step}.0",
            f"vllm:num_requests_waiting{{{labels}}} {'NaN' if step == 2 else step * 2}",
            f"vllm:kv_cache_usage_perc{{{labels}}} {0.1 + since / 10!r}",
            f"vllm:prompt_tokens_total{{{labels}}} {1e6 + 1234 * since!r}",
            f"vllm:generation_tokens_total{{{labels}}} {2e6 + 777 * since!r}",
            f'vllm:request_success_total{{{labels},finished_reason="stop"}} {10.0 * since}',
            f'vllm:cache_config_info{{engine="{engine}",gpu_memory_utilization="0.92"}} 1.0',
            f"vllm:iteration_tokens_total_count{{{labels}}} 12",
        ]
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
            for number, edge in enumerate(("0.001", "0.5", "1.0", "2.5", "10.0", "+Inf")):
                count = float((number + 1) * 3 * since)
                lines.append(f'vllm:{name}_bucket{{{labels},le="{edge}"}} {count}')
            lines += [
                f"vllm:{name}_count{{{labels}}} {18.0 * since}",
                f"vllm:{name}_sum{{{labels}}} {9.1 * since!r}",
            ]
    lines += [
        f"process_start_time_seconds {1.7e9 + (1000 if since != step else 0)!r}",
        "process_resident_memory_bytes 5.123e+09",
        f'http_requests_total{{handler="/v1/chat/completions",method="POST",status="4xx"}} {float(step)}',
    ]
    return _text(lines)


def _llamacpp(step: int) -> bytes:
    values = {
        "requests_processing": step % 2,
        "requests_deferred": step,
        "prompt_tokens_total": 100 * step,
        "tokens_predicted_total": 333 * step,
        "kv_cache_usage_ratio": 0.25,
    }
    return _text([f"llamacpp:{name} {value}" for name, value in values.items()])


def _sglang(step: int) -> bytes:
    """Labels `job` and `instance` of the engine itself, which Prometheus moves to exported_*; escapes."""
    labels = 'model_name="qwen\\"3\\\\x",engine_type="unified",job="mine",instance="also mine"'
    lines = [
        f"sglang:num_running_reqs{{{labels}}} {step}",
        f"sglang:num_queue_reqs{{{labels}}} {2 * step}",
        f"sglang:token_usage{{{labels}}} 0.{step}5",
        f"sglang:prompt_tokens_total{{{labels}}} {5000 * step}",
        f"sglang:generation_tokens_total{{{labels}}} {7000 * step}",
    ]
    for number, edge in enumerate(("0.1", "1", "10", "+Inf")):
        lines.append(f'sglang:time_to_first_token_seconds_bucket{{{labels},le="{edge}"}} {number * 2 * step}')
    lines += [
        f"sglang:time_to_first_token_seconds_count{{{labels}}} {6 * step}",
        f"sglang:time_to_first_token_seconds_sum{{{labels}}} {1.5 * step}",
    ]
    return _text(lines)


def _node(step: int) -> bytes:
    """A host: what is counted per CPU and mode, and its name, a label of an info metric."""
    lines = [
        f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {1000.25 * (cpu + 1) + share * step!r}'
        for cpu in range(2)
        for mode, share in (("idle", 0.7), ("iowait", 0.1), ("system", 0.05), ("user", 0.15))
    ]
    values = {
        "node_load1": 0.12 + step,
        "node_memory_MemTotal_bytes": 2.5276514304e10,
        "node_memory_MemAvailable_bytes": 2.4768622592e10 - 4096 * step,
        "node_memory_SwapTotal_bytes": 0,
        "node_memory_SwapFree_bytes": 0,
        "node_boot_time_seconds": 1.796062487e9,
        'node_uname_info{nodename="gpu-node-1",sysname="Linux"}': 1,
    }
    return _text([*lines, *[f"{name} {value!r}" for name, value in values.items()]])


def _text(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
