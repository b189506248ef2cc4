"""The target list: what is wrong with a file_sd list is told once."""

import logging
from datetime import datetime
from pathlib import Path

import pytest

from app.config import Config
from app.targets import TargetList
from collectors.file_sd import FileList, FileSd
from collectors.target import Target

NOW = datetime(2026, 11, 30, 13, 0)


def test_a_list_that_breaks_is_logged_once_and_again_only_when_it_breaks_otherwise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "nodes.json"
    path.write_text('[{"targets": ["gpu-1:9400"]}]')
    targets = TargetList(Config(), [FileSd(FileList(files=[str(path)]))])
    assert targets.refresh(NOW)
    path.write_text("[{")
    for _ in range(3):
        targets.refresh(NOW)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("infermeter", logging.WARNING)
    assert record.getMessage().startswith(f"{path}: line 1: this is not valid JSON")
    assert "its last good list (1 targets) stays in use (since 2026-11-30 13:00 UTC)" in record.getMessage()
    path.unlink()
    for _ in range(3):
        targets.refresh(NOW)
    assert [record.getMessage() for record in caplog.records[1:]] == [f"no file matches {path}"]


def test_what_is_wrong_at_the_start_is_left_to_the_caller_to_tell(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    targets = TargetList(Config(), [FileSd(FileList(files=[f"{tmp_path}/none.json"]))])
    targets.refresh(NOW)
    targets.refresh(NOW)
    assert targets.problems == [f"no file matches {tmp_path}/none.json"]
    assert caplog.records == []


def target(name: str, **settings: object) -> Target:
    return Target.model_validate({"name": name, "url": f"http://{name}:9400", **settings})


def test_pulled_targets_stand_in_the_list_and_in_no_scrape_round() -> None:
    source = target("prom", kind="prometheus")
    targets = TargetList(Config(targets=[source, target("a")]), [])
    targets.refresh(NOW)
    targets.set_pulled("prom", {"b": target("b", interval="30s")})
    assert [each.name for each in targets.targets] == ["prom", "a", "b"]
    assert targets.origins == {"prom": "config", "a": "config", "b": "prometheus"}
    assert {pace: [each.name for each in round_] for pace, round_ in targets.by_interval().items()} == {
        10: ["a"]
    }


def test_the_refresh_after_a_change_of_what_is_pulled_reports_it_once() -> None:
    targets = TargetList(Config(), [])
    assert not targets.refresh(NOW)
    targets.set_pulled("prom", {"b": target("b")})
    assert targets.refresh(NOW)
    assert not targets.refresh(NOW)
    targets.set_pulled("prom", {})
    assert targets.targets == []
    assert targets.refresh(NOW)


def test_a_target_that_is_scraped_is_not_pulled_too() -> None:
    targets = TargetList(Config(targets=[target("a")]), [])
    targets.set_pulled("prom", {"a": target("a", project="other"), "b": target("b")})
    targets.refresh(NOW)
    assert targets.origins == {"a": "config", "b": "prometheus"}
    assert [each.project for each in targets.targets] == [None, None]
    assert targets.problems == ["1 target of prom is left out, its name is taken: a"]
