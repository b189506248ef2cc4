"""What is wrong with a Prometheus-compatible API, in words, with the cure where one is known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import requests

from collectors.hiding import hide
from collectors.urls import moved_to

_TOO_MUCH = frozenset({413, 422, 500, 502, 503, 504})
"""Answers to a query that was too large, or came at a bad time. 422 is Prometheus' "too many samples", 503
its timeout and the overload of proxies; Thanos and Mimir use the others as well."""
_NO_POST = frozenset({405, 501})
_BASE = "is this the base of a Prometheus API?"
_CURES = {
    401: "; give `basic_auth` or `bearer_token`",
    403: "; the credentials are not allowed to query",
    404: f"; {_BASE} Mimir's ends in /prometheus, VictoriaMetrics' cluster's in /select/0/prometheus,"
    " a Prometheus' own in its --web.route-prefix",
}
_REFUSED = "; the user and password, or the token, were refused"
_PYTHONS_OWN = re.compile(r"\s*\(_ssl\.c:\d+\)?")


class ApiError(Exception):
    """The API did not give what was asked for; the message says why.

    `too_much`: less at once may help. `again`: the same a little later may.
    """

    def __init__(self, words: str, *, too_much: bool = False, again: bool = False) -> None:
        super().__init__(words)
        self.too_much = too_much
        self.again = again or too_much


class NoPostError(ApiError):
    """The server, or a proxy before it, takes no POST."""


def broken(error: Exception, timeout_seconds: float) -> ApiError:
    """A connection that was not made, or broke off."""
    text = str(error)
    if "Read timed out" in text or "timed out" in text:
        return ApiError(f"no whole answer within {timeout_seconds:g} s", too_much=True)
    if isinstance(error, requests.exceptions.SSLError):
        words = _last_words(_PYTHONS_OWN.sub("", text))
        if "wrong version number" in text:
            return ApiError(f"no TLS connection: {words}; does this port speak https?")
        return ApiError(f"the TLS connection was refused: {words}; see `tls:` in the docs")
    if isinstance(error, requests.exceptions.ConnectionError):
        if "Failed to resolve" in text:
            return ApiError(f"cannot connect: {_last_words(text)}")
        if "establish a new connection" in text:
            return ApiError(f"cannot connect: {_last_words(text)}")
    if isinstance(error, OSError) and "TLS CA certificate" in text:
        return ApiError(f"`tls.ca_file` cannot be read: {text.rpartition(': ')[2]}")
    return ApiError(f"the answer broke off: {type(error).__name__}", again=True)


def _last_words(text: str) -> str:
    return text.rpartition("]")[2].strip(" :')\"(") or text[-120:]


def not_200(response: requests.Response, body: bytes, secrets: Iterable[str], *, posted: bool) -> ApiError:
    """An answer that is none. `secrets`: what was sent and may not be shown, though the server quotes it."""
    status = response.status_code
    if 300 <= status < 400:
        place = moved_to(response.url, response.headers.get("Location"))
        if place is None:
            return ApiError(f"HTTP {status}: redirects and does not say where to")
        place = place.partition("/api/v1")[0]
        if "login" in place or "signin" in place or "oauth" in place:
            return ApiError(
                f"HTTP {status}: redirects to a log-in, {hide(place, secrets)}; {_BASE} Grafana is none"
            )
        return ApiError(f"HTTP {status}: redirects to {hide(place, secrets)}; put that into `url`")
    try:
        words = str(json.loads(body)["error"])
    except (ValueError, LookupError, TypeError, RecursionError):
        words = body[:300].decode("utf-8", "replace")
    words = hide(" ".join(words.split())[:1000], secrets)[:200]
    cure = _REFUSED if status == 401 and secrets else _CURES.get(status, "")
    said = f"HTTP {status}{cure}" + (f" ({words})" if words else "")
    if posted and status in _NO_POST:
        return NoPostError(said)
    return ApiError(said, too_much=status in _TOO_MUCH, again=status == 429)


def not_json(body: bytes, secrets: Iterable[str]) -> ApiError:
    """An answer of something else: a page, an exporter."""
    start = hide(" ".join(body[:200].decode("utf-8", "replace").split()), secrets)[:60]
    cure = _BASE
    if start.startswith(("# HELP ", "# TYPE ")):
        cure = "this is an exporter: scrape it by its own kind, or `kind: auto`"
    return ApiError(f"the answer is not JSON, it starts with {start!r}; {cure}")
