"""`nvidia-smi -q -x`: the XML of drivers 418 (no version), 515 (v11), 535 (v12) and 595 (v13).

MIG instances are rows of their own beside their card (`gpu_instance_id`, as dcgm-exporter's GPU_I_ID).
Processes are those of the driver's list. The order of the GPUs is that of their index, which is known
when all attached GPUs are there.

What nvidia-smi prints around the document (`WARNING: infoROM is corrupted at gpu …`) is passed on as a note;
of several documents (`--loop`) the last whole one counts. Each GPU is read by itself, so that one that cannot
be read, or is cut short, costs no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape, unescape

from collectors.gpu.printed import (
    NOT_PRINTED,
    Columns,
    Notes,
    Who,
    gpu_sample,
    is_fault,
    known_value,
    known_values,
    mask_of,
    pid_of,
    reading,
    said,
    text_of,
)
from collectors.gpu.throttle import PREFIXES, REASONS
from collectors.reading import GpuProcess, GpuSample, Reading
from collectors.source import Families
from collectors.support import Alias
from collectors.urls import DEFAULT_PATH

COLUMNS: Columns = {
    "utilization_ratio": ("%", ("utilization/gpu_util",)),
    "memory_controller_ratio": ("%", ("utilization/memory_util",)),
    "memory_used_bytes": ("MiB", ("fb_memory_usage/used",)),
    "memory_free_bytes": ("MiB", ("fb_memory_usage/free",)),
    "memory_reserved_bytes": ("MiB", ("fb_memory_usage/reserved",)),  # since driver 510
    "memory_total_bytes": ("MiB", ("fb_memory_usage/total",)),
    "temperature_celsius": ("C", ("temperature/gpu_temp",)),
    "memory_temperature_celsius": ("C", ("temperature/memory_temp",)),
    "power_watts": (
        "W",
        (
            "gpu_power_readings/power_draw",
            "gpu_power_readings/average_power_draw",
            "gpu_power_readings/instant_power_draw",
            "power_readings/power_draw",
        ),
    ),
    "power_limit_watts": (  # v12 and newer: current is what is enforced
        "W",
        (
            "gpu_power_readings/current_power_limit",
            "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
    ),
    "sm_clock_hertz": ("MHz", ("clocks/sm_clock",)),
    "memory_clock_hertz": ("MHz", ("clocks/mem_clock",)),
}
"""The names are paths below `gpu`."""
_OF_INSTANCE: Columns = {
    column: ways
    for column, ways in COLUMNS.items()
    if column.startswith("memory_") and column.endswith("_bytes")
}
_REASONS = tuple((prefix, f"{prefix.removesuffix('s')}_") for prefix in PREFIXES)
_ROOT = re.compile(r"<nvidia_smi_log[\s>/]")
_END = "</nvidia_smi_log>"
_HEADING = re.compile(r"<[?!][^>]*>")
_GPU = re.compile(r"<gpu(?:\s[^<>]*)?>.*?(</gpu>|(?=<gpu[\s>])|\Z)", re.DOTALL)
_PROCESS_NAME = re.compile(r"(?<=<process_name>)[^\n]{0,512}?(?=</process_name>)")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_SCANNED_BYTES = 2**16
TAGS_CAP = 500_000
"""Tags of one document; a card prints about 2 000, most of them the clocks it could run at."""
ROWS_CAP = 4096


class NvidiaSmiXml:
    """The kind."""

    name = "nvidia_smi_xml"
    role = "gpu"
    default_path = DEFAULT_PATH
    columns: Mapping[str, Sequence[str]] = {
        **{column: paths for column, (_, paths) in COLUMNS.items()}, "throttle_reasons": PREFIXES,
    }  # fmt: skip
    aliases: Mapping[str, Sequence[Alias]] = {
        **{name: tuple(Alias(path, unit, "") for path in paths) for name, (unit, paths) in COLUMNS.items()},
        "throttle_reasons": (
            Alias("clocks_event_reasons/*", "", "since 535"), Alias("clocks_throttle_reasons/*", "", ""),
        ),
    }  # fmt: skip
    impossible: Mapping[str, str] = {
        **NOT_PRINTED,
        "energy_joules_total": "the document does not tell it",
        "xid_last": "only NVML's events and the kernel log tell it",
    }
    yields = (*COLUMNS, "memory_used_ratio", "throttle_reasons")

    def score(self, body: bytes, families: Families) -> int:
        """Many when the document is nvidia-smi's."""
        del families
        return 1000 if _ROOT.search(text_of(body[:_SCANNED_BYTES])) else 0

    def reader(self) -> Callable[[bytes], Reading]:
        """Reads a document; nothing is remembered from one to the next."""
        return lambda body: _Document().read(text_of(body))


