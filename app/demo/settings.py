"""The configuration that makes infermeter watch the demo."""

from __future__ import annotations

from typing import Any

import yaml

from app.demo.fleet import DemoTarget, Fleet

SCRAPE_INTERVAL_SECONDS = 5


def demo_targets() -> list[DemoTarget]:
    """The endpoints of the simulated fleet; they do not depend on the seed."""
    return Fleet(0, 0.0).targets()


def demo_config(base_url: str, store_path: str, listen_port: int) -> dict[str, Any]:
    """An infermeter configuration with all demo targets, as the values of a YAML file.

    `base_url` is where the demo's endpoints are, for instance http://127.0.0.1:18400.
    """
    return {
        "store": store_path,
        "listen": {"host": "127.0.0.1", "port": listen_port},
        "simulated": True,
        "scrape": {"interval": f"{SCRAPE_INTERVAL_SECONDS}s", "timeout": "4s"},
        "targets": [_target(target, base_url.rstrip("/")) for target in demo_targets()],
    }


def demo_config_yaml(base_url: str, store_path: str, listen_port: int) -> str:
    """`demo_config` as the text of a configuration file."""
    return yaml.safe_dump(demo_config(base_url, store_path, listen_port), sort_keys=False)


def _target(target: DemoTarget, base_url: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": target.name,
        "kind": target.kind,
        "url": base_url + target.path,
        "environment": target.environment,
        "labels": target.labels,
    }
    if target.project is not None:
        entry["project"] = target.project
    if target.model is not None:
        entry["model"] = target.model
    if target.gpus:
        entry["gpus"] = list(target.gpus)
    return entry
