"""Pods of a Kubernetes cluster as targets.

A pod says by annotation (`prometheus.io/scrape`, `port`, `path`, `scheme`) or by the name of a container's
port where its metrics are. Its annotations and labels `infermeter/project`, `infermeter/environment`,
`infermeter/model` and `infermeter/kind` set those (annotations win: they may hold a slash).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import Field, field_validator, model_validator

from collectors import kubernetes_api
from collectors.durations import Duration
from collectors.known_targets import KnownTargets, refuse_secrets
from collectors.target import Target
from collectors.target_groups import Listed, capped, targets_of
from collectors.target_source import NetworkListSettings, TargetSource

SCRAPE = "prometheus.io/scrape"
PORT = "prometheus.io/port"
PATH = "prometheus.io/path"
SCHEME = "prometheus.io/scheme"
"""Annotations that many charts set, since Prometheus' own example configuration reads them."""

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # a label of RFC 1123

PORT_NAMES = ("metrics", "http-metrics")
"""What charts call the port of the metrics."""

OWN = {name: f"infermeter/{name}" for name in ("kind", "project", "environment", "model")}
"""Setting → annotation or label that sets it."""


class KubernetesList(NetworkListSettings):
    """Pods of a cluster, and what holds for all that are found. Needs `pip install 'infermeter[kubernetes]'`
    and the right to list pods. Inside a cluster the service account is used."""

    namespaces: list[str] = Field(default_factory=list)
    """Where pods are looked for; left out, in all namespaces."""
    label_selector: str | None = Field(default=None, min_length=1)
    """Which pods to take, as `kubectl get pods -l` has it. Left out, each pod that shows metrics is asked,
    and those are taken that turn out to be of a known kind (or of `kind`, where that is set)."""
    port_names: list[str] = Field(default_factory=lambda: list(PORT_NAMES))
    """The container ports that have metrics, by name. A pod with `prometheus.io/port` needs none."""
    pod_labels: list[str] = Field(default_factory=list)
    """Labels of the pod to show with the target, beside its `namespace`, `pod` and `node`."""
    kubeconfig: str | None = None
    """The file with the address of the cluster and the credentials; left out, the service account inside a
    cluster, elsewhere `$KUBECONFIG` or `~/.kube/config`."""
    context: str | None = Field(default=None, min_length=1)
    """The context of that file to use; left out, its current one."""
    refresh_interval_seconds: Duration = Field(default=30.0, ge=5, validation_alias="refresh_interval")
    """Time between two looks at the pods."""

    @field_validator("namespaces")
    @classmethod
    def _names(cls, value: list[str]) -> list[str]:
        for name in value:
            if not _NAMESPACE.fullmatch(name):
                raise ValueError(
                    f"{name[:80]!r} is no name of a namespace: these are small letters, digits and `-`; leave"
                    " `namespaces` out for all"
                )
        return value

    @model_validator(mode="after")
    def _no_secrets_for_strangers(self) -> KubernetesList:
        if self.label_selector is None:
            refuse_secrets(self, "label_selector")
        return self


