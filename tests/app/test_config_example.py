from datetime import datetime
from pathlib import Path

from app.config import load_text
from app.config_docs import sections
from app.config_errors import fields_of
from collectors.file_sd import FileSd
from tests.shared import REPOSITORY

EXAMPLE = (REPOSITORY / "infermeter.example.yaml").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 30, 3, 0)


def switched_on(text: str) -> str:
    """The example with its switched-off settings: `#name:` instead of `# prose`."""
    lines = text.replace("  channels: []\n", "").splitlines()
    return "\n".join(
        line.replace("#", "", 1)
        if line.lstrip().startswith("#") and line.lstrip()[1:2] not in ("", " ")
        else line
        for line in lines
    )


def test_the_example_loads_as_it_is_and_with_everything_switched_on(tmp_path: Path) -> None:
    config = load_text(EXAMPLE, "infermeter.example.yaml", folder=tmp_path, environment={})
    assert [target.name for target in config.targets] == ["gpu-node-1", "llama-70b"]
    (tmp_path / "secrets").mkdir()
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "a.json").write_text('[{"targets": ["h:1"]}]')
    for name in ("small-model-password", "company-ca.pem", "token", "kubeconfig"):
        (tmp_path / "secrets" / name).write_text("x")
    config = load_text(
        switched_on(EXAMPLE),
        "infermeter.example.yaml",
        folder=tmp_path,
        environment={"GPU_NODE_3_TOKEN": "t", "SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T/B/x"},
    )
    assert len(config.targets) == 7
    assert config.targets[2].interval_seconds == 30
    assert config.alerts.channels[0].name == "on-call"
    assert config.http_sd[0].url == "https://cmdb.example.com/gpu-targets"
    assert config.dns_sd[0].names == ["_metrics._tcp.gpu.example.com"]
    assert config.prometheus_sd[0].jobs == ["vllm", "dcgm-*"]
    assert config.kubernetes[0].kubeconfig == str(tmp_path / "secrets" / "kubeconfig")
    file_sd = FileSd(config.file_sd[0])
    assert [target.name for target in file_sd.refresh(NOW).added] == ["h:1"]


def test_the_example_names_every_setting_but_the_thresholds() -> None:
    for place, model in sections():
        if place != "alerts.vram_high":
            for name in fields_of(model):
                assert f"{name}:" in EXAMPLE or f"`{name}`" in EXAMPLE, (
                    f"{place}.{name} is not in the example"
                )
