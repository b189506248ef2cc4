import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.file_sd import FileList, FileSd, read_targets
from collectors.target import Target
from collectors.target_groups import ListError

NOW = datetime(2026, 11, 30, 3, 0)
LATER = datetime(2026, 11, 30, 3, 5)


def file_list(*files: str | Path, **given_settings: Any) -> FileList:
    return FileList.model_validate({"files": [str(file) for file in files], **given_settings})


def targets_of(content: object, **given_settings: Any) -> tuple[list[Target], list[str]]:
    return read_targets(json.dumps(content).encode(), "list.json", file_list("list.json", **given_settings))


def write(file: Path, content: object) -> None:
    """As configuration tools do it: a new file under the old name."""
    fresh = file.with_name(file.name + ".new")
    fresh.write_text(content if isinstance(content, str) else json.dumps(content))
    fresh.replace(file)


# The example of Prometheus' configuration reference, in JSON and in YAML.
JSON_LIST = '[{"targets": ["gpu-1:9400", "gpu-2:9400"], "labels": {"rack": "a", "project": "chat"}}]'
YAML_LIST = """
- targets: ['gpu-1:9400', 'gpu-2:9400']
  labels:
    rack: a
    project: chat
"""


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", JSON_LIST), ("a.yml", YAML_LIST), ("a.yaml", JSON_LIST)]
)
def test_json_and_yaml_lists_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    file_sd = FileSd(file_list(tmp_path / name, kind="dcgm", environment="prod", labels={"site": "x"}))
    changes = file_sd.refresh(NOW)
    assert changes.added == file_sd.targets
    assert [(target.name, target.url) for target in file_sd.targets] == [
        ("gpu-1:9400", "http://gpu-1:9400/metrics"),
        ("gpu-2:9400", "http://gpu-2:9400/metrics"),
    ]
    for target in file_sd.targets:
        assert (target.kind, target.project, target.environment) == ("dcgm", "chat", "prod")
        assert target.labels == {"site": "x", "rack": "a"}
    assert file_sd.problems == []


def test_numbers_in_yaml_labels_are_text() -> None:
    data = b"- targets: [host:1]\n  labels: {rack: 012, on: yes, day: 2026-01-01}\n"
    (target,), problems = read_targets(data, "x.yml", file_list("x.yml"))
    assert (target.labels, problems) == ({"rack": "012", "on": "yes", "day": "2026-01-01"}, [])


def test_meta_labels_make_the_url_and_are_not_shown() -> None:
    labels = {
        "__scheme__": "https",
        "__metrics_path__": "/v1/metrics",
        "__meta_filepath": "/etc/x",
        "__param_model": "m",
        "team": "t",
    }
    (target,), _ = targets_of([{"targets": ["nim:8000"], "labels": labels}])
    assert (target.name, target.url) == (
        "nim:8000/v1/metrics",
        "https://nim:8000/v1/metrics?model=m",
    )
    assert target.labels == {"team": "t"}


@pytest.mark.parametrize(
    ("labels", "kind", "shown"),
    [
        ({"kind": "vllm"}, "vllm", {}),
        ({"infermeter_kind": "vllm"}, "vllm", {}),
        ({"infermeter_kind": "vllm", "kind": "dcgm"}, "vllm", {"kind": "dcgm"}),
        ({"kind": "baremetal"}, "auto", {"kind": "baremetal"}),
        # Of jobs of blackbox-exporter and of Prometheus itself: neither asks for paid requests or pulls.
        ({"kind": "probe"}, "auto", {"kind": "probe"}),
        ({"kind": "prometheus"}, "auto", {"kind": "prometheus"}),
        ({"kind": "nvml"}, "auto", {"kind": "nvml"}),
        ({"infermeter_kind": "prometheus"}, "prometheus", {}),
    ],
)
def test_the_kind_comes_from_a_label_where_it_is_one(
    labels: dict[str, str], kind: str, shown: dict[str, str]
) -> None:
    (target,), problems = targets_of([{"targets": ["h:1"], "labels": labels}])
    assert (target.kind, target.labels, problems) == (kind, shown, [])


@pytest.mark.parametrize(
    ("given_settings", "pace"),
    [
        ({"interval": 10, "timeout": 5}, (60, 30)),
        ({"interval": 300, "timeout": 40}, (300, 40)),
        ({"kind": "probe", "interval": 20, "timeout": 10}, (20, 10)),  # the list's owner says so
    ],
)
def test_a_probe_by_label_is_not_paid_for_at_the_pace_of_scrapes(
    given_settings: dict[str, Any], pace: tuple[float, float]
) -> None:
    listed = [{"targets": ["h:1"], "labels": {"infermeter_kind": "probe"}}]
    (target,), _ = targets_of(listed, **given_settings)
    assert (target.interval_seconds, target.timeout_seconds) == pace


def test_an_unknown_infermeter_kind_leaves_that_target_out_and_says_so() -> None:
    targets, problems = targets_of(
        [{"targets": ["h:1"], "labels": {"infermeter_kind": "vlm"}}, {"targets": ["h:2"]}]
    )
    assert [target.name for target in targets] == ["h:2"]
    assert problems == ["group 1, h:1: kind: 'vlm' is not a known kind; did you mean vllm?"]


