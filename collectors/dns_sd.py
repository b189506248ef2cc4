"""Targets by DNS: SRV records name hosts with ports, A and AAAA records addresses."""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationInfo, field_validator

from collectors.target import Target
from collectors.target_groups import Listed, ListError, targets_of
from collectors.target_source import LIST_TIMEOUT_SECONDS, NetworkListSettings, TargetSource
from collectors.urls import checked_url

if TYPE_CHECKING:
    from dns.resolver import Answer, Resolver

_NAME = re.compile(r"[A-Za-z0-9_*]([A-Za-z0-9_-]{0,62})?(\.[A-Za-z0-9_-]{1,63})*\.?")


class DnsList(NetworkListSettings):
    """DNS names that stand for targets, and what holds for all of these."""

    names: list[str] = Field(min_length=1)
    """The names to look up, for instance `_metrics._tcp.gpu.example.com`."""
    type: Literal["SRV", "A", "AAAA"] = "SRV"
    """The records to look for. SRV records have the port of each target; for the others `port` is needed."""
    port: int | None = Field(default=None, ge=1, le=65535, validate_default=True)
    """The port of every target, with A and AAAA."""
    scheme: Literal["http", "https"] = "http"
    """How the targets are asked."""
    path: str | None = None
    """The path of the metrics; left out, the kind's own (/metrics, as a rule)."""
    nameserver: str | None = None
    """The DNS server to ask, as an IP address with or without a port (`10.0.0.2:5353`); left out, those of
    this machine. The hosts that SRV records name are looked up by this machine's own, as always."""

    @field_validator("names")
    @classmethod
    def _dns_names(cls, value: list[str]) -> list[str]:
        for name in value:
            if len(name) > 254 or not _NAME.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is no DNS name; write it like _metrics._tcp.gpu.example.com")
        return value

    @field_validator("port")
    @classmethod
    def _port_where_it_is_needed(cls, value: int | None, info: ValidationInfo) -> int | None:
        kind = info.data.get("type")
        if kind in ("A", "AAAA") and value is None:
            raise ValueError(f"is needed with `type: {kind}`: such records have no port")
        if kind == "SRV" and value is not None:
            raise ValueError("has no place with `type: SRV`: each record has its own")
        return value

    @field_validator("path")
    @classmethod
    def _path_of_a_url(cls, value: str | None) -> str | None:
        if value is not None:
            checked_url(f"http://host/{value.removeprefix('/')}")
        return value

    @field_validator("nameserver")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None:
            nameserver_address(value)
        return value


def nameserver_address(text: str) -> tuple[str, int]:
    """`10.0.0.2`, `10.0.0.2:5353`, `[::1]:53` or `::1` as address and port. Raises ValueError."""
    host, port = text, "53"
    if bracketed := re.fullmatch(r"\[([^\]]+)\](?::([0-9]{1,5}))?", text):
        host, port = bracketed[1], bracketed[2] or port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        address, number = str(ipaddress.ip_address(host)), int(port)
    except ValueError:
        number = 0
    if not 0 < number < 65536:
        raise ValueError("is no IP address with a port; write it like 10.0.0.2:53")
    return address, number


class DnsSd(TargetSource):
    """The targets of one `dns_sd` entry."""

    origin = "dns_sd"
    part = "name"

    def __init__(self, settings: DnsList) -> None:
        super().__init__()
        self.settings = settings
        self.refresh_seconds = settings.refresh_interval_seconds

    @property
    def title(self) -> str:
        """The names as configured."""
        return ", ".join(self.settings.names)

    def parts(self) -> tuple[list[str], list[str]]:
        """The names."""
        return self.settings.names, []

    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        """Look one name up. A name without records is an answer; a server that fails is none."""
        del now
        answer = _look_up(part, self.settings)
        if answer is None:
            return [], [f"there is no such name with {self.settings.type} records"]
        labels = {"__scheme__": self.settings.scheme, "__metrics_path__": self.settings.path or ""}
        addresses = sorted(set(_addresses(answer, self.settings.port)))
        return targets_of((Listed("", address, labels) for address in addresses), self.settings)


def _addresses(answer: Answer, port: int | None) -> Iterator[str]:
    for record in answer:
        if port is None:
            host = record.target.to_text(omit_final_dot=True)
            if host not in (".", "@", ""):  # RFC 2782: a target of "." says that there is no such service
                yield f"{host}:{record.port}"
        else:
            yield f"[{record.address}]:{port}" if ":" in record.address else f"{record.address}:{port}"


def _look_up(name: str, settings: DnsList) -> Answer | None:
    """The records; None where there are none. Raises ListError where nobody can say."""
    # Late: it takes 0.1 s to load, and few need it.
    import dns.exception
    import dns.resolver

    started = time.monotonic()
    try:
        resolver = _resolver(settings)
        return resolver.resolve(name, settings.type, lifetime=LIST_TIMEOUT_SECONDS, search=True)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return None
    except dns.resolver.NoNameservers as error:
        raise ListError(_refusal(error)) from None
    except dns.resolver.NoResolverConfiguration:
        raise ListError("this machine has no DNS server configured; give one as `nameserver`") from None
    except dns.exception.Timeout:
        waited = time.monotonic() - started
        raise ListError(f"no DNS server has answered within {waited:.0f} s") from None
    except (dns.exception.DNSException, OSError, ValueError) as error:
        raise ListError(f"cannot be looked up: {type(error).__name__}") from None


def _resolver(settings: DnsList) -> Resolver:
    import dns.resolver

    if settings.nameserver is None:
        return dns.resolver.Resolver()
    resolver = dns.resolver.Resolver(configure=False)
    address, resolver.port = nameserver_address(settings.nameserver)
    resolver.nameservers = [address]
    return resolver


def _refusal(error: Exception) -> str:
    """What the servers said, of dnspython's account of it (`… answered SERVFAIL`)."""
    said = re.findall(r"answered ([A-Z]+)\b", str(error))
    return f"the DNS server answers {said[-1]}" if said else "no DNS server gives an answer that can be read"
