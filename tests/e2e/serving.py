"""`infermeter serve` as a person runs it: a process of its own, on a free port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
T = TypeVar("T")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(look: Callable[[], T | None], seconds: float = 30.0, what: str = "it") -> T:
    """Poll until `look` gives something; what it gave. Fails after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        if (found := look()) is not None:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.1)


@dataclass
class Serving:
    """A running server."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def json(self, path: str) -> Any:
        return json.loads(self.get(path)[1])

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Send a signal and wait; seconds until the process had ended."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(20)
        return time.monotonic() - started


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "app.cli", *arguments]


@contextmanager
def serving(config: Path, log: Path, *arguments: str) -> Iterator[Serving]:
    """Started and answering /healthz; ended (if it still runs) afterwards."""
    port = free_port()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with log.open("a") as stream:
        process = subprocess.Popen(
            command("serve", "--config", str(config), "--port", str(port), *arguments),
            cwd=config.parent, env=environment, stdout=stream, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    server = Serving(process, f"http://127.0.0.1:{port}", log)

    def answering() -> bool | None:
        if process.poll() is not None:
            raise AssertionError(f"serve ended with {process.returncode}:\n{log.read_text()}")
        try:
            server.get("/healthz")
        except OSError:
            return None
        return True

    try:
        until(answering, 60, "/healthz")
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)
