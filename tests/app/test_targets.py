"""The target list: what stands in it, what of it is told, and that no list holds up another."""

import json
import logging
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.config import Config
from app.targets import TargetList, sources
from collectors.file_sd import FileList, FileSd
from collectors.ingest import Ingest
from collectors.target import Target
from collectors.target_groups import ListError
from collectors.target_source import TargetSource
from sql.store import Store
from tests.collectors.list_server import ListServer, list_server

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


def test_thousands_of_doubled_targets_are_told_once_and_in_a_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "nodes.json"
    path.write_text("[]")
    again = FileList(files=[str(path)])
    targets = TargetList(Config(), [FileSd(again), FileSd(again)])
    targets.refresh(NOW)
    path.write_text(json.dumps([{"targets": [f"gpu-{number}:9400" for number in range(3000)]}]))
    for _ in range(3):
        targets.refresh(NOW)
    assert len(targets.targets) == 3000
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "gpu-0:9400 stands twice; the one at http://gpu-0:9400/metrics is used"
    assert told[20:] == ["and 2980 more like these"]


def test_more_problems_than_are_remembered_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    targets = TargetList(Config(), [FileSd(FileList(files=[f"{tmp_path}/*.json"]))])
    targets.refresh(NOW)
    for number in range(1500):
        (tmp_path / f"{number}.json").write_text("[{")
    for _ in range(3):
        targets.refresh(NOW)
    assert len(caplog.records) == 1500


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


class Slow(TargetSource):
    """A list over the network that answers when the test lets it."""

    origin = "http_sd"
    refresh_seconds = 60.0
    title = "slow"

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.may_answer = threading.Event()
        self.answer: list[Target] | Exception = []

    def parts(self) -> tuple[list[str], list[str]]:
        return ["slow"], []

    def read(self, part: str, now: datetime) -> tuple[list[Target], list[str]]:
        self.asked += 1
        assert self.may_answer.wait(30)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer, []


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.may_answer.set()


def names(targets: TargetList) -> list[str]:
    return [each.name for each in targets.targets]


def test_a_list_that_hangs_holds_up_neither_files_nor_the_targets_there_are(
    tmp_path: Path, slow: Slow
) -> None:
    path = tmp_path / "nodes.json"
    path.write_text('[{"targets": ["gpu-1:9400"]}]')
    targets = TargetList(Config(targets=[target("a")]), [slow, FileSd(FileList(files=[str(path)]))])
    assert targets.refresh(NOW)
    path.write_text('[{"targets": ["gpu-2:9400"]}]')
    assert targets.refresh(NOW + timedelta(seconds=5))
    assert names(targets) == ["a", "gpu-2:9400"]
    assert targets.unanswered() == ["slow"]
    assert targets.problems == []


def test_what_a_slow_list_says_stands_in_the_refresh_after(slow: Slow) -> None:
    targets = TargetList(Config(), [slow])
    slow.answer = [target("b")]
    targets.refresh(NOW)
    assert names(targets) == []
    assert not targets.refresh(NOW)
    slow.may_answer.set()
    assert targets.refresh(NOW, wait_seconds=30)
    assert (targets.origins, targets.unanswered()) == ({"b": "http_sd"}, [])


def test_a_list_is_asked_at_its_interval_and_never_twice_at_a_time(slow: Slow) -> None:
    targets = TargetList(Config(), [slow])
    for seconds in (0, 30, 90, 150):
        targets.refresh(NOW + timedelta(seconds=seconds))
    slow.may_answer.set()
    targets._looks[0].wait(30)
    assert slow.asked == 1
    for seconds, asked in ((151, 2), (210, 2), (211, 3)):
        targets.refresh(NOW + timedelta(seconds=seconds), wait_seconds=30)
        assert slow.asked == asked


def test_a_list_that_never_answers_is_told_with_since_when(slow: Slow) -> None:
    targets = TargetList(Config(), [slow])
    slow.answer = [target("b")]
    slow.may_answer.set()
    targets.refresh(NOW, wait_seconds=30)
    slow.may_answer.clear()
    targets.refresh(NOW + timedelta(minutes=1))
    targets.refresh(NOW + timedelta(minutes=1, seconds=30))
    assert targets.problems == []
    targets.refresh(NOW + timedelta(minutes=1, seconds=31))
    assert targets.problems == [
        (
            "slow: no answer, and no end of asking, since 2026-11-30 13:01 UTC;"
            " its last list (1 targets) stays in use"
        )
    ]
    assert names(targets) == ["b"]


def test_a_fault_of_ours_in_a_list_is_shown_and_the_list_stays(slow: Slow) -> None:
    targets = TargetList(Config(), [slow])
    slow.answer = [target("b")]
    slow.may_answer.set()
    targets.refresh(NOW, wait_seconds=30)
    slow.answer = ZeroDivisionError("oops")
    targets.refresh(NOW + timedelta(minutes=1), wait_seconds=30)
    assert targets.problems == [
        "slow: infermeter could not read this list, please report: ZeroDivisionError: oops"
    ]
    assert names(targets) == ["b"]
    slow.answer = [target("c")]
    targets.refresh(NOW + timedelta(minutes=2), wait_seconds=30)
    assert (targets.problems, names(targets)) == ([], ["c"])


