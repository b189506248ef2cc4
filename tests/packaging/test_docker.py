"""Dockerfile and docker-compose.yml hold what they promise; their commands are run here without Docker."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from app.config import load_config
from tests.packaging.dockerfile import Instruction, read_dockerfile
from tests.shared import REPOSITORY
from tests.test_house_rules import PACKAGES


@pytest.fixture(scope="module")
def dockerfile() -> list[Instruction]:
    return read_dockerfile(REPOSITORY / "Dockerfile")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8"))
    return loaded


def only(instructions: list[Instruction], keyword: str) -> Instruction:
    (found,) = [instruction for instruction in instructions if instruction.keyword == keyword]
    return found


def copied(instructions: list[Instruction]) -> list[str]:
    texts = [instruction.text.split()[:-1] for instruction in instructions if instruction.keyword == "COPY"]
    return [source for sources in texts for source in sources]


def has_fixed_tag(image: str) -> bool:
    _, _, tag = image.rpartition("/")[2].partition(":")
    return tag not in ("", "latest")


def test_the_base_is_a_slim_python_of_a_fixed_version(dockerfile: list[Instruction]) -> None:
    assert fnmatch(only(dockerfile, "FROM").text, "python:3.1[1-4]-slim-*")


def test_the_image_installs_the_runtime_lock_by_hash_and_then_the_project(
    dockerfile: list[Instruction],
) -> None:
    lock, project = [each.text for each in dockerfile if each.keyword == "RUN" and "pip install" in each.text]
    assert "--require-hashes" in lock
    assert lock.endswith("--only-binary :all: -r requirements.lock")
    assert "--no-deps --no-build-isolation" in project


def test_the_image_gets_each_package(dockerfile: list[Instruction]) -> None:
    assert {source for source in copied(dockerfile) if (REPOSITORY / source).is_dir()} == set(PACKAGES)


def test_what_is_copied_exists_and_reaches_the_engine(dockerfile: list[Instruction]) -> None:
    ignore = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignore
    let_through = {line[1:] for line in ignore if line.startswith("!")}
    assert set(copied(dockerfile)) == let_through
    assert all((REPOSITORY / source).exists() for source in let_through)


def test_the_process_is_nobody_special_and_writes_to_its_volume(dockerfile: list[Instruction]) -> None:
    keywords = [instruction.keyword for instruction in dockerfile]
    uid = only(dockerfile, "USER").text  # a number: Kubernetes' runAsNonRoot cannot judge a name
    assert keywords.index("USER") < keywords.index("CMD")
    assert only(dockerfile, "VOLUME").exec_form == ["/data"]
    (user,) = [instruction.text for instruction in dockerfile if "useradd" in instruction.text]
    assert int(uid) > 0
    assert f"--uid {uid} " in user
    assert "--owner=infermeter" in user
    assert user.endswith(" /data")


def test_the_command_is_one_that_infermeter_knows(dockerfile: list[Instruction]) -> None:
    program, *arguments = only(dockerfile, "CMD").exec_form
    assert program == "infermeter"
    assert arguments == ["serve", "--config", "/etc/infermeter/infermeter.yaml"]
    # --help is looked at before the file is.
    command = [sys.executable, "-m", "app.cli", *arguments, "--help"]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "--config" in ran.stdout


@contextmanager
def answering(status: int) -> Iterator[tuple[int, list[str]]]:
    """A server that answers every GET with a status; its port, and the paths asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], paths
    finally:
        server.shutdown()
        server.server_close()


def run_healthcheck(dockerfile: list[Instruction], port: int) -> int:
    python, option, code = only(dockerfile, "HEALTHCHECK").exec_form
    assert (python, option) == ("python", "-c")
    # A proxy setting must not come between: this one leads nowhere.
    environment = {"http_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-c", code.replace("8501", str(port))]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_the_health_check_follows_healthz(dockerfile: list[Instruction], status: int, healthy: bool) -> None:
    with answering(status) as (port, paths):
        assert (run_healthcheck(dockerfile, port) == 0) is healthy
    assert paths == ["/healthz"]


def test_the_health_check_fails_where_nothing_listens(dockerfile: list[Instruction]) -> None:
    with answering(200) as (port, _):
        pass
    assert run_healthcheck(dockerfile, port) != 0


def test_the_configuration_in_the_image_fits_it(
    dockerfile: list[Instruction], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DCGM_EXPORTER_URL", raising=False)
    config = load_config(REPOSITORY / "docker/infermeter.yaml")
    assert config.store.startswith("/data/")
    assert config.listen.host == "0.0.0.0"
    assert str(config.listen.port) == only(dockerfile, "EXPOSE").text
    assert [target.url for target in config.targets] == ["http://dcgm-exporter:9400/metrics"]


def test_compose_has_infermeter_always_and_the_rest_by_profile(compose: dict[str, Any]) -> None:
    profiles = {name: service.get("profiles", []) for name, service in compose["services"].items()}
    assert profiles == {"infermeter": [], "dcgm-exporter": ["gpu"], "prometheus": ["prometheus"]}


def test_compose_images_have_fixed_tags(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert has_fixed_tag(service["image"]), service["image"]


def test_compose_mounts_what_exists(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (REPOSITORY / source).is_file() if source.startswith(".") else source in compose["volumes"]


def test_compose_keeps_the_data_and_publishes_on_this_machine_only(compose: dict[str, Any]) -> None:
    infermeter = compose["services"]["infermeter"]
    assert "infermeter-data:/data" in infermeter["volumes"]
    for service in compose["services"].values():
        assert all(port.startswith("${INFERMETER_BIND:-127.0.0.1}:") for port in service.get("ports", []))


def test_compose_gives_dcgm_exporter_the_gpus(compose: dict[str, Any]) -> None:
    exporter = compose["services"]["dcgm-exporter"]
    (device,) = exporter["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert exporter["cap_add"] == ["SYS_ADMIN"]
    assert exporter["expose"] == ["9400"]


def test_prometheus_scrapes_the_services_of_compose(compose: dict[str, Any]) -> None:
    settings = yaml.safe_load((REPOSITORY / "docker/prometheus.yml").read_text(encoding="utf-8"))
    targets = [
        target
        for job in settings["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    ]
    assert targets == ["dcgm-exporter:9400", "infermeter:8501"]
    assert {target.split(":")[0] for target in targets} <= compose["services"].keys()