def test_settings_of_the_list_hold_for_each_target() -> None:
    (target,), _ = targets_of(
        [{"targets": ["h:1"]}],
        interval="30s",
        timeout="7s",
        bearer_token="t0ken",
        model="llama",
        memory_reservation_ratio=0.9,
        tls={"insecure": True},
    )
    assert (target.interval_seconds, target.timeout_seconds) == (30, 7)
    assert (target.authorization(), target.model) == ("Bearer t0ken", "llama")
    assert (target.memory_reservation_ratio, target.tls.insecure) == (0.9, True)


def test_addresses_that_are_none_are_left_out_and_named() -> None:
    addresses = ["ok:1", "http://h/metrics", "h:1/metrics", "", "h:99999", "me:pw@h:1", "[::1]:9400"]
    targets, problems = targets_of([{"targets": addresses}])
    assert [target.name for target in targets] == ["ok:1", "[::1]:9400"]
    cure = "this is not host:port (a path goes into the label __metrics_path__)"
    assert problems == [
        f"group 1, http://h/metrics: {cure}",
        f"group 1, h:1/metrics: {cure}",
        f"group 1, one entry: {cure}",
        "group 1, h:99999: url: has a port over 65535; write the exporter's own port",
        f"group 1, one entry: {cure}",
    ]


def test_the_same_target_twice_is_one() -> None:
    targets, problems = targets_of([{"targets": ["h:1", "h:1"]}, {"targets": ["h:1"]}])
    assert ([target.name for target in targets], problems) == (["h:1"], [])
    targets, problems = targets_of([{"targets": ["h:1"]}, {"targets": ["h:1"], "labels": {"a": "b"}}])
    assert [target.labels for target in targets] == [{}]
    assert problems == ["group 2: h:1 is listed before with other labels; those are used"]


def test_many_problems_are_cut_short() -> None:
    _, problems = targets_of([{"targets": ["/"] * 30}])
    assert len(problems) == 21
    assert problems[-1] == "and 10 more like these"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "a.json",
            "[{",
            "line 1: this is not valid JSON (Expecting property name enclosed in double quotes)",
        ),
        (
            "a.yml",
            "a: b: c",
            "line 1: this is not valid YAML (mapping values are not allowed in this context)",
        ),
        ("a.yml", "\x00", "this is not valid JSON or YAML"),
        ("a.json", "[" * 100_000, "it is nested too deeply"),
        ("a.json", '{"targets": []}', 'it must hold a list of {"targets": […], "labels": {…}}'),
        ("a.json", '["h:1"]', 'group 1 is no {"targets": […], "labels": {…}}'),
        ("a.json", '[{"target": ["h:1"]}]', "group 1: target is not known; did you mean `targets`?"),
        ("a.json", '[{"zzz": 1}]', "group 1: zzz is not known; a group has `targets` and `labels`"),
        (
            "a.json",
            '[{}, {"targets": "h:1"}]',
            'group 2: `targets` must be a list of texts like "gpu-node-1:9400"',
        ),
        ("a.json", '[{"targets": [1]}]', 'group 1: `targets` must be a list of texts like "gpu-node-1:9400"'),
        ("a.json", '[{"labels": {"a": 1}}]', "group 1: `labels` must be names with texts"),
        ("a.json", '[{"labels": ["a"]}]', "group 1: `labels` must be names with texts"),
    ],
)
def test_what_is_no_list_is_refused_in_words(name: str, text: str, reason: str) -> None:
    with pytest.raises(ListError) as caught:
        read_targets(text.encode(), name, file_list(name))
    assert str(caught.value) == reason


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ListError, match="^it is not UTF-8 text$"):
        read_targets(b"\xff\xfe", "a.json", file_list("a.json"))


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "null"])
def test_an_empty_file_is_refused_because_it_may_be_half_written(text: str) -> None:
    with pytest.raises(ListError, match=r"^it is empty; write \[\] where there are no targets$"):
        read_targets(text.encode(), "a.yml", file_list("a.yml"))


@pytest.mark.parametrize("name", ["a.json", "a.yml"])
def test_an_empty_list_lists_nothing(name: str) -> None:
    assert read_targets(b"[]", name, file_list(name)) == ([], [])


def test_aliases_cannot_make_a_small_file_enormous() -> None:
    text = "- &g {targets: [" + ",".join(f"h:{port}" for port in range(1, 1001)) + "]}\n" + "- *g\n" * 200
    with pytest.raises(ListError, match="^it lists more than 100000 targets$"):
        read_targets(text.encode(), "a.yml", file_list("a.yml"))


def test_a_refresh_tells_what_came_went_and_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write(file, [{"targets": ["stays:1", "goes:1", "changes:1"]}])
    file_sd = FileSd(file_list(file))
    file_sd.refresh(NOW)
    assert not file_sd.refresh(NOW).any()
    write(file, [{"targets": ["stays:1", "comes:1"]}, {"targets": ["changes:1"], "labels": {"a": "b"}}])
    changes = file_sd.refresh(LATER)
    assert changes.any()
    assert [target.name for target in changes.added] == ["comes:1"]
    assert [target.name for target in changes.removed] == ["goes:1"]
    assert [(target.name, target.labels) for target in changes.changed] == [("changes:1", {"a": "b"})]


