"""Blocking work in a thread of its own, which a hung server cannot make anyone wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from collectors.prometheus.refusals import ApiError

T = TypeVar("T")


class OwnThread:
    """One piece of work at a time. Its threads do not keep the process from ending."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit = limit_seconds
        self._thread: threading.Thread | None = None

    @property
    def stuck(self) -> bool:
        """Whether something that was given up is still waiting."""
        return self._thread is not None and self._thread.is_alive()

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """What `work` returns or raises. Raises ApiError when it hangs, or what hung before still does."""
        if self.stuck:
            raise ApiError("the request before is still waiting for its answer")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(finish: Callable[[], None]) -> None:
            if not done.done():
                finish()

        def run() -> None:
            try:
                result = work(*arguments)
            except BaseException as error:  # noqa: BLE001 (handed to whoever waits)
                failure = error
                tell(lambda: done.set_exception(failure))
            else:
                tell(lambda: done.set_result(result))

        def tell(finish: Callable[[], None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, finish)

        thread = self._thread = threading.Thread(target=run, name="pull", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(self._limit):
                return await done
        except TimeoutError:
            raise ApiError(f"the answer drips or hangs: given up after {self._limit:g} s") from None
        finally:
            if done.done() and not done.cancelled():
                self._thread = None  # it has nothing left to do but to end
