"""A stand-in for Slack's incoming webhooks on the loopback: keeps what is posted, answers as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SlackServer:
    """`messages` are the payloads as they came; `answers` are given one after the other, then ok."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.answers: list[tuple[int, dict[str, str], str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                outer.messages.append(json.loads(self.rfile.read(size)))
                status, headers, text = outer.answers.pop(0) if outer.answers else (200, {}, "ok")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/services/T0/B0/s3cretpart"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def slack() -> Iterator[SlackServer]:
    server = SlackServer()
    try:
        yield server
    finally:
        server.close()
