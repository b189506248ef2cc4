"""With INFERMETER_NO_SKIPS=1 a skipped test fails, with the reason it was skipped for.

Tests skip what a machine lacks (a browser, Prometheus, the wide sample data). Where all of it is installed,
a skip means that something is not tested that should be.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TypeVar

import pytest

NO_SKIPS = os.environ.get("INFERMETER_NO_SKIPS", "") not in ("", "0")

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _skip_is_failure(report: Report) -> Report:
    if NO_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped where INFERMETER_NO_SKIPS=1 allows no skip: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that skips, in its set-up or by itself."""
    return _skip_is_failure((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips as a whole, with `pytest.importorskip` for example."""
    return _skip_is_failure((yield))
