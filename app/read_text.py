"""What `infermeter read` prints for people."""

from __future__ import annotations

import re
from typing import Any

from app import format as show

PERCENTILES = ("p50", "p95", "p99")
_WHOSE = ("project", "environment", "model", "key_alias")
# Names come from outside: neither a terminal's control sequences nor a change of the text's direction.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def render_text(payload: dict[str, Any]) -> str:
    """The payload for people: what is known, line by line, under its canonical name."""
    counts = f"{payload['rejected_lines']} lines rejected, {payload['unowned_lines']} name no GPU or engine"
    lines = [f"{payload['source']} ({payload['role']}): {counts}"]
    for gpu in payload["gpus"]:
        instance = f", instance {gpu['mig_instance']}" if gpu["mig_instance"] else ""
        lines += ["", f"GPU {gpu['gpu_uuid']}{instance}", *_known(gpu, {"gpu_uuid", "mig_instance"})]
    for engine in payload["engines"]:
        title = f"{engine['engine']} replica {engine['replica']}, model {engine['model'] or show.UNKNOWN}"
        lines += ["", title, *_known(engine, {"engine", "role", "replica", "model"})]
    lines += _further(payload)
    if payload["histograms"]:
        lines += _latencies(payload["histograms"])
    if payload["missing"]:
        lines += ["", "Not shown here: " + ", ".join(payload["missing"])]
    if payload["found_names"]:
        lines += ["", "Read by these names"]
        lines += [f"  {column:<28} {name}" for column, name in payload["found_names"].items()]
    lines += [line for note in payload["notes"] for line in ("", f"Note: {note}")]
    return "\n".join(_UNPRINTABLE.sub("\ufffd", line) for line in lines)


def _further(payload: dict[str, Any]) -> list[str]:
    """Processes, hosts, use by project and probes, where there are any."""
    lines = []
    for process in payload.get("processes", ()):
        instance = f"/{process['mig_instance']}" if process["mig_instance"] else ""
        used = process["memory_used_bytes"]
        lines.append(
            f"  {process['pid']:>10}  {show.UNKNOWN if used is None else show.gibibytes(used):>12}  "
            f"{process['kind'] or show.UNKNOWN:<8}  {process['gpu_uuid']}{instance}  "
            f"{process['name'] or show.UNKNOWN}"
        )
    if lines:
        lines = ["", "Processes on GPUs (pid, memory, kind, GPU, name)", *lines]
    for host in payload.get("hosts", ()):
        lines += ["", f"Host {host['host'] or show.UNKNOWN}", *_known(host, {"host"})]
    for use in payload.get("usage", ()):
        known = [f"{name} {use[name]}" for name in _WHOSE if use[name] is not None]
        title = f"Use of {', '.join(known) or 'nobody known'} (from {use['source']})"
        lines += ["", title, *_known(use, {*_WHOSE, "source"})]
    for probe in payload.get("probes", ()):
        title = f"Probe of model {probe['model'] or show.UNKNOWN}: {'ok' if probe['ok'] else 'failed'}"
        lines += ["", title, *_known(probe, {"model", "ok"})]
    return lines


def _known(row: dict[str, Any], titled: set[str]) -> list[str]:
    return [
        f"  {name:<28} {_shown(name, value)}"
        for name, value in row.items()
        if value is not None and name not in titled
    ]


def _shown(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if name == "throttle_reasons":
        return f"0x{value:x}"
    if name in ("process_start_time_seconds", "boot_time_seconds"):
        return f"{show.from_unix(value):%Y-%m-%d %H:%M:%S} UTC"
    for ending, written in _WRITTEN.items():
        if name.endswith(ending):
            return str(written(value))
    return show.count(value)


_WRITTEN: dict[str, Any] = {
    "_ratio": show.percent,
    "_bytes": show.gibibytes,
    "_hertz": show.megahertz,
    "_watts": lambda value: show.with_unit(value, "W"),
    "_celsius": lambda value: show.with_unit(value, "°C"),
    "_joules_total": lambda value: show.with_unit(value / 3.6e6, "kWh"),
    "_seconds": show.latency,
    "_usd_total": lambda value: show.with_unit(value, "USD"),
}


def _latencies(rows: list[dict[str, Any]]) -> list[str]:
    """A table; with the models where there are several, and what the metrics in it are."""
    several = len({row["model"] for row in rows}) > 1
    meant = "; ".join(
        f"{name} {_MEANT[name]}" for name in _MEANT if any(row["metric"] == name for row in rows)
    )
    return [
        "",
        f"Latencies since the counters began ({meant})",
        f"{'':10}{'n':>10}{'mean':>12}{'p50':>12}{'p95':>12}{'p99':>12}",
        *(_histogram_line(row) + (f"  {row['model'] or show.UNKNOWN}" if several else "") for row in rows),
    ]


_MEANT = {
    "ttft": "to the first token",
    "itl": "from token to token",
    "tpot": "of an output token",
    "e2e": "of the whole request",
    "queue": "waiting",
    "prefill": "reading the prompt",
    "decode": "writing the answer",
}


def _histogram_line(row: dict[str, Any]) -> str:
    figures = [show.count(row["count"]), show.latency(row["mean_seconds"])]
    for name in PERCENTILES:
        lo_hi = row[f"{name}_range_seconds"]
        beyond = row[f"{name}_seconds"] is None and lo_hi is not None
        figures.append(f"> {show.latency(lo_hi[0])}" if beyond else show.latency(row[f"{name}_seconds"]))
    widths = (10, 12, 12, 12, 12)
    return f"{row['metric']:<10}" + "".join(
        f"{text:>{width}}" for text, width in zip(figures, widths, strict=True)
    )
