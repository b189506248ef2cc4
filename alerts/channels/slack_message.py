"""Slack messages, as pure functions of incidents: one, or many merged into one.

The first line reads alone on a phone: severity, where, what, since when, against which limit. Text from
outside (hosts, pods, models) is escaped and shown as code, so that it can neither format, link nor call
anyone. Limits: 50 blocks, 3000 characters a section, 150 a header; above about 13 200 characters in all Slack
answers `msg_blocks_too_long` (bolt-js#2509), so a message holds at most 12 000.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from alerts.channels.contract import Item
from alerts.incidents import Incident
from alerts.words import clock, duration, gib, percent, quantity, sparkline, where

MAX_CHARACTERS = 12_000
MAX_LISTED = 20
"""Incidents in a merged message; the others are counted (alertmanager#2769)."""
HEADER, TEXT, LINE, VALUE, URL = 150, 1000, 400, 200, 1000
"""Characters of a header, a sentence, a line of a list, a label's value, a link: all well within Slack's own
limits (3000 a section, 2000 a field, 3000 a link), so that every message fits as a whole."""

_MENTION = re.compile(r"@(?=(channel|here|everyone)\b)", re.IGNORECASE)
_UNSEEN = re.compile(r"[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069]+")
_FORMAT = str.maketrans({"*": "∗", "~": "∼", "`": "'"})
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_EDGE_UNDERSCORE = re.compile(r"(?<!\w)_|_(?!\w)")


def cut(text: str, length: int) -> str:
    """At most `length` characters, with … where something is missing."""
    return text if len(text) <= length else text[: length - 1] + "…"


def plain(text: str) -> str:
    """Text from outside for a header, which formats nothing: without control signs and calls."""
    text = _UNSEEN.sub(" ", text).replace("<", "‹").replace(">", "›")
    return _MENTION.sub("@\u200b", text)


def escaped(text: str, length: int) -> str:
    """Slack's three signs escaped; at most `length` characters after that, no escape cut in two."""
    parts: list[str] = []
    left = length
    for sign in text:
        part = _ESCAPES.get(sign, sign)
        if len(part) >= left:
            return "".join(parts) + "…"
        parts.append(part)
        left -= len(part)
    return "".join(parts)


def sentence(text: str, length: int = TEXT) -> str:
    """A sentence that may hold text from outside, for mrkdwn: nothing in it formats, links or calls."""
    text = _MENTION.sub("@\u200b", _UNSEEN.sub(" ", text)).translate(_FORMAT)
    return escaped(_EDGE_UNDERSCORE.sub("‗", text), length)


def code(text: str) -> str:
    """A value from outside as code: easy to copy."""
    text = _MENTION.sub("@\u200b", _UNSEEN.sub(" ", text)).replace("`", "'")
    return "`" + escaped(text, VALUE) + "`"


def compose(items: Sequence[Item]) -> dict[str, Any]:
    """The message about one or several incidents. Raises ValueError without any."""
    if not items:
        raise ValueError("a message needs an incident")
    if len(items) == 1:
        return message(*items[0])
    return _digest(items)


def message(incident: Incident, event: str, links: Mapping[str, str]) -> dict[str, Any]:
    """The message that an incident has fired or resolved (`both`: it ended before it was told)."""
    headline = _headline(incident, event)
    title = plain(cut(f"{_mark(incident, event)} {incident.title}: {where(incident.labels)}", HEADER))
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, HEADER), "emoji": False}},
        _section(sentence(_told(incident, event))),
        {"type": "section", "fields": [_mrkdwn(text) for text in _fields(incident, event)]},
    ]
    if evidence := _evidence(incident):
        blocks.append({"type": "context", "elements": [_mrkdwn(evidence)]})
    if buttons := _buttons(links):
        blocks.append({"type": "actions", "elements": buttons})
    return {"text": sentence(headline), "blocks": blocks}


def _told(incident: Incident, event: str) -> str:
    if event != "both":
        return incident.summary
    assert incident.fired_at is not None
    return (
        f"{incident.summary}. It fired at {incident.fired_at:%H:%M} UTC and ended before this could be told"
    )


def _mark(incident: Incident, event: str) -> str:
    if event != "fired":
        return "✓ RESOLVED"
    return "■ CRITICAL" if incident.severity == "critical" else f"▲ {incident.severity.upper()}"


def _headline(incident: Incident, event: str) -> str:
    return f"{_mark(incident, event)} {_told(incident, event)}"


