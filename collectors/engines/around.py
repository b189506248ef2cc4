"""Kinds that read what an engine kind reads, and something more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from collectors.engines.table import EngineKind
from collectors.source import ExpositionKind, Families
from collectors.support import Alias, aliases, impossible

P = TypeVar("P")


@dataclass(frozen=True, kw_only=True)
class AroundEngine(ExpositionKind[P]):
    """A kind around an engine kind, which says what it is and what it can give."""

    engine: EngineKind

    @property
    def yields(self) -> tuple[str, ...]:
        """Canonical columns and histogram metrics that some version can give."""
        return self.engine.yields

    @property
    def aliases(self) -> dict[str, tuple[Alias, ...]]:
        """Canonical column or metric → its names."""
        return dict(aliases(self.engine))

    @property
    def impossible(self) -> Mapping[str, str]:
        """Canonical column or metric → why it can never be had."""
        return impossible(self.engine)

    @property
    def notes(self) -> tuple[str, ...]:
        """What anyone who reads the rows must know."""
        return self.engine.notes

    def score(self, body: bytes, families: Families) -> int:
        """As the engine kind says."""
        return self.engine.score(body, families)

    def wants(self, name: str) -> bool:
        """Whether a series of that name can say something."""
        return self.engine.wants(name)
