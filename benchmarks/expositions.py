"""What a busy dcgm-exporter 4.8 and a busy vLLM 0.32 answer, cheap to render with other values each time.

A template holds the text between the values once; a rendering joins it with the values of a moment.
Names, labels, types, edges and the way numbers are written are the exporters'; the values are made up:
gauges swing, counters and buckets only grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

GPUS_PER_NODE = 8

TOKEN_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
ITERATION_EDGES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHOICE_EDGES = (1, 2, 5, 10, 20)
PREEMPTION_EDGES = (1, 2, 3, 4, 5, 10, 20)
TTFT_EDGES = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
    640, 2560,
)  # fmt: skip
TOKEN_TIME_EDGES = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
)  # fmt: skip
REQUEST_EDGES = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
HTTP_EDGES = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)  # fmt: skip


class Movement(NamedTuple):
    """How a value moves: `base + rate × seconds + swing × sin`, written by `form`."""

    base: float
    rate: float = 0.0
    swing: float = 0.0
    form: Callable[[float], str] = repr


def whole(value: float) -> str:
    """As Go writes an integer: 210."""
    return str(int(value))


def floored(value: float) -> str:
    """As Python writes a count: 18.0."""
    return repr(float(int(value)))


def six_digits(value: float) -> str:
    """As dcgm-exporter writes a float: 35.686000."""
    return f"{value:.6f}"


CREATED = Movement(1.7960573879530416e09)


class Line(NamedTuple):
    """A sample line, or (movement None) a comment line."""

    text: str
    movement: Movement | None


class Template:
    """The lines of one target."""

    def __init__(self, lines: Sequence[Line]) -> None:
        pieces: list[bytes] = []
        text = ""
        for line in lines:
            text += line.text
            if line.movement is None:
                text += "\n"
            else:
                pieces.append(f"{text} ".encode())
                text = "\n"
        pieces.append(text.encode())
        self._parts = [b""] * (2 * len(pieces) - 1)
        self._parts[0::2] = pieces

    def render(self, values: Sequence[bytes]) -> bytes:
        """The body with these values, one per sample line."""
        self._parts[1::2] = values
        return b"".join(self._parts)


def values_at(lines: Sequence[Line], seconds: float) -> list[bytes]:
    """The values of the sample lines at a moment: equal for all targets that share movements."""
    values = []
    for place, line in enumerate(lines):
        if (movement := line.movement) is not None:
            value = movement.base + movement.rate * seconds
            if movement.swing:
                value += movement.swing * math.sin(seconds * 0.7 + place)
            values.append(movement.form(value).encode())
    return values


def _family(name: str, kind: str, about: str) -> Iterator[Line]:
    yield Line(f"# HELP {name} {about}", None)
    yield Line(f"# TYPE {name} {kind}", None)


# name, type, about, movement
DCGM_FAMILIES: tuple[tuple[str, str, str, Movement], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "Clock of the SMs (in MHz).", Movement(1755, 0, 120, whole)),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Clock of the memory (in MHz).", Movement(2619, 0, 0, whole)),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Temperature of memory (in C).", Movement(74, 0, 9, whole)),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "Temperature of the GPU (in C).", Movement(61, 0, 9, whole)),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power drawn (in W).", Movement(520, 0, 150, six_digits)),
    (
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Energy used since the driver loaded (in mJ).",
        Movement(5_551_899_580, 520_000, 0, whole),
    ),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries.", Movement(0, 0, 0, whole)),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilisation (in %).", Movement(70, 0, 29, whole)),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory bandwidth busy (in %).", Movement(45, 0, 30, whole)),
    ("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilisation (in %).", Movement(0, 0, 0, whole)),
    ("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilisation (in %).", Movement(0, 0, 0, whole)),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Code of the last XID error.", Movement(0, 0, 0, whole)),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Frame buffer free (in MiB).", Movement(20_000, 0, 4_000, whole)),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Frame buffer used (in MiB).", Movement(60_000, 0, 4_000, whole)),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Frame buffer reserved (in MiB).", Movement(1_559, 0, 0, whole)),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink traffic.", Movement(900, 3, 0, whole)),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU licence.", Movement(0, 0, 0, whole)),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows, remapped.", Movement(0, 0, 0, whole)),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows, remapped.", Movement(0, 0, 0, whole)),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping failed.", Movement(0, 0, 0, whole)),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Graphics active.", Movement(0.7, 0, 0.29, six_digits)),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Tensor active.", Movement(0.35, 0, 0.3, six_digits)),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Memory active.", Movement(0.45, 0, 0.4, six_digits)),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "PCIe sent.", Movement(900_000_000, 0, 5e8, whole)),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "PCIe received.", Movement(700_000_000, 0, 5e8, whole)),
)


def dcgm_lines(node: int) -> list[Line]:
    """A node of eight H100 in Kubernetes: 25 default counters with pod labels."""
    lines: list[Line] = []
    for name, kind, about, movement in DCGM_FAMILIES:
        lines += _family(name, kind, about)
        for gpu in range(GPUS_PER_NODE):
            labels = (
                f'gpu="{gpu}",UUID="GPU-{node:08x}-3a86-4340-039d-25f2a83cdc{gpu:02x}",'
                f'pci_bus_id="00000000:{gpu * 16 + 7:02X}:00.0",device="nvidia{gpu}",'
                f'modelName="NVIDIA H100",Hostname="node-{node:04d}",'
                f'DCGM_FI_DRIVER_VERSION="595.58.03",container="vllm",namespace="inference",'
                f'pod="llama-{node:04d}-{gpu}"'
            )
            lines.append(Line(f"{name}{{{labels}}}", movement))
    return lines


def _histogram(name: str, label_sets: Sequence[str], edges: Sequence[float], rate: float) -> Iterator[Line]:
    """Per label set `rate` observations a second, spread evenly over the edges, and its `_created`."""
    about = f"Spread of {name.split(':')[-1].replace('_', ' ')}."
    middle = float(edges[len(edges) // 2])
    yield from _family(name, "histogram", about)
    for labels in label_sets:
        braces = f"{{{labels}}}" if labels else ""
        for place, edge in enumerate([*map(repr, map(float, edges)), "+Inf"]):
            share = min(1.0, (place + 1) / len(edges))
            inside = f'{labels},le="{edge}"' if labels else f'le="{edge}"'
            yield Line(f"{name}_bucket{{{inside}}}", Movement(5_000 * share, rate * share, 0, floored))
        yield Line(f"{name}_count{braces}", Movement(5_000, rate, 0, floored))
        yield Line(f"{name}_sum{braces}", Movement(5_000 * middle + 0.123456, rate * middle))
    yield from _family(f"{name}_created", "gauge", about)
    for labels in label_sets:
        yield Line(f"{name}_created{{{labels}}}" if labels else f"{name}_created", CREATED)


VLLM_HISTOGRAMS: tuple[tuple[str, Sequence[float], float], ...] = (
    ("request_prompt_tokens", TOKEN_EDGES, 6),
    ("request_generation_tokens", TOKEN_EDGES, 6),
    ("iteration_tokens_total", ITERATION_EDGES, 40),
    ("request_max_num_generation_tokens", TOKEN_EDGES, 6),
    ("request_params_n", CHOICE_EDGES, 6),
    ("request_params_max_tokens", TOKEN_EDGES, 6),
    ("time_to_first_token_seconds", TTFT_EDGES, 6),
    ("inter_token_latency_seconds", TOKEN_TIME_EDGES, 900),
    ("request_time_per_output_token_seconds", TOKEN_TIME_EDGES, 6),
    ("e2e_request_latency_seconds", REQUEST_EDGES, 6),
    ("request_queue_time_seconds", REQUEST_EDGES, 6),
    ("request_inference_time_seconds", REQUEST_EDGES, 6),
    ("request_prefill_time_seconds", REQUEST_EDGES, 6),
    ("request_decode_time_seconds", REQUEST_EDGES, 6),
    ("request_num_preemptions", PREEMPTION_EDGES, 6),
    ("request_prefill_kv_computed_tokens", TOKEN_EDGES, 6),
)

# name, label (or "" for none) and its values with start and growth per second; each also has its `_created`
VLLM_COUNTERS: tuple[tuple[str, str, dict[str, tuple[float, float]]], ...] = (
    ("estimated_flops_per_gpu", "", {"": (0, 0)}),
    ("estimated_read_bytes_per_gpu", "", {"": (0, 0)}),
    ("estimated_write_bytes_per_gpu", "", {"": (0, 0)}),
    ("prefix_cache_queries", "", {"": (9_000_000, 5_000)}),
    ("prefix_cache_hits", "", {"": (4_000_000, 2_500)}),
    ("external_prefix_cache_queries", "", {"": (0, 0)}),
    ("external_prefix_cache_hits", "", {"": (0, 0)}),
    ("mm_cache_queries", "", {"": (0, 0)}),
    ("mm_cache_hits", "", {"": (0, 0)}),
    ("num_preemptions", "", {"": (57, 0.2)}),
    ("prompt_tokens", "", {"": (9_000_000, 5_000)}),
    (
        "prompt_tokens_by_source",
        "source",
        {
            "local_compute": (5_000_000, 2_500),
            "local_cache_hit": (4_000_000, 2_500),
            "external_kv_transfer": (0, 0),
        },
    ),
    ("prompt_tokens_cached", "", {"": (4_000_000, 2_500)}),
    (
        "prompt_tokens_cached_by_source",
        "source",
        {
            "device": (4_000_000, 2_500),
            "host": (0, 0),
            "p2p": (0, 0),
            "disk": (0, 0),
            "external_unspecified": (0, 0),
        },
    ),
    ("generation_tokens", "", {"": (2_000_000, 900)}),
    (
        "request_success",
        "finished_reason",
        {
            "stop": (4_000, 5),
            "length": (900, 0.9),
            "abort": (100, 0.1),
            "error": (0, 0),
            "repetition": (0, 0),
        },
    ),
    ("admission_rejections", "reason", {"max_num_queued_reqs": (0, 0), "max_num_queued_tokens": (0, 0)}),
)  # fmt: skip

VLLM_GAUGES: tuple[tuple[str, str, dict[str, Movement]], ...] = (
    ("num_requests_running", "", {"": Movement(24, 0, 8, floored)}),
    ("num_requests_waiting", "", {"": Movement(12, 0, 11, floored)}),
    (
        "num_requests_waiting_by_reason",
        "reason",
        {"capacity": Movement(12, 0, 11, floored), "deferred": Movement(0.0)},
    ),
    (
        "engine_sleep_state",
        "sleep_state",
        {"awake": Movement(1.0), "weights_offloaded": Movement(0.0), "discard_all": Movement(0.0)},
    ),
    ("kv_cache_usage_perc", "", {"": Movement(0.6, 0, 0.35)}),
)


def vllm_lines(replica: int) -> list[Line]:
    """A vLLM 0.32 replica under load, its process and HTTP families included."""
    lines: list[Line] = []
    for name, movement in (
        ("process_virtual_memory_bytes", Movement(2.210381824e09)),
        ("process_resident_memory_bytes", Movement(6.47815168e08, 4096)),
        ("process_start_time_seconds", Movement(1.79605736771e09)),
        ("process_open_fds", Movement(90, 0, 20, floored)),
    ):
        lines += _family(name, "gauge", f"The server's {name.removeprefix('process_').replace('_', ' ')}.")
        lines.append(Line(name, movement))
    lines += _family("process_cpu_seconds_total", "counter", "Processor time of the server in seconds.")
    lines.append(Line("process_cpu_seconds_total", Movement(700.25, 1.01)))
    model = f'engine="0",model_name="llama-3.1-70b-{replica:04d}"'
    for gauge, label, moving in VLLM_GAUGES:
        lines += _family(f"vllm:{gauge}", "gauge", f"Now: {gauge.replace('_', ' ')} of the engine.")
        for value, movement in moving.items():
            extra = f',{label}="{value}"' if label else ""
            lines.append(Line(f"vllm:{gauge}{{{model}{extra}}}", movement))
    for counter, label, started in VLLM_COUNTERS:
        about = f"Since the start of the engine: {counter.replace('_', ' ')}."
        lines += _family(f"vllm:{counter}_total", "counter", about)
        extras = {value: f',{label}="{value}"' if label else "" for value in started}
        for value, (start, rate) in started.items():
            line = f"vllm:{counter}_total{{{model}{extras[value]}}}"
            lines.append(Line(line, Movement(start, rate, 0, floored)))
        lines += _family(f"vllm:{counter}_created", "gauge", about)
        lines += [Line(f"vllm:{counter}_created{{{model}{extra}}}", CREATED) for extra in extras.values()]
    for name, edges, per_second in VLLM_HISTOGRAMS:
        lines += _histogram(f"vllm:{name}", [model], edges, per_second)
    lines += _family("vllm:cache_config_info", "gauge", "How the cache of the engine is set up.")
    cache = (
        'block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",'
        'gpu_memory_utilization="0.9",num_gpu_blocks="27906",num_cpu_blocks="None",sliding_window="None"'
    )
    lines.append(Line(f"vllm:cache_config_info{{{cache}}}", Movement(1.0)))
    lines += _family("http_requests_total", "counter", "Requests by method, status and handler.")
    for status, rate in (("2xx", 6.0), ("4xx", 0.02), ("5xx", 0.0)):
        labels = f'handler="/v1/completions",method="POST",status="{status}"'
        lines.append(Line(f"http_requests_total{{{labels}}}", Movement(100, rate, 0, floored)))
    lines += _histogram("http_request_duration_highr_seconds", [""], HTTP_EDGES, 6)
    handlers = [f'handler="{handler}",method="POST"' for handler in ("/v1/models", "/v1/completions", "none")]
    lines += _histogram("http_request_duration_seconds", handlers, (0.1, 0.5, 1), 2)
    return lines
