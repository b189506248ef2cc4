"""Who uses which GPU, as pages say it: by which way that is known, and how old the knowledge is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import polars as pl

from app import format as form
from app.pages import parts, states

WAYS = ("config", "pod", "process")
"""Best first: what a person wrote down, what Kubernetes assigned, what the driver and the sockets show."""


class Placed(NamedTuple):
    """An engine on a GPU."""

    target: str
    source: str
    last_seen: datetime


def on_gpu(placements: pl.DataFrame, gpu: str, mig: str) -> list[Placed]:
    """The engines on a GPU or MIG instance, each by its best way of knowing."""
    mine = placements.filter((pl.col("gpu_uuid") == gpu) & (pl.col("mig_instance").is_in([mig, ""])))
    return _best(mine.iter_rows(named=True))


def engine_gpus(
    placements: pl.DataFrame, target: str, replica: str
) -> tuple[list[tuple[str, str]], str, datetime | None]:
    """(GPU, MIG instance) of one engine replica, the way of knowing (the best that knows any), and when one
    of them was last seen that way."""
    mine = placements.filter((pl.col("target") == target) & pl.col("replica").is_in([replica, ""]))
    for way in WAYS:
        found = mine.filter(pl.col("source") == way)
        if not found.is_empty():
            gpus = sorted(set(found.select("gpu_uuid", "mig_instance").iter_rows()))
            return gpus, way, found.select(pl.col("last_seen").max()).item()
    return [], "", None


def engine_text(
    at: parts.Here, placements: pl.DataFrame, gpus: pl.DataFrame, target: str, replica: str
) -> tuple[str, str]:
    """An engine's GPUs shortly, and the help beside them; the text is empty where they are not known."""
    found, way, seen = engine_gpus(placements, target, replica)
    if not found:
        return "", at.say("about_engine_gpus_unknown")
    names = {
        (row["gpu_uuid"], row["mig_instance"]): _name(row)
        for row in gpus.select("gpu_uuid", "mig_instance", "host", "gpu_index").iter_rows(named=True)
    }
    text = states.gpu_list([names.get(key, key[0] + (f" MIG {key[1]}" if key[1] else "")) for key in found])
    return f"{text} ({way_text(at, way, seen)})", at.say("about_engine_gpus")


def way_text(at: parts.Here, way: str, seen: datetime | None) -> str:
    """`configured`, `by pod, 20 s ago`."""
    if way == "config":
        return at.say("placed_config")
    return at.say("placed_ago", way=at.say(f"placed_{way}"), age=at.ago(seen))


def _name(row: Mapping[str, Any]) -> str:
    if row["host"] is None or row["gpu_index"] is None:
        return form.shorten(row["gpu_uuid"], 20)
    name = f"{row['host']}/{row['gpu_index']}"
    return f"{name} MIG {row['mig_instance']}" if row["mig_instance"] else name


def _best(rows: Iterable[Mapping[str, Any]]) -> list[Placed]:
    found: dict[str, Placed] = {}
    for row in rows:
        placed = Placed(row["target"], row["source"], row["last_seen"])
        other = found.get(placed.target)
        if other is None or WAYS.index(placed.source) < WAYS.index(other.source):
            found[placed.target] = placed
    return [found[target] for target in sorted(found)]
