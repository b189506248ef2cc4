"""Which GPU memory figure is right, from whatever a source gives.

DCGM's own arithmetic (driver ≥ 510): used excludes reserved, used + free + reserved = total, and the
used ratio is used ÷ (total − reserved). used ÷ (used + free) is the same number and needs only what every
exporter version prints by default; it answers "how far to out-of-memory", which comes when free is 0.
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 1048576
ROUNDING = 3 * MIB
"""DCGM divides bytes by whole MiB: up to this much is lost over used, free and reserved together."""


class Memory(NamedTuple):
    """Bytes; None where not known. The ratio is 0 to 1."""

    used: int | None
    free: int | None
    reserved: int | None
    total: int | None
    used_ratio: float | None
    fault: str | None
    """What does not fit together, when something does not."""


def memory(
    used: float | None,
    free: float | None,
    reserved: float | None,
    total: float | None,
    used_ratio: float | None,
    *,
    used_is_shared: bool = False,
    nothing_reserved: bool = False,
) -> Memory:
    """The figures that hold, from what is given (bytes; `used_ratio` as the source itself says it).

    `used_is_shared`: what is given as used may be of single processes (None when they differ); the device's
    own is then the difference, where that is known. `nothing_reserved`: the source knows no reserved memory
    (NVML v1, AMD): what is not used is free.
    """
    fault = None
    total = total or None  # a card of 0 bytes is one that does not tell
    if used == 0 and free == 0:  # dcgm-exporter #103: a card cannot be empty and full
        used = free = reserved = used_ratio = None
    if used_is_shared and total is not None and reserved is not None and free is not None:
        difference = total - reserved - free
        used = used if used is not None and abs(used - difference) <= ROUNDING else difference
    if total is not None and reserved is not None and total - reserved <= 0:
        fault = "reserved memory is not less than the total"
        used = reserved = used_ratio = None
    elif total is not None and used is not None and used > total - (reserved or 0) + ROUNDING:
        fault = "used memory is more than the card can give"
        used = used_ratio = None
    if used is not None and used < 0:
        fault, used = "used memory would be less than nothing", None
    if nothing_reserved and free is reserved is None and used is not None and total is not None:
        free = max(total - used, 0)
    if used is not None and free is not None and used + free > 0:
        used_ratio = used / (used + free)
    elif used is not None and total is not None and reserved is not None:
        used_ratio = used / (total - reserved)
    if used_ratio is not None and not 0 <= used_ratio <= 1:
        used_ratio = None
    if total is None and used is not None and free is not None and reserved is not None:
        total = used + free + reserved
    return Memory(whole(used), whole(free), whole(reserved), whole(total), used_ratio, fault)


def whole(value: float | None) -> int | None:
    """A whole number, or not known."""
    return None if value is None else int(value)
