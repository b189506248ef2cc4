"""A small web server for lists of targets, on the loopback, that answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server says."""

    body: bytes = b"[]"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    """Send the body without its end, and then nothing more until the server is closed."""


def as_json(content: object, status: int = 200) -> Answer:
    return Answer(json.dumps(content).encode(), status)


@dataclass
class ListServer:
    """`answer` is asked with the path of each request; what was asked stands in `requests`."""

    url: str
    answer: Callable[[str], Answer]
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path with query, and headers by lower-case name."""
    closing: threading.Event = field(default_factory=threading.Event)

    def says(self, content: object, status: int = 200) -> None:
        self.answer = lambda _path: as_json(content, status)


@contextmanager
def list_server(answer: Callable[[str], Answer] = lambda _path: Answer()) -> Iterator[ListServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
            found = server.answer(self.path)
            self.send_response(found.status)
            length = str(len(found.body) + (1000 if found.hang else 0))
            for name, text in {"Content-Length": length, **found.headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(found.body)
            self.wfile.flush()
            if found.hang:
                server.closing.wait(30)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = ListServer(f"http://127.0.0.1:{http.server_port}", answer)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join(5)
