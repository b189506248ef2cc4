"""What NVML's errors mean and what to do about them, in words (nvmlReturn_t of nvml.h)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.gpu.nvml_gateway import (
    GPU_IS_LOST,
    LOST,
    MOVED,
    NO_PERMISSION,
    NOT_FOUND,
    RESET_REQUIRED,
    TIMEOUT,
    UNINITIALIZED,
)

SLOW_CODES = frozenset({9, 12, 18})
"""What only a person ends, by installing a driver or by a reboot."""

CODES: Mapping[int, str] = {
    UNINITIALIZED: "the NVIDIA driver was unloaded or loaded anew meanwhile; it is asked again in a moment",
    NO_PERMISSION: "no permission to see the GPUs; run infermeter as a user who can run `nvidia-smi`",
    NOT_FOUND: "there is no GPU here that it can see; `nvidia-smi -L` lists them",
    9: "the NVIDIA kernel module is not loaded; `nvidia-smi` says why",
    TIMEOUT: "the NVIDIA driver answers for no GPU; look at `dmesg` (XID 119 or 120: reset them, or reboot)",
    12: "no NVIDIA driver on this machine",
    GPU_IS_LOST: "has fallen off the bus (XID 79 in `dmesg`, as a rule): drain and reboot the machine",
    RESET_REQUIRED: "must be reset: `nvidia-smi --gpu-reset`, or reboot the machine",
    18: "the NVIDIA driver was upgraded and is not running yet; reboot this machine",
    999: "this container has lost its GPUs (`systemctl daemon-reload` on the host does that; nvidia-smi: "
    "Unknown Error); restart the container. What ran on the GPUs may go on using them, or run on the CPU",
}
"""By code. 999: NVIDIA/nvidia-container-toolkit #48."""

PACKAGES = {
    "missing": "the Python package nvidia-ml-py is not installed, so GPUs of this machine cannot be read",
    "old": "an abandoned package hides nvidia-ml-py; run `pip uninstall pynvml`, then"
    " `pip install --force-reinstall nvidia-ml-py`",
}

HUNG = "the NVIDIA driver does not answer; look at `dmesg` (XID 119, 120 or 79: reboot the machine)"
STARTING = (
    "the NVIDIA driver is still starting; without persistence mode (`nvidia-smi -pm 1`) it takes seconds"
)
LEFT_BEHIND = (
    "processes hang in the NVIDIA driver and cannot be ended, so no more are started; reboot the machine"
)


def code_words(code: int) -> str:
    """One nvmlReturn_t."""
    return CODES.get(code, f"error {code}; `nvidia-smi` says more")


def gpu_words(index: int, uuid: str | None, code: int) -> str:
    """Why one GPU cannot be read while others can."""
    gpu = f"GPU {index}" + (f" ({uuid})" if uuid else "")
    if code in LOST:
        return f"{gpu} {code_words(code)}"
    if code == TIMEOUT:
        return f"{gpu} hangs in the driver (XID 119 or 120 in `dmesg`, as a rule): reset it, or reboot"
    if code in MOVED:
        return f"{gpu} is not where it was: GPUs are looked for anew"
    return f"{gpu} cannot be read: {code_words(code)}"


def failure_words(said: Mapping[str, Any]) -> str:
    """Why NVML as a whole could not be read: what the gateway said after `failed`."""
    if (code := said.get("code")) is not None:
        gpu = f"GPU {said['index']} " if code in LOST and "index" in said else ""
        return f"NVML: {gpu}{code_words(code)}"
    if (package := said.get("package")) is not None:
        return f"NVML: {PACKAGES.get(package, PACKAGES['missing'])}"
    return f"infermeter could not read NVML, please report: {said.get('fault', 'no reason is known')}"


def is_slow(said: Mapping[str, Any]) -> bool:
    """Whether asking again soon is of no use."""
    return said.get("code") in SLOW_CODES or "package" in said
