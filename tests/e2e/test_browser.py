"""What on-call does: the Slack message, its link, the page; every page opens in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.browser import PHONE, WIDE, browser, needs_chromium, settled
from tests.e2e.serving import Serving, serving, until
from tests.e2e.slack_server import SlackServer, slack
from tests.e2e.test_serve import Exporter

pytestmark = [pytest.mark.wide, needs_chromium]


@dataclass
class Fired:
    """A server whose only GPU has been over 80 % long enough, and the message about it."""

    server: Serving
    exporter: Exporter
    slack: SlackServer
    link: str


def links_of(payload: dict[str, Any]) -> list[str]:
    elements = [element for block in payload["blocks"] for element in block.get("elements", [])]
    return [element["url"] for element in elements if "url" in element]


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fired]:
    folder = tmp_path_factory.mktemp("browser")
    exporter = Exporter(used_mib=70_000, free_mib=10_000)
    config = folder / "infermeter.yaml"
    with slack() as channel:
        config.write_text(
            f"""
store: {folder}/store.duckdb
scrape: {{interval: 1s, timeout: 900ms}}
alerts:
  evaluate_interval: 1s
  vram_high: {{for: 2s}}
  channels: [{{name: ops, kind: slack, webhook_url: "{channel.url}"}}]
targets:
  - {{name: node-1, kind: dcgm, url: "{exporter.url}/dcgm"}}
  - {{name: llm, url: "{exporter.url}/vllm", project: chat}}
