"""URLs of targets: checked, completed, and shown without what is secret in them."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urljoin, urlsplit, urlunsplit

DEFAULT_PATH = "/metrics"
"""Where exporters and engines serve their metrics unless told otherwise."""

SECRET_WORDS = ("key", "token", "secret", "pass", "pwd", "auth", "sig", "credential")
"""A query parameter whose name holds one of these never shows its value."""

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_HOST_LABEL = re.compile(r"\w([\w-]{0,61}\w)?")
_PORT_TOO_HIGH = re.compile(r"://[^/?#@]*:[0-9]{5,}(?:[/?#]|$)")
_UNFIT = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")


def checked_url(value: str, default_path: str = DEFAULT_PATH) -> str:
    """The URL, stripped, with `default_path` where it has no path, without a fragment.

    Raises ValueError, with the cure and without any credentials, for what cannot be fetched.
    """
    value = value.strip()
    if not value:
        raise ValueError("is empty; write the URL of the metrics, like http://gpu-node-1:9400/metrics")
    scheme = _SCHEME.match(value)
    if scheme is None:
        raise ValueError(f"does not say http or https; write {_with_scheme(value)}")
    if scheme.group(1).lower() not in ("http", "https"):
        raise ValueError(f"starts with {scheme.group(1)}://; only http:// and https:// can be scraped")
    if _UNFIT.search(value):
        raise ValueError("holds a space or a control character; write it as %20 (or %0A …)")
    parts = _split(value)
    if parts is None:
        if _PORT_TOO_HIGH.search(value):
            raise ValueError("has a port over 65535; write the exporter's own port")
        raise ValueError("cannot be read; write it like http://gpu-node-1:9400/metrics")
    if parts.username is not None:
        raise ValueError("holds a user name or a password; take them out (`basic_auth` is their place)")
    if parts.port == 0:
        raise ValueError("has the port 0, which nothing can answer on; write the exporter's own port")
    if not _is_host(parts.hostname or ""):
        raise ValueError("names no host; write an IP address or a host name, like http://gpu-node-1:9400")
    path = parts.path if parts.path not in ("", "/") else default_path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def checked_host(value: str) -> str:
    """An IP address or a host name (RFC 1123, and `_`, which many networks use), as it is.

    Raises ValueError for anything else. Whether there is such a host is not asked.
    """
    if not _is_host(value):
        raise ValueError(
            "is neither an IP address nor a host name; write it like 0.0.0.0, ::1 or gpu-node-1.example.com"
        )
    return value


def _is_host(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        labels = value.removesuffix(".").split(".")
        return (
            len(value) <= 253
            and all(_HOST_LABEL.fullmatch(label) for label in labels)
            and not labels[-1].isdigit()  # 127.0.0 and 300.1.1.1 are meant as addresses
        )
    return True


def split_credentials(value: str) -> tuple[str, dict[str, str] | None]:
    """A URL without its `user:password@`, and these as `username` and `password`, or None."""
    parts = _split(value.strip())
    if parts is None or not parts.username:
        return value, None
    rest = parts.netloc.rpartition("@")[2]
    found = {"username": unquote(parts.username), "password": unquote(parts.password or "")}
    return urlunsplit(parts._replace(netloc=rest)), found


def shown_url(value: str) -> str:
    """The URL as people may see it: no credentials, no value of a secret-looking parameter."""
    parts = _split(value)
    if parts is None:
        return "(not a URL)"
    query = [
        (name, "hidden" if any(word in name.lower() for word in SECRET_WORDS) else content)
        for name, content in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], query=urlencode(query, safe="/:[],"))
    )


def moved_to(url: str, location: str | None) -> str | None:
    """Where a redirect of `url` leads, without credentials and query; None where it says nothing sensible."""
    try:
        parts = _split(urljoin(url, (location or "").strip()))
    except ValueError:
        return None
    if parts is None or not location or parts.scheme not in ("http", "https"):
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def reachable_url(url: str, seen_from: str) -> str:
    """The URL as it is asked from elsewhere: what the host of `seen_from` calls localhost is that host."""
    target, host = _split(url), _split(seen_from)
    if target is None or host is None or not _is_loopback(target) or _is_loopback(host):
        return url
    name = f"[{host.hostname}]" if ":" in (host.hostname or "") else host.hostname
    return urlunsplit(target._replace(netloc=f"{name}:{target.port}" if target.port else f"{name}"))


def default_name(url: str) -> str:
    """What a target is called that was given no name: host:port, with the path where it is unusual.

    Empty for what is no URL.
    """
    parts = _split(url.strip())
    if parts is None or not parts.scheme:
        return ""
    place = parts.netloc.rpartition("@")[2]
    path = parts.path.rstrip("/")
    return place if path in ("", DEFAULT_PATH) else place + path


def _split(value: str) -> SplitResult | None:
    """The parts, or None when there is no host or the port is no number (the standard messages
    would show the password)."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.hostname else None


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _with_scheme(value: str) -> str:
    """The cure for a URL without a scheme, free of what could be a secret."""
    place, _, path = re.split(r"[?#]", value)[0].partition("/")
    if "@" in place or _UNFIT.search(value) or not re.fullmatch(r"[\w.\[\]:-]+", place):
        return "http:// before the host"
    return f"http://{place}/{path}" if path else f"http://{place}{DEFAULT_PATH}"
