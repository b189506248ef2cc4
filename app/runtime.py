"""What the running process hands to its pages and routes: the store, the settings, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sql.store import Store

if TYPE_CHECKING:
    from app.config import Config
    from app.monitor import Monitor


def utc_now() -> datetime:
    """The wall clock as the store writes it: UTC without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass
class Runtime:
    """One per process."""

    store: Store
    settings: Config
    simulated: bool = False
    clock: Callable[[], datetime] = field(default=utc_now)
    monitor: Monitor | None = None
    notes: list[str] = field(default_factory=list)
    """What discovery found and did not find, for the pages; empty with a configuration."""


_current: Runtime | None = None


def set_current(runtime: Runtime | None) -> None:
    """Make `runtime` the one that pages and routes see."""
    global _current
    _current = runtime


def current() -> Runtime:
    """The process's runtime. Raises RuntimeError when no server has been started."""
    if _current is None:
        raise RuntimeError("the pages run inside `infermeter serve`; start that instead of `streamlit run`")
    return _current