class _Document:
    def __init__(self) -> None:
        self._gpus: dict[tuple[str, str], GpuSample] = {}
        self._processes: list[GpuProcess] = []
        self._found: dict[str, str] = {}
        self._notes = Notes()
        self._blocks = 0
        self._rejected = 0

    def read(self, text: str) -> Reading:
        document = self._document(text)
        if document is None:
            self._blocks = self._rejected = 1
        else:
            self._read_all(document)
        return reading(
            NvidiaSmiXml.name, self._gpus.values(), self._processes, lines=self._blocks,
            rejected=self._rejected, yields=NvidiaSmiXml.yields, found=self._found, notes=self._notes,
        )  # fmt: skip

    def _document(self, text: str) -> str | None:
        """The text from the last whole document's root on, up to its end."""
        if "<!ENTITY" in text:
            self._notes.add("the XML defines entities, which nvidia-smi never does: it is not read")
            return None
        if text.count("<") > TAGS_CAP:
            self._notes.add(f"the XML has more than {TAGS_CAP} tags: it is not read")
            return None
        documents = [found.start() for found in _ROOT.finditer(text)]
        if not documents:
            self._notes.add("the XML is not of nvidia-smi -q -x: there is no <nvidia_smi_log>")
            return None
        ends = [text.find(_END, start, end) for start, end in pairwise((*documents, len(text)))]
        whole = [position for position, end in enumerate(ends) if end >= 0]
        number = whole[-1] if whole else len(documents) - 1
        if not whole:
            self._notes.add("the XML is cut short: what is whole of it is read")
        if len(documents) > 1:
            self._notes.add("there are several documents: the last whole one counts")
        around = [text[: documents[0]]]
        for start, end in zip(ends, [*documents[1:], len(text)], strict=True):
            around.append(text[start + len(_END) : end] if start >= 0 else "")
        for line in "\n".join(_HEADING.sub("", part) for part in around).splitlines():
            if line.strip():
                self._notes.add(f"nvidia-smi says: {line.strip()[:200]}")
        start, end = documents[number], ends[number]
        return _NOT_IN_XML.sub("\ufffd", text[start : end if end >= 0 else len(text)])

    def _gpu(self, block: str) -> ET.Element | None:
        """One GPU; None, and a note, where it cannot be read."""
        # nvidia-smi does not escape what processes call themselves.
        block = _PROCESS_NAME.sub(lambda name: escape(unescape(name[0])), block)
        try:
            # No entity can be defined in a block: there is no document type in it.
            return ET.fromstring(block)  # noqa: S314
        except (ET.ParseError, ValueError) as error:
            self._notes.add(f"a GPU cannot be read: {error}. Is it cut short?")
            return None

    def _read_all(self, document: str) -> None:
        blocks = [found[0] for found in _GPU.finditer(document)]
        head = document.partition("<gpu ")[0]
        driver = said(_text_in(head, "driver_version"))
        all_here = pid_of(_text_in(head, "attached_gpus")) == len(blocks)
        if not blocks:
            self._notes.add("nvidia-smi shows no GPU")
            self._blocks = self._rejected = int(driver is None)
        for position, block in enumerate(blocks):
            self._blocks += 1
            gpu = self._gpu(block)
            if gpu is None:
                self._rejected += 1
                continue
            index = position if all_here and position < 2**15 else None
            uuid = said(gpu.findtext("uuid"))
            if uuid is None:
                bus = said(gpu.get("id"))
                uuid = f"#gpu{index}" if index is not None else f"#{bus}" if bus else None
            if uuid is None:
                self._rejected += 1
                self._notes.add("a GPU without UUID, index and bus id is left out")
                continue
            who = Who(uuid, "", index, None, said(gpu.findtext("product_name")), driver)
            self._card(gpu, who)
            for instance in gpu.iterfind("mig_devices/mig_device"):
                self._instance(instance, who)
            for process in gpu.iterfind("processes/process_info"):
                self._process(process, uuid)

    def _card(self, gpu: ET.Element, who: Who) -> None:
        values = self._values(gpu, COLUMNS, who)
        for element, prefix in _REASONS:
            shown = gpu.find(element)
            if shown is not None and values.get("throttle_reasons") is None:
                values["throttle_reasons"] = mask_of(
                    (reason, shown.findtext(prefix + reason) or "") for reason in REASONS
                )
                self._found.setdefault("throttle_reasons", element)
        for text in dict.fromkeys(
            element.text or "" for element in gpu.iter() if is_fault(element.text or "")
        ):
            self._notes.add(f"{who.uuid}: nvidia-smi shows {text.strip()} in place of a value")
        self._keep(who, values)

    def _instance(self, device: ET.Element, card: Who) -> None:
        self._blocks += 1
        number = pid_of(device.findtext("gpu_instance_id"))
        if number is None:
            self._rejected += 1
            self._notes.add(f"a MIG device of {card.uuid} without an instance id is left out")
            return
        who = card._replace(instance=str(number))
        # Compute instances of one GPU instance share its memory, and each prints all of it.
        if (who.uuid, who.instance) not in self._gpus:
            self._keep(who, self._values(device, _OF_INSTANCE, who))

    def _values(self, parent: ET.Element, columns: Columns, who: Who) -> dict[str, float | None]:
        return known_values(columns, parent.findtext, who.uuid, self._found, self._notes)

    def _keep(self, who: Who, values: Mapping[str, float | None]) -> None:
        if len(self._gpus) < ROWS_CAP:
            self._gpus[who.uuid, who.instance] = gpu_sample(who, values, self._notes)
        else:
            self._notes.add(f"GPUs and MIG instances past the first {ROWS_CAP} are left out")

    def _process(self, shown: ET.Element, uuid: str) -> None:
        self._blocks += 1
        pid = pid_of(shown.findtext("pid"))
        if pid is None:
            self._rejected += 1
            return
        if len(self._processes) >= ROWS_CAP:
            self._notes.add(f"processes past the first {ROWS_CAP} are left out")
            return
        text, of = shown.findtext("used_memory") or "", f"used_memory of process {pid}"
        used = known_value("memory_used_bytes", text, "MiB", of, self._notes)
        kinds = said(shown.findtext("type")) or ""
        kind = "compute" if "C" in kinds else "graphics" if "G" in kinds else None
        instance = pid_of(shown.findtext("gpu_instance_id"))
        self._processes.append(
            GpuProcess(
                uuid, "" if instance is None else str(instance), pid, said(shown.findtext("process_name")),
                None if used is None else int(used), kind,
            )
        )  # fmt: skip


def _text_in(head: str, tag: str) -> str | None:
    found = re.search(f"<{tag}>([^<]*)</{tag}>", head)
    return found[1] if found is not None else None


KIND = NvidiaSmiXml()
