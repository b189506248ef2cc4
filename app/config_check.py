"""`infermeter check-config`: what a configuration will do, and all that is wrong with what it names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.config import LISTS, Config, ConfigError, Problem, load_config
from app.targets import TargetList, sources
from collectors.served_list import ServedList
from collectors.target import TargetSecretError
from collectors.target_source import LIST_TIMEOUT_SECONDS, TargetSource

WAIT_SECONDS = 2 * LIST_TIMEOUT_SECONDS
"""How long lists that come over the network may take, all together: a person waits."""


def check_config(path: Path | str, *, wait_seconds: float = WAIT_SECONDS) -> list[str]:
    """A summary of a configuration that can be used, in lines: what will be scraped and who is told.

    Beside the file itself, the lists and secrets it names are read. A list that comes over the network is
    asked too, but what is wrong with it is a line that begins with `warning:` and no refusal: it may be
    another machine that is going to ask. Raises ConfigError.
    """
    config = load_config(path)
    targets = TargetList(config, sources(config))
    targets.refresh(datetime.now(UTC).replace(tzinfo=None), wait_seconds=wait_seconds)
    problems = [
        Problem(None, None, source.origin, problem)
        for source in targets.lists
        if source.refresh_seconds is None
        for problem in source.problems
    ]
    told = {problem.message for problem in problems}
    warnings = [problem for problem in targets.problems if problem not in told]
    warnings += [f"{title}: no whole answer within {wait_seconds:g} s" for title in targets.unanswered()]
    problems += _secrets(config, targets.lists)
    if problems:
        raise ConfigError(str(path), problems)
    return [*(f"warning: {warning}" for warning in warnings), summary(config, targets.lists, len(warnings))]


def _secrets(config: Config, lists: Sequence[TargetSource]) -> list[Problem]:
    """What is wrong with the files of secrets and certificates, and with addresses that are secrets."""
    asked = [("targets", f"target {target.name}", target) for target in config.targets]
    asked += [
        ("access", f"list {entry.shown_url}", entry.request(entry.url))
        for entry in config.lists
        if isinstance(entry, ServedList)
    ]
    # What holds for all targets of a list can be told from any of them.
    asked += [
        (source.origin, f"target {target.name}", target) for source in lists for target in source.targets[:1]
    ]
    problems = []
    for place, name, target in asked:
        try:
            target.ssl_context()
            target.authorization()
        except TargetSecretError as error:
            problems.append(Problem(None, None, place, f"{name}: {error}"))
    for channel in config.alerts.channels:
        try:
            channel.address()
        except ValueError as error:
            problems.append(Problem(None, None, "alerts.channels", f"channel {channel.name}: {error}"))
    return problems


def summary(config: Config, lists: Sequence[TargetSource], warnings: int = 0) -> str:
    """One line for a person: `12 targets, 1 file_sd list (40 targets), …; nothing wrong`."""
    parts = [_counted(len(config.targets), "target")]
    for origin in LISTS:
        counts = [len(source.targets) for source in lists if source.origin == origin]
        if counts:
            noun = "Kubernetes cluster" if origin == "kubernetes" else f"{origin} list"
            parts.append(f"{_counted(len(counts), noun)} ({_counted(sum(counts), 'target')})")
    if config.discover:
        parts.append("discovery on this machine")
    parts += [f"{channel.kind.capitalize()} channel '{channel.name}'" for channel in config.alerts.channels]
    if not config.alerts.channels:
        parts.append("nobody is told of alerts (no channel)")
    return ", ".join(parts) + ("; " + _counted(warnings, "warning") if warnings else "; nothing wrong")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
