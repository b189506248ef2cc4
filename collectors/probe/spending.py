"""What the probes of one target have cost today, and whether the next one may be sent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal

MIDNIGHT = time()


def day_start(now: datetime) -> datetime:
    """00:00 UTC of the day of `now` (UTC without a zone)."""
    return datetime.combine(now.date(), MIDNIGHT)


@dataclass
class Spending:
    """Of one target in one UTC day. What is in flight counts as the most it may cost."""

    day: date
    spent: Decimal

    def may_send(self, largest: Decimal, cap: Decimal, now: datetime) -> bool:
        """Whether one more probe cannot pass the cap. A new day begins at 0; the one before does not, when a
        clock is put back over midnight."""
        if now.date() != self.day and now.date() != self.day - timedelta(days=1):
            self.day, self.spent = now.date(), Decimal(0)
        return self.spent + largest <= cap

    def reserve(self, largest: Decimal) -> None:
        """Count a probe that is about to be sent, as the most it may cost."""
        self.spent += largest

    def settle(self, day: date, largest: Decimal, cost: Decimal | None) -> None:
        """Put what it cost in the place of the most it might have; None (not known) leaves that."""
        if cost is not None and day == self.day:
            self.spent += cost - largest


def cap_words(cap: Decimal, currency: str) -> str:
    """Why no request is sent."""
    amount = f"{cap:.2f}" if cap == cap.quantize(Decimal("0.01")) else f"{cap.normalize():f}"
    return f"spend cap of {amount} {currency} for today reached; next probe after 00:00 UTC"
