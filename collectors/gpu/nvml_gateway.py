"""What NVIDIA's driver says of the GPUs of this machine: a program of its own, and the one file that calls
`pynvml`.

A process of its own because the driver's library can crash it after a GPU was reset (LibreHardwareMonitor
#2523) and can hang for good (gpu-monitoring-tools #46): whoever started it can end it. It imports nothing of
ours and initialises NVML once. A line on standard input asks, `NUMBER SECONDS`: all GPUs at the same time,
each in a thread of its own, so that one that hangs holds up no other; what has not answered after so many
seconds is left out, and not asked again before it has. One line answers, `NUMBER WORD JSON`:

    ok      the driver's own figures, by the names and in the units of NVML
    renew   the same; a new process would see more, for GPUs were lost or have moved
    wait    {"code"}: no GPU can be read, and one at least hangs
    failed  {"code"}, {"package": "missing" | "old"} or {"fault": words}; the program then ends

It ends when standard input does, so it does not outlive its parent.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

# nvmlReturn_t (nvml.h)
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 13, 15, 16
LOST = (GPU_IS_LOST, RESET_REQUIRED)
MOVED = (INVALID_ARGUMENT, NOT_FOUND)
TIMEOUT = 10
PASSING = (TIMEOUT, 19, 21, 27)
"""Timeout, in use, no data, not ready: another way of asking helps no more than the next poll does."""

PIDS_OF_THE_HOST = "pid:[4026531836]"
"""The machine's own namespace of process ids (Linux, include/linux/proc_ns.h PROC_PID_INIT_INO). NVML gives
ids of the host: elsewhere such a number is another process, or none (nvidia-docker #179, #1460)."""

NO_INSTANCE = 0xFFFFFFFF


class Read(NamedTuple):
    """One call, and the name under which its value (or each field of it) is told."""

    name: str
    function: str
    arguments: tuple[Any, ...] = ()
    fields: tuple[str, ...] = ()


def _plain(function: str, *fields: str) -> tuple[Read, ...]:
    return (Read(function, function, (), fields),)


MEMORY = (
    # The argument is sizeof(nvmlMemory_v2_t) | 2 << 24; this `used` leaves out what the driver reserves.
    Read(
        "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", (0x02000028,),
        ("total", "reserved", "free", "used"),
    ),
    Read("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo", (), ("total", "free", "used")),
)  # fmt: skip
READS = (
    MEMORY,
    _plain("nvmlDeviceGetUtilizationRates", "gpu", "memory"),
    (  # sensor 0 is the GPU; the older call goes with CUDA 14
        Read("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperatureV", (0,)),
        Read("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperature", (0,)),
    ),
    (Read("nvmlDeviceGetFieldValues(MEMORY_TEMP)", "nvmlDeviceGetFieldValues", ([82],)),),
    _plain("nvmlDeviceGetPowerUsage"),
    _plain("nvmlDeviceGetEnforcedPowerLimit"),
    _plain("nvmlDeviceGetTotalEnergyConsumption"),
    (Read("nvmlDeviceGetClockInfo(SM)", "nvmlDeviceGetClockInfo", (1,)),),
    (Read("nvmlDeviceGetClockInfo(MEM)", "nvmlDeviceGetClockInfo", (2,)),),
    (
        *_plain("nvmlDeviceGetCurrentClocksEventReasons"),
        *_plain("nvmlDeviceGetCurrentClocksThrottleReasons"),
    ),
)
"""What is asked of a GPU. Of several ways the first that gives a value; the others are for older drivers."""

PROCESSES = {
    kind: tuple(
        Read(name, name)
        for name in (f"nvmlDeviceGet{kind.title()}RunningProcesses_{version}" for version in ("v3", "v2"))
    )
    for kind in ("compute", "graphics")
}


class LostError(Exception):
    """This GPU does not answer any more; holds the nvmlReturn_t."""


class FailedError(Exception):
    """NVML as a whole cannot be used; holds what to tell the parent."""


class Asking(threading.Thread):
    """One GPU at one poll."""

    def __init__(self, gpu: Callable[[int], dict[str, object]], index: int) -> None:
        super().__init__(daemon=True)
        self._gpu = gpu
        self._index = index
        self._told: dict[str, object] | None = None
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        """Ask."""
        try:
            self._told = self._gpu(self._index)
        except Exception as error:  # noqa: BLE001 (raised again where the answer is awaited)
            self._error = error

    def told_by(self, end: float) -> dict[str, object] | None:
        """What it says; None when it has not by then (of the monotonic clock). Raises what asking raised."""
        self.join(max(0.0, end - time.monotonic()))
        if self._error is not None:
            raise self._error
        return self._told


class Nvml:
    """An initialised NVML. Handles are fetched anew at each poll."""

    def __init__(self) -> None:
        """Raises FailedError."""
        try:
            import pynvml
        except ImportError:
            raise FailedError({"package": "missing"}) from None
        # A package directory instead of one file: the abandoned `pynvml` hides `nvidia-ml-py`.
        if hasattr(pynvml, "__path__"):
            raise FailedError({"package": "old"})
        self._nvml = pynvml
        self._whole("nvmlInit")
        self._unsupported: set[tuple[object, str]] = set()
        """(GPU or MIG device, name): what it does not support it never will."""
        self._absent: set[str] = set()
        """Functions that this driver does not have."""
        self._lost: dict[int, dict[str, object]] = {}
        self._uuids: dict[int, str] = {}
        """Index → UUID, as last seen: a lost GPU does not tell it."""
        self._driver = self._attempt("nvmlSystemGetDriverVersion")[0]
        self.pids_are_ours = _pids_are_ours()
        self._asking: dict[int, Asking] = {}

    def poll(self, seconds: float) -> tuple[str, dict[str, object]]:
        """All GPUs once: the word and what to tell. Raises FailedError when no GPU can be read."""
        end = time.monotonic() + seconds
        count = int(self._whole("nvmlDeviceGetCount"))
        self._asking = {index: asking for index, asking in self._asking.items() if asking.is_alive()}
        begun = {
            index: Asking(self._gpu, index)
            for index in range(count)
            if index not in self._asking and index not in self._lost
        }
        self._asking |= begun
        gpus = [
            begun[index].told_by(end) if index in begun else self._lost.get(index) for index in range(count)
        ]
        told = [gpu or self._unread(index, TIMEOUT) for index, gpu in enumerate(gpus)]
        failed = [gpu for gpu in told if "code" in gpu]
        if len(failed) == count:
            if self.hangs:
                return "wait", {"code": TIMEOUT}
            raise FailedError(failed[0] if failed else {"code": NOT_FOUND})
        renew = any(gpu["code"] in (*LOST, *MOVED) for gpu in failed)
        said = {"nvml": 1, "host": socket.gethostname(), "driver": self._driver, "gpus": told}
        return "renew" if renew else "ok", said

    @property
    def hangs(self) -> bool:
        """Whether a GPU has not answered yet."""
        return any(asking.is_alive() for asking in self._asking.values())

    def shut_down(self) -> None:
        """The polite end."""
        self._attempt("nvmlShutdown")

    def _gpu(self, index: int) -> dict[str, object]:
        """One GPU, or its `code` where it cannot be read."""
        try:
            handle, uuid, code = self._found(index)
            if not code:
                gpu = {"index": index, "uuid": uuid, "name": self._attempt("nvmlDeviceGetName", handle)[0]}
                part = Part(self, uuid or index, handle)
                for ways in READS:
                    part.read(ways)
                gpu.update(part.told(), mig=list(self._mig_devices(part, handle)))
                if not any(code in MOVED for code in part.errors.values()):
                    return gpu
                # Do all these figures belong to one GPU?
                _, found, code = self._found(index)
                if not code and found == uuid:
                    return gpu
                code = code or NOT_FOUND
        except LostError as error:
            code = error.args[0]
        told = self._unread(index, code)
        if code in LOST:
            self._lost[index] = told  # not touched again by this process: a GPU off the bus can hang it
        return told

    def _unread(self, index: int, code: int) -> dict[str, object]:
        return {"index": index, "uuid": self._uuids.get(index), "code": code}

    def _found(self, index: int) -> tuple[Any, str | None, int]:
        """Handle and UUID of the GPU at that index, and 0; or the error."""
        handle, code = self._attempt("nvmlDeviceGetHandleByIndex", index)
        if code:
            return None, None, code
        uuid, code = self._attempt("nvmlDeviceGetUUID", handle)
        if uuid:
            self._uuids[index] = uuid
        return handle, uuid or None, 0 if code == NOT_SUPPORTED else code

    def _mig_devices(self, gpu: "Part", handle: Any) -> Iterable[dict[str, object]]:
        mode = gpu.value(*_plain("nvmlDeviceGetMigMode"))
        if mode is None or mode[0] != 1:  # [current, pending]
            return
        count = gpu.value(*_plain("nvmlDeviceGetMaxMigDeviceCount")) or 0
        for number in range(count):
            device, code = self._attempt("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if code:  # not found: a hole, others may follow
                if code != NOT_FOUND:
                    gpu.errors["nvmlDeviceGetMigDeviceHandleByIndex"] = code
                continue
            part = Part(self, (gpu.key, number), device)
            instance = part.value(*_plain("nvmlDeviceGetGpuInstanceId"))
            compute_instance = part.value(*_plain("nvmlDeviceGetComputeInstanceId"))
            uuid = part.value(*_plain("nvmlDeviceGetUUID"))
            # Instances are made and deleted while the driver runs: what one lacks, the next here may have.
            part.key = (uuid, instance)
            part.read(MEMORY)
            told = part.told()
            yield {"uuid": uuid, "gpu_instance": instance, "compute_instance": compute_instance, **told}

    def _whole(self, function: str) -> Any:
        """A call that everything hangs on."""
        try:
            return getattr(self._nvml, function)()
        except self._nvml.NVMLError as error:
            raise FailedError({"code": int(error.value)}) from None

    def _attempt(self, function: str, *arguments: Any) -> tuple[Any, int]:
        """What a call gives and 0, or None and its nvmlReturn_t. Raises LostError, FailedError."""
        if function in self._absent:
            return None, FUNCTION_NOT_FOUND
        try:
            call = getattr(self._nvml, function)
            value = call(*arguments)
            if function == "nvmlDeviceGetFieldValues":
                return _field(value[0])
        except AttributeError:  # nvidia-ml-py is older than the function
            code = FUNCTION_NOT_FOUND
        except UnicodeDecodeError:  # a name (or UUID) that is no text must not cost all figures
            code = NOT_SUPPORTED
        except self._nvml.NVMLError as error:  # cannot be hashed, and `error == 3` raises
            code = int(error.value)
        else:
            return value, 0
        if code in LOST:
            raise LostError(code)
        if code == UNINITIALIZED:
            raise FailedError({"code": code})
        return None, code

    def ask(self, key: object, handle: Any, read: Read) -> tuple[Any, int]:
        """As `_attempt`; what is not supported there is not asked again."""
        if (key, read.name) in self._unsupported:
            return None, NOT_SUPPORTED
        value, code = self._attempt(read.function, handle, *read.arguments)
        if code == NOT_SUPPORTED:
            self._unsupported.add((key, read.name))
        elif code == FUNCTION_NOT_FOUND and read.name == read.function:
            self._absent.add(read.function)
        return value, code


class Part:
    """What one GPU or MIG device says at one poll."""

    def __init__(self, nvml: Nvml, key: object, handle: Any) -> None:
        self._nvml = nvml
        self.key = key
        self._handle = handle
        self.values: dict[str, object] = {}
        self.errors: dict[str, int] = {}

    def value(self, *ways: Read) -> Any:
        """What the first way that works gives, or None and its errors in `errors`."""
        return self._first(ways)[1]

    def read(self, ways: tuple[Read, ...]) -> None:
        """As `value`, into `values`."""
        read, value = self._first(ways)
        if read is None:
            return
        for field in read.fields:
            self.values[f"{read.name}.{field}"] = int(getattr(value, field))
        if not read.fields:
            self.values[read.name] = value

    def _first(self, ways: tuple[Read, ...]) -> tuple[Read | None, Any]:
        errors = {}
        for read in ways:
            value, code = self._nvml.ask(self.key, self._handle, read)
            if not code:
                return read, value
            errors[read.name] = code
            if code in PASSING:
                break
        self.errors.update(errors)
        return None, None

    def told(self) -> dict[str, object]:
        """Values, errors and processes."""
        processes = [
            {
                "pid": process.pid,
                "kind": kind,
                "bytes": process.usedGpuMemory,
                "gpu_instance": None if process.gpuInstanceId == NO_INSTANCE else process.gpuInstanceId,
                "name": _name(process.pid) if self._nvml.pids_are_ours else None,
            }
            for kind, ways in PROCESSES.items()
            for process in self.value(*ways) or ()
        ]
        return {"values": self.values, "errors": self.errors, "processes": processes}


def _field(field: Any) -> tuple[Any, int]:
    """The value of one field (nvmlFieldValue_t), each of which has a return code of its own."""
    if field.nvmlReturn:
        return None, int(field.nvmlReturn)
    names = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t
    return getattr(field.value, names[field.valueType]), 0


def _pids_are_ours() -> bool:
    """Whether the driver counts processes as this one does."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == PIDS_OF_THE_HOST
    except OSError:
        return False


def _name(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:  # it has ended, or belongs to somebody else
        return None


def _answer(nvml: Nvml | None, seconds: float) -> tuple[Nvml | None, str, dict[str, object]]:
    try:
        nvml = nvml or Nvml()
        return nvml, *nvml.poll(seconds)
    except FailedError as error:
        return nvml, "failed", error.args[0]
    except Exception as error:  # noqa: BLE001 (told to the parent, which shows it)
        return nvml, "failed", {"fault": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer until standard input ends, or NVML cannot be used any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this in order
    # The driver's library may print: nothing but answers goes out where they are awaited.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out, Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        nvml, word = None, "ok"
        for line in sys.stdin:
            number, seconds = line.split()
            nvml, word, said = _answer(nvml, float(seconds))
            out.write(f"{number} {word} {json.dumps(said, separators=(',', ':'))}\n")
            out.flush()
            if word == "failed":
                break
    if nvml is not None and nvml.hangs:
        os._exit(0)  # nothing else ends while a thread hangs in the driver
    if nvml is not None and word != "failed":
        nvml.shut_down()


if __name__ == "__main__":
    main()
