"""A server that answers like a Prometheus with given samples, at a given time, and goes wrong as told."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from collectors.exposition import parse

Labels = tuple[tuple[str, str], ...]
EPOCH = datetime(1970, 1, 1)
T0 = 1_800_000_000.0
"""Unix seconds; the time when a fake begins."""

_QUERY = re.compile(
    r'\{__name__=~"(?P<names>[^"]*)"(?:,job=~"(?P<jobs>[^"]*)")?(?P<rest>[^}]*)\}\[(?P<ms>\d+)ms\]'
)


@dataclass
class Reply:
    """An answer as it goes out."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    drips: bool = False
    hangs: bool = False


@dataclass
class Asked:
    """A request as it came."""

    path: str
    method: str
    parameters: dict[str, str]
    headers: dict[str, str]

    @property
    def seconds(self) -> float:
        """How long the range of a query is; 0 of anything else."""
        found = _QUERY.search(self.parameters.get("query", ""))
        return int(found["ms"]) / 1000 if found else 0.0


@dataclass
class FakePrometheus:
    """Its samples, its clock, and what it does wrong."""

    url: str = ""
    now: float = T0
    skew: float = 0.0
    """By how much its clock is ahead."""
    samples: dict[Labels, list[tuple[float, str]]] = field(default_factory=dict)
    most_samples: int | None = None
    """Of one query: more is a 422."""
    wrong: Callable[[Asked], Reply | None] = lambda _: None
    asked: list[Asked] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def clock(self) -> datetime:
        """Ours."""
        return EPOCH + timedelta(seconds=self.now)

    def scrape(
        self,
        job: str,
        instance: str,
        body: bytes | None,
        at: float | None = None,
        labels: Mapping[str, str] | None = None,
        honor_labels: bool = False,
    ) -> None:
        """Store one answer of a target as Prometheus does; None: it did not answer."""
        at = self.now if at is None else at
        target = {"job": job, "instance": instance, **(labels or {})}
        self._add("up", target, at, "0" if body is None else "1")
        self._add("scrape_duration_seconds", target, at, "0.25")
        for sample in parse(body or b"").samples:
            own = {key: value for key, value in sample.labels.items() if value}
            if honor_labels:
                own = {**target, **own}
            else:
                for key in target:
                    if key in own:
                        own["exported_" + key] = own.pop(key)
                own |= target
            self._add(sample.name, own, at, repr(sample.value).replace("nan", "NaN").replace("inf", "Inf"))

    def _add(self, name: str, labels: Mapping[str, str], at: float, value: str) -> None:
        key = tuple(sorted({"__name__": name, **labels}.items()))
        self.samples.setdefault(key, []).append((at, value))

    def reply(self, asked: Asked) -> Reply:
        """What it answers."""
        if wrong := self.wrong(asked):
            return wrong
        if asked.path.endswith("/label/__name__/values"):
            start, end = (float(asked.parameters[key]) for key in ("start", "end"))
            names = {
                dict(labels)["__name__"]
                for labels, points in self.samples.items()
                if any(start <= at <= end for at, _ in points)
            }
            return success(sorted(names))
        if asked.path.endswith("/query"):
            return self._query(asked.parameters)
        return Reply(404, b"page not found")

    def _query(self, parameters: Mapping[str, str]) -> Reply:
        if parameters["query"] == "time()":
            server = self.now + self.skew
            return success({"resultType": "scalar", "result": [server, f"{server:.3f}"]})
        found = _QUERY.fullmatch(parameters["query"])
        assert found is not None, parameters["query"]
        names = found["names"].replace("\\\\", "\\").split("|")
        jobs = None if found["jobs"] is None else found["jobs"].split("|")
        end = float(parameters["time"])
        begin = end - int(found["ms"]) / 1000
        result, count = [], 0
        for labels, points in sorted(self.samples.items()):
            plain = dict(labels)
            if plain["__name__"] not in names or (jobs is not None and plain.get("job", "") not in jobs):
                continue
            inside = [[at, value] for at, value in points if begin <= at <= end]  # as Prometheus 2: both ends
            count += len(inside)
            if inside:
                result.append({"metric": plain, "values": inside})
        if self.most_samples is not None and count > self.most_samples:
            return failure(422, "execution", "query processing would load too many samples into memory")
        return success({"resultType": "matrix", "result": result}, self.warnings)


def success(data: Any, warnings: list[str] | None = None) -> Reply:
    """A good answer."""
    more = {"warnings": warnings} if warnings else {}
    return Reply(200, json.dumps({"status": "success", "data": data, **more}).encode())


def failure(status: int, kind: str, words: str) -> Reply:
    """An answer as Prometheus says that it cannot."""
    return Reply(status, json.dumps({"status": "error", "errorType": kind, "error": words}).encode())


@contextmanager
def fake_prometheus() -> Iterator[FakePrometheus]:
    """Serve until the block ends."""
    fake = FakePrometheus()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._answer("POST", self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _answer(self, method: str, form: str) -> None:
            parameters = {key: values[0] for key, values in parse_qs(form).items()}
            headers = {key.lower(): value for key, value in self.headers.items()}
            asked = Asked(urlsplit(self.path).path, method, parameters, headers)
            fake.asked.append(asked)
            reply = fake.reply(asked)
            if reply.hangs:
                fake.released.wait(10)
                return
            try:
                self.send_response(reply.status)
                for key, value in reply.headers.items():
                    self.send_header(key, value)
                if reply.drips:
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    while not fake.released.wait(0.05):
                        self.wfile.write(b" ")
                        self.wfile.flush()
                    return
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
            except OSError:
                pass  # the client has left

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
