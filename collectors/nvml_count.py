"""How many GPUs NVIDIA's driver shows here: run as a program, it prints one JSON object.

A child process of its own, because NVML calls can hang in the driver (gpu-monitoring-tools #46) and old
bindings can crash; it imports nothing of ours. Prints `{"count": 2}` or `{"error": 12}` (NVML's code), or
`{"package": "missing" | "old"}`.
"""

import json
import sys


def nvml_count() -> dict[str, object]:
    """The object to print."""
    try:
        import pynvml
    except ImportError:
        return {"package": "missing"}
    # A package directory instead of one file: the abandoned `pynvml` hides `nvidia-ml-py`.
    if hasattr(pynvml, "__path__"):
        return {"package": "old"}
    try:
        pynvml.nvmlInit()
        count = int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        return {"error": int(error.value)}
    pynvml.nvmlShutdown()
    return {"count": count}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(nvml_count()))
