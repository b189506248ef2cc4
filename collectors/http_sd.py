"""Lists of targets from a web server, in Prometheus' http_sd format: the JSON of a file_sd file."""

from __future__ import annotations

from datetime import datetime

from collectors.served_list import ServedList, ServedSource, get
from collectors.target import Target
from collectors.target_groups import content_of, groups, targets_of


class HttpList(ServedList):
    """A web server that lists targets, and what holds for all targets in the list."""


class HttpSd(ServedSource):
    """The targets of one `http_sd` entry."""

    origin = "http_sd"

    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        """Fetch the list."""
        del part, now
        content = content_of(get(self.settings, self.settings.url), as_json=True)
        return targets_of(groups(content), self.settings)
