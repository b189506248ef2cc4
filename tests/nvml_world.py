"""A world of GPUs for tests: NVIDIA's library as `nvml_stub.c` has it, the file that says what it shows, and
polls of it through the real way and reader."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from collectors.fetch import Fetched
from collectors.gpu.nvml import KIND
from collectors.gpu.nvml_way import NvmlWay
from collectors.reading import Reading
from collectors.target import Target

needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="needs gcc (apt-get install gcc libc6-dev)"
)

NVML = Target(name="nvml", kind="nvml", url="nvml://localhost")
GIB = 1024**3

H100 = {
    # An H100 with 7 GiB free: v2's used + free + reserved = total; in mW, mJ, MHz, %.
    "name": "NVIDIA H100 80GB HBM3",
    "memory.total": 80 * GIB,
    "memory.reserved": 1 * GIB,
    "memory.free": 7 * GIB,
    "memory.used": 72 * GIB,
    "utilization": 87,
    "memory_utilization": 30,
    "temperature": 40,
    "field.82": 43,
    "power": 310500,
    "power_limit": 700000,
    "energy": 5551899250,
    "sm_clock": 1980,
    "memory_clock": 2619,
    "reasons": 0x4,
    "mig": 0,
}


@cache
def library(*options: str) -> Path:
    """A folder with the library in it, compiled once per run of the tests."""
    folder = tempfile.mkdtemp(prefix="infermeter-nvml-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = Path(__file__).with_name("nvml_stub.c")
    command = ["gcc", "-shared", "-fPIC", *options, "-Wl,-soname,libnvidia-ml.so.1"]
    command += ["-o", str(Path(folder, "libnvidia-ml.so.1")), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return Path(folder)


OLD_DRIVER = "-DOLD_DRIVER"


class World:
    """What the library shows. Changed between two polls, or before the first."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "world"
        self._calls = folder / "calls"
        self._facts: dict[str, object] = {}
        self.set(driver="580.95.05", count=0)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to see this world, beside the library."""
        return {"NVML_WORLD": str(self._file), "NVML_CALLS": str(self._calls)}

    def set(self, facts: dict[str, object] | None = None, **machine: object) -> None:
        """Add or change facts; None takes one away."""
        self._facts |= {**(facts or {}), **machine}
        self._facts = {key: value for key, value in self._facts.items() if value is not None}
        # Swapped in whole: the library reads at any moment.
        fresh = self._file.with_suffix(".new")
        # Bytes that are no text stand in a fact as Python has them in names of files: "\udcff" is 0xFF.
        text = "".join(f"{key}={value}\n" for key, value in self._facts.items())
        fresh.write_text(text, encoding="utf-8", errors="surrogateescape")
        fresh.replace(self._file)

    def gpu(self, number: int, **facts: object) -> None:
        """Put a GPU there: an H100 named GPU-0, GPU-1 …, or what `facts` say otherwise (`memory_used` …)."""
        facts = {key.replace("__", "."): value for key, value in facts.items()}
        shown = {"uuid": f"GPU-{number}", **H100, **facts}
        self.set({f"{number}.{key}": value for key, value in shown.items()})
        self.set(count=max(number + 1, int(str(self._facts["count"]))))

    def error(self, number: int, function: str, code: int | None) -> None:
        """From now on that function answers this for that GPU."""
        self.set({f"{number}.error.{function}": code})

    def calls(self) -> Counter[str]:
        """How often each "GPU FUNCTION" was called since the last look."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return Counter(lines)


@contextmanager
def machine(folder: Path, *options: str) -> Iterator[World]:
    """A machine with that library; children started meanwhile live on it."""
    world = World(folder)
    with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": str(library(*options)), **world.environment}):
        yield world


class Polls:
    """One way and one reader, with a clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.way = NvmlWay(clock=lambda: self.now)
        self._read = KIND.reader()

    async def fetch(self, timeout_seconds: float = 10.0) -> Fetched:
        return await self.way.fetch(NVML.model_copy(update={"timeout_seconds": timeout_seconds}))

    async def reading(self, timeout_seconds: float = 10.0) -> Reading:
        """What a poll says that must not fail."""
        fetched = await self.fetch(timeout_seconds)
        assert fetched.error is None
        return self._read(fetched.body)

    async def error(self, timeout_seconds: float = 10.0) -> str:
        """Why a poll fails that must."""
        fetched = await self.fetch(timeout_seconds)
        assert fetched.error is not None
        assert (fetched.status, fetched.body) == (None, b"")
        return fetched.error

    @property
    def child(self) -> int:
        """The process id of the child."""
        assert self.way._child is not None
        return self.way._child.pid

    async def renewed(self) -> None:
        """When the renewal in the making has ended."""
        assert self.way._renewing is not None
        await self.way._renewing


def polling(work: Callable[[Polls], Awaitable[None]]) -> None:
    """Do the work, and end what it has started."""

    async def go() -> None:
        polls = Polls()
        try:
            await work(polls)
        finally:
            await polls.way.aclose()

    asyncio.run(go())


def uuids(reading: Reading) -> list[str]:
    """The GPUs of a reading."""
    return [gpu.gpu_uuid for gpu in reading.gpus]


def read_once() -> Reading:
    """What one poll of a fresh child says."""
    found: list[Reading] = []

    async def work(polls: Polls) -> None:
        found.append(await polls.reading())

    polling(work)
    return found[0]
