import os
from pathlib import Path

import pytest

from app.config import Config, ConfigError, Problem, load_config, load_text


def load(text: str, **environment: str) -> Config:
    return load_text(text, "infermeter.yaml", environment=environment)


def faults(text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, **environment)
    return caught.value.lines()


@pytest.mark.parametrize("text", ["", "# nothing set\n", "---\n", "null\n", "targets:\nlisten:\nstore:\n"])
def test_a_file_that_sets_nothing_means_the_defaults(text: str) -> None:
    config = load(text)
    assert config == Config()
    assert (config.store, config.listen.host, config.listen.port) == ("infermeter.duckdb", "127.0.0.1", 8501)
    assert (config.scrape.interval_seconds, config.scrape.timeout_seconds) == (10, 5)
    assert config.scrape.body_limit_bytes == 16 * 1024 * 1024
    assert config.retention.raw == 30 * 24 * 3600
    assert (config.targets, config.file_sd, config.alerts.channels) == ([], [], [])
    assert config.discover
    assert not config.simulated


@pytest.mark.parametrize(
    ("text", "discovers"),
    [
        ("targets: [{url: http://h}]", False),
        ("file_sd: [{files: [a.json]}]", False),
        ("targets: [{url: http://h}]\ndiscover: true", True),
        ("targets: []", True),
        ("discover: false", False),
    ],
)
def test_local_exporters_are_looked_for_when_nothing_else_is_configured(text: str, discovers: bool) -> None:
    assert load(text).discover is discovers


def test_links_begin_with_the_base_url_or_the_port_listened_on() -> None:
    assert load("").links_base == "http://localhost:8501"
    assert load("listen: {port: 9000}").links_base == "http://localhost:9000"
    assert (
        load("base_url: https://gpu.example.com/infermeter/").links_base
        == "https://gpu.example.com/infermeter"
    )


def test_targets_and_lists_take_interval_and_timeout_from_scrape() -> None:
    config = load(
        """
        targets:
          - {url: "http://a"}
          - {url: "http://b", interval: 1m}
          - {url: "http://c", timeout: 1s}
          - {url: "http://d", interval: 3s}
        scrape: {interval: 20s, timeout: 8s}
        file_sd: [{files: [x.json]}, {files: [y.json], interval: 4s}]
        """
    )
    pace = [(each.interval_seconds, each.timeout_seconds) for each in (*config.targets, *config.file_sd)]
    assert pace == [(20, 8), (60, 8), (20, 1), (3, 3), (20, 8), (4, 4)]


def test_everything_wrong_is_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
stor: x
listen: {port: 0}
targets:
  - name: a
    url: gpu-1:9400
  - name: a
    url: http://b
    bearer_token: ${NOT_SET}
    labels: {x: 1, y: [2]}
    tls: {insecur: true}
  - url: http://c
    interval: soon
scrape:
  interval: never
"""
    assert [line.removeprefix("infermeter.yaml line ") for line in faults(text)] == [
        "1: `stor` is not a setting; did you mean `store`?",
        "2: `listen.port`: must be at least 1",
        "5: `targets[0].url`: does not say http or https; write http://gpu-1:9400/metrics",
        (
            "6: `targets[1].name`: the name 'a' is taken by the target on line 4;"
            " give one of them another `name`"
        ),
        (
            "8: `targets[1].bearer_token`: the environment variable NOT_SET is not set;"
            " set it, or give a default: ${NOT_SET:-…}"
        ),
        "9: `targets[1].labels.x`: text is wanted here; put the value in quotes",
        "9: `targets[1].labels.y`: text is wanted here",
        "10: `insecur` is not a setting of `targets[1].tls`; did you mean `insecure`?",
        "12: `targets[2].interval`: 'soon' is not a length of time; write it like 30s, 5m, 1h30m or 500ms",
        "14: `scrape.interval`: 'never' is not a length of time; write it like 30s, 5m, 1h30m or 500ms",
    ]


def test_a_problem_has_its_place_and_its_setting() -> None:
    with pytest.raises(ConfigError) as caught:
        load("scrape:\n  body_limit_mib: 0\n")
    assert caught.value.source_name == "infermeter.yaml"
    assert caught.value.problems == [
        Problem(2, 3, "scrape.body_limit_mib", "`scrape.body_limit_mib`: must be at least 1")
    ]


def test_the_environment_is_expanded_inside_strings_only() -> None:
    config = load(
        """
        store: ${DIR}/${FILE:-infermeter}.duckdb  # not here: ${NOT_SET}
        listen: {port: "${PORT}"}
        targets:
          - url: http://${HOST}:9400
            project: cost $$5 ${EMPTY:-none} $x $
            labels: {"${KEY}": '${HOST}'}
        """,
        DIR="/data", PORT="9000", HOST="gpu-1", EMPTY="",
    )  # fmt: skip
    (target,) = config.targets
    assert config.store == "/data/infermeter.duckdb"
    assert config.listen.port == 9000
    assert (target.url, target.name) == ("http://gpu-1:9400/metrics", "gpu-1:9400")
    assert target.project == "cost $5 none $x $"
    assert target.labels == {"${KEY}": "gpu-1"}


def test_plain_words_that_older_yaml_takes_for_something_else_stay_text() -> None:
    (target,) = load(
        "targets: [{url: 'http://h', environment: no, labels: {a: on, b: 12:30, c: 2026-01-01, d: 1_000}}]"
    ).targets
    assert (target.environment, target.labels) == (
        "no", {"a": "on", "b": "12:30", "c": "2026-01-01", "d": "1_000"}
    )  # fmt: skip
    assert load("simulated: yes").simulated


def test_settings_can_be_merged_and_the_fault_is_told_where_it_stands() -> None:
    text = """\
