"""The families beside an engine's own: the Python process and the HTTP server of vLLM's API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.demo.engine import Replica
from app.demo.histogram import HTTP_COARSE_EDGES, HTTP_FINE_EDGES, Histogram

SharedValue = Callable[[Sequence[Replica]], "float | Histogram | Summary"]

CHAT = "/v1/chat/completions"
MODELS = "/v1/models"
_MODELS_EVERY_SECONDS = 30.0
"""A health check asks for the model list this often."""
_MODELS_SECONDS = 0.0016


class Summary(NamedTuple):
    """A summary without quantiles."""

    observations: float
    total: float


class SharedFamily(NamedTuple):
    """One family of the whole endpoint: no engine and no model label."""

    name: str
    kind: str
    help: str
    series: tuple[tuple[dict[str, str], SharedValue], ...]


def _uptime(replicas: Sequence[Replica]) -> float:
    return replicas[0].now - replicas[0].started


def _models(replicas: Sequence[Replica]) -> int:
    return int(_uptime(replicas) / _MODELS_EVERY_SECONDS) + 1


def _ok(replicas: Sequence[Replica]) -> int:
    return sum(replica.stats.http_ok.count for replica in replicas)


def _refused(replicas: Sequence[Replica]) -> int:
    return sum(replica.stats.http_refused.count for replica in replicas)


def _merged(edges: tuple[float, ...], parts: Sequence[Histogram]) -> Histogram:
    total = Histogram(edges)
    for part in parts:
        total.counts = [a + b for a, b in zip(total.counts, part.counts, strict=True)]
        total.sum += part.sum
        total.count += part.count
    return total


def _fine(replicas: Sequence[Replica]) -> Histogram:
    total = _merged(HTTP_FINE_EDGES, [replica.stats.http_fine for replica in replicas])
    total.observe(_MODELS_SECONDS, _models(replicas))
    return total


def _coarse_models(replicas: Sequence[Replica]) -> Histogram:
    total = Histogram(HTTP_COARSE_EDGES)
    total.observe(_MODELS_SECONDS, _models(replicas))
    return total


def _coarse_chat(replicas: Sequence[Replica]) -> Histogram:
    parts = [part for replica in replicas for part in (replica.stats.http_ok, replica.stats.http_refused)]
    return _merged(HTTP_COARSE_EDGES, parts)


def _request_bytes(replicas: Sequence[Replica]) -> Summary:
    total = sum(replica.stats.http_request_bytes for replica in replicas)
    return Summary(_ok(replicas) + _refused(replicas), total)


def _response_bytes(replicas: Sequence[Replica]) -> Summary:
    total = sum(replica.stats.http_response_bytes for replica in replicas)
    return Summary(_ok(replicas) + _refused(replicas), total)


def _growing(first: float, per_second: float) -> SharedValue:
    return lambda replicas: float(int(first + per_second * _uptime(replicas)))


def _cpu_seconds(replicas: Sequence[Replica]) -> float:
    return round(31.4 + 0.21 * _uptime(replicas) + 0.5 * replicas[0].stats.busy_seconds, 2)


def _constant(value: float) -> SharedValue:
    return lambda _replicas: value


def _gauge(name: str, help_: str, value: SharedValue, labels: dict[str, str] | None = None) -> SharedFamily:
    return SharedFamily(name, "gauge", help_, ((labels or {}, value),))


def _generations(
    name: str, help_: str, first: tuple[float, ...], per_second: tuple[float, ...]
) -> SharedFamily:
    series = tuple(
        ({"generation": str(number)}, _growing(start, rate))
        for number, (start, rate) in enumerate(zip(first, per_second, strict=True))
    )
    return SharedFamily(name, "counter", help_, series)


PYTHON: tuple[SharedFamily, ...] = (
    _generations(
        "python_gc_objects_collected", "Objects collected during gc", (14501, 3550, 625), (2.1, 0.4, 0.02),
    ),
    _generations(
        "python_gc_objects_uncollectable", "Uncollectable objects found during GC", (0, 0, 0), (0.0, 0.0, 0.0)
    ),
    _generations(
        "python_gc_collections", "Number of times this generation was collected",
        (1567, 142, 10), (0.5, 0.045, 0.002)
    ),
    _gauge(
        "python_info", "Python platform information", _constant(1.0),
        {"implementation": "CPython", "major": "3", "minor": "12", "patchlevel": "11", "version": "3.12.11"},
    ),
    _gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", _constant(4.6173184e10)),
    _gauge(
        "process_resident_memory_bytes", "Resident memory size in bytes.",
        lambda replicas: float(3_112_960_000 + int(_uptime(replicas) * 9) * 4096),
    ),
    _gauge(
        "process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
        lambda replicas: round(replicas[0].started, 2),
    ),
    SharedFamily(
        "process_cpu_seconds", "counter", "Total user and system CPU time spent in seconds.",
        (({}, _cpu_seconds),),
    ),
    _gauge(
        "process_open_fds", "Number of open file descriptors.",
        lambda replicas: 71 + replicas[0].requests_running,
    ),
    _gauge("process_max_fds", "Maximum number of open file descriptors.", _constant(1048576.0)),
)  # fmt: skip

_BY_HANDLER_HELP = (
    "Content length of {} by handler. Only value of header is respected. Otherwise ignored."
    " No percentile calculated. "
)

HTTP: tuple[SharedFamily, ...] = (
    SharedFamily(
        "http_requests", "counter", "Total number of requests by method, status and handler.",
        (
            ({"handler": MODELS, "method": "GET", "status": "2xx"}, _models),
            ({"handler": CHAT, "method": "POST", "status": "2xx"}, _ok),
            ({"handler": CHAT, "method": "POST", "status": "4xx"}, _refused),
        ),
    ),
    SharedFamily(
        "http_request_size_bytes", "summary", _BY_HANDLER_HELP.format("incoming requests"),
        (
            ({"handler": MODELS}, lambda replicas: Summary(_models(replicas), 0.0)),
            ({"handler": CHAT}, _request_bytes),
        ),
    ),
    SharedFamily(
        "http_response_size_bytes", "summary", _BY_HANDLER_HELP.format("outgoing responses"),
        (
            ({"handler": MODELS}, lambda replicas: Summary(_models(replicas), 452.0 * _models(replicas))),
            ({"handler": CHAT}, _response_bytes),
        ),
    ),
    SharedFamily(
        "http_request_duration_highr_seconds", "histogram",
        "Latency with many buckets but no API specific labels. Made for more accurate percentile"
        " calculations. ",
        (({}, _fine),),
    ),
    SharedFamily(
        "http_request_duration_seconds", "histogram",
        "Latency with only few buckets by handler. Made to be only used if aggregation by handler is"
        " important. ",
        (
            ({"handler": MODELS, "method": "GET"}, _coarse_models),
            ({"handler": CHAT, "method": "POST"}, _coarse_chat),
        ),
    ),
)  # fmt: skip
