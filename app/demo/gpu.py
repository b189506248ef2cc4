"""A GPU as its telemetry shows it: it follows the load that its engine puts on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from uuid import NAMESPACE_DNS, uuid5

AMBIENT_CELSIUS = 27.0
THERMAL_LAG_SECONDS = 45.0
THROTTLED_CLOCK_RATIO = 0.55
"""What is left of the clock under a hardware thermal slowdown."""

# NVML clock-event reasons (bit mask).
REASON_IDLE = 0x1
REASON_SW_POWER_CAP = 0x4
REASON_HW_SLOWDOWN = 0x8
REASON_SW_THERMAL = 0x20
REASON_HW_THERMAL = 0x40


@dataclass(frozen=True)
class Card:
    """A GPU model: MiB, watts, MHz, kelvin per watt; sizes, idle values and limits as real ones show."""

    name: str
    total_mib: int
    reserved_mib: int
    """Held by the driver; `used` does not include it."""
    idle_watts: float
    ready_watts: float
    """With a process on it that does nothing: the clocks stay up."""
    limit_watts: float
    idle_sm_mhz: int
    max_sm_mhz: int
    idle_memory_mhz: int
    memory_mhz: int
    kelvin_per_watt: float
    has_memory_sensor: bool = True
    has_nvlink: bool = True


H100 = Card("NVIDIA H100 80GB HBM3", 81559, 479, 69.9, 118.0, 700.0, 345, 1980, 2619, 2619, 0.065)
A100 = Card("NVIDIA A100-SXM4-80GB", 81920, 869, 54.0, 82.0, 400.0, 210, 1410, 1593, 1593, 0.105)
L40S = Card(
    "NVIDIA L40S", 46067, 608, 35.7, 88.0, 350.0, 210, 2520, 405, 9001, 0.135,
    has_memory_sensor=False, has_nvlink=False,
)  # fmt: skip


@dataclass(frozen=True)
class Owner:
    """The pod that a GPU (or a MIG instance) is given to, as the exporter labels it."""

    pod: str
    namespace: str
    container: str


class MemoryHolder:
    """The memory and the activity of a GPU or of one MIG instance."""

    def __init__(self, total_mib: int, reserved_mib: int) -> None:
        self.total_mib = total_mib
        self.reserved_mib = reserved_mib
        self.owner: Owner | None = None
        self.visitor: Owner | None = None
        """A job that a fault put here; it takes the pod labels of an unowned GPU."""
        self.held_mib = 0
        """By the owner: an engine's reservation, a job's tensors."""
        self.outside_mib = 0
        """Beside that: what a fault adds."""
        self.busy = 0.0
        """Share of the tick in which some kernel runs."""
        self.compute = 0.0
        """Share of it with prompt work or training: the tensor cores are the limit."""
        self.graphics_active = 0.0
        self.sm_active = 0.0
        self.tensor_active = 0.0
        self.dram_active = 0.0

    @property
    def usable_mib(self) -> int:
        """What processes can have: used + free."""
        return self.total_mib - self.reserved_mib

    @property
    def used_mib(self) -> int:
        """The driver's `used`; a little always stays free, as an allocation that does not fit fails."""
        return min(self.usable_mib - 100, self.held_mib + self.outside_mib) if self.is_held else 0

    @property
    def free_mib(self) -> int:
        """The rest of what is usable."""
        return self.usable_mib - self.used_mib

    @property
    def is_held(self) -> bool:
        """Whether any process has memory here."""
        return self.held_mib + self.outside_mib > 0

    def clear(self) -> None:
        """Forget the load of the last tick and what faults added."""
        self.busy = 0.0
        self.compute = 0.0
        self.outside_mib = 0
        self.visitor = None

    def add_load(self, busy: float, compute: float) -> None:
        """A process's activity in this tick; several processes share the time."""
        self.busy = min(1.0, self.busy + busy)
        self.compute = min(self.busy, self.compute + compute)

    def settle(self, rng: Random) -> None:
        """Turn the load of this tick into the profiling ratios."""
        busy = self.busy
        compute = self.compute
        wobble = 1 + rng.uniform(-0.04, 0.04)
        self.graphics_active = min(1.0, busy * 0.985)
        self.sm_active = min(1.0, (0.93 * compute + 0.78 * (busy - compute)) * wobble)
        # A decode step reads all weights for a few tokens: memory-bound. A prompt is compute-bound.
        self.tensor_active = min(1.0, (0.62 * compute + 0.055 * (busy - compute)) * wobble)
        self.dram_active = min(1.0, (0.34 * compute + 0.68 * (busy - compute)) * wobble)