def test_a_target_that_its_list_no_longer_has_is_gone_and_one_of_a_broken_list_is_not(slow: Slow) -> None:
    store = Store.open()
    ingest = Ingest(store)
    targets = TargetList(Config(), [slow])
    slow.may_answer.set()
    answers: list[list[Target] | Exception] = [
        [target("b"), target("c")],
        ListError("broken"),
        [target("c")],
    ]
    gone = []
    for minute, answer in enumerate(answers):
        slow.answer = answer
        now = NOW + timedelta(minutes=minute)
        targets.refresh(now, wait_seconds=30)
        ingest.sync_targets(targets.targets, now, targets.origins)
        rows = store.query("target_rows")
        gone.append(dict(zip(rows["target"], rows["gone_at"], strict=True)))
    nobody = {"b": None, "c": None}
    assert gone == [nobody, nobody, {"b": NOW + timedelta(minutes=2), "c": None}]
    assert rows["origin"].to_list() == ["http_sd", "http_sd"]


def test_targets_of_a_list_that_cannot_be_had_after_a_restart_are_not_gone(slow: Slow) -> None:
    store = Store.open()
    Ingest(store).sync_targets(
        [target("b"), target("c"), target("old")], NOW, {"b": "http_sd", "c": "http_sd"}
    )
    targets = TargetList(Config(), [slow])
    slow.may_answer.set()
    answers: list[list[Target] | Exception] = [ListError("broken"), [target("c")], ListError("broken")]
    gone = []
    for minute, answer in enumerate(answers, 1):
        slow.answer = answer
        now = NOW + timedelta(minutes=minute)
        assert targets.refresh(now, wait_seconds=30) == (minute < 3)
        Ingest(store).sync_targets(targets.targets, now, targets.origins, targets.unsettled)
        rows = store.query("target_rows")
        gone.append(rows.filter(rows["gone_at"].is_not_null())["target"].to_list())
    assert gone == [["old"], ["b", "old"], ["b", "old"]]


def test_a_list_that_was_never_had_keeps_no_target_of_another_list_from_being_gone(slow: Slow) -> None:
    store = Store.open()
    Ingest(store).sync_targets([target("before")], NOW, {"before": "http_sd"})
    slow.may_answer.set()
    dead = Slow()
    dead.may_answer.set()
    dead.answer = ListError("broken")
    targets = TargetList(Config(), [slow, dead])
    ingest = Ingest(store)
    for minute, answer in enumerate(([target("pod-1")], [target("pod-2")]), 1):
        slow.answer = answer
        now = NOW + timedelta(minutes=minute)
        targets.refresh(now, wait_seconds=30)
        ingest.sync_targets(targets.targets, now, targets.origins, targets.unsettled)
    rows = store.query("target_rows")
    gone = dict(zip(rows["target"], rows["gone_at"], strict=True))
    # What was listed before the restart may still stand in the list that nobody could have since.
    assert gone == {"before": None, "pod-1": NOW + timedelta(minutes=2), "pod-2": None}


def test_an_empty_list_after_a_restart_settles_that_its_targets_are_gone(slow: Slow) -> None:
    targets = TargetList(Config(), [slow])
    targets.refresh(NOW)
    assert targets.unsettled == {"http_sd"}
    slow.may_answer.set()
    assert targets.refresh(NOW, wait_seconds=30)
    assert (targets.targets, targets.unsettled) == ([], frozenset())


def test_every_list_of_the_configuration_is_looked_at(tmp_path: Path) -> None:
    entries = {
        "file_sd": [{"files": ["x.json"]}],
        "http_sd": [{"url": "http://a"}],
        "dns_sd": [{"names": ["a"]}],
        "prometheus_sd": [{"url": "http://a"}],
        "kubernetes": {},
    }
    found = sources(Config.model_validate(entries))
    assert [source.origin for source in found] == list(entries)


def test_a_server_whose_list_changes_changes_the_targets_without_a_restart() -> None:
    with list_server() as server:
        assert isinstance(server, ListServer)
        server.says([{"targets": ["a:1", "b:1"]}])
        config = Config.model_validate({"http_sd": [{"url": server.url}]})
        targets = TargetList(config, sources(config))
        assert targets.refresh(NOW, wait_seconds=30)
        assert names(targets) == ["a:1", "b:1"]
        server.says([{"targets": ["b:1", "c:1"]}])
        assert not targets.refresh(NOW + timedelta(seconds=59), wait_seconds=30)
        assert targets.refresh(NOW + timedelta(seconds=60), wait_seconds=30)
        assert names(targets) == ["b:1", "c:1"]
