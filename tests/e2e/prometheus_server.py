"""Debian's Prometheus on given targets, for tests and benchmarks that compare with it.

Everything it writes lies in the folder given; it listens on a free port of 127.0.0.1 and is ended with
the block that started it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.child import running

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs the program prometheus (apt-get install prometheus)"
)


class Series(NamedTuple):
    """One series of an answer."""

    labels: dict[str, str]
    points: list[tuple[float, float]]
    """(unix seconds, value), oldest first; an instant answer has one."""


class Prometheus(NamedTuple):
    """A running server."""

    url: str
    pid: int

    def instant(self, expression: str, at: float | None = None) -> list[Series]:
        """The expression at one time (unix seconds; now when None).

        `metric[5m]` gives the raw samples of the window.
        """
        parameters = {"query": expression} | ({} if at is None else {"time": f"{at:.3f}"})
        answer = self._get("query", parameters)
        if answer["resultType"] == "scalar":
            moment, value = answer["result"]
            return [Series({}, [(moment, float(value))])]
        return [
            Series(found["metric"], _points(found.get("values") or [found["value"]]))
            for found in answer["result"]
        ]

    def value(self, expression: str, at: float | None = None) -> float:
        """The expression where it gives exactly one series."""
        found = self.instant(expression, at)
        assert len(found) == 1, f"{expression} gives {len(found)} series"
        return found[0].points[-1][1]

    def range(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """The expression from `start` to `end` (unix seconds) every `step` seconds."""
        parameters = {"query": expression, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        answer = self._get("query_range", parameters)
        return [Series(found["metric"], _points(found["values"])) for found in answer["result"]]

    def targets(self) -> list[dict[str, Any]]:
        """The active targets, as /api/v1/targets has them."""
        return list(self._get("targets", {"state": "active"})["activeTargets"])

    def wait_for(self, expression: str, at_least: int, deadline_seconds: float) -> None:
        """Wait until the expression gives `at_least` series. Raises TimeoutError."""
        deadline = time.monotonic() + deadline_seconds
        while (found := len(self.instant(expression))) < at_least:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} gives {found} series, not {at_least}")
            time.sleep(0.2)

    def _get(self, path: str, parameters: Mapping[str, str]) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{url}: {error.read().decode()}") from error


def _points(pairs: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    return [(float(moment), float(value)) for moment, value in pairs]


@contextmanager
def prometheus_server(
    targets: Sequence[str],
    folder: Path,
    *,
    interval_seconds: float = 1,
    deadline_seconds: float = 30,
    scrape_configs: Sequence[Mapping[str, Any]] | None = None,
) -> Iterator[Prometheus]:
    """Run Prometheus on the target URLs; yields it when it answers.

    Each series carries the label `target` = the URL it was scraped from. `scrape_configs`: Prometheus' own,
    instead of the target URLs. Raises RuntimeError with the end of its log when it does not come up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    configuration = _configuration(targets, interval_seconds)
    if scrape_configs is not None:
        configuration["scrape_configs"] = list(scrape_configs)
    config.write_text(json.dumps(configuration))  # JSON is YAML
    log_path = folder / "prometheus.log"
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    command += ["--web.listen-address=127.0.0.1:0", "--log.level=info"]
    with running(command, log_path) as child:
        url = _wait_until_ready(child, log_path, time.monotonic() + deadline_seconds)
        yield Prometheus(url, child.pid)


def _configuration(targets: Sequence[str], interval_seconds: float) -> dict[str, Any]:
    by_place: dict[tuple[str, str], list[urllib.parse.SplitResult]] = defaultdict(list)
    for target in targets:
        parts = urllib.parse.urlsplit(target)
        by_place[parts.scheme, parts.path].append(parts)
    interval = f"{round(interval_seconds * 1000)}ms"
    jobs = [
        {
            "job_name": f"{scheme}:{path}",
            "scheme": scheme,
            "metrics_path": path,
            "static_configs": [
                {"targets": [parts.netloc], "labels": {"target": parts.geturl()}} for parts in found
            ],
        }
        for (scheme, path), found in by_place.items()
    ]
    timing = {"scrape_interval": interval, "scrape_timeout": interval}
    return {"global": timing, "scrape_configs": jobs}


def _wait_until_ready(child: subprocess.Popen[bytes], log_path: Path, deadline: float) -> str:
    while time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.05)
        # The port is chosen by the kernel; only the log line of the listener itself names it.
        address = re.search(r'msg="Listening on" address=(\S+)', log_path.read_text())
        if address is None:
            continue
        url = f"http://{address.group(1)}"
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=2) as answer:
                if answer.status == 200:
                    return url
        except (urllib.error.URLError, OSError):
            pass
    raise RuntimeError(f"Prometheus did not become ready:\n{log_path.read_text()[-2000:]}")
