"""Simulated exporters for load: one process, one port of 127.0.0.1 per target, new values every second.

Half the targets are 8-GPU dcgm-exporters, half are vLLM replicas (`benchmarks/expositions.py`). Prints one
JSON line with the URLs, then serves until standard input ends. `GET /requests` on any port says how many
requests and body bytes each client (by its User-Agent) has had.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import sys
import time
from collections import defaultdict

from benchmarks.expositions import Line, Template, dcgm_lines, values_at, vllm_lines

PERSONALITIES = 4
"""Targets of a kind that show different values at the same moment; the rest repeat these."""

AGENT = re.compile(rb"\r\nuser-agent:\s*([^\r/]*)", re.IGNORECASE)
HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\r\n"
)


class Exporters:
    """All targets and what they have answered."""

    def __init__(self, targets: int) -> None:
        self._started = time.monotonic()
        self._lines: tuple[list[Line], list[Line]] = (dcgm_lines(0), vllm_lines(0))
        self._templates = [
            Template(vllm_lines(number) if number % 2 else dcgm_lines(number)) for number in range(targets)
        ]
        self._values: dict[tuple[int, int], tuple[int, list[bytes]]] = {}
        self.requests: dict[str, int] = defaultdict(int)
        self.bytes: dict[str, int] = defaultdict(int)

    def body(self, target: int) -> bytes:
        """The exposition of a target now; values are the same within a second."""
        kind, personality = target % 2, (target // 2) % PERSONALITIES
        second = int(time.monotonic() - self._started)
        known = self._values.get((kind, personality))
        if known is None or known[0] != second:
            known = second, values_at(self._lines[kind], second + 1_000 * personality)
            self._values[kind, personality] = known
        return self._templates[target].render(known[1])


class Connection(asyncio.Protocol):
    """One kept-alive connection to one target."""

    def __init__(self, exporters: Exporters, target: int) -> None:
        self._exporters = exporters
        self._target = target
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received and self._transport is not None:
            head, self._received = self._received.split(b"\r\n\r\n", 1)
            if head.startswith(b"GET /requests "):
                counts = {"requests": self._exporters.requests, "bytes": self._exporters.bytes}
                body = json.dumps(counts).encode()
            else:
                agent = AGENT.search(head)
                name = agent.group(1).decode("latin-1") if agent else ""
                body = self._exporters.body(self._target)
                self._exporters.requests[name] += 1
                self._exporters.bytes[name] += len(body)
            self._transport.writelines([HEAD.format(len(body)).encode(), body])


async def serve(targets: int) -> None:
    """Open the ports, print them, serve until standard input ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * targets + 100)), hard))
    loop = asyncio.get_running_loop()
    exporters = Exporters(targets)
    urls = []
    servers = []
    for target in range(targets):
        server = await loop.create_server(
            lambda target=target: Connection(exporters, target),  # type: ignore[misc]
            "127.0.0.1",
            0,
        )
        servers.append(server)
        urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics")
    print(json.dumps({"urls": urls}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for server in servers:
        server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", type=int, default=400)
    asyncio.run(serve(parser.parse_args().targets))
