"""A headless Chromium of Debian, driven by Playwright, with nothing of it reaching for the network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.shared import lacks_library

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or lacks_library("atomic"),
    reason="needs chromium, and libatomic for playwright: apt-get install chromium libatomic1",
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE: ViewportSize = {"width": 1440, "height": 1000}
PHONE: ViewportSize = {"width": 390, "height": 844}


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, headless=True)
        try:
            yield started
        finally:
            started.close()


def settled(page: Page, url: str, text: str, seconds: float = 60.0) -> None:
    """Open a URL and wait until the text stands on the page and Streamlit has stopped running."""
    page.goto(url, wait_until="domcontentloaded")
    page.get_by_text(text).first.wait_for(timeout=seconds * 1000)
    page.wait_for_function(
        "!document.querySelector('[data-testid=stApp][data-test-script-state=running]')",
        timeout=seconds * 1000,
    )


def shot(page: Page, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=True)
