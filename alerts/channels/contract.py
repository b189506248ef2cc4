"""What every kind of channel offers, and what it says about one try to send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import aiohttp

from alerts.incidents import Incident


class Sent(NamedTuple):
    """The other side has taken the message."""


class Retry(NamedTuple):
    """Not now. `after_seconds` is what the other side asks for; None leaves it to our back-off."""

    why: str
    after_seconds: float | None = None


class Refused(NamedTuple):
    """The channel takes no message as things are. That may be mended or pass: it is tried again, slowly."""

    why: str


SendResult = Sent | Retry | Refused


class Item(NamedTuple):
    """One incident to tell: `event` is `fired`, `resolved`, or `both` when it ended before it was told.

    `links`: `dashboard` (at the incident's time) and `incident`, as far as there are any.
    """

    incident: Incident
    event: str
    links: Mapping[str, str]


class Channel(Protocol):
    """The settings of one channel."""

    @property
    def name(self) -> str:
        """Unique among the channels."""

    @property
    def kind(self) -> str:
        """The key in the registry."""

    def address(self) -> str:
        """Where its messages go, a secret; another one is reason to try anew. Raises ValueError without."""


class ChannelKind(Protocol):
    """A module of this folder. `compose` is pure; `send` tries once and never raises for what the other
    side does; neither ever shows the channel's secret."""

    def compose(self, items: Sequence[Item]) -> dict[str, Any]:
        """One message about one or several incidents."""

    async def send(
        self, session: aiohttp.ClientSession, channel: Any, payload: Mapping[str, Any]
    ) -> SendResult:
        """One try."""
