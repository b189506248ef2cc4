"""Processor time per scrape: infermeter and Prometheus on the same targets at the same time.

    python -m benchmarks.scrape [--targets 400] [--seconds 120] [--interval 10] [--write]

Serves simulated exporters on 127.0.0.1, runs both scrapers on them as processes of their own, waits until
each has done two rounds, measures, and stops everything. What was scraped is counted by the exporters, so
neither scraper reports on itself; failures each says of itself. Needs Linux and Debian's `prometheus`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import cpu_seconds, resident_bytes
from tests.e2e.child import running
from tests.e2e.prometheus_server import Prometheus, prometheus_server

REPOSITORY = Path(__file__).resolve().parents[1]
REPORT = REPOSITORY / "docs" / "benchmarks.md"
START_SECONDS = 60
WARM_UP_ROUNDS = 2


class Scraper(NamedTuple):
    """A running scraper."""

    name: str
    """As its User-Agent starts."""
    pid: int
    failed: Callable[[], int]
    """Scrapes it has failed at since it started."""


class Use(NamedTuple):
    """What a scraper used while it was measured."""

    scraper: str
    scrapes: int
    missing: int
    """Scrapes due in the time that did not reach the exporters."""
    failed: int
    bytes_read: int
    seconds: float
    cpu_seconds: float
    resident_bytes: int

    @property
    def milliseconds(self) -> float:
        """Processor time of one scrape of one target."""
        return self.cpu_seconds * 1_000 / self.scrapes if self.scrapes else math.nan


class Exporters(NamedTuple):
    """The running load server."""

    urls: list[str]
    pid: int

    def counts(self) -> dict[str, dict[str, int]]:
        """Requests and body bytes by client since start."""
        return dict(json.loads(_get(self.urls[0].replace("/metrics", "/requests"))))


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


@contextmanager
def exporters(targets: int) -> Iterator[Exporters]:
    """Run the load server."""
    command = [sys.executable, "-m", "benchmarks.load_server", "--targets", str(targets)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield Exporters(json.loads(child.stdout.readline())["urls"], child.pid)
        finally:
            child.stdin.close()


@contextmanager
def prometheus(urls: list[str], folder: Path, interval_seconds: float) -> Iterator[Scraper]:
    """Run Prometheus on the targets."""

    def failed(server: Prometheus, started: float) -> int:
        window = f"{math.ceil(time.time() - started)}s"
        answer = server.instant(f"sum(count_over_time(up[{window}]) - sum_over_time(up[{window}]))")
        return int(answer[0].points[0][1]) if answer else 0

    with prometheus_server(urls, folder, interval_seconds=interval_seconds) as server:
        started = time.time()
        yield Scraper("Prometheus", server.pid, lambda: failed(server, started))


@contextmanager
def infermeter(urls: list[str], folder: Path, interval_seconds: float) -> Iterator[Scraper]:
    """Run `infermeter serve` on the targets."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {
        "store": f"duckdb:///{folder / 'infermeter.duckdb'}",
        "listen": {"host": "127.0.0.1", "port": port},
        "scrape": {"interval": f"{interval_seconds:g}s"},
        "targets": [{"name": f"target-{number:04d}", "url": url} for number, url in enumerate(urls)],
    }
    config_path = folder / "infermeter.yaml"
    config_path.write_text(json.dumps(config))  # JSON is YAML
    log_path = folder / "infermeter.log"
    command = [sys.executable, "-m", "app.cli", "serve", "--config", str(config_path)]

    def failed() -> int:
        own = _get(f"http://127.0.0.1:{port}/metrics")
        found = re.findall(
            r'^infermeter_scrapes_total\{result="(?:failed|skipped)"\} (\S+)', own, re.MULTILINE
        )
        return int(sum(map(float, found)))

    with running(command, log_path, REPOSITORY) as child:
        _wait_until_answers(f"http://127.0.0.1:{port}/metrics", child, log_path)
        yield Scraper("infermeter", child.pid, failed)


def _wait_until_answers(url: str, child: subprocess.Popen[bytes], log_path: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        try:
            _get(url)
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"infermeter did not start; its log:\n{log_path.read_text()[-3000:]}")


def warm_up(serving: Exporters, scrapers: list[Scraper], interval_seconds: float) -> None:
    """Wait until each has asked every target a few times."""
    due = WARM_UP_ROUNDS * len(serving.urls)
    deadline = time.monotonic() + START_SECONDS + (WARM_UP_ROUNDS + 1) * interval_seconds
    while min(serving.counts()["requests"].get(scraper.name, 0) for scraper in scrapers) < due:
        if time.monotonic() > deadline:
            raise SystemExit(f"not all targets were scraped in time: {serving.counts()['requests']}")
        time.sleep(0.5)


