"""Debian's VictoriaMetrics on given scrape configurations."""

from __future__ import annotations

import json
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.child import running

PROGRAM = "victoria-metrics"

needs_victoria = pytest.mark.skipif(
    shutil.which(PROGRAM) is None, reason=f"needs the program {PROGRAM} (apt-get install {PROGRAM})"
)


@contextmanager
def victoria_server(
    scrape_configs: Sequence[Mapping[str, Any]], folder: Path, *, deadline_seconds: float = 30
) -> Iterator[str]:
    """Run it, scraping every second; yields its URL. Raises RuntimeError with the end of its log."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "scrape.yml"
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config.write_text(json.dumps({"global": timing, "scrape_configs": list(scrape_configs)}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    log_path = folder / "log"
    command = [PROGRAM, f"-storageDataPath={folder / 'data'}", f"-httpListenAddr={address}"]
    command += [f"-promscrape.config={config}", "-memory.allowedBytes=256MB"]
    with running(command, log_path) as child:
        deadline = time.monotonic() + deadline_seconds
        while not _answers(f"http://{address}/health"):
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"VictoriaMetrics did not come up:\n{log_path.read_text()[-2000:]}")
            time.sleep(0.1)
        yield f"http://{address}"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
