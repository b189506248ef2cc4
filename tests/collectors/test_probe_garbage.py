"""Whatever bytes an endpoint answers, a probe ends with a row and words, and the other probes go on."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.fetch import Fetched, new_session
from collectors.probe.body import ProbeBody, decode
from collectors.probe.way import ProbeWay
from collectors.target import Target

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def answered(raw: bytes, model: str | None = "m") -> tuple[Fetched, ProbeBody]:
    """What a probe makes of an endpoint that answers exactly these bytes and closes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    async def go() -> Fetched:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, new_session() as session:
            way = ProbeWay(session, None)
            url = f"http://127.0.0.1:{port}"
            target = Target(name="p", kind="probe", url=url, model=model, timeout_seconds=5)
            try:
                return await way.fetch(target)
            finally:
                await way.aclose()

    fetched = asyncio.run(go())
    body = decode(fetched.body)
    assert body is not None
    return fetched, body


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x16\x03\x01 this is TLS",
        b"HTTP/1.1 099 Odd\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\nRetry-After: \xff\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[bad\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: {",
        HEAD + b"zz\r\n",
        HEAD + b"5\r\ndata:\r\n0\r\n\r\n",
    ],
)
def test_an_odd_answer_is_a_failed_probe(raw: bytes) -> None:
    for model in ("m", None):
        fetched, body = answered(raw, model)
        assert not body.ok
        assert body.error
        assert body.error == fetched.error


LINES = st.sampled_from(
    [b'data: {"choices":[{"delta":{"content":"a"}}]}', b"data: [DONE]", b"data: {", b"", b":"]
)


@given(st.lists(LINES | st.binary(max_size=12), max_size=8), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_stream_ends_in_a_row(lines: list[bytes], closed: bool) -> None:
    stream = b"\n".join(lines)
    raw = HEAD + b"%x\r\n%s\r\n" % (len(stream), stream) if stream else HEAD
    fetched, body = answered(raw + (b"0\r\n\r\n" if closed else b""))
    assert body.ok == (fetched.error is None)
    assert not body.ok or body.ttft_seconds is not None
