"""How GPUs of this machine are asked: by a child process that lives on, with a deadline for each poll.

The child is `nvml_gateway.py`. One that hangs or crashes is ended, and another is started after a pause; the
scrapes in between say why. One that hangs in the driver may not die at all (state D): it is left behind, and
after a few of them no more are started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import aiohttp

from collectors.fetch import BODY_LIMIT, Fetched
from collectors.gpu import nvml_gateway, nvml_words
from collectors.target import Target
from sql.store import Store

START_SECONDS = 30.0
"""For the first answer: without persistence mode the driver is loaded first, one or two seconds a GPU."""

OF_THE_DEADLINE = 0.8
"""How much of it the child may wait for a GPU that hangs, so that the others are still told in time."""

END_SECONDS = 1.0
"""How long a child may take to end; whoever hangs in the driver takes for ever."""

LEFT_BEHIND_CAP = 3
"""Children that do not die. Each keeps a process, two pipes and a thread."""

RENEW_SECONDS = 3600.0
"""A child's age at which a fresh one takes over: GPUs that were added, MIG that was turned off."""


class Pause(NamedTuple):
    """How long to wait after failure number 1, 2, 3, …: doubled each time, up to the last."""

    first: float
    last: float

    def seconds(self, failures: int) -> float:
        """The wait after that many failures in a row."""
        return float(min(self.first * 2 ** min(failures - 1, 20), self.last))


AGAIN = Pause(10, 300)
"""After a hang, a crash, or an error that may pass."""
SLOWLY = Pause(300, 300)
"""Where there is no driver or no package."""
RENEWAL = Pause(60, 600)
"""Between two looks whether a lost GPU is back."""


class EndedError(Exception):
    """The child is gone, or said what no child says; the message says how."""


class Answer(NamedTuple):
    """What the child said."""

    word: str
    """ok, renew, wait or failed."""
    body: bytes


class Child:
    """One run of the gateway."""

    def __init__(self, process: asyncio.subprocess.Process, started: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._asked = 0
        self.started = started
        self.has_answered = False

    @classmethod
    async def start(cls, started: float) -> Child:
        """Start it. Raises OSError."""
        # -P: the folder of the program must not hide modules of the standard library.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", str(Path(nvml_gateway.__file__)), limit=BODY_LIMIT,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        return cls(process, started)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is dead, and no zombie either."""
        return self._process.returncode is not None

    async def ask(self, seconds: float) -> Answer:
        """Ask once. Raises EndedError, and TimeoutError when no answer comes in that time.

        It can be asked again after a TimeoutError: what comes too late is not taken for the next answer.
        """
        async with asyncio.timeout(seconds):
            return await self._ask(seconds * OF_THE_DEADLINE)

    async def _ask(self, seconds: float) -> Answer:
        self._asked += 1
        try:
            self._stdin.write(b"%d %.3f\n" % (self._asked, seconds))
            await self._stdin.drain()
            while True:
                line = await self._stdout.readline()
                if not line.endswith(b"\n"):
                    raise EndedError(await self._how_it_ended())
                number, word, body = line[:-1].split(b" ", 2)
                self.has_answered = True
                if int(number) == self._asked:  # what was asked before came too late
                    return Answer(word.decode("ascii"), body)
        except OSError:
            raise EndedError(await self._how_it_ended()) from None
        except ValueError:
            raise EndedError("it said something that is no answer") from None

    async def _how_it_ended(self) -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        code = self._process.returncode
        if code is None or code >= 0:
            return f"it ended with status {code}" if code else "it ended"
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was ended by signal {-code}"

    async def end(self, *, politely: bool) -> None:
        """End it, at the latest with SIGKILL. Whether it is dead then says `has_ended`."""
        self._stdin.close()
        for kill in (False, True) if politely else (True,):
            if kill:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), END_SECONDS)
                # What it still said is read away: a full pipe is not closed, and its descriptor stays open.
                await asyncio.wait_for(self._stdout.read(), END_SECONDS)
                return


@dataclass
class _Failure:
    """Why there is no child, and until when none is started."""

    words: str
    until: float


