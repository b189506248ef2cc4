"""How each kind of target is asked: most by one GET, some in a way of their own.

A way turns a target into a `Fetched`: a body (JSON, where there is no exposition) that the kind's reader
reads like any other, so that recordings and replays hold these targets too. Each way is one file and one
line in `OWN_WAYS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import aiohttp

from collectors.fetch import BODY_LIMIT, Fetched, fetch
from collectors.gpu.nvml_way import NvmlWay
from collectors.probe.way import ProbeWay
from collectors.target import Target
from sql.store import Store


class Way(Protocol):
    """A way of asking. One object serves all targets of its kind, on one event loop."""

    async def fetch(self, target: Target) -> Fetched:
        """Ask once, within the target's timeout. Never raises for what the target does."""

    async def aclose(self) -> None:
        """Give back what is held: processes, connections."""


class WayMaker(Protocol):
    """How a way is made; `store` is None where nothing is stored (`infermeter record`)."""

    def __call__(self, session: aiohttp.ClientSession, store: Store | None) -> Way:
        """The way."""


OWN_WAYS: Mapping[str, WayMaker] = {
    "nvml": NvmlWay,
    "probe": ProbeWay,
}
"""Kind → how its way is made; kinds that are not here are asked by GET."""


class Ways:
    """Asks any target in the way of its kind."""

    def __init__(
        self, session: aiohttp.ClientSession, *, body_limit: int = BODY_LIMIT, store: Store | None = None
    ) -> None:
        self._session = session
        self._body_limit = body_limit
        self._store = store
        self._ways: dict[str, Way] = {}

    async def fetch(self, target: Target, *, close: bool = False) -> Fetched:
        """Ask the target once. `close`: as in `collectors.fetch.fetch`."""
        maker = OWN_WAYS.get(target.kind)
        if maker is None:
            return await fetch(self._session, target, body_limit=self._body_limit, close=close)
        way = self._ways.get(target.kind)
        if way is None:
            way = self._ways[target.kind] = maker(self._session, self._store)
        return await way.fetch(target)

    async def aclose(self) -> None:
        """Close every way that was used."""
        for way in self._ways.values():
            await way.aclose()