class MigInstance(MemoryHolder):
    """A slice of a GPU; `slices` of the card's 7 compute slices."""

    def __init__(self, instance_id: int, profile: str, slices: int, total_mib: int) -> None:
        super().__init__(total_mib, 0)
        self.instance_id = instance_id
        self.profile = profile
        self.slices = slices


class Gpu(MemoryHolder):
    """One card in a node. `advance(dt, rng)` moves power, temperature, clocks and energy."""

    def __init__(self, host: str, index: int, card: Card, rng: Random, instances: list[MigInstance]) -> None:
        super().__init__(card.total_mib, card.reserved_mib)
        self.host = host
        self.index = index
        self.card = card
        self.instances = instances
        self.uuid = f"GPU-{uuid5(NAMESPACE_DNS, f'{host}/{index}.demo')}"
        # Bus numbers of an 8-GPU baseboard.
        self.bus_id = f"00000000:{(0x0F, 0x2D, 0x44, 0x5B, 0x89, 0xA8, 0xC0, 0xD8)[index % 8]:02X}:00.0"
        self.present = True
        """False: the card has fallen off the bus and its series stop."""
        self.linked = False
        """It works on one model with its neighbours."""
        self.throttled = False
        self.xid = 0
        self.reasons = REASON_IDLE
        self.power_watts = card.idle_watts
        # No two slots of a chassis are cooled alike.
        self._cooling = card.kelvin_per_watt * rng.uniform(0.93, 1.1)
        self.temperature = AMBIENT_CELSIUS + card.idle_watts * self._cooling
        self.energy_joules = card.idle_watts * rng.uniform(5e5, 4e6)
        """Since the driver was loaded: some days to some weeks of idling before the demo."""
        self.sm_mhz = card.idle_sm_mhz
        self.memory_mhz = card.idle_memory_mhz
        self.utilization_percent = 0
        self.memory_utilization_percent = 0
        self.pcie_tx = 0
        self.pcie_rx = 0
        self.nvlink_mb_per_second = 0

    @property
    def holders(self) -> list[MemoryHolder]:
        """What the exporter reports on: the MIG instances, or the whole card when there are none."""
        return list(self.instances) or [self]

    def advance(self, dt: float, rng: Random) -> None:
        """One tick of `dt` seconds under the loads set on the card or on its instances."""
        card = self.card
        held = False
        if self.instances:
            for instance in self.instances:
                instance.settle(rng)
                held = held or instance.is_held
                self.add_load(instance.busy * instance.slices / 7, instance.compute * instance.slices / 7)
        held = held or self.is_held
        self.settle(rng)
        busy = self.busy
        clock_ratio = THROTTLED_CLOCK_RATIO if self.throttled else 1.0
        floor = card.ready_watts if held else card.idle_watts
        demand = floor + (card.limit_watts - floor) * (0.78 * self.tensor_active + 0.62 * self.dram_active)
        capped = demand >= card.limit_watts * 0.985
        watts = min(card.limit_watts, demand * rng.uniform(0.985, 1.015)) * (0.35 + 0.65 * clock_ratio)
        self.energy_joules += (self.power_watts + watts) / 2 * dt
        self.power_watts = watts
        ambient = AMBIENT_CELSIUS + (42.0 if self.throttled else 0.0)
        settled = ambient + watts * self._cooling
        self.temperature += (settled - self.temperature) * (1 - math.exp(-dt / THERMAL_LAG_SECONDS))
        if held:
            self.sm_mhz = round(card.max_sm_mhz * clock_ratio / 15) * 15 - (
                15 * (capped and not self.throttled)
            )
            self.memory_mhz = card.memory_mhz
        else:
            self.sm_mhz = card.idle_sm_mhz
            self.memory_mhz = card.idle_memory_mhz
        self.reasons = 0 if busy > 0 else REASON_IDLE
        if capped:
            self.reasons |= REASON_SW_POWER_CAP
        if self.throttled:
            self.reasons |= REASON_HW_SLOWDOWN | REASON_SW_THERMAL | REASON_HW_THERMAL
        # Between two decode steps the GPU waits for the scheduler.
        kernels = 0.985 * self.compute + 0.92 * (busy - self.compute)
        self.utilization_percent = min(100, round(kernels * 100 * rng.uniform(0.97, 1.03)))
        self.memory_utilization_percent = min(100, round(self.dram_active * 92))
        self.pcie_tx = int(2e4 + busy * 3.1e7 * rng.uniform(0.7, 1.3))
        self.pcie_rx = int(1.5e4 + busy * 6.4e7 * rng.uniform(0.7, 1.3))
        self.nvlink_mb_per_second = int(busy * 21_000 * rng.uniform(0.9, 1.1)) if self.linked else 0
