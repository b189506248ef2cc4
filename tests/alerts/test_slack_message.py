"""What stands in a Slack message, and what can never stand in it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.channels.contract import Item
from alerts.channels.slack_message import compose, message
from alerts.links import links
from tests.alerts.incident_samples import BASE_URL, incident, item


def texts(payload: dict[str, Any]) -> list[str]:
    """Every text of a message that is not a link's address."""
    found = [payload["text"]]
    for block in payload.get("blocks", []):
        parts = [block.get("text"), *block.get("fields", []), *block.get("elements", [])]
        given_texts = [part["text"] for part in parts if part is not None]
        found += [text["text"] if isinstance(text, dict) else text for text in given_texts]
    return found


def assert_within_slacks_limits(payload: dict[str, Any]) -> None:
    """docs: 50 blocks, header 150, section 3000, 10 fields of 2000, button 75, link 3000; in all 12 000."""
    assert len(json.dumps(payload, ensure_ascii=False)) <= 12_000
    assert len(payload["blocks"]) <= 50
    for block in payload["blocks"]:
        if block["type"] == "header":
            assert len(block["text"]["text"]) <= 150
        elif block["type"] == "section" and "text" in block:
            assert 0 < len(block["text"]["text"]) <= 3000
        elif block["type"] == "section":
            assert 3 <= len(block["fields"]) <= 6
            assert all(0 < len(part["text"]) <= 2000 for part in block["fields"])
        elif block["type"] == "actions":
            assert all(
                len(part["url"]) <= 3000 and len(part["text"]["text"]) <= 75 for part in block["elements"]
            )
        elif block["type"] == "context":
            assert all(0 < len(part["text"]) <= 3000 for part in block["elements"])


def test_the_text_of_a_fired_incident_reads_alone_on_a_phone() -> None:
    assert message(*item())["text"] == (
        "▲ WARNING node-2 GPU 3 (H100): VRAM 84 % of 80.0 GiB since 13:20 UTC, over 80 % for 2 min"
    )


def test_a_fired_incident_has_fields_evidence_and_a_button_to_its_time() -> None:
    payload = message(*item())
    header, told, fields, evidence, actions = payload["blocks"]
    assert header["text"]["text"] == "▲ WARNING VRAM high: node-2 GPU 3 (H100)"
    assert told["text"]["text"] == incident().summary
    assert [part["text"] for part in fields["fields"]] == [
        "*Value*\n84 % (fires at 80 %)", "*Since*\n13:20 UTC", "*Project*\n`chat` / `prod`",
        "*Pod*\n`llm/llama-70b-0`",
    ]  # fmt: skip
    assert (
        evidence["elements"][0]["text"] == "67.0 GiB used of 80.0 GiB, 13.0 GiB free · last 30 min ▁▂▃▄▅▆▇█"
    )
    assert [(button["text"]["text"], button["url"]) for button in actions["elements"]] == [
        (
            "Open dashboard at this time",
            f"{BASE_URL}/gpus?gpu=GPU-1&from=2026-11-30T12%3A52%3A00Z&to=2026-11-30T13%3A52%3A00Z&incident=id1",
        ),
        ("Incident", f"{BASE_URL}/?incident=id1"),
    ]
    assert_within_slacks_limits(payload)


def test_a_resolve_says_how_long_it_lasted_and_how_bad_it_was() -> None:
    payload = message(*item(event="resolved"))
    assert payload["text"] == (
        "✓ RESOLVED node-2 GPU 3 (H100): VRAM high resolved at 13:50 UTC after 30 min, peak 91 %"
    )
    fields = [part["text"] for part in payload["blocks"][2]["fields"]]
    assert fields[1:3] == ["*Lasted*\n30 min, since 13:20 UTC", "*Peak*\n91 %"]


