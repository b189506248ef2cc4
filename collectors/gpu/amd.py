"""AMD device-metrics-exporter (port 5000): `[PREFIX_]gpu_NAME`, where the prefix is a setting of its own.

It says MB and means MiB: a card of 24 GiB (25 770 million bytes) shows 24 534 free. Energy is in uJ,
clocks in MHz, activity 0 to 100. Cards without a sensor show 0, or all bits set (65535), as do all
partitions but the first (CPX, DPX, QPX): such a 0 is not idle, it is not known. Activity can be 0 on a
busy card (#135 MI210, #160 MI308X) or 13 % on an idle one (#139), so it alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collectors.exposition import Nowhere
from collectors.gpu.entities import GpuPlace, Unit
from collectors.gpu.table import GpuKind, Labels, Named
from collectors.source import plain

# "No value" is all bits of the field (device-metrics-exporter #662). The fields below are of 16 bits; a watt
# figure of 255 is real.
_ALL_BITS = 65535.0
MIB = Unit(1048576, 1, 4294967295.0)
PERCENT = Unit(1, 100, _ALL_BITS)
WATT = Unit(1, 1, _ALL_BITS)
CELSIUS = Unit(1, 1, _ALL_BITS)
MEGAHERTZ = Unit(1000000, 1, _ALL_BITS)
MICROJOULE = Unit(1, 1000000, 2.0**64)

COLUMNS: Mapping[str, Sequence[Named]] = {
    "utilization_ratio": (Named("gpu_gfx_activity", PERCENT),),
    "sm_active_ratio": (Named("gpu_prof_sm_active", PERCENT),),
    "tensor_active_ratio": (Named("gpu_prof_tensor_active_percent", PERCENT),),
    "memory_controller_ratio": (Named("gpu_umc_activity", PERCENT),),
    "memory_used_bytes": (Named("gpu_used_vram", MIB),),
    "memory_free_bytes": (Named("gpu_free_vram", MIB),),
    "memory_total_bytes": (Named("gpu_total_vram", MIB),),
    "temperature_celsius": (  # MI3xx has no edge sensor and shows 0; MI2xx has both
        Named("gpu_junction_temperature", CELSIUS),
        Named("gpu_edge_temperature", CELSIUS),
    ),
    "memory_temperature_celsius": (Named("gpu_memory_temperature", CELSIUS),),
    "power_watts": (
        Named("gpu_package_power", WATT),  # MI3xx
        Named("gpu_average_package_power", WATT),  # MI2xx
        Named("gpu_power_usage", WATT),
    ),
    "energy_joules_total": (Named("gpu_energy_consumed", MICROJOULE),),
    "sm_clock_hertz": (Named('gpu_clock{clock_type="system"}', MEGAHERTZ),),
    "memory_clock_hertz": (Named('gpu_clock{clock_type="memory"}', MEGAHERTZ),),
}

_CLOCK = "gpu_clock"
_CLOCK_TYPE_PREFIX = "gpu_clock_type_"  # dropped in 2025
_NO_PARTITION = frozenset({"na", "4294967295"})  # 4294967295: -1 in a VM (#233)
_PARTITIONED = frozenset({"dpx", "tpx", "qpx", "cpx"})
_PARTITION = "partition of a card"
"""A label of our own: the space keeps it apart from any that is exposed."""
_CLOCKS = 4096
"""Room for the number of a clock in a rank."""


class AmdKind(GpuKind):
    """Its names come with any prefix, and clocks under one name."""

    def known(self, key: str) -> str | None:
        """The name of the tables that an exposed one stands for: from its last `gpu_` on."""
        start = key.rfind("gpu_")
        if start > 0 and key[start - 1] != "_":
            return None
        bare = key[start:] if start >= 0 else key
        return bare if bare == _CLOCK else super().known(bare)

    def place(self, name: str, labels: dict[str, str]) -> GpuPlace | Nowhere:
        """Where a series goes."""
        key = self.known(plain(name))
        if key is None:
            return Nowhere.UNWANTED
        lower = {label.lower(): text for label, text in labels.items()}
        if key == _CLOCK:
            kind = lower.get("clock_type", "").lower().removeprefix(_CLOCK_TYPE_PREFIX)
            key = f'{_CLOCK}{{clock_type="{kind}"}}'
            if super().known(key) is None:
                # Asked by name alone, a clock is wanted; a clock of video or data is not.
                return Nowhere.UNOWNED if not kind else Nowhere.UNWANTED
        if not lower.get("gpu_uuid", "").strip("0-"):
            lower.pop("gpu_uuid", None)  # all zeros in a VM (#233): not an identity
        partition = lower.get("gpu_partition_id", "").lower()
        whole_card = lower.get("gpu_compute_partition_type", "").lower() not in _PARTITIONED
        if partition and partition not in _NO_PARTITION and not (partition == "0" and whole_card):
            lower[_PARTITION] = partition
        place = super().place(key, lower)
        if not isinstance(place, GpuPlace):
            return place
        rank, index = place.rank, lower.get("clock_index", "")
        if key.startswith(_CLOCK):  # one per die (XCD): the first, as AMD's own tools show it
            number = int(index) if index.isascii() and index.isdecimal() and len(index) < 4 else _CLOCKS - 1
            rank = rank * _CLOCKS + number
        return place._replace(name=name, rank=rank)


KIND = AmdKind(
    name="amd",
    marks=(
        "*gpu_gfx_activity", "*gpu_umc_activity", "*gpu_used_vram", "*gpu_free_vram", "*gpu_total_vram",
        "*gpu_*package_power", "*gpu_energy_consumed", "*gpu_edge_temperature", "*gpu_junction_temperature",
        "*gpu_nodes_total",
    ),
    columns=COLUMNS,
    labels=Labels(
        uuid=("gpu_uuid",),
        index=("gpu_id",),
        device=(),
        instance=(_PARTITION,),
        model=("card_series", "card_model"),  # the model is a part number: 102-G30211-0C
        driver=("driver_version",),
        pod=("exported_pod", "pod"),
        namespace=("exported_namespace", "namespace"),
        container=("exported_container", "container"),
        copy=("job_id", "workload_id", "kfd_process_id"),
    ),
    own_pod="metrics-exporter",
    zero_is_unknown=frozenset(
        {"temperature_celsius", "memory_temperature_celsius", "power_watts", "energy_joules_total"}
    ),
    first_known=frozenset({"temperature_celsius", "power_watts"}),
    not_on_instance=frozenset({"utilization_ratio"}),  # gfx_activity is "for an unpartitioned GPU"
    instances_are_indexed=True,
    nothing_reserved=("gpu_used_vram",),
    impossible={
        "graphics_active_ratio": "AMD's activity of the graphics engine is the utilization",
        "dram_active_ratio": "there is no such counter; umc_activity is how busy the memory controller is",
        "memory_reserved_bytes": "AMD's driver tells no reserved memory",
        "power_limit_watts": "the exporter does not show it",
        "throttle_reasons": "the exporter counts violations and shows no state",
        "xid_last": "XIDs are NVIDIA's",
    },
)  # fmt: skip
