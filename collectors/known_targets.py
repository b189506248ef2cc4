"""Which of many endpoints are exporters or engines of a known kind, found out by asking each of them.

For lists that hold everything a company runs: what is no kind of ours must not stand on the Sources page as
a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from collectors.fetch import fetch, new_session
from collectors.target import Target, TargetSettings

AT_ONCE = 50
"""Endpoints that are asked at the same time."""

LONGEST_SECONDS = 15.0
"""How long one look may take; who was not asked by then is asked at the next."""

UNREADABLE_AGAIN_SECONDS = 60.0
"""An engine that still loads its model does not answer yet."""

UNKNOWN_AGAIN_SECONDS = 3600.0
"""What answered and is of no known kind can become one only by another program on the same port."""


class _Asked(NamedTuple):
    """What an endpoint turned out to be."""

    ours: bool
    again_at: float
    """When it is to be asked again; by `clock`."""


class KnownTargets:
    """Remembers what each endpoint is. What was of a known kind once stays so as long as it is listed: an
    engine that is down is missed, not forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[str, _Asked] = {}

    def among(self, targets: Iterable[Target]) -> tuple[list[Target], int]:
        """Those of a known kind (of the target's own, where it has one), and how many are still to be asked.

        Not within an event loop; takes at most about `LONGEST_SECONDS`.
        """
        listed = {target.url: target for target in targets}
        self._asked = {url: asked for url, asked in self._asked.items() if url in listed}
        now = self._clock()
        due = [
            target
            for url, target in listed.items()
            if (asked := self._asked.get(url)) is None or (not asked.ours and asked.again_at <= now)
        ]
        # Those never asked come first: with many dead ones they must not wait for ever.
        due.sort(key=lambda target: target.url in self._asked)
        if due:
            asyncio.run(self._ask(due))
        waiting = len(listed) - len(self._asked)
        return [target for url, target in listed.items() if self._ours(url)], waiting

    def _ours(self, url: str) -> bool:
        asked = self._asked.get(url)
        return asked is not None and asked.ours

    async def _ask(self, targets: list[Target]) -> None:
        waiting = iter(targets)

        async def one_after_another() -> None:
            for target in waiting:
                answer = await fetch(session, target)
                if answer.error is not None:
                    asked = _Asked(False, self._clock() + UNREADABLE_AGAIN_SECONDS)
                else:
                    asked = _Asked(_is_known(answer.body, target), self._clock() + UNKNOWN_AGAIN_SECONDS)
                self._asked[target.url] = asked

        async with new_session() as session:
            askers = [asyncio.create_task(one_after_another()) for _ in range(min(AT_ONCE, len(targets)))]
            _, late = await asyncio.wait(askers, timeout=LONGEST_SECONDS)
            for asker in late:
                asker.cancel()
            for result in await asyncio.gather(*askers, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result


def _is_known(body: bytes, target: Target) -> bool:
    from collectors.registry import UnknownKindError, detect_all  # late, as in collectors/target.py

    try:
        kinds = detect_all(body)
    except UnknownKindError:
        return False
    return target.kind in ("auto", *(kind.name for kind in kinds))


def refuse_secrets(settings: TargetSettings, needed: str, beside: str = "") -> None:
    """Raise ValueError where credentials would go to everything that is listed: strangers among them.

    `needed`: the setting that says which ones are meant; `beside` ends the message.
    """
    for name in ("basic_auth", "bearer_token", "bearer_token_file"):
        if getattr(settings, name) is not None:
            raise ValueError(
                f"`{needed}` is needed beside `{name}`, which would be sent to everything there is"
                f" otherwise{beside}"
            )
