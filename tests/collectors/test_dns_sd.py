"""Targets by DNS, against a real server (UDP and TCP) on the loopback."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from pydantic import ValidationError

from app.config import ConfigError, load_text
from collectors import dns_sd
from collectors.dns_sd import DnsList, DnsSd, nameserver_address

NOW = datetime(2026, 11, 30, 3, 0)
NAME = "_metrics._tcp.gpu.example.com"


@dataclass
class DnsServer:
    """Answers from `records`: (name, type) → record texts, the name of an rcode, garbage, or None."""

    address: str
    records: dict[tuple[str, str], list[str] | str | None] = field(default_factory=dict)
    truncate: bool = False
    """Over UDP say only that the answer is too long for it."""

    def answer(self, data: bytes, *, udp: bool) -> bytes | None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        kind = question.to_text().split()[-1]
        found = self.records.get((question.name.to_text(omit_final_dot=True), kind), "NXDOMAIN")
        if found is None:
            return None
        if found == "garbage":
            return data[:2] + b"\x84\x00\xff"
        reply = dns.message.make_response(query)
        if isinstance(found, str):
            reply.set_rcode(dns.rcode.from_text(found))
        elif udp and self.truncate:
            reply.flags |= dns.flags.TC
        elif found:
            reply.answer.append(dns.rrset.from_text(question.name, 30, "IN", kind, *found))
        return reply.to_wire()


@contextmanager
def dns_server() -> Iterator[DnsServer]:
    tcp = socket.create_server(("127.0.0.1", 0))
    address = tcp.getsockname()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(address)
    server = DnsServer(f"127.0.0.1:{address[1]}")

    def over_udp() -> None:
        while True:
            data, client = udp.recvfrom(4096)
            if not data:
                return
            if (reply := server.answer(data, udp=True)) is not None:
                udp.sendto(reply, client)

    def over_tcp() -> None:
        while True:
            connection, _ = tcp.accept()
            with connection:
                head = connection.recv(2)
                if not head:
                    return
                reply = server.answer(connection.recv(struct.unpack("!H", head)[0]), udp=False)
                if reply is not None:
                    connection.sendall(struct.pack("!H", len(reply)) + reply)

    threads = [threading.Thread(target=loop, daemon=True) for loop in (over_udp, over_tcp)]
    for thread in threads:
        thread.start()
    try:
        yield server
    finally:
        udp.sendto(b"", address)
        socket.create_connection(address).close()
        for thread in threads:
            thread.join(5)
        udp.close()
        tcp.close()


@pytest.fixture
def server() -> Iterator[DnsServer]:
    with dns_server() as running:
        yield running


def listed(server: DnsServer, **settings: Any) -> DnsSd:
    # The final dot: search domains of this machine play no part.
    given = {"names": [f"{NAME}."], "nameserver": server.address, **settings}
    return DnsSd(DnsList.model_validate(given))


def urls(source: DnsSd) -> list[str]:
    return [target.url for target in source.targets]


def test_srv_records_give_hosts_and_ports(server: DnsServer) -> None:
    server.records[NAME, "SRV"] = ["0 5 9400 gpu-2.example.com.", "0 5 9401 gpu-1.example.com."]
    source = listed(server, project="chat")
    source.refresh(NOW)
    assert [(target.name, target.url, target.project) for target in source.targets] == [
        ("gpu-1.example.com:9401", "http://gpu-1.example.com:9401/metrics", "chat"),
        ("gpu-2.example.com:9400", "http://gpu-2.example.com:9400/metrics", "chat"),
    ]
    assert source.problems == []


def test_scheme_and_path_make_the_url(server: DnsServer) -> None:
    server.records[NAME, "SRV"] = ["0 5 8000 nim.example.com."]
    source = listed(server, scheme="https", path="/v1/metrics")
    source.refresh(NOW)
    assert urls(source) == ["https://nim.example.com:8000/v1/metrics"]


@pytest.mark.parametrize(
    ("kind", "records", "expected"),
    [
        ("A", ["10.0.0.2", "10.0.0.1"], ["http://10.0.0.1:9400/metrics", "http://10.0.0.2:9400/metrics"]),
        ("AAAA", ["fd00::1"], ["http://[fd00::1]:9400/metrics"]),
    ],
)
def test_address_records_take_the_port_of_the_settings(
    server: DnsServer, kind: str, records: list[str], expected: list[str]
) -> None:
    server.records["gpu.example.com", kind] = records
    source = listed(server, names=["gpu.example.com."], type=kind, port=9400)
    source.refresh(NOW)
    assert urls(source) == expected


def test_an_answer_too_long_for_udp_is_fetched_over_tcp(server: DnsServer) -> None:
    server.records[NAME, "SRV"] = [f"0 5 9400 gpu-{number}.example.com." for number in range(300)]
    server.truncate = True
    source = listed(server)
    source.refresh(NOW)
    assert len(source.targets) == 300


def test_a_service_that_says_it_is_not_there_has_no_targets(server: DnsServer) -> None:
    server.records[NAME, "SRV"] = ["0 0 0 ."]  # RFC 2782
    source = listed(server)
    source.refresh(NOW)
    assert (source.targets, source.problems) == ([], [])


@pytest.mark.parametrize("nothing", ["NXDOMAIN", []])
def test_a_name_without_records_is_an_empty_list_and_is_told(
    server: DnsServer, nothing: str | list[str]
) -> None:
    server.records[NAME, "SRV"] = ["0 5 9400 gpu-1.example.com."]
    source = listed(server)
    source.refresh(NOW)
    server.records[NAME, "SRV"] = nothing
    assert [target.name for target in source.refresh(NOW).removed] == ["gpu-1.example.com:9400"]
    assert source.problems == [f"{NAME}.: there is no such name with SRV records"]


@pytest.mark.parametrize("code", ["SERVFAIL", "REFUSED"])
def test_a_server_that_fails_leaves_the_last_good_list(server: DnsServer, code: str) -> None:
    server.records[NAME, "SRV"] = ["0 5 9400 gpu-1.example.com."]
    source = listed(server)
    source.refresh(NOW)
    server.records[NAME, "SRV"] = code
    assert not source.refresh(NOW).any()
    assert source.problems == [
        (
            f"{NAME}.: the DNS server answers {code}; its last good list (1 targets) stays in use"
            " (since 2026-11-30 03:00 UTC)"
        )
    ]


def test_a_server_that_is_silent_is_given_up(server: DnsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_sd, "LIST_TIMEOUT_SECONDS", 0.2)
    server.records[NAME, "SRV"] = None
    source = listed(server)
    source.refresh(NOW)
    assert source.problems == [
        f"{NAME}.: no DNS server has answered within 0 s; it gives no targets (since 2026-11-30 03:00 UTC)"
    ]


def test_an_answer_that_is_no_dns_is_a_failure(server: DnsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_sd, "LIST_TIMEOUT_SECONDS", 0.2)
    server.records[NAME, "SRV"] = "garbage"
    source = listed(server)
    source.refresh(NOW)
    assert source.problems[0].startswith(f"{NAME}.: no DNS server ")
    assert source.targets == []


def test_a_name_that_fails_does_not_cost_the_other_its_news(server: DnsServer) -> None:
    other = "_vllm._tcp.example.com"
    server.records[NAME, "SRV"] = ["0 5 9400 gpu-1.example.com."]
    server.records[other, "SRV"] = ["0 5 8000 llm-1.example.com."]
    source = listed(server, names=[f"{NAME}.", f"{other}."])
    source.refresh(NOW)
    server.records[NAME, "SRV"] = "SERVFAIL"
    server.records[other, "SRV"] = ["0 5 8000 llm-2.example.com."]
    source.refresh(NOW)
    assert [target.name for target in source.targets] == ["gpu-1.example.com:9400", "llm-2.example.com:8000"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.2", ("10.0.0.2", 53)),
        ("10.0.0.2:5353", ("10.0.0.2", 5353)),
        ("::1", ("::1", 53)),
        ("[fd00::2]:5353", ("fd00::2", 5353)),
    ],
)
def test_a_nameserver_is_an_address_with_or_without_a_port(text: str, address: tuple[str, int]) -> None:
    assert nameserver_address(text) == address


@pytest.mark.parametrize("text", ["dns.example.com", "10.0.0.2:0", "10.0.0.2:x", "", "[::1", "1:2:3"])
def test_anything_else_is_no_nameserver(text: str) -> None:
    with pytest.raises(ValidationError, match=r"is no IP address with a port; write it like 10\.0\.0\.2:53"):
        DnsList(names=[NAME], nameserver=text)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("names: []", "`dns_sd[0].names`: at least 1 entry is wanted here"),
        (
            "names: ['http://h/x']",
            "`dns_sd[0].names`: 'http://h/x' is no DNS name; write it like _metrics._tcp.gpu.example.com",
        ),
        ("names: [a], type: A", "`dns_sd[0].port`: is needed with `type: A`: such records have no port"),
        (
            "names: [a], port: 9400",
            "`dns_sd[0].port`: has no place with `type: SRV`: each record has its own",
        ),
        ("names: [a], type: MX", "`dns_sd[0].type`: must be 'SRV', 'A' or 'AAAA'"),
    ],
)
def test_a_mistake_in_the_settings_is_told_with_its_line(settings: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(f"dns_sd:\n  - {{{settings}}}\n", "c.yaml")
    assert caught.value.lines() == [f"c.yaml line 2: {line}"]