class NvmlWay:
    """Asks NVML through one child. `clock` is monotonic seconds."""

    def __init__(
        self,
        session: aiohttp.ClientSession | None = None,
        store: Store | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        del session, store  # a child process is all it takes
        self._clock = clock
        self._lock = asyncio.Lock()
        self._child: Child | None = None
        self._failure: _Failure | None = None
        self._failures = 0
        self._left_behind: list[Child] = []
        self._renewing: asyncio.Task[None] | None = None
        self._renewals = 0
        self._renewed_at = -math.inf

    async def fetch(self, target: Target) -> Fetched:
        """The driver's answer as JSON, or why there is none."""
        async with self._lock:  # the child answers one poll at a time
            began = time.perf_counter()
            body, error = await self._ask(target.timeout_seconds)
            seconds = time.perf_counter() - began
        return Fetched(None if error else 200, body, seconds, error)

    async def aclose(self) -> None:
        """End the child in order."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        async with self._lock:
            child, self._child = self._child, None
            if child is not None:
                await self._end(child, politely=True)

    async def _ask(self, timeout_seconds: float) -> tuple[bytes, str | None]:
        child = self._child
        if child is None:
            if self._failure is not None and self._clock() < self._failure.until:
                return b"", self._failure.words
            self._left_behind = [child for child in self._left_behind if not child.has_ended]
            if len(self._left_behind) >= LEFT_BEHIND_CAP:
                return b"", f"{len(self._left_behind)} {nvml_words.LEFT_BEHIND}"
            try:
                child = self._child = await Child.start(self._clock())
            except OSError as error:
                return b"", f"the program that asks NVML cannot be started: {error.strerror}"
        try:
            answer = await child.ask(timeout_seconds)
        except TimeoutError:
            if not child.has_answered and self._clock() - child.started < START_SECONDS:
                return b"", nvml_words.STARTING
            return b"", await self._give_up(child, nvml_words.HUNG)
        except EndedError as error:
            words = f"the program that asks NVML is gone ({error}); `nvidia-smi` may say more"
            return b"", await self._give_up(child, words)
        if answer.word == "failed":
            said = json.loads(answer.body)
            pause = SLOWLY if nvml_words.is_slow(said) else AGAIN
            return b"", await self._give_up(child, nvml_words.failure_words(said), pause, politely=True)
        self._failure, self._failures = None, 0
        if answer.word == "wait":
            return b"", nvml_words.failure_words(json.loads(answer.body))
        self._renew_when_due(child, asked_for=answer.word == "renew")
        return answer.body, None

    async def _give_up(
        self, child: Child, words: str, pause: Pause = AGAIN, *, politely: bool = False
    ) -> str:
        self._child = None
        self._failures += 1
        self._failure = _Failure(words, self._clock() + pause.seconds(self._failures))
        await self._end(child, politely=politely)
        return words

    async def _end(self, child: Child, *, politely: bool) -> None:
        await child.end(politely=politely)
        if not child.has_ended:
            self._left_behind.append(child)

    def _renew_when_due(self, child: Child, *, asked_for: bool) -> None:
        """Let a fresh child take over. Until it has answered, the old one goes on."""
        now = self._clock()
        if self._renewing is not None and not self._renewing.done():
            return
        if not asked_for:
            self._renewals = 0
            due = now - max(child.started, self._renewed_at) >= RENEW_SECONDS
        else:
            due = self._renewals == 0 or now - self._renewed_at >= RENEWAL.seconds(self._renewals)
        if due and len(self._left_behind) < LEFT_BEHIND_CAP:
            self._renewals += 1
            self._renewed_at = now
            self._renewing = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        try:
            to_end: Child | None = await Child.start(self._clock())
        except OSError:
            return  # the old one goes on
        try:
            assert to_end is not None
            answer = await to_end.ask(START_SECONDS)
            if answer.word in ("ok", "renew"):
                async with self._lock:
                    to_end, self._child = self._child, to_end
        except (TimeoutError, EndedError):
            pass  # the old one goes on
        finally:
            if to_end is not None:
                await self._end(to_end, politely=True)
