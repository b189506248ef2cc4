"""Series of a Prometheus → what each of its targets answered, scrape by scrape.

The other way round of what Prometheus does: a target's own labels are taken off again, `exported_x` becomes
`x` again, and what has one time and one target is one exposition, which the kinds' readers read as if they
had asked the target themselves.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from collectors.prometheus.api import Raw
from collectors.prometheus.names import OF_EVERY_TARGET
from collectors.prometheus.refusals import ApiError

Identity = tuple[tuple[str, str], ...]
"""The labels of an upstream target, sorted; without those that tell an HA pair apart."""

HA_LABELS = frozenset({"replica", "prometheus_replica", "__replica__"})
"""External labels that tell two Prometheus of one pair apart (the usual one, kube-prometheus', Mimir's). On
series without an `up` only the last two are taken for that: `replica` can be an engine's own."""
_HA_SURELY = frozenset({"prometheus_replica", "__replica__"})

TIMES_OF_THEIR_OWN_MS = 300_000
"""A sample may bear a time that its exporter gave it. It belongs to the next scrape, if that is this near."""

CACHE_CAP = 500_000
"""Series whose place is remembered."""

_LEGACY_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LEGACY_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_EXPORTED = "exported_"
FEDERATED = ("exported_job", "exported_instance")
"""Labels of what another Prometheus scraped, where it is federated without `honor_labels`."""


class Scrape(NamedTuple):
    """What one target answered once."""

    identity: Identity
    ts_ms: int
    """When Prometheus asked, by its clock, Unix milliseconds."""
    up: bool
    body: bytes
    """As an exposition; empty where Prometheus could not scrape it."""
    duration_seconds: float
    """As Prometheus measured it; 0 where it does not say."""


class Found(NamedTuple):
    """What a stretch of time holds."""

    scrapes: list[Scrape]
    """Oldest first."""
    intervals: dict[Identity, float]
    """Seconds between the scrapes of a target, where it was scraped twice."""
    watched: frozenset[Identity]
    """Targets that have an `up`."""
    pairs: int
    """Targets that stand there more than once, by the replicas of an HA pair; one of them is read."""
    odd: tuple[str, ...]


class _Place(NamedTuple):
    target: Identity
    """With HA labels."""
    line: str
    """The start of its line."""
    telling: bool


class _Samples:
    """What a window holds of one target, as one replica of an HA pair saw it."""

    def __init__(self) -> None:
        self.up: dict[int, bool] = {}
        self.durations: dict[int, float] = {}
        self.lines: dict[int, list[str]] = defaultdict(list)
        self.telling = False


