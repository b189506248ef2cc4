"""Lists of targets from a web server, in Prometheus' http_sd format: the JSON of a file_sd file."""

from __future__ import annotations

from datetime import datetime

from collectors.served_list import ServedList, get
from collectors.target import Target
from collectors.target_groups import content_of, groups, targets_of
from collectors.target_source import TargetSource


class HttpList(ServedList):
    """A web server that lists targets, and what holds for all targets in the list."""


class HttpSd(TargetSource):
    """The targets of one `http_sd` entry."""

    origin = "http_sd"

    def __init__(self, settings: HttpList) -> None:
        super().__init__()
        self.settings = settings
        self.refresh_seconds = settings.refresh_interval_seconds

    @property
    def title(self) -> str:
        """The URL as people may see it."""
        return self.settings.shown_url

    def parts(self) -> tuple[list[str], list[str]]:
        """The list itself."""
        return [self.title], []

    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        """Fetch the list."""
        del part, now
        content = content_of(get(self.settings, self.settings.url), as_json=True)
        return targets_of(groups(content), self.settings)
