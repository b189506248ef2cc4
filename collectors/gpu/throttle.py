"""Why a GPU's clocks are held down: NVML's bit mask (nvml.h, nvmlClocksEventReasons), also DCGM's field 112.

Bits that are not here are kept where a source gives the mask itself: new ones are added by new drivers.
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, int] = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
    "display_clock_setting": 0x100,
}
"""As nvidia-smi spells them (query fields; in XML with a prefix) → bit."""
PREFIXES = ("clocks_event_reasons", "clocks_throttle_reasons")
"""What stands before a reason: since driver 535, and before it."""
