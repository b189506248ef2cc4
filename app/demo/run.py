"""`infermeter demo`: the simulated exporters in a process of their own, and a server that scrapes them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from app.config import Config
from app.demo.settings import demo_config
from app.replay import replay
from app.run import serve_forever
from app.server import listening_socket
from collectors import recording
from sql.store import Store

PAST_SECONDS = 3600
"""The hour before the start is simulated and goes through the same pipeline, so that no page is empty."""

PAST_EVALUATE_SECONDS = 60.0
"""How often the rules are judged in that hour: the rule holds 2 min, and a start must be quick."""

PAST_STALE_INTERVALS = 20.0
"""In scrape intervals of 5 s: a judgement a minute must not take the minute between for a loss of data."""


class DemoError(Exception):
    """The demo cannot start; the message says why."""


def run_demo(*, faults: Sequence[str], host: str, port: int, seed: int, said: Callable[[str], None]) -> None:
    """Run until stopped. Raises DemoError, StoreError or ListenError when it cannot start.

    The store lives in a temporary folder and goes with it.
    """
    with (
        closing(listening_socket(host, port)) as listener,
        tempfile.TemporaryDirectory(prefix="infermeter-demo-") as folder,
    ):
        past = Path(folder, "past.jsonl.gz")
        said("simulating the last hour of a fleet of 32 GPUs and 7 engines …")
        with _exporters(faults, seed, past) as started:
            settings = Config.model_validate(
                demo_config(started["url"], str(Path(folder, "demo.duckdb")), listener.getsockname()[1])
            )

            def fill_in(store: Store) -> None:
                for _ in replay(recording.read(past), _lenient(settings), store, PAST_EVALUATE_SECONDS):
                    pass
                past.unlink()

            serve_forever(settings, said=said, listener=listener, before=fill_in)


def _lenient(settings: Config) -> Config:
    """The settings with the rule judged rarely."""
    rule = settings.alerts.vram_high.model_copy(update={"stale_intervals": PAST_STALE_INTERVALS})
    alerts = settings.alerts.model_copy(update={"vram_high": rule})
    return settings.model_copy(update={"alerts": alerts})


@contextmanager
def _exporters(faults: Sequence[str], seed: int, past: Path) -> Iterator[dict[str, Any]]:
    """The simulator's first line, once its endpoints answer. It ends with us, however we end: its standard
    input closes then."""
    now = int(time.time())
    arguments = ["--seed", str(seed), "--until-eof", "--start", str(now - PAST_SECONDS), "--origin", str(now)]
    for fault in faults:
        arguments += ["--fault", fault]
    process = subprocess.Popen(  # noqa: S603 (our own module; the arguments are passed as a list)
        [sys.executable, "-m", "app.demo.server", "--recording", str(past), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        if not line:
            why = process.stderr.read().strip().splitlines() or ["it ended without a word"]
            raise DemoError(f"the simulated fleet did not start: {why[-1]}")
        yield json.loads(line)
    finally:
        process.stdin.close()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
