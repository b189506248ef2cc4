"""What to scrape, how often, and with which credentials: one target as configured.

In YAML the two lengths of time are called `interval` and `timeout`; in Python their names say the unit.
"""

from __future__ import annotations

import base64
import difflib
import re
import ssl
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import (
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from collectors.plain_files import read_plain_file
from collectors.probe.settings import PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS, ProbeSettings
from collectors.prometheus.settings import PrometheusSettings
from collectors.settings import Pace, Settings, ShownUrl, with_pace
from collectors.urls import (
    DEFAULT_PATH,
    checked_host,
    checked_url,
    default_name,
    split_credentials,
)

PROBE = "probe"
"""The kind that sends requests of its own: where it answers is a base URL, like https://api.example.com/v1."""

PROMETHEUS = "prometheus"
"""The kind that is no kind of answer: an API whose series are those of many targets."""

NVML = "nvml"
NVML_URL = "nvml://localhost"
"""The GPUs of this machine have no URL; what stands for it in the store and on the pages."""

_GPU = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+|[^\s/]+/[0-9]+")
SECRET_LIMIT = 64 * 1024
"""More than any token has."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_NOT_OF_NVML = ("basic_auth", "bearer_token", "bearer_token_file", "tls", "model",
                "memory_reservation_ratio", "gpus")  # fmt: skip
"""Settings of what is asked over the network, or of an engine."""


def kind_names() -> list[str]:
    """What `kind` may be: `auto` and the names in `collectors/registry.py`."""
    from collectors.registry import KINDS  # late: the sources it lists may use targets

    return ["auto", *sorted({*KINDS, PROMETHEUS})]


def _default_path(kind: str) -> str:
    """The path of a URL that has none; "" where the URL is a base that paths are added to."""
    from collectors.registry import KINDS  # late, as above

    if kind == PROMETHEUS:
        return ""
    return KINDS[kind].default_path if kind in KINDS else DEFAULT_PATH


class TargetSecretError(Exception):
    """A secret or certificate file cannot be used; the message names the file, never what is in it."""


class BasicAuth(Settings):
    """User name and password (RFC 7617)."""

    username: str = Field(min_length=1)
    """The user name."""
    password: SecretStr | None = None
    """The password."""
    password_file: str | None = Field(default=None, validate_default=True)
    """A file that holds the password instead; read at each scrape, so a rotated one is taken up."""

    @field_validator("username")
    @classmethod
    def _no_colon(cls, value: str) -> str:
        if ":" in value:
            raise ValueError("a user name cannot hold a colon")
        return value

    @field_validator("password_file")
    @classmethod
    def _one_of_the_two(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "password" in info.data:
            if value is not None and info.data["password"] is not None:
                raise ValueError("`password` is set too; keep one of the two")
            if value is None and info.data["password"] is None:
                raise ValueError("`password` or `password_file` is needed")
        return value


class Tls(Settings):
    """How the certificate of an https target is checked."""

    ca_file: str | None = None
    """Certificates (PEM) to trust instead of the system's, for a private certificate authority."""
    insecure: bool = False
    """Accept any certificate. Anyone on the network path can then read the credentials."""
    server_name: str | None = None
    """The name the certificate is for, where it is not the host in the URL."""

    @field_validator("server_name")
    @classmethod
    def _whole_name(cls, value: str | None) -> str | None:
        return None if value is None else checked_host(value)


class Access(Settings):
    """What is sent along, and how the other side is checked."""

    basic_auth: BasicAuth | None = None
    """User name and password."""
    bearer_token: SecretStr | None = None
    """Sent as `Authorization: Bearer …`."""
    bearer_token_file: str | None = None
    """A file that holds the token instead; read at each request, so a rotated one is taken up."""
    tls: Tls = Tls()
    """For https."""

    @field_validator("bearer_token")
    @classmethod
    def _one_authorization(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is not None and not value.get_secret_value():
            raise ValueError("the token is empty; where none is needed, leave this setting out")
        if value is not None and info.data.get("basic_auth") is not None:
            raise ValueError("`basic_auth` is set too; keep one of the two")
        return value

    @field_validator("bearer_token_file")
    @classmethod
    def _one_token(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("bearer_token") is not None:
            raise ValueError("`bearer_token` is set too; keep one of the two")
        if value is not None and info.data.get("basic_auth") is not None:
            raise ValueError("`basic_auth` is set too; keep one of the two")
        return value


class TargetSettings(Access, Pace):
    """What a single target and a list of targets have in common."""

    kind: str = "auto"
    """What answers there; `auto` finds out from the answer."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Shown with the target, for filtering."""
    project: str | None = None
    """Who pays for it."""
    environment: str | None = None
    """Production, staging, …"""
    model: str | None = None
    """The model's name, where the engine does not say it (llama.cpp, TGI)."""
    memory_reservation_ratio: float | None = Field(default=None, gt=0, le=1)
    """The share of its GPUs' memory the engine takes at start, where the engine does not say it."""

    @field_validator("project", "environment", "model")
    @classmethod
    def _one_line_or_none(cls, value: str | None) -> str | None:
        if value is not None and _CONTROL.search(value):
            raise ValueError("cannot hold line breaks or control characters")
        return value or None  # `project: ${PROJECT:-}`

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        known = kind_names()
        if value not in known:
            near = difflib.get_close_matches(value.lower(), known, n=1)
            cure = f"did you mean {near[0]}?" if near else "the kinds are " + ", ".join(known)
            raise ValueError(f"{value!r} is not a known kind; {cure}")
        return value


class Target(TargetSettings, ShownUrl):
    """One endpoint to scrape."""

    name: str = Field(default="", max_length=200)
    """What pages, links and messages call it; must be unique. Left out, it is host:port of the URL."""
    url: str
    """Where the metrics are, http or https; without a path, the kind's own is meant (/metrics, as a rule).
    `kind: nvml` needs none; `kind: probe` takes the base URL of the API, without /chat/completions."""
    gpus: list[str] = Field(default_factory=list)
    """The GPUs an engine runs on: UUIDs (`GPU-…`, `MIG-…`) or `host/index`."""
    probe: ProbeSettings | None = None
    """With `kind: probe`: the request that is sent."""
    prometheus: PrometheusSettings | None = None
    """With `kind: prometheus`: what is read from it."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        """Take credentials out of the URL, and the name from it where none is given; the pace of a probe."""
        if isinstance(data, dict) and data.get("kind") == PROBE:
            data = with_pace(data, PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS)
        if isinstance(data, dict) and data.get("kind") == NVML and not data.get("url"):
            data = {**data, "url": NVML_URL}
        if not isinstance(data, dict) or not isinstance(data.get("url"), str):
            return data
        data = dict(data)
        if not (name := data.get("name")) or (isinstance(name, str) and not name.strip()):
            data["name"] = usual_name(data)
        if data.get("basic_auth") is None:
            data["url"], found = split_credentials(data["url"])
            if found is not None:
                data["basic_auth"] = found
        return data

    @field_validator("name")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if _CONTROL.search(value):
            raise ValueError("a name cannot hold line breaks or control characters")
        return value.strip()

    @field_validator("url")
    @classmethod
    def _whole_url(cls, value: str, info: ValidationInfo) -> str:
        kind = info.data.get("kind", "auto")
        if kind == NVML:
            if value != NVML_URL:
                raise ValueError("has no place with `kind: nvml`, which reads the GPUs of this machine")
            return value
        return checked_url(value, _default_path(kind))

    @model_validator(mode="after")
    def _settings_of_the_kind(self) -> Target:
        for kind in (PROBE, PROMETHEUS):
            if getattr(self, kind) is not None and self.kind != kind:
                raise ValueError(f"`{kind}` needs `kind: {kind}`")
        named = self.probe is not None and self.probe.api_key_header is not None
        if named and self.bearer_token is None and self.bearer_token_file is None:
            raise ValueError("`probe.api_key_header` needs the key: `bearer_token` or `bearer_token_file`")
        if self.kind == NVML:
            for name in _NOT_OF_NVML:
                if getattr(self, name) != type(self).model_fields[name].get_default(
                    call_default_factory=True
                ):
                    raise ValueError(
                        f"`{name}` has no place with `kind: nvml`, which reads the GPUs of this machine"
                    )
        return self

    @field_validator("gpus")
    @classmethod
    def _gpu_names(cls, value: list[str]) -> list[str]:
        for gpu in value:
            if not _GPU.fullmatch(gpu):
                raise ValueError(
                    f"{gpu!r} names no GPU; write its UUID (GPU-…, from `nvidia-smi -L`) or host/index,"
                    " for instance gpu-node-1/0"
                )
        return value

    def authorization(self) -> str | None:
        """The Authorization header, or None. Files are read anew at each call.

        Raises TargetSecretError, naming the file, when one cannot be read or is empty.
        """
        if auth := self.basic_auth:
            password = auth.password.get_secret_value() if auth.password is not None else None
            if password is None and auth.password_file is not None:
                password = read_secret_file(auth.password_file)
            pair = f"{auth.username}:{password or ''}"
            return "Basic " + base64.b64encode(pair.encode()).decode("ascii")
        token = self.bearer_token.get_secret_value() if self.bearer_token is not None else None
        where = f"`bearer_token` of {self.name}"
        if token is None and self.bearer_token_file is not None:
            token = read_secret_file(self.bearer_token_file)
            where = self.bearer_token_file
        if token is None:
            return None
        if not token.isascii() or not token.isprintable() or " " in token:
            raise TargetSecretError(f"{where} holds a space, a line break or another character no token has")
        return f"Bearer {token}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """How to check the certificate; None means the system's usual way. Cheap to call again.

        Raises TargetSecretError, naming the file, when the CA file cannot be used.
        """
        if not self.url.startswith("https:") or (self.tls.ca_file is None and not self.tls.insecure):
            return None
        changed = 0
        if self.tls.ca_file is not None:
            try:
                changed = Path(self.tls.ca_file).stat().st_mtime_ns
            except OSError as error:
                raise TargetSecretError(f"{self.tls.ca_file} cannot be read: {error.strerror}") from None
        return _ssl_context(self.tls.ca_file, changed, self.tls.insecure)


def usual_name(settings: Mapping[str, Any]) -> str:
    """What a target with these settings is called that was given no name; "" where that cannot be said."""
    if settings.get("kind") == NVML:
        return NVML
    url = settings.get("url")
    return default_name(url) if isinstance(url, str) else ""


@lru_cache(maxsize=256)
def _ssl_context(ca_file: str | None, _changed: int, insecure: bool) -> ssl.SSLContext:
    """Kept per file and its modification time: loading certificates takes milliseconds."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise TargetSecretError(f"{ca_file} holds no certificate in PEM form") from None
    except OSError as error:
        raise TargetSecretError(f"{ca_file} cannot be read: {error.strerror}") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def read_secret_file(path: str) -> str:
    """What the file holds, without the line break at its end.

    Raises TargetSecretError, naming the file, when it cannot be read or is empty.
    """
    try:
        text = read_plain_file(path, SECRET_LIMIT).decode("utf-8").strip("\r\n")
    except OSError as error:
        raise TargetSecretError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TargetSecretError(f"{path} is not UTF-8 text") from None
    if not text:
        raise TargetSecretError(f"{path} is empty")
    return text
