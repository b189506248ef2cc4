"""The state of a page is its URL: read it, check it, write it. Pure; Streamlit only in `app/main.py`.

A view with `start` and `end` shows that stretch of time and stands still; one without is live and shows
the last `range`. A value that is not understood is left out and named in a `Fault`, never an error.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

RANGES = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
"""How far a live page looks back."""
MEASURES = ("vram", "utilization", "temperature", "power")
"""What may colour the GPU tiles."""
LANGUAGES = ("en", "zh")
PAGES = ("", "engines", "gpus", "sources")
"""URL paths of the pages, in the order of the bar; the first is On-call."""

LONGEST = timedelta(days=400)
"""The longest stretch a link may ask for: a little over the thirteen months that are kept."""
AHEAD_SAID = timedelta(hours=1)
"""How far ahead of now a link may end before that is said."""
_STEPS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_TEXT_LIMIT = 200


class Fault(NamedTuple):
    """One value of the URL that was left out. `reason` is a key of `app/words.py`."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class View:
    """What a page shows. Empty text is "not chosen"; `start` and `end` are UTC without zone."""

    range: str = "1h"
    start: datetime | None = None
    end: datetime | None = None
    project: str = ""
    environment: str = ""
    gpu: str = ""
    mig: str = ""
    engine: str = ""
    replica: str = ""
    model: str = ""
    measure: str = "vram"
    incident: str = ""
    lang: str = ""

    @property
    def live(self) -> bool:
        """True when the page follows the clock."""
        return self.start is None or self.end is None

    def but(self, **changes: Any) -> View:
        """This view with some values changed."""
        return replace(self, **changes)

    def shared(self) -> View:
        """What goes along to another page: time, project, environment, language, measure."""
        return View(
            **{
                name: getattr(self, name)
                for name in ("range", "start", "end", "project", "environment", "measure", "lang")
            }
        )


@dataclass(frozen=True)
class Window:
    """The stretch of time a page draws, UTC without zone, and the seconds one point stands for."""

    start: datetime
    end: datetime
    step_seconds: int
    live: bool

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end - self.start).total_seconds()

    def coarser(self, points: int) -> int:
        """Seconds of a step of which about `points` or fewer fit, for what needs many samples a step."""
        return step_for(self.seconds, points, self.step_seconds)


_TEXTS = ("project", "environment", "gpu", "mig", "engine", "replica", "model", "incident")
_CHOICES: dict[str, tuple[str, ...]] = {"range": tuple(RANGES), "measure": MEASURES, "lang": LANGUAGES}


def parse(parameters: Mapping[str, str], now: datetime | None = None) -> tuple[View, list[Fault]]:
    """Read a query string's parameters. Names that are not ours are passed over.

    With `now` a stretch of time ends there at the latest: what is ahead is no history.
    """
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for name, choices in _CHOICES.items():
        if value := parameters.get(name, ""):
            if value in choices:
                values[name] = value
            else:
                faults.append(Fault(name, value, "fault_choice"))
    for name in _TEXTS:
        if value := parameters.get(name, ""):
            if len(value) > _TEXT_LIMIT or any(unicodedata.category(sign).startswith("C") for sign in value):
                faults.append(Fault(name, value, "fault_text"))
            else:
                values[name] = value
    span = _parse_span(parameters.get("from", ""), parameters.get("to", ""), faults)
    values.update(span if now is None else _until_now(span, now, faults))
    return View(**values), faults


def _parse_span(start_text: str, end_text: str, faults: list[Fault]) -> dict[str, datetime]:
    if not start_text and not end_text:
        return {}
    moments = {}
    for name, text in (("from", start_text), ("to", end_text)):
        moment = parse_time(text)
        if moment is None:
            faults.append(Fault(name, text, "fault_time"))
        else:
            moments[name] = moment
    if len(moments) < 2:
        return {}
    if not timedelta() < moments["to"] - moments["from"] <= LONGEST:
        faults.append(Fault("from", start_text, "fault_span"))
        return {}
    return {"start": moments["from"], "end": moments["to"]}


def _until_now(span: dict[str, datetime], now: datetime, faults: list[Fault]) -> dict[str, datetime]:
    now = now.replace(microsecond=0)
    if not span or span["end"] <= now:
        return span
    if span["start"] >= now:
        faults.append(Fault("from", format_time(span["start"]), "fault_future"))
        return {}
    # An alert's link ends half an hour after the alert: opened at once, that is no mistake to speak of.
    if span["end"] - now > AHEAD_SAID:
        faults.append(Fault("to", format_time(span["end"]), "fault_ahead"))
    return {**span, "end": now}


def parse_time(text: str) -> datetime | None:
    """An ISO 8601 time as UTC without zone (without an offset it is taken as UTC); None if it is not one."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return moment if 2000 <= moment.year < 2200 else None


def format_time(moment: datetime) -> str:
    """A UTC time as links carry it: `2026-11-30T13:20:00Z`."""
    return moment.isoformat(timespec="seconds") + "Z"


def to_parameters(view: View) -> dict[str, str]:
    """The query parameters of a view, in a fixed order; what has its usual value is left out."""
    found: dict[str, str] = {}
    for field in fields(View):
        value = getattr(view, field.name)
        if field.name in ("start", "end") or value == field.default:
            continue
        if field.name == "range" and not view.live:
            continue
        found[field.name] = value
    if view.start is not None and view.end is not None:
        found = {"from": format_time(view.start), "to": format_time(view.end), **found}
    return found


def link(page: str, view: View) -> str:
    """The address of a page in that view, from the root: `/gpus?gpu=GPU-1`. `page` is one of PAGES."""
    query = urlencode(to_parameters(view))
    return f"/{page}?{query}" if query else f"/{page}"


def step_for(span_seconds: float, points: int, least_seconds: float = 0) -> int:
    """Seconds of the finest usual step of which at most `points` fit, no finer than `least_seconds`."""
    wanted = max(span_seconds / points, least_seconds)
    return next((step for step in _STEPS if step >= wanted), math.ceil(wanted / 86_400) * 86_400)


def window(view: View, now: datetime, interval_seconds: float = 10.0, points: int = 400) -> Window:
    """What a view draws at `now`. A step is never finer than the targets' interval: that would cut lines."""
    if view.start is not None and view.end is not None:
        start, end, live = view.start, view.end, False
    else:
        start, end, live = now - RANGES[view.range], now, True
    return Window(start, end, step_for((end - start).total_seconds(), points, interval_seconds), live)


def held(view: View, now: datetime) -> View:
    """The same view standing still: what a live page shows now, as a link that will show it again."""
    shown = window(view, now)
    return view.but(start=shown.start.replace(microsecond=0), end=shown.end.replace(microsecond=0))


def moved(view: View, now: datetime, windows: float) -> View:
    """The view shifted by so many of its own lengths; shifted past `now` it stands with its end at now."""
    still = held(view, now)
    assert still.start is not None
    assert still.end is not None
    by = (still.end - still.start) * windows
    by = min(by, max(now.replace(microsecond=0) - still.end, timedelta()))
    return still.but(start=still.start + by, end=still.end + by)
