"""What the documentation tells people to type, to write and to open is there and works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.config import load_text
from app.demo import topology
from tests.shared import REPOSITORY

DOCUMENTS = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
ENVIRONMENT = {"SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T0/B0/abc"}


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as the common forges make them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    broken = []
    for link in links:
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_make_targets_that_are_named_exist(document: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", document.read_text(encoding="utf-8"), re.MULTILINE))
    assert named - targets == set()


def test_the_two_commands_stand_in_the_readme() -> None:
    (commands,) = code_blocks(README, "sh")
    assert re.findall(r"^make (\w+)", commands, re.MULTILINE) == ["demo", "test"]


def test_the_configurations_of_the_readme_are_accepted_together() -> None:
    targets, _, slack = code_blocks(README, "yaml")
    config = load_text(f"{targets}{slack}", "README.md", environment=ENVIRONMENT)
    assert [(target.name, target.kind, target.project) for target in config.targets] == [
        ("gpu-node-1", "dcgm", None),
        ("llama-70b", "vllm", "search"),
    ]
    assert [(channel.name, channel.kind) for channel in config.alerts.channels] == [("on-call", "slack")]
    assert (len(targets.splitlines()), len(slack.splitlines())) == (10, 3)


def test_the_thresholds_of_the_readme_are_the_defaults() -> None:
    rule = load_text("", "empty").alerts.vram_high
    said = re.search(r"when (\d+) % .* for (\d+) minutes and ends below (\d+) %", README)
    assert said is not None
    fire, minutes, clear = (int(number) for number in said.groups())
    assert (rule.fire_above, rule.hold_seconds, rule.clear_below) == (fire / 100, minutes * 60, clear / 100)


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) <= 110


def test_the_readme_tells_the_size_of_the_simulated_fleet() -> None:
    gpus = sum(node.gpus for node in topology.NODES)
    assert f"a simulated fleet of {gpus} GPUs and {len(topology.ENGINES)} engines" in README


def test_the_kinds_without_an_exporter_are_accepted(tmp_path: Path) -> None:
    _, without_exporter, _ = code_blocks(README, "yaml")
    key = tmp_path / "key"
    key.write_text("secret")
    config = load_text(without_exporter.replace("/run/secrets/api-key", str(key)), "README.md")
    assert [(target.name, target.kind) for target in config.targets] == [
        ("nvml", "nvml"),
        ("prometheus:9090", "prometheus"),
        ("hosted-llama", "probe"),
    ]