def test_what_ended_before_it_was_told_says_both() -> None:
    text = message(*item(event="both"))["text"]
    assert text.startswith("✓ RESOLVED node-2 GPU 3 (H100): VRAM high resolved at 13:50 UTC")
    assert text.endswith("It fired at 13:22 UTC and ended before this could be told")


def test_without_a_base_url_there_are_no_buttons() -> None:
    one = incident()
    assert "actions" not in {block["type"] for block in message(one, "fired", links(None, one))["blocks"]}


HOSTILE = "<!channel> @channel @here <@U123> <https://evil.example|ok> *bold* _it_ ~no~ `code` & &amp; \n# x"


def test_text_from_outside_can_neither_call_nor_link_nor_format() -> None:
    labels = dict.fromkeys(
        ("host", "gpu_model", "project", "environment", "pod", "namespace", "model"), HOSTILE
    )
    hostile = incident(labels=labels, summary=f"{HOSTILE}: VRAM 84 %")
    for payload in (message(hostile, "fired", {}), compose([Item(hostile, "fired", {})] * 3)):
        for text in texts(payload):
            assert "<" not in text
            outside_code = re.sub("`[^`]*`", "", text)
            if text != payload["blocks"][0]["text"]["text"]:  # the header is plain text: nothing formats
                assert not any(sign in outside_code for sign in ("_it_", "~no~", "*bold*", "`"))
            assert "@channel" not in text
            assert "@here" not in text
        assert all(
            part["verbatim"]
            for block in payload["blocks"]
            for part in [block.get("text", {}), *block.get("fields", []), *block.get("elements", [])]
            if part.get("type") == "mrkdwn"
        )
        assert payload["text"].count("&") == payload["text"].count("&amp;") + payload["text"].count(
            "&lt;"
        ) + payload["text"].count("&gt;")


def test_200_alerts_are_one_message_that_counts_those_it_does_not_list() -> None:
    payload = compose([item(n) for n in range(180)] + [item(n, "resolved") for n in range(180, 200)])
    assert_within_slacks_limits(payload)
    assert payload["text"].startswith("200 alerts: 180 firing, 20 resolved. ▲ WARNING node-2 GPU 3 (H100)")
    listed = [block for block in payload["blocks"][1:] if "|open>" in block["text"]["text"]]
    last = payload["blocks"][-1]["text"]["text"]
    assert last == f"and {200 - len(listed)} more, <{BASE_URL}/|see all>"
    assert 10 <= len(listed) <= 20


def test_critical_and_firing_come_first() -> None:
    items = [item(1, "resolved"), item(2), item(3, severity="critical")]
    lines = [block["text"]["text"].split(" node")[0] for block in compose(items)["blocks"][1:]]
    assert lines == ["■ CRITICAL", "▲ WARNING", "✓ RESOLVED"]


@pytest.mark.parametrize("filling", ["x", "&", "<", "é", "漢", "`", "@channel ", "\\", '"', "\u202e"])
def test_labels_of_5_kb_fit(filling: str) -> None:
    long = (filling * 5000)[:5000]
    names = ("gpu_uuid", "host", "gpu_model", "project", "environment", "pod", "namespace", "model", "target")
    one = incident(labels=dict.fromkeys(names, long), summary=f"{long}: VRAM 84 %", title=long)
    found = links(BASE_URL, one)
    assert_within_slacks_limits(message(one, "fired", found))
    assert_within_slacks_limits(message(one._replace(resolved_at=one.fired_at), "both", found))
    assert_within_slacks_limits(compose([Item(one, "fired", found)] * 200))


@given(st.text(max_size=400), st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_any_text_makes_a_message_within_the_limits_without_raw_signs(text: str, count: int) -> None:
    names = ("gpu_uuid", "host", "project", "pod")
    one = incident(labels=dict.fromkeys(names, text or "x"), summary=text or "x")
    payload = compose([Item(one, "fired", links(BASE_URL, one))] * count)
    assert_within_slacks_limits(payload)
    json.dumps(payload).encode("utf-8")
    assert "<" not in payload["text"]
