"""The server as a process: health, own metrics, API, signals, and who holds the store."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sql.store import Store
from tests.collectors.exposition_samples import dcgm, vllm
from tests.e2e.serving import Serving, command, serving, until


class Exporter:
    """Serves a GPU and an engine; counts what was asked; can be told to hang."""

    def __init__(self, used_mib: int = 10_000, free_mib: int = 70_000) -> None:
        self.memory: dict[str, Any] = {"used_mib": used_mib, "free_mib": free_mib}
        self.scrapes = 0
        self.hang = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.scrapes += 1
                if outer.hang.is_set():
                    outer.released.wait(20)
                n = float(outer.scrapes)
                body = (
                    dcgm(**outer.memory)
                    if "dcgm" in self.path
                    else vllm(ttft={"0.1": n, "1.0": n, "+Inf": n})
                )
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(BrokenPipeError):
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.released = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    exporter = Exporter()
    yield exporter
    exporter.close()


def config(folder: Path, exporter: Exporter) -> Path:
    path = folder / "infermeter.yaml"
    path.write_text(
        f"""
store: {folder}/store.duckdb
scrape: {{interval: 1s, timeout: 900ms}}
alerts: {{evaluate_interval: 1s}}
targets:
  - {{name: node-1, kind: dcgm, url: "{exporter.url}/dcgm"}}
  - {{name: llm, url: "{exporter.url}/vllm", project: chat, gpus: [node-1/0]}}
"""
    )
    return path


def collected(server: Serving) -> Any:
    return until(lambda: server.json("/api/v1/engines")["rows"] or None, what="an engine row")


def test_a_server_collects_answers_and_ends_within_5_seconds_without_losing_a_row(
    tmp_path: Path, exporter: Exporter
) -> None:
    with serving(config(tmp_path, exporter), tmp_path / "log") as server:
        (engine,) = collected(server)
        assert (engine["target"], engine["engine"], engine["project"]) == ("llm", "vllm", "chat")
        assert engine["requests_swapped"] is None
        (gpu,) = server.json("/api/v1/gpus")["rows"]
        assert gpu["memory_used_bytes"] == 10_000 * 2**20
        assert server.get("/healthz") == (200, '{"status":"ok","reasons":[]}')
        families = {f.name: f for f in text_string_to_metric_families(server.get("/metrics")[1])}
        assert families["infermeter_targets"].samples[0].value == 2
        assert families["infermeter_healthy"].samples[0].value == 1
        assert server.get("/api/v1/gpus?hosts=x")[0] == 400
        assert server.json("/api/v1/gpus?hosts=x")["error"].startswith("unknown parameter hosts; known:")
        assert server.get("/")[0] == 200
        seen = server.json("/api/v1/engines")["rows"][0]["ts"]
        assert server.stop() < 5
        assert server.process.returncode == 0
    assert "Traceback" not in server.log.read_text()
    store = Store.open(tmp_path / "store.duckdb")
    times = store.query("scrape_rows", target="llm")["ts"].to_list()
    assert any(ts.isoformat(timespec="milliseconds") + "Z" == seen for ts in times)
    store.close()


def test_ctrl_c_with_a_hung_exporter_ends_within_5_seconds(tmp_path: Path, exporter: Exporter) -> None:
    with serving(config(tmp_path, exporter), tmp_path / "log") as server:
        collected(server)
        exporter.hang.set()
        asked = exporter.scrapes
        until(lambda: exporter.scrapes > asked or None, what="a hanging scrape")
        assert server.stop(signal.SIGINT) < 5
    assert "Traceback" not in server.log.read_text()


def test_kill_9_loses_at_most_the_round_in_flight_and_the_next_start_goes_on(
    tmp_path: Path, exporter: Exporter
) -> None:
    path = config(tmp_path, exporter)
    with serving(path, tmp_path / "log") as server:
        collected(server)
        until(lambda: exporter.scrapes > 8 or None, what="some rounds")
        rows = len(server.json("/api/v1/engines")["rows"])
        assert rows == 1
        server.stop(signal.SIGKILL)
    with serving(path, tmp_path / "log") as server:
        asked = exporter.scrapes
        until(lambda: exporter.scrapes > asked + 4 or None, what="rounds after the restart")
        server.stop()
    store = Store.open(tmp_path / "store.duckdb")
    history = store.query_rows("histogram_rows", target="llm")
    raw = [row[5] for row in history]
    increases = [row[1][-1] for row in history[1:]]
    assert history[0][1] is None, "the first sight of a running engine has an unknown past"
    assert all(row[1] is not None for row in history[1:]), "the restart goes on from the last buckets"
    assert sum(increases) == raw[-1] - raw[0]
    store.close()


def test_a_second_server_on_the_same_store_says_who_holds_it(tmp_path: Path, exporter: Exporter) -> None:
    path = config(tmp_path, exporter)
    with serving(path, tmp_path / "log") as server:
        second = subprocess.run(
            command("serve", "--config", str(path), "--port", "0"),
            cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert f"store.duckdb is in use by process {server.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr


def test_a_taken_port_is_said_with_the_cure(tmp_path: Path, exporter: Exporter) -> None:
    port = exporter.url.rpartition(":")[2]
    second = subprocess.run(
        command("serve", "--config", str(config(tmp_path, exporter)), "--port", port),
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; stop what uses it" in second.stderr
    assert "Traceback" not in second.stderr
