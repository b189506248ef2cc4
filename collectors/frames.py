"""Rows of a round → Arrow tables with the store's column types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from collectors.reading import (
    EngineSample,
    GpuProcess,
    GpuSample,
    HostSample,
    ProbeResult,
    UsageCounter,
    UsageKey,
)

_TS = pa.timestamp("us")
_INTEGERS = {
    "gpu_index",
    "memory_used_bytes",
    "memory_free_bytes",
    "memory_reserved_bytes",
    "memory_total_bytes",
    "sm_clock_hertz",
    "memory_clock_hertz",
    "throttle_reasons",
    "xid_last",
    "pid",
    "cpu_count",
    "memory_available_bytes",
    "swap_total_bytes",
    "swap_free_bytes",
    "http_status",
}
_TEXTS = {
    "gpu_uuid", "mig_instance", "host", "gpu_model", "driver_version", "pod", "namespace", "container",
    "engine", "role", "replica", "model", "name", "kind", "currency", "finish_reason", "error",
    "project", "environment", "key_alias", "source",
}  # fmt: skip
_OTHER = {"ok": pa.bool_(), "cost": pa.decimal128(18, 9)}


def _type(column: str) -> pa.DataType:
    if column in _OTHER:
        return _OTHER[column]
    if column in _TEXTS:
        return pa.string()
    return pa.int64() if column in _INTEGERS else pa.float64()


_SCRAPE = pa.schema(
    [
        ("ts", _TS),
        ("target", pa.string()),
        ("ok", pa.bool_()),
        ("http_status", pa.int16()),
        ("duration_seconds", pa.float32()),
        ("bytes", pa.int32()),
        ("lines", pa.int32()),
        ("rejected_lines", pa.int32()),
        ("unowned_lines", pa.int32()),
        ("error", pa.string()),
    ]
)
_KEY = [("ts", _TS), ("target", pa.string())]
_GPU = pa.schema(_KEY + [(column, _type(column)) for column in GpuSample._fields])
_ENGINE = pa.schema(_KEY + [(column, _type(column)) for column in EngineSample._fields])
_PROCESS = pa.schema(_KEY + [(column, _type(column)) for column in GpuProcess._fields])
_HOST = pa.schema(_KEY + [(column, _type(column)) for column in HostSample._fields])
_PROBE = pa.schema(_KEY + [(column, _type(column)) for column in ProbeResult._fields])
_SERIES = [*_KEY, ("replica", pa.string()), ("model", pa.string()), ("metric", pa.string())]
_HISTOGRAM = pa.schema(
    [
        *_SERIES,
        ("edge_set_id", pa.int32()),
        ("interval_seconds", pa.float64()),
        ("increases", pa.list_(pa.float64())),
        ("sum_increase_seconds", pa.float64()),
        ("sum_seconds", pa.float64()),
        ("count", pa.float64()),
    ]
)
_BASE = pa.schema([*_SERIES, ("edge_set_id", pa.int32()), ("buckets", pa.list_(pa.float64()))])

_USED = ("prompt_tokens", "cached_tokens", "generation_tokens", "requests", "gateway_spend_usd")
_USAGE = pa.schema(
    [
        ("ts", _TS),
        ("interval_seconds", pa.float64()),
        ("target", pa.string()),
        *[(column, _type(column)) for column in (*UsageKey._fields, *_USED)],
    ]
)
_USAGE_BASE = pa.schema(
    [
        *_KEY,
        ("replica", pa.string()),
        *[(column, _type(column)) for column in UsageKey._fields],
        *[(column, _type(column)) for column in UsageCounter._fields if column != "key"],
    ]
)

SCHEMAS = {
    "scrape": _SCRAPE,
    "gpu_sample": _GPU,
    "engine_sample": _ENGINE,
    "engine_histogram": _HISTOGRAM,
    "histogram_base": _BASE,
    "gpu_process": _PROCESS,
    "host_sample": _HOST,
    "probe": _PROBE,
    "project_usage": _USAGE,
    "usage_base": _USAGE_BASE,
}


def frame(table: str, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows in the table's column order → an Arrow table. `rows` may be empty."""
    schema = SCHEMAS[table]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
