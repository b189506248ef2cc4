"""`infermeter check-config`: what it says of a configuration and of what that names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config import ConfigError
from app.config_check import check_config
from tests.collectors.list_server import Answer, ListServer, list_server

NOBODY = "nobody is told of alerts (no channel)"


@pytest.fixture
def server() -> Iterator[ListServer]:
    with list_server() as running:
        yield running


def test_check_config_sums_up_what_will_happen(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text('[{"targets": ["h:1", "h:2"]}]')
    file = tmp_path / "infermeter.yaml"
    file.write_text(
        """
        targets: [{url: "http://a"}]
        file_sd: [{files: [list.json]}]
        alerts: {channels: [{name: on-call, kind: slack, webhook_url: "https://hooks.slack.com/services/T/B/x"}]}
        """
    )
    assert check_config(file) == [
        "1 target, 1 file_sd list (2 targets), Slack channel 'on-call'; nothing wrong"
    ]
    file.write_text("")
    assert check_config(file) == [
        "0 targets, discovery on this machine, nobody is told of alerts (no channel); nothing wrong"
    ]


def test_check_config_reads_the_files_that_the_configuration_names(tmp_path: Path) -> None:
    for name in ("token", "webhook", "ca.pem", "list.json"):
        (tmp_path / name).write_text("")
    file = tmp_path / "infermeter.yaml"
    file.write_text(
        """
        targets:
          - {url: "http://a", bearer_token_file: token}
          - {url: "https://b", tls: {ca_file: ca.pem}}
        file_sd: [{files: [list.json, gone.json]}]
        alerts: {channels: [{name: on-call, kind: slack, webhook_url_file: webhook}]}
        """
    )
    with pytest.raises(ConfigError) as caught:
        check_config(file)
    lines = caught.value.lines()
    assert lines[0] == f"{file}: no file matches {tmp_path}/gone.json"
    assert lines[1].startswith(
        f"{file}: {tmp_path}/list.json: line 1: this is not valid JSON (Expecting value);"
    )
    assert lines[2] == f"{file}: target a: {tmp_path}/token is empty"
    assert lines[3].startswith(f"{file}: target b: {tmp_path}/ca.pem ")
    assert lines[4].startswith(f"{file}: channel on-call: what {tmp_path}/webhook holds is no web address")
    assert len(lines) == 5


def test_lists_that_come_over_the_network_are_asked(tmp_path: Path, server: ListServer) -> None:
    server.says([{"targets": ["a:1", "b:1"]}])
    file = tmp_path / "infermeter.yaml"
    file.write_text(f"http_sd: [{{url: '{server.url}/one'}}, {{url: '{server.url}/two', labels: {{}}}}]")
    server.answer = {
        "/one": Answer(b'[{"targets": ["a:1", "b:1"]}]'),
        "/two": Answer(b'[{"targets": ["c:1"]}]'),
    }.__getitem__
    assert check_config(file) == [f"0 targets, 2 http_sd lists (3 targets), {NOBODY}; nothing wrong"]


def test_a_list_that_cannot_be_asked_from_here_is_a_warning_and_no_refusal(
    tmp_path: Path, server: ListServer
) -> None:
    server.answer = lambda _path: Answer(hang=True)
    file = tmp_path / "infermeter.yaml"
    file.write_text(
        f"""
        http_sd: [{{url: "{server.url}/hangs"}}]
        prometheus_sd: [{{url: "http://127.0.0.1:9", jobs: [vllm]}}]
        """
    )
    refused, hangs, total = check_config(file, wait_seconds=1)
    assert refused.startswith(
        "warning: http://127.0.0.1:9: cannot connect: Connection refused; it gives no targets"
    )
    assert hangs == f"warning: {server.url}/hangs: no whole answer within 1 s"
    assert total == (
        f"0 targets, 1 http_sd list (0 targets), 1 prometheus_sd list (0 targets), {NOBODY}; 2 warnings"
    )


def test_secrets_of_lists_and_of_their_targets_are_read(tmp_path: Path, server: ListServer) -> None:
    server.says([{"targets": ["a:1", "b:1"]}])
    (tmp_path / "empty").write_text("")
    file = tmp_path / "infermeter.yaml"
    file.write_text(
        f"""
        http_sd:
          - {{url: "{server.url}/x", access: {{bearer_token_file: empty}}}}
          - {{url: "{server.url}/y", bearer_token_file: empty}}
        """
    )
    with pytest.raises(ConfigError) as caught:
        check_config(file)
    assert caught.value.lines() == [
        f"{file}: list {server.url}/x: {tmp_path}/empty is empty",
        f"{file}: target a:1: {tmp_path}/empty is empty",
    ]
