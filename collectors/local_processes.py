"""Which processes of this machine listen where, from /proc (Linux). The edge: it only reads.

Only in the first PID namespace: there the driver's process ids and ours are the same numbers. In a container
they are not, and a number that is in both would be another process.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""Linux' own number for it (PROC_PID_INIT_INO, 0xEFFFFFFC), the same on every machine."""

INIT = 1
"""Holds sockets for others (systemd's socket activation) and is everyone's parent: says nothing."""

_LISTEN = "0A"
_PARENTS_CAP = 64

Address = tuple[str, int]
"""Host as in a URL, and port."""


class Listener(NamedTuple):
    """One listening TCP socket."""

    ip: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    inode: int


def listeners_of(
    pids: Iterable[int], addresses: Set[Address], proc: Path = PROC, *, first_namespace_only: bool = True
) -> dict[int, set[Address]]:
    """Process id → those of `addresses` that it, or a parent of it, listens on.

    Processes that may not be looked into, or are gone, are left out. Empty where /proc is not the whole
    machine's.
    """
    if not addresses or (first_namespace_only and not in_first_pid_namespace(proc)):
        return {}
    at: dict[int, set[Address]] = {}
    for listener in _listeners(proc):
        for address in addresses:
            if address[1] == listener.port and _answers(listener, address[0]):
                at.setdefault(listener.inode, set()).add(address)
    if not at:
        return {}
    held: dict[int, set[Address]] = {}
    found: dict[int, set[Address]] = {}
    for pid in pids:
        for one in _with_parents(pid, proc):
            if one not in held:
                held[one] = {address for inode in _sockets(one, proc) for address in at.get(inode, ())}
            if held[one]:
                found.setdefault(pid, set()).update(held[one])
    return found


def in_first_pid_namespace(proc: Path = PROC) -> bool:
    """Whether process ids here are the machine's own."""
    try:
        return str((proc / "self/ns/pid").readlink()) == FIRST_PID_NAMESPACE
    except OSError:
        return False


def parse_listeners(text: str) -> list[Listener]:
    """The listening sockets in /proc/net/tcp or tcp6; lines that do not look like it are left out."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        where, _, port = fields[1].partition(":")
        try:
            raw = bytes.fromhex(where)
            # Each 32-bit word is in the machine's byte order: little-endian wherever there are GPUs.
            words = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
            found.append(Listener(ipaddress.ip_address(words), int(port, 16), int(fields[9])))
        except ValueError:
            continue
    return found


def is_here(host: str) -> bool:
    """Whether a host of a URL is this machine, as far as that can be told without asking the network."""
    if host in ("localhost", socket.gethostname()):
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    return ip.is_loopback or _is_own(str(ip), socket.AF_INET if ip.version == 4 else socket.AF_INET6)


def _is_own(ip: str, family: int) -> bool:
    """Only an address of this machine can be bound to; nothing is sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError:
        return False
    return True


def _answers(listener: Listener, host: str) -> bool:
    if listener.ip.is_unspecified:
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:  # localhost, or the machine's name, which may stand for any of its addresses
        return host != "localhost" or listener.ip.is_loopback
    mapped = getattr(listener.ip, "ipv4_mapped", None)
    return ip in (listener.ip, mapped)


def _listeners(proc: Path) -> Iterator[Listener]:
    for name in ("tcp", "tcp6"):
        try:
            text = (proc / "net" / name).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        yield from parse_listeners(text)


def _with_parents(pid: int, proc: Path) -> Iterator[int]:
    for _ in range(_PARENTS_CAP):
        if pid <= INIT:
            return
        yield pid
        try:
            stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        # After the name, which stands in brackets and may hold any character: state, parent, …
        fields = stat.rpartition(")")[2].split()
        if len(fields) < 2 or not fields[1].isdecimal():
            return
        pid = int(fields[1])


def _sockets(pid: int, proc: Path) -> Iterator[int]:
    try:
        entries = list((proc / str(pid) / "fd").iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            name = str(entry.readlink())
        except OSError:
            continue
        if name.startswith("socket:[") and name.endswith("]") and name[8:-1].isdecimal():
            yield int(name[8:-1])