targets:
  - &first
    url: http://a
    project: chat
    interval: 30s
  - <<: *first
    url: http://b
    interval: 1m
"""
    targets = load(text).targets
    assert [(target.url, target.project, target.interval_seconds) for target in targets] == [
        ("http://a/metrics", "chat", 30),
        ("http://b/metrics", "chat", 60),
    ]
    assert faults(text.replace("project: chat", "project: 1")) == [
        "infermeter.yaml line 4: `targets[0].project`: text is wanted here; put the value in quotes",
        "infermeter.yaml line 4: `targets[1].project`: text is wanted here; put the value in quotes",
    ]


def test_aliases_cannot_make_a_small_file_enormous() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 9):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    assert any("the file holds more than 200000 values (aliases counted)" in line for line in faults(text))


def test_paths_of_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "token").write_text("t0ken\n")
    (tmp_path / "conf" / "webhook").write_text("https://hooks.slack.com/services/T/B/x\n")
    (tmp_path / "conf" / "list.json").write_text('[{"targets": ["h:1"]}]')
    file = tmp_path / "conf" / "infermeter.yaml"
    file.write_text(
        """
        store: data/x.duckdb
        targets: [{url: "http://h", bearer_token_file: token, labels: {ca_file: not a path}}]
        file_sd: [{files: ["*.json"], bearer_token_file: token}]
        alerts: {channels: [{name: on-call, kind: slack, webhook_url_file: webhook}]}
        """
    )
    config = load_config(file)
    assert config.store == "data/x.duckdb"
    assert config.targets[0].authorization() == "Bearer t0ken"
    assert config.targets[0].labels == {"ca_file": "not a path"}
    assert config.alerts.channels[0].webhook_url_file == str(tmp_path / "conf" / "webhook")
    assert config.file_sd[0].files == [str(tmp_path / "conf" / "*.json")]


def test_a_path_may_begin_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("t0ken")
    (target,) = load("targets: [{url: 'http://h', bearer_token_file: ~/token}]").targets
    assert target.bearer_token_file == str(tmp_path / "token")


@pytest.mark.parametrize("name", ['"a\\0b"', "~nobody-here/x", "''"])
def test_a_name_that_no_file_can_have_is_a_fault(name: str) -> None:
    (line,) = faults(f"targets: [{{url: 'http://h', bearer_token_file: {name}}}]")
    assert line.startswith("infermeter.yaml line 1: `targets[0].bearer_token_file`: ")


def test_a_file_that_is_not_there_or_cannot_be_read_is_told(tmp_path: Path) -> None:
    binary, missing = tmp_path / "a.yaml", tmp_path / "b.yaml"
    binary.write_bytes(b"store: a\nlisten: \xff\n")
    for path, message in (
        (missing, f"{missing}: there is no such file; infermeter.example.yaml is a start"),
        (tmp_path, f"{tmp_path}: cannot be read: Is a directory"),
        (binary, f"{binary} line 2: this is not UTF-8 text"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert str(caught.value) == message


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes("\ufeffstore: x.duckdb\r\nlisten:\r\n  port: 9000\r\n".encode())
    assert load_config(file).listen.port == 9000


def test_the_process_environment_is_used_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "INFERMETER_TEST_STORE", "x.duckdb")
    assert load_text("store: ${INFERMETER_TEST_STORE}", "x").store == "x.duckdb"


@pytest.mark.parametrize(
    "text",
    [
        "targets: [{url: '${KEY}'}]",  # a value that is quoted as what was meant
        "targets: [{url: 'http://h', kind: '${KEY}'}]",  # one that is quoted as wrong
        "targets: [{url: 'http://h', interval: '${KEY}'}]",
        "targets: [{url: 'http://h', gpus: ['${KEY}']}]",
        "targets: [{url: 'http://h', name: '${KEY}'}, {url: 'http://i', name: '${KEY}'}]",
        "dns_sd: [{names: ['${KEY} ']}]",
        "targets: [{url: 'http://h', bearer_token_file: '/${KEY}'}]",
    ],
)
def test_what_came_from_the_environment_is_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(text, "c.yaml", environment={"KEY": "sk-hunter2-hunter2-hunter2-hunter2-hunter2-hunter2"})
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("c.yaml line 1: `")
