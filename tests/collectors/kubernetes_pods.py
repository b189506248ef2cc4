"""Pods as the API of Kubernetes has them."""

from __future__ import annotations

from typing import Any


def pod(name: str, *ports: tuple[str, int], namespace: str = "inference", **more: Any) -> dict[str, Any]:
    """As the API has it (v1 Pod), with what matters here."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations"),
        },
        "spec": {
            "nodeName": "gpu-node-1",
            "containers": [
                {"name": "main", "ports": [{"name": port, "containerPort": number} for port, number in ports]}
            ],
        },
        "status": {"phase": more.get("phase", "Running"), "podIP": more.get("ip", "10.0.0.7")},
    }