class KubernetesSd(TargetSource):
    """The targets of one `kubernetes` entry."""

    origin = "kubernetes"
    part = "namespace"

    def __init__(self, settings: KubernetesList) -> None:
        super().__init__()
        self.settings = settings
        self.refresh_seconds = settings.refresh_interval_seconds
        self._known: dict[str, KnownTargets] = {}
        self._namespaces: dict[str, str | None] = {
            f"{self.title} namespace {name}": name for name in dict.fromkeys(settings.namespaces)
        } or {self.title: None}

    @property
    def title(self) -> str:
        """Kubernetes, and which context where that is set."""
        return f"Kubernetes ({self.settings.context})" if self.settings.context else "Kubernetes"

    def parts(self) -> tuple[list[str], list[str]]:
        """The namespaces."""
        return list(self._namespaces), []

    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        """List the pods, and without `label_selector` find out which are ours."""
        del now
        settings = self.settings
        found = kubernetes_api.pods(
            self._namespaces[part], label_selector=settings.label_selector, kubeconfig=settings.kubeconfig,
            context=settings.context,
        )  # fmt: skip
        read = [pod_targets(pod, settings) for pod in found]
        problems = [problem for _, problem in read if problem is not None]
        targets, wrong = targets_of((each for listed, _ in read for each in listed), settings)
        if settings.label_selector is None:
            targets, waiting = self._ours(part, targets)
            wrong += [f"{waiting} of its targets are still to be asked what they are"] if waiting else []
        return targets, capped(problems + wrong)

    def _ours(self, part: str, targets: list[Target]) -> tuple[list[Target], int]:
        """Those that say what they are, those of a known kind, and how many are still to be asked."""
        said = {target.name for target in targets if target.kind != self.settings.kind}
        others = [target for target in targets if target.name not in said]
        known, waiting = self._known.setdefault(part, KnownTargets()).among(others)
        wanted = said | {target.name for target in known}
        return [target for target in targets if target.name in wanted], waiting


def pod_targets(pod: Mapping[str, Any], settings: KubernetesList) -> tuple[list[Listed], str | None]:
    """The targets of one pod as the API has it, none where it does not run, and what is wrong with it."""
    metadata, spec, status = (_mapping(pod.get(key)) for key in ("metadata", "spec", "status"))
    annotations, labels = _mapping(metadata.get("annotations")), _mapping(metadata.get("labels"))
    name, namespace, address = metadata.get("name"), metadata.get("namespace"), status.get("podIP")
    if status.get("phase") != "Running" or not (name and namespace and address):
        return [], None
    pod_name = f"{namespace}/{name}"
    ports = _ports(annotations, list(_container_ports(spec)), settings.port_names)
    if ports is None:
        return [], f"{pod_name}: {SCRAPE} is set, and not clear for which port; set {PORT} to its number"
    shown = {"namespace": namespace, "pod": name, "node": spec.get("nodeName")}
    shown |= {label: labels.get(label) for label in settings.pod_labels}
    for setting, key in OWN.items():
        label = "infermeter_kind" if setting == "kind" else setting
        shown[label] = annotations.get(key) or labels.get(key) or shown.get(label)
    shown |= {"__scheme__": annotations.get(SCHEME), "__metrics_path__": annotations.get(PATH)}
    texts = {label: value for label, value in shown.items() if isinstance(value, str) and value}
    host = f"[{address}]" if ":" in str(address) else address
    return [
        Listed("", f"{host}:{port}", texts, name=pod_name if len(ports) == 1 else f"{pod_name}:{port}")
        for port in ports
    ], None


class _Port(NamedTuple):
    """A port that a container declares."""

    name: str
    number: int


def _ports(annotations: Mapping[str, Any], declared: list[_Port], names: list[str]) -> list[str] | None:
    """The ports with metrics: as annotated, else as named; None where the annotations leave it open."""
    scrape = str(annotations.get(SCRAPE, "")).lower()
    if scrape == "false":
        return []
    if scrape == "true" and annotations.get(PORT):
        port = str(annotations[PORT])
        return [port] if port.isdigit() else None
    named = list(dict.fromkeys(str(port.number) for port in declared if port.name in names))
    if named or scrape != "true":
        return named
    return [str(declared[0].number)] if len(declared) == 1 else None


def _container_ports(spec: Mapping[str, Any]) -> Iterator[_Port]:
    """The TCP ports of the pod's containers, as far as they are declared."""
    for container in _list(spec.get("containers")):
        for port in _list(_mapping(container).get("ports")):
            number = _mapping(port).get("containerPort")
            if isinstance(number, int) and _mapping(port).get("protocol", "TCP") == "TCP":
                yield _Port(str(_mapping(port).get("name", "")), number)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