def _fields(incident: Incident, event: str) -> list[str]:
    """Three to six: the measure against its threshold, since when, and whose it is."""
    labels = incident.labels
    values = (
        f"{quantity(incident.value, incident.unit)} (fires at {quantity(incident.threshold, incident.unit)})"
    )
    started = clock(incident.started_at, incident.resolved_at or incident.fired_at or incident.started_at)
    fields = [f"*Value*\n{values}"]
    if event == "fired":
        fields.append(f"*Since*\n{started}")
    elif incident.resolved_at is not None:
        lasted = duration((incident.resolved_at - incident.started_at).total_seconds())
        fields.append(f"*Lasted*\n{lasted}, since {started}")
        fields.append(f"*Peak*\n{quantity(incident.peak_value, incident.unit)}")
    owner = " / ".join(code(str(labels[name])) for name in ("project", "environment") if labels.get(name))
    fields.append(f"*Project*\n{owner or 'not set'}")
    if labels.get("pod"):
        pod = "/".join(str(labels[name]) for name in ("namespace", "pod") if labels.get(name))
        fields.append(f"*Pod*\n{code(pod)}")
    if labels.get("model") or labels.get("engine_target"):
        fields.append(f"*Engine*\n{code(str(labels.get('model') or labels['engine_target']))}")
    return fields[:6]


def _evidence(incident: Incident) -> str:
    """The numbers and the shape of the last while."""
    evidence, parts = incident.evidence, []
    used, free = evidence.get("used_bytes"), evidence.get("free_bytes")
    if used is not None and free is not None:  # of what is usable, as the percentage is
        parts.append(f"{gib(used)} used of {gib(used + free)}, {gib(free)} free")
    if (share := evidence.get("reservation_ratio")) is not None:
        parts.append(f"{percent(share)} reserved")
    if (baseline := evidence.get("baseline_bytes")) is not None:
        parts.append(f"{gib(baseline)} after warm-up")
    if (kv := evidence.get("kv_cache_used_ratio")) is not None:
        parts.append(f"KV cache {percent(kv)} used")
    if shape := sparkline([used_bytes for _, used_bytes in evidence.get("series_used_bytes", [])]):
        parts.append(f"last 30 min {shape}")
    return " · ".join(parts)


def _buttons(links: Mapping[str, str]) -> list[dict[str, Any]]:
    wanted = (("dashboard", "Open dashboard at this time"), ("incident", "Incident"))
    return [
        {"type": "button", "action_id": name, "url": links[name],
         "text": {"type": "plain_text", "text": text, "emoji": False}}
        for name, text in wanted
        if name in links and len(links[name]) <= URL
    ]  # fmt: skip


def _digest(items: Sequence[Item]) -> dict[str, Any]:
    """All in one message: worst and newest first, as many as fit, the others counted."""
    ranked = sorted(items, key=_rank)
    counts = {"firing": sum(item.event == "fired" for item in items)}
    counts["resolved"] = len(items) - counts["firing"]
    title = f"{len(items)} alerts: " + ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    first = ranked[0]
    payload: dict[str, Any] = {
        "text": sentence(f"{title}. {_headline(first.incident, first.event)}"),
        "blocks": [{"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}}],
    }
    blocks: list[dict[str, Any]] = payload["blocks"]
    for listed, item in enumerate(ranked):
        section = _section(_line(item))
        if listed == MAX_LISTED or _size(payload) + _size(section) > MAX_CHARACTERS - 500:
            left = len(ranked) - listed
            home = item.links.get("incident", "").partition("?")[0]
            more = f"and {left} more" + (f", <{home}|see all>" if home and len(home) <= LINE else "")
            blocks.append(_section(more))
            break
        blocks.append(section)
    return payload


def _rank(item: Item) -> tuple[bool, bool, float]:
    incident = item.incident
    newest = incident.fired_at or incident.started_at
    return item.event != "fired", incident.severity != "critical", -newest.timestamp()


def _line(item: Item) -> str:
    text = sentence(_headline(item.incident, item.event), LINE)
    link = item.links.get("dashboard") or item.links.get("incident")
    return f"{text}  <{link}|open>" if link and len(link) <= LINE else text


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    # verbatim: Slack makes no links of its own out of names and addresses in the text
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _size(part: Mapping[str, Any]) -> int:
    return len(json.dumps(part, ensure_ascii=False))