class Upstreams:
    """Remembers where series belong, and which replica of an HA pair is read."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str | None, str | None], set[Identity]] = defaultdict(set)
        """(job, instance) → labels of the targets that bear them."""
        self._places: dict[tuple[tuple[str, str], ...], _Place] = {}
        self._jobs: set[str | None] = {None}
        """Jobs whose targets have an instance: a series without one is made of several, by a rule."""
        self._federated: dict[Identity, set[tuple[str, ...]]] = defaultdict(set)
        """Target → whose series it passes on."""
        self._read: dict[Identity, Identity] = {}
        """Target → as which replica it is read."""

    def scrapes(self, series: Iterable[Raw], telling: Collection[str], known: Collection[Identity]) -> Found:
        """What the targets answered that show one of the `telling` names, or are `known`.

        Raises ApiError for what no Prometheus sends.
        """
        try:
            return self._scrapes(list(series), frozenset(telling), known)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
            raise ApiError("the answer holds series that are not what Prometheus' API sends") from None

    def _scrapes(self, series: list[Raw], telling: frozenset[str], known: Collection[Identity]) -> Found:
        samples: dict[Identity, _Samples] = defaultdict(_Samples)
        others = []
        native = 0
        for raw in series:
            name = raw.labels["__name__"]
            if name not in OF_EVERY_TARGET:
                others.append(raw)
                native += not raw.points
                continue
            target = _sorted(raw.labels)
            if name == "up":
                self._note_target(target)
                samples[target].up.update((_ms(time), float(value) == 1) for time, value in raw.points)
            else:
                samples[target].durations.update((_ms(time), float(value)) for time, value in raw.points)
        count = len(others)
        others = [
            raw for raw in others if "instance" in raw.labels or raw.labels.get("job") not in self._jobs
        ]
        made = count - len(others)
        self._note_federated(raw.labels for raw in others if raw.labels["__name__"] in telling)
        placed = sorted(((self._place(raw, telling), raw) for raw in others), key=lambda pair: pair[0].line)
        for place, raw in placed:
            of_target = samples[place.target]
            of_target.telling |= place.telling
            start, lines = place.line, of_target.lines
            for time, value in raw.points:
                lines[round(time * 1000)].append(start + value)
        by_identity: dict[Identity, list[Identity]] = defaultdict(list)
        for target, found in samples.items():
            if found.up or found.lines:
                by_identity[without_replica(target)].append(target)
        scrapes: list[Scrape] = []
        intervals = {}
        watched = set()
        pairs = 0
        for identity, targets in by_identity.items():
            if identity not in known and not any(samples[target].telling for target in targets):
                continue
            pairs += len(targets) > 1
            chosen = samples[self._chosen(identity, targets, samples)]
            scrapes.extend(_of_target(identity, chosen))
            if chosen.up:
                watched.add(identity)
            times = sorted(chosen.up or chosen.lines)
            if len(times) > 1:
                intervals[identity] = median(b - a for a, b in pairwise(times)) / 1000
        scrapes.sort(key=lambda scrape: scrape.ts_ms)
        odd = []
        if native:
            odd.append(f"{native} series are native histograms, which are not read")
        if made:
            odd.append(
                f"{made} series without `instance` are left out: a rule has made them of several targets'"
            )
        return Found(scrapes, intervals, frozenset(watched), pairs, tuple(odd))

    def _note_target(self, target: Identity) -> None:
        labels = dict(target)
        same = self._targets[labels.get("job"), labels.get("instance")]
        if target not in same:
            same.add(target)
            self._places.clear()
            if "instance" in labels:
                self._jobs.add(labels.get("job"))

    def _note_federated(self, telling: Iterable[Mapping[str, str]]) -> None:
        for labels in telling:
            if all(key in labels for key in FEDERATED):
                whose = self._federated[self._scraped_as(labels)]
                whose.add(tuple(labels[key] for key in FEDERATED))
                if len(whose) == 2:  # of one, they are the target's own labels as well
                    self._places.clear()

    def _place(self, raw: Raw, telling: frozenset[str]) -> _Place:
        key = tuple(raw.labels.items())
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= CACHE_CAP:
                self._places.clear()
            labels = raw.labels
            target = self._target_of(labels)
            line = line_start(labels["__name__"], own_labels(labels, dict(target)))
            place = self._places[key] = _Place(target, line, labels["__name__"] in telling)
        return place

    def _target_of(self, labels: Mapping[str, str]) -> Identity:
        target = self._scraped_as(labels)
        if len(self._federated.get(target, ())) > 1 and all(key in labels for key in FEDERATED):
            return _sorted({**dict(target), **{key: labels[key] for key in FEDERATED}})
        return target

    def _scraped_as(self, labels: Mapping[str, str]) -> Identity:
        same = self._targets.get((labels.get("job"), labels.get("instance")))
        if not same:
            return _sorted({key: labels[key] for key in ("job", "instance", *_HA_SURELY) if key in labels})

        def fits(target: Identity) -> tuple[int, int, Identity]:
            equal = sum(labels.get(key) == value for key, value in target)
            return (
                equal - len(target),
                equal,
                target,
            )  # all of it, then most of it (honor_labels changes some)

        return max(same, key=fits)

    def _chosen(
        self, identity: Identity, targets: list[Identity], samples: Mapping[Identity, _Samples]
    ) -> Identity:
        before = self._read.get(identity)
        if before in targets and (samples[before].lines or not any(samples[one].lines for one in targets)):
            return before
        # The one that saw most; of two that saw the same, always the same one.
        chosen = min(targets, key=lambda one: (-len(samples[one].lines), -len(samples[one].up), one))
        self._read[identity] = chosen
        return chosen


def without_replica(target: Identity) -> Identity:
    """The labels without those that tell an HA pair apart."""
    return tuple(pair for pair in target if pair[0] not in HA_LABELS)


def own_labels(labels: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    """The labels that the target itself shows, by the labels of one of its series in Prometheus.

    With `honor_labels` a label of the series can differ from the target's: then it is the series' own.
    """
    own = dict(labels)
    own.pop("__name__", None)
    known = {key: value for key, value in target.items() if own.get(key) == value}
    for key in labels:  # x beside exported_x is the target's, told or not
        bare = key.removeprefix(_EXPORTED)
        if bare != key and bare in labels and not bare.startswith(_EXPORTED):
            known.setdefault(bare, labels[bare])
    for key in known:
        own.pop(key, None)
    for key in known:
        moved = _EXPORTED + key
        while _EXPORTED + moved in own:  # the longest prefix is what Prometheus put there
            moved = _EXPORTED + moved
        if moved in own:
            own[key] = own.pop(moved)
    return own


def line_start(name: str, labels: Mapping[str, str]) -> str:
    """The line of a series in an exposition, up to its value."""
    parts = [
        f"{key if _LEGACY_KEY.fullmatch(key) else _quoted(key)}={_quoted(value)}"
        for key, value in sorted(labels.items())
    ]
    if not _LEGACY_NAME.fullmatch(name):
        return "{" + ",".join([_quoted(name), *parts]) + "} "
    return f"{name}{{{','.join(parts)}}} " if parts else f"{name} "


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _sorted(labels: Mapping[str, str]) -> Identity:
    return tuple(sorted((key, value) for key, value in labels.items() if key != "__name__"))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _of_target(identity: Identity, found: _Samples) -> Iterable[Scrape]:
    lines: Mapping[int, list[str]] = found.lines
    times = sorted(found.up)
    if times and not found.lines.keys() <= found.up.keys():
        gathered: dict[int, list[str]] = defaultdict(list)
        for time, some in sorted(found.lines.items()):
            place = bisect_left(times, time)
            if place < len(times) and times[place] - time <= TIMES_OF_THEIR_OWN_MS:
                gathered[times[place]].extend(some)
        lines = gathered
    for time in times or sorted(lines):
        body = "\n".join([*lines.get(time, ()), ""]).encode()
        yield Scrape(identity, time, found.up.get(time, True), body, found.durations.get(time, 0.0))


def identity_of(labels: str) -> Identity:
    """From a JSON object, as `json.dumps(dict(identity))` makes it."""
    return tuple(sorted(json.loads(labels).items()))
