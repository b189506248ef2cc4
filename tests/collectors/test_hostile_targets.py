"""Whatever a target answers ends as a named error of its own scrape, and costs the others nothing."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from app.runtime import utc_now
from collectors.batch import Scraped
from collectors.fetch import new_session
from collectors.ingest import Ingest
from collectors.rounds import GRACE_SECONDS, Rounds
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm

TIMEOUT_SECONDS = 2.5
BODY_LIMIT = 1024 * 1024
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def sends(*parts: bytes, reset: bool = False) -> Answer:
    """Send these bytes, and close (or reset) the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
        await writer.drain()
        if reset:
            await asyncio.sleep(0.05)
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    return answer


def drips(start: bytes, part: bytes, every: float) -> Answer:
    """Send a start, then a part again and again without an end."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(every)

    return answer


async def hangs(_writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


def whole(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\x00"
LATE = rf"no whole answer within {TIMEOUT_SECONDS:g} s"
LARGE = "the answer is larger than 1 MiB"

ANSWERS: dict[str, tuple[Answer, str]] = {
    "hanging": (hangs, LATE),
    "dripping headers": (drips(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", 0.05), LATE),
    "dripping body": (drips(HEAD + b"\r\n", b"x", 0.05), LATE),
    "dripping chunks": (drips(CHUNKED, b"1\r\nx\r\n", 0.05), LATE),
    "never going on": (drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), LATE),
    "endless": (drips(HEAD + b"\r\n", b"x" * 65_536, 0), LARGE),
    "endless chunks": (drips(CHUNKED, b"10000\r\n" + b"x" * 65_536 + b"\r\n", 0), LARGE),
    "endless headers": (drips(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 1000, 0), "the answer is not HTTP: .+"),
    "gzip bomb": (
        sends(whole(gzip.compress(b"0" * 50_000_000), "Content-Encoding: gzip")),
        "the body is larger than 1048576 bytes",
    ),
    "broken gzip": (sends(whole(b"\x1f\x8b\x08\x00junkjunkjunk", "Content-Encoding: gzip")), ".*gzip.*"),
    "declared too large": (sends(whole(b"x").replace(b": 1\r", b": 99999999999\r")), LARGE),
    "redirecting elsewhere": (
        sends(whole(b"", "Location: http://169.254.169.254/latest/meta-data?token=t", status="302 Found")),
        r"HTTP 302: redirects to http://169\.254\.169\.254/latest/meta-data; put that into `url`",
    ),
    "a page": (
        sends(whole(b"<!doctype html><html><body>Sign in</body></html>", "Content-Type: text/html")),
        "the answer is not a Prometheus exposition, it starts with '<!doctype html>.+Check the path.+",
    ),
    "JSON": (
        sends(whole(b'{"detail": "Not Found"}', "Content-Type: application/json")),
        r"the answer is not a Prometheus exposition, it starts with '\{\"detail.+",
    ),
    "an image": (
        sends(whole(PNG, "Content-Type: image/png")),
        "no line of the answer is a sample; it starts with .+",
    ),
    "empty": (sends(whole(b"")), r"the answer is empty \(200 with no metrics\)"),
    "only blank": (sends(whole(b" \r\n\n")), r"the answer is empty \(200 with no metrics\)"),
    "500": (sends(whole(b"engine core died", status="500 Oh")), r"HTTP 500 \(engine core died\)"),
    "a long 503": (sends(whole(b"no " * 50_000, status="503 Busy")), r"HTTP 503 \((no ?)+\)"),
    "closed at once": (sends(), "the connection was closed without an answer"),
    "cut short": (
        sends(HEAD + b"Content-Length: 1000\r\n\r\nvllm:num_requests_running 1\n"),
        "the answer broke off: ClientPayloadError: .+",
    ),
    "reset": (
        sends(HEAD + b"Content-Length: 1000\r\n\r\nvllm:num", reset=True),
        "the answer broke off: .+",
    ),
    "bad chunks": (sends(CHUNKED + b"zz\r\nvllm\r\n0\r\n\r\n"), "the answer is not HTTP: .+chunk size.+"),
    "a huge header": (sends(HEAD + b"X-Big: " + b"x" * 100_000 + b"\r\n\r\n"), "the answer is not HTTP: .+"),
    "HTTP/0.9": (sends(b"vllm:num_requests_running 1\n" * 10), "the answer is not HTTP: .+"),
    "another protocol": (sends(b"SSH-2.0-OpenSSH_9.6\r\n"), "the answer is not HTTP: .+"),
    "bytes": (sends(bytes(range(256)) * 4), "the answer is not HTTP: .+"),
    "no TLS there": (
        sends(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        r"no TLS connection: .+; does this port speak https\?",
    ),
}


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """A server on the loopback that answers every request so; its port."""
    open_now: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        try:
            await reader.read(65_536)
            await answer(writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            open_now.discard(task)
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(open_now):
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)


class Outcome:
    """Of one round with every hostile target and a good one."""

    def __init__(self) -> None:
        self.errors: dict[str, str | None] = {}
        self.committed_after: dict[str, float] = {}
        self.seconds = 0.0


async def one_round(outcome: Outcome) -> None:
    store = Store.open()
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(new_session())
        ports = {
            name: await stack.enter_async_context(serving(answer)) for name, (answer, _) in ANSWERS.items()
        }
        ports["good"] = await stack.enter_async_context(serving(sends(whole(vllm()))))
        targets = [
            Target(
                name=name,
                url=f"{'https' if name == 'no TLS there' else 'http'}://127.0.0.1:{port}/metrics",
                interval_seconds=10,
                timeout_seconds=TIMEOUT_SECONDS,
            )
            for name, port in ports.items()
        ]
        rounds = Rounds(Ingest(store), session, utc_now, body_limit=BODY_LIMIT)
        rounds.ingest.sync_targets(targets, utc_now())
        began = asyncio.get_running_loop().time()
        commit = rounds.ingest.commit

        def watched(batch: Iterable[Scraped]) -> None:
            scraped = list(batch)
            commit(scraped)
            for one in scraped:
                outcome.committed_after[one.target.name] = asyncio_time() - began

        asyncio_time = asyncio.get_running_loop().time
        rounds.ingest.commit = watched  # type: ignore[method-assign, assignment]
        await rounds.run(targets, 10.0)
        outcome.seconds = asyncio_time() - began
    for name in ports:
        (row,) = store.query("scrape_rows", target=name).to_dicts()
        outcome.errors[name] = row["error"]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    found = Outcome()
    asyncio.run(one_round(found))
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_a_hostile_answer_is_a_named_error_of_its_own_scrape(outcome: Outcome, name: str) -> None:
    error = outcome.errors[name]
    assert error is not None
    assert re.fullmatch(ANSWERS[name][1], error), error
    assert len(error) < 400
    assert error.isprintable()


def test_a_good_target_beside_them_is_committed_in_time(outcome: Outcome) -> None:
    assert outcome.errors["good"] is None
    assert outcome.committed_after["good"] < GRACE_SECONDS + 1.0


def test_the_round_ends_with_the_timeout(outcome: Outcome) -> None:
    assert outcome.seconds < TIMEOUT_SECONDS + 1
