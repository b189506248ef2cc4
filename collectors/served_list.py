"""Lists of targets that a web server gives out: their settings, and one GET of them."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import Field, field_validator, model_validator

from collectors.fetch import Fetched, fetch, new_session
from collectors.settings import ShownUrl
from collectors.target import Access, Target
from collectors.target_groups import ListError
from collectors.target_source import LIST_TIMEOUT_SECONDS, NetworkListSettings, TargetSource
from collectors.urls import checked_url, split_credentials


class ServedList(NetworkListSettings, ShownUrl):
    """A web server that lists targets, and what holds for all targets in the list."""

    url: str
    """Where the list is, http or https."""
    access: Access = Field(default_factory=Access)
    """The credentials for the list itself. They are not sent to the targets, and those of the targets not
    to the list."""

    @model_validator(mode="before")
    @classmethod
    def _take_out_credentials(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("url"), str):
            return data
        access = data.get("access") or {}
        if isinstance(access, dict) and access.get("basic_auth") is None:
            url, found = split_credentials(data["url"])
            if found is not None:
                return {**data, "url": url, "access": {**access, "basic_auth": found}}
        return data

    @field_validator("url")
    @classmethod
    def _whole_url(cls, value: str) -> str:
        return checked_url(value, "")

    def request(self, url: str) -> Target:
        """The list (or another URL of its server) as something that can be fetched."""
        access = {name: getattr(self.access, name) for name in Access.model_fields}
        pace = {"interval_seconds": LIST_TIMEOUT_SECONDS, "timeout_seconds": LIST_TIMEOUT_SECONDS}
        return Target.model_validate({"name": self.shown_url[:200], "url": url, **pace, **access})


class ServedSource(TargetSource):
    """The targets of one such list: it has no parts but itself."""

    def __init__(self, settings: ServedList) -> None:
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


def get(settings: ServedList, url: str) -> bytes:
    """The body of a URL of the list's server, within `LIST_TIMEOUT_SECONDS`.

    At most 16 MiB; redirects are not followed. Not within an event loop. Raises ListError.
    """

    async def once() -> Fetched:
        async with new_session() as session:
            return await fetch(session, settings.request(url))

    fetched = asyncio.run(once())
    if fetched.error is None:
        return fetched.body
    raise ListError(_in_words(fetched.status, fetched.error))


_CURES = {
    401: "; give the credentials for the list under its `access`",
    403: "; the credentials under its `access` are not allowed to read it",
    404: "; check the path of its `url`",
}


def _in_words(status: int | None, error: str) -> str:
    """The error of a scrape in the words of a list."""
    if status is None or 300 <= status < 400:
        return error
    if status != 200:
        return f"HTTP {status}{_CURES.get(status, '')}"
    return "the answer is empty" if error.startswith("the answer is empty") else error