"""
        )
        with serving(config, folder / "log") as server:
            (message,) = until(lambda: channel.messages or None, what="the Slack message")
            link = next(url for url in links_of(message) if "/gpus?" in url)
            yield Fired(server, exporter, channel, link)
        log = (folder / "log").read_text()
        assert "Traceback" not in log
        assert "s3cretpart" not in log
    exporter.close()


def test_the_message_reads_alone_and_its_link_opens_that_gpu_at_that_time(fired: Fired) -> None:
    message = fired.slack.messages[0]
    assert "node-1 GPU 0" in message["text"]
    assert "VRAM 87.5 %" in message["text"]  # 70 000 of 80 000 MiB usable
    query = parse_qs(urlsplit(fired.link).query)
    assert query["gpu"] == ["GPU-1"]
    (incident,) = fired.server.json("/api/v1/incidents?state=firing")["rows"]
    assert query["incident"] == [incident["incident_id"]]
    assert query["from"][0] < incident["fired_at"] < query["to"][0]
    with browser() as chromium:
        page = chromium.new_page(viewport=WIDE)
        settled(page, fired.link, "GPU-1")
        text = page.inner_text("body")
        assert "node-1" in text
        assert "87.5 %" in text
        assert incident["summary"].split(":")[0] in text
        page.reload(wait_until="domcontentloaded")
        page.get_by_text("GPU-1").first.wait_for(timeout=30_000)
        assert parse_qs(urlsplit(page.url).query) == query, (
            "the view is in the URL, before and after a reload"
        )


def test_on_call_says_what_is_wrong_in_its_first_line_and_leads_to_the_gpu(fired: Fired) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport=WIDE)
        settled(page, fired.server.url + "/", "1 firing")
        text = page.inner_text("body")
        assert "87.5 %" in text
        assert "node-1" in text


@pytest.mark.parametrize("path", ["/", "/engines", "/gpus", "/sources"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", ["wide", "phone"])
def test_every_page_opens_without_an_error(fired: Fired, path: str, scheme: Any, width: str) -> None:
    problems: list[str] = []
    with browser() as chromium:
        context = chromium.new_context(viewport=WIDE if width == "wide" else PHONE, color_scheme=scheme)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        first = {"/": "firing", "/engines": "llm", "/gpus": "node-1", "/sources": "node-1"}[path]
        settled(page, fired.server.url + path, first)
        text = page.inner_text("body")
        assert page.locator("[data-testid=stException]").count() == 0
        for wrong in ("Traceback", "nan", "NaN", "None", "null", "undefined"):
            assert wrong not in text.split(), f"{wrong} on {path}"
        if width == "phone":
            wide = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 1, f"{path} must not scroll sideways on a phone"
        outside = [url for url in asked if urlsplit(url).hostname not in ("localhost", "127.0.0.1", None)]
        assert outside == [], "nothing is fetched from another host"
    assert problems == []


def query_of(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_back_from_a_row_leads_to_a_page_with_its_own_query(fired: Fired) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport=WIDE)
        settled(page, fired.server.url + "/?range=15m", "worst first")
        table = page.locator("[data-testid=stDataFrame]").first
        table.wait_for()
        page.wait_for_timeout(1000)  # the table is a canvas: it does not say when it is drawn
        table.click(position={"x": 17, "y": 52})
        page.wait_for_url("**/engines?**engine=llm**")
        assert query_of(page)["range"] == ["15m"]
        while urlsplit(page.url).path != "/":
            page.go_back()
            page.wait_for_function("document.querySelector('[data-testid=stDataFrame]')")
            assert query_of(page) == {"range": ["15m"]}


def test_the_usual_measure_and_range_can_be_chosen_again_and_are_kept_on_the_next_page(fired: Fired) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport=WIDE)
        settled(page, fired.server.url + "/?range=6h&measure=power", "worst first")
        page.get_by_text("VRAM", exact=True).first.click()
        page.wait_for_url("**/?range=6h")
        page.get_by_text("1 h", exact=True).first.click()
        page.wait_for_function("location.search === ''")
        page.get_by_text("GPUs", exact=True).first.click()
        page.wait_for_url("**/gpus")
        page.get_by_text("on 1 node").first.wait_for()
        assert query_of(page) == {}


@pytest.mark.parametrize("width", [1024, 720])
def test_nothing_that_can_be_clicked_is_cut_off_on_a_narrow_screen(fired: Fired, width: int) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": width, "height": 1000})
        settled(page, fired.server.url + "/", "worst first")
        for label in ("open", "power"):
            found = page.get_by_text(label, exact=True).first
            found.wait_for()
            cut = found.evaluate(
                """(one) => {
                    const right = one.getBoundingClientRect().right;
                    let at = one, cut = one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0;
                    while ((at = at.parentElement)) {
                        if (getComputedStyle(at).overflowX === "visible") continue;
                        cut ||= right > at.getBoundingClientRect().right + 1;
                    }
                    return cut;
                }"""
            )
            assert not cut, label


@pytest.mark.parametrize(("path", "chosen"), [("/engines", "engine=llm"), ("/gpus", "gpu=GPU-1")])
def test_the_keyboard_passes_a_table_and_a_click_on_a_rows_box_opens_it(
    fired: Fired, path: str, chosen: str
) -> None:
    focused = "document.activeElement.dataset.testid || document.activeElement.tagName"
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": 1440, "height": 1600})
        settled(page, fired.server.url + path, "data as of")
        table = page.get_by_test_id("stDataFrame")
        table.wait_for()
        seen = []
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.append(page.evaluate(focused))
        inside = [number for number, name in enumerate(seen) if name == "data-grid-canvas"]
        assert inside, seen
        assert any(name != "data-grid-canvas" for name in seen[inside[0] :]), "Tab leaves the table"
        assert urlsplit(page.url).query == "", "moving through a table opens nothing"
        table.click(position={"x": 17, "y": 52})
        page.wait_for_url(f"**{path}?*{chosen}*", timeout=30_000)


def test_a_link_with_nonsense_opens_the_page_with_a_note(fired: Fired) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport=WIDE)
        settled(
            page, fired.server.url + "/gpus?gpu=GPU-none&from=yesterday&range=9x&measure=%00", "yesterday"
        )

        assert page.locator("[data-testid=stException]").count() == 0


def test_the_resolve_message_comes_once_with_duration_and_peak(fired: Fired) -> None:
    # Last in the module: it ends the incident that the others look at.
    fired.exporter.memory = {"used_mib": 8_000, "free_mib": 72_000}
    until(lambda: len(fired.slack.messages) > 1 or None, what="the resolve message")
    text = json.dumps(fired.slack.messages[1], ensure_ascii=False)
    assert "resolved" in text.lower()
    assert "peak" in text.lower()
    assert "87.5 %" in text
    until(lambda: fired.server.json("/api/v1/incidents?state=resolved")["rows"] or None, what="the end of it")
    assert len(fired.slack.messages) == 2
