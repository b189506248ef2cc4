"""The /metrics page of dcgm-exporter: 4.8 with the long-standing names, or 4.9 with the renamed ones."""

from __future__ import annotations

from collections.abc import Sequence

from app.demo.dcgm_fields import FIELDS_4_8, FIELDS_4_9
from app.demo.gpu import Gpu, MemoryHolder, MigInstance
from app.demo.topology import NodeSpec


class DcgmPage:
    """`render(now)` gives the body: per family the GPUs (or, with MIG, the instances) in order."""

    content_type = "text/plain; charset=utf-8"

    def __init__(self, spec: NodeSpec, gpus: Sequence[Gpu]) -> None:
        self._spec = spec
        self._gpus = gpus
        self._fields = FIELDS_4_9 if spec.speaks_4_9 else FIELDS_4_8

    def render(self, _now: float) -> bytes:
        """The page at the GPUs' own time."""
        entities = [
            (gpu, holder, self._labels(gpu, holder))
            for gpu in self._gpus
            if gpu.present
            for holder in gpu.holders
        ]
        out: list[str] = []
        for field in self._fields:
            lines = []
            for gpu, holder, labels in entities:
                value = field.value(gpu, holder)
                if value is not None:
                    more = field.labels(gpu) if field.labels else ""
                    lines.append(f"{field.name}{{{labels[0]}{more}{labels[1]}}} {value}\n")
            if lines:
                out.append(f"# HELP {field.name} {field.help}\n# TYPE {field.name} {field.kind}\n")
                out += lines
        return "".join(out).encode()

    def _labels(self, gpu: Gpu, holder: MemoryHolder) -> tuple[str, str]:
        """What stands before and after a field's own labels; a GPU that nobody has carries no pod."""
        mig = ""
        if isinstance(holder, MigInstance):
            mig = f'GPU_I_PROFILE="{holder.profile}",GPU_I_ID="{holder.instance_id}",'
        # 4.8.3 made the label lower-case, 4.9.0 renamed the driver's.
        host, driver = "Hostname", "DCGM_FI_DRIVER_VERSION"
        if self._spec.speaks_4_9:
            host, driver = "hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION"
        device = (
            f'gpu="{gpu.index}",UUID="{gpu.uuid}",pci_bus_id="{gpu.bus_id}",device="nvidia{gpu.index}",'
            f'modelName="{gpu.card.name}",{mig}{host}="{gpu.host}",{driver}="{self._spec.driver_version}"'
        )
        owner = holder.owner or holder.visitor
        if owner is None:
            return device, ""
        pod = f'container="{owner.container}",namespace="{owner.namespace}",pod="{owner.pod}",pod_uid=""'
        return device, "," + pod
