"""NVIDIA dcgm-exporter: 1.x (lower-case names), 2.x to 4.8, and the names and units of 4.9 (DCGM 4.7).

Names and units: `etc/default-counters.csv` of the exporter, DCGM's field list (`dcgm_fields.py`; DCGM 4.6
has some of the new names already), and the 4.9.0 release note. Of one concept the new name stands first,
as its unit is finer; GPU_UTIL stands before GPU_UTIL_RATIO, whose unit changed under one name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collectors.gpu.table import (
    BITS,
    BYTE,
    CELSIUS,
    CODE,
    HERTZ,
    JOULE,
    MEGAHERTZ,
    MIB,
    MILLIJOULE,
    PERCENT,
    RATIO,
    RATIO_OR_PERCENT,
    WATT,
    GpuKind,
    Labels,
    Named,
)

OLDEST = "1.x"
OLD = "2.x to 4.8"
NEW = "since 4.9"
UTIL_RATIO = "a ratio since 4.9; with DCGM 4.6 a percent"

COLUMNS: Mapping[str, Sequence[Named]] = {
    "utilization_ratio": (
        Named("DCGM_FI_DEV_GPU_UTIL", PERCENT, versions=OLD),
        # Field 203, a percent, in DCGM 4.6; field 1613, a ratio, from 4.7 on.
        Named("DCGM_FI_DEV_GPU_UTIL_RATIO", RATIO_OR_PERCENT, versions=UTIL_RATIO),
        Named("dcgm_gpu_utilization", PERCENT, versions=OLDEST),
    ),
    "graphics_active_ratio": (
        Named("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", RATIO, versions=NEW),
        # Its HELP said "in %" for years: it is 0 to 1.
        Named("DCGM_FI_PROF_GR_ENGINE_ACTIVE", RATIO, versions=OLD),
    ),
    "sm_active_ratio": (
        Named("DCGM_FI_PROF_SM_UTIL_RATIO", RATIO, versions=NEW),
        # Can exceed 1 on MIG (DCGM #152); kept as it is.
        Named("DCGM_FI_PROF_SM_ACTIVE", RATIO, versions=OLD),
    ),
    "tensor_active_ratio": (
        Named("DCGM_FI_PROF_TENSOR_UTIL_RATIO", RATIO, versions=NEW),
        Named("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", RATIO, versions=OLD),
    ),
    "dram_active_ratio": (
        Named("DCGM_FI_PROF_DRAM_UTIL_RATIO", RATIO, versions=NEW),
        Named("DCGM_FI_PROF_DRAM_ACTIVE", RATIO, versions=OLD),
    ),
    "memory_controller_ratio": (  # time the memory bus is busy, not memory in use (dcgm-exporter #147)
        Named("DCGM_FI_DEV_MEMORY_UTIL_RATIO", RATIO, versions=NEW),
        Named("DCGM_FI_DEV_MEM_COPY_UTIL", PERCENT, versions=OLD),
        Named("dcgm_mem_copy_utilization", PERCENT, versions=OLDEST),
    ),
    "memory_used_bytes": (
        Named("DCGM_FI_DEV_FB_USED_BYTES", BYTE, versions=NEW),
        Named("DCGM_FI_DEV_FB_USED", MIB, versions=OLD),
        Named("dcgm_fb_used", MIB, versions=OLDEST),
    ),
    "memory_free_bytes": (
        Named("DCGM_FI_DEV_FB_FREE_BYTES", BYTE, versions=NEW),
        Named("DCGM_FI_DEV_FB_FREE", MIB, versions=OLD),
        Named("dcgm_fb_free", MIB, versions=OLDEST),
    ),
    "memory_reserved_bytes": (  # printed by default since exporter 4.4.0; driver 510 and newer
        Named("DCGM_FI_DEV_FB_RESERVED_BYTES", BYTE, versions=NEW),
        Named("DCGM_FI_DEV_FB_RESERVED", MIB, versions=OLD),
    ),
    "memory_total_bytes": (
        Named("DCGM_FI_DEV_FB_CAPACITY_BYTES", BYTE, versions=NEW),
        Named("DCGM_FI_DEV_FB_TOTAL", MIB, versions=OLD),
    ),
    "memory_used_ratio": (
        Named("DCGM_FI_DEV_FB_USED_RATIO", RATIO, versions=NEW),
        Named("DCGM_FI_DEV_FB_USED_PERCENT", RATIO, versions=OLD),  # field 254: 0 to 1 in spite of its name
    ),
    "temperature_celsius": (
        Named("DCGM_FI_DEV_GPU_TEMP_CELSIUS", CELSIUS, versions=NEW),
        Named("DCGM_FI_DEV_GPU_TEMP", CELSIUS, versions=OLD),
        Named("dcgm_gpu_temp", CELSIUS, versions=OLDEST),
    ),
    "memory_temperature_celsius": (
        Named("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", CELSIUS, versions=NEW),
        Named("DCGM_FI_DEV_MEMORY_TEMP", CELSIUS, versions=OLD),
        Named("dcgm_memory_temp", CELSIUS, versions=OLDEST),
    ),
    "power_watts": (
        Named("DCGM_FI_DEV_BOARD_POWER_WATTS", WATT, versions=NEW),
        Named("DCGM_FI_DEV_POWER_USAGE", WATT, versions=OLD),
        Named("dcgm_power_usage", WATT, versions=OLDEST),
    ),
    "power_limit_watts": (  # what is enforced before what was asked for
        Named("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", WATT, versions=NEW),
        Named("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", WATT, versions=OLD),
        Named("DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", WATT, versions=NEW),
        Named("DCGM_FI_DEV_POWER_MGMT_LIMIT", WATT, versions=OLD),
    ),
    "energy_joules_total": (  # since driver load
        Named("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", JOULE, versions=NEW),
        Named("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", MILLIJOULE, versions=OLD),
        Named("dcgm_total_energy_consumption", MILLIJOULE, versions=OLDEST),
    ),
    "sm_clock_hertz": (
        Named("DCGM_FI_DEV_SM_CLOCK_HERTZ", HERTZ, versions=NEW),
        Named("DCGM_FI_DEV_SM_CLOCK", MEGAHERTZ, versions=OLD),
        Named("dcgm_sm_clock", MEGAHERTZ, versions=OLDEST),
    ),
    "memory_clock_hertz": (
        Named("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", HERTZ, versions=NEW),
        Named("DCGM_FI_DEV_MEM_CLOCK", MEGAHERTZ, versions=OLD),
        Named("dcgm_memory_clock", MEGAHERTZ, versions=OLDEST),
    ),
    "throttle_reasons": (  # field 112; unknown bits are kept
        Named("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", BITS),
        Named("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", BITS),
    ),
    "xid_last": (  # the last code, for weeks: what counts is its change
        Named("DCGM_FI_DEV_XID_ERROR", CODE, versions=NEW),
        Named("DCGM_FI_DEV_XID_ERRORS", CODE, versions=OLD),
        Named("dcgm_xid_errors", CODE, versions=OLDEST),
    ),
}

KIND = GpuKind(
    name="dcgm",
    marks=("dcgm_*",),
    columns=COLUMNS,
    labels=Labels(
        uuid=("uuid",),
        instance=("gpu_i_id",),
        model=("modelname",),
        driver=("dcgm_fi_driver_version", "dcgm_fi_system_driver_version"),
        # Prometheus without honor_labels moves the workload to exported_*; 1.x said pod_name.
        pod=("exported_pod", "pod", "pod_name"),
        namespace=("exported_namespace", "namespace", "pod_namespace"),
        container=("exported_container", "container", "container_name"),
        copy=("vgpu", "hpc_job", "pod_uid", "dra_claim_name"),
        elsewhere=("nvlink", "nvswitch", "cpu", "cpucore"),
    ),
    own_pod="dcgm-exporter",
    not_on_instance=frozenset({"utilization_ratio", "memory_controller_ratio"}),  # DCGM #80
    zero_is_unknown=frozenset({"memory_temperature_celsius"}),  # T4, L4, L40S, vGPU: no HBM sensor
    per_process=frozenset({"utilization_ratio", "memory_used_bytes"}),  # from exporter 4.8.2 on (#594)
)