def test_a_replaced_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write(file, [{"targets": ["aa:1"]}])
    file_sd = FileSd(file_list(file))
    file_sd.refresh(NOW)
    before = file.stat()
    write(file, [{"targets": ["bb:1"]}])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [target.name for target in file_sd.refresh(NOW).added] == ["bb:1"]


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    write(file, [{"targets": ["h:1"]}])
    file_sd = FileSd(file_list(file))
    file_sd.refresh(NOW)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read again"))
    assert not file_sd.refresh(LATER).any()


def test_a_broken_file_keeps_its_last_good_list_and_says_since_when(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write(file, [{"targets": ["h:1", "h:2"]}])
    file_sd = FileSd(file_list(file))
    file_sd.refresh(datetime(2026, 11, 30, 2, 0))
    write(file, "[")
    assert not file_sd.refresh(NOW).any()
    assert [target.name for target in file_sd.targets] == ["h:1", "h:2"]
    told = (
        f"{file}: line 1: this is not valid JSON (Expecting value);"
        " its last good list (2 targets) stays in use (since 2026-11-30 03:00 UTC)"
    )
    assert file_sd.problems == [told]
    write(file, "[ ")
    file_sd.refresh(LATER)
    assert file_sd.problems == [told]
    write(file, [{"targets": ["h:2"]}])
    assert [target.name for target in file_sd.refresh(LATER).removed] == ["h:1"]
    assert file_sd.problems == []


def test_a_file_broken_from_the_start_gives_no_targets(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write(file, "{}")
    file_sd = FileSd(file_list(file))
    assert not file_sd.refresh(NOW).any()
    reason = f'{file}: it must hold a list of {{"targets": […], "labels": {{…}}}}'
    assert file_sd.problems == [f"{reason}; it gives no targets (since 2026-11-30 03:00 UTC)"]


def test_globs_take_up_new_files_and_drop_those_that_are_gone(tmp_path: Path) -> None:
    file_sd = FileSd(file_list(tmp_path / "*.json", tmp_path / "one.yml"))
    file_sd.refresh(NOW)
    assert file_sd.problems == [f"no file matches {tmp_path}/*.json", f"no file matches {tmp_path}/one.yml"]
    write(tmp_path / "a.json", [{"targets": ["a:1"]}])
    write(tmp_path / "one.yml", [{"targets": ["one:1"]}])
    assert [target.name for target in file_sd.refresh(NOW).added] == ["a:1", "one:1"]
    assert file_sd.problems == []
    (tmp_path / "a.json").unlink()
    assert [target.name for target in file_sd.refresh(NOW).removed] == ["a:1"]


def test_a_target_in_two_files_is_one_and_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.json", [{"targets": ["h:1"], "labels": {"from": "a"}}])
    write(tmp_path / "b.json", [{"targets": ["h:1"], "labels": {"from": "b"}}])
    file_sd = FileSd(file_list(tmp_path / "*.json"))
    file_sd.refresh(NOW)
    assert [target.labels for target in file_sd.targets] == [{"from": "a"}]
    assert file_sd.problems == [f"{tmp_path}/b.json: h:1 stands in another file too; that one is used"]


GROUPS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.sampled_from(["h:1", "[::1]:2"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["targets", "labels", "__scheme__", "kind", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(GROUPS, st.sampled_from(["a.json", "a.yml"]))
@settings(max_examples=200, deadline=None)
def test_any_content_is_a_list_of_targets_or_refused(content: object, name: str) -> None:
    data = json.dumps(content) if name.endswith("json") else yaml.safe_dump(content, allow_unicode=True)
    try:
        targets, _ = read_targets(data.encode(), name, file_list(name))
    except ListError:
        return
    assert len({target.name for target in targets}) == len(targets)


@given(st.one_of(st.binary(), st.text().map(str.encode)), st.sampled_from(["a.json", "a.yml"]))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_list_of_targets_or_refused(data: bytes, name: str) -> None:
    try:
        read_targets(data, name, file_list(name))
    except ListError:
        return


def test_a_list_in_a_folder_that_may_not_be_entered_is_a_problem_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # As the tests may run as root, who may enter everything.
    monkeypatch.setattr(Path, "stat", refused)
    listed = FileSd(FileList(files=[f"{tmp_path}/a.json"]))
    listed.refresh(datetime(2026, 11, 30))
    (problem,) = listed.problems
    assert problem.startswith(f"{tmp_path}/a.json: cannot be read: Permission denied; it gives no targets")


def test_a_path_too_long_for_a_name_leaves_the_target_out_and_says_so() -> None:
    labels = {"__metrics_path__": "/" + "x" * 300}
    targets, problems = targets_of([{"targets": ["h:1"], "labels": labels}, {"targets": ["h:2"]}])
    assert [target.name for target in targets] == ["h:2"]
    assert problems == ["group 1, h:1: name: longer than 200 characters"]