def measure(
    serving: Exporters, scrapers: list[Scraper], interval_seconds: float, seconds: float
) -> tuple[list[Use], float]:
    """Each scraper's use over `seconds`, and the processor time of the exporters."""

    def snapshot() -> tuple[dict[str, tuple[float, ...]], float, float]:
        counts = serving.counts()
        return (
            {
                scraper.name: (
                    counts["requests"].get(scraper.name, 0),
                    counts["bytes"].get(scraper.name, 0),
                    scraper.failed(),
                    cpu_seconds(scraper.pid),
                )
                for scraper in scrapers
            },
            cpu_seconds(serving.pid),
            time.monotonic(),
        )

    before, serving_before, started = snapshot()
    time.sleep(seconds)
    after, serving_after, ended = snapshot()
    # A round that straddles an end of the window counts in part, so one round may be missing in it.
    due = math.floor((ended - started) / interval_seconds) * len(serving.urls)
    uses = []
    for scraper in scrapers:
        scrapes, bytes_read, failed, cpu = (
            now - then for now, then in zip(after[scraper.name], before[scraper.name], strict=True)
        )
        uses.append(
            Use(
                scraper.name,
                int(scrapes),
                max(0, due - int(scrapes)),
                int(failed),
                int(bytes_read),
                ended - started,
                cpu,
                resident_bytes(scraper.pid),
            )
        )
    return uses, serving_after - serving_before


def machine() -> str:
    """Processor, cores, Python and Prometheus, in words."""
    models = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = models[0] if models else platform.machine()
    said = subprocess.run(["prometheus", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\S+)", said.stdout + said.stderr)
    version = found.group(1) if found else "?"
    cores = f"{len(models) or os.cpu_count()} cores of {processor}"
    return f"{cores}; Prometheus {version}, Python {platform.python_version()}"


def report(uses: list[Use], serving_seconds: float, given: argparse.Namespace) -> str:
    """The section of the report, Markdown."""
    rows = [
        f"| {use.scraper} | **{use.milliseconds:.3f} ms** | {use.scrapes} | {use.missing} | {use.failed}"
        f" | {use.bytes_read / use.seconds / 1e6:.2f} MB/s | {use.cpu_seconds / use.seconds:.1%}"
        f" | {use.resident_bytes / 2**20:.0f} MiB |"
        for use in uses
    ]
    by_name = {use.scraper: use for use in uses}
    ratio = by_name["infermeter"].milliseconds / by_name["Prometheus"].milliseconds
    command = f"--targets {given.targets} --seconds {given.seconds:g} --interval {given.interval:g}"
    return f"""`python -m benchmarks.scrape {command} --write`

{given.targets} targets (half 8-GPU dcgm-exporters, half vLLM replicas, about 55 KB each, values that move at
every scrape), every {given.interval:g} s for {uses[0].seconds:.0f} s after {WARM_UP_ROUNDS} rounds,
both scrapers at the same time. {machine()}.

| | processor time per scrape | scrapes | missing | failed | read | of one core | resident |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

**infermeter ÷ Prometheus: {ratio:.2f}.** The exporters themselves used {serving_seconds:.1f} s."""


def write_section(path: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- end of NAME -->`; append it where absent."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    whole = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    section = f"{begin}\n{text}\n{end}"
    if begin in whole and end in whole:
        head, _, rest = whole.partition(begin)
        whole = head + section + rest.partition(end)[2]
    else:
        whole = f"{whole.rstrip()}\n\n{section}\n"
    path.write_text(whole, encoding="utf-8")


def main() -> None:
    """Run the benchmark and print its report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=120, help="how long to measure after the warm-up")
    parser.add_argument("--interval", type=float, default=10, help="seconds between two scrapes")
    parser.add_argument("--write", action="store_true", help="put the result into docs/benchmarks.md")
    given = parser.parse_args()
    if shutil.which("prometheus") is None:
        raise SystemExit("prometheus is not installed (apt-get install prometheus)")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infermeter-benchmark-")))
        serving = stack.enter_context(exporters(given.targets))
        scrapers = [
            stack.enter_context(prometheus(serving.urls, folder / "prometheus", given.interval)),
            stack.enter_context(infermeter(serving.urls, folder / "infermeter", given.interval)),
        ]
        warm_up(serving, scrapers, given.interval)
        text = report(*measure(serving, scrapers, given.interval, given.seconds), given)
    print(text)
    if given.write:
        write_section(REPORT, "scrape", text)


if __name__ == "__main__":
    main()
