"""Pulling from a Prometheus: nothing lost, nothing doubled, whatever it or we do in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collectors.exposition_samples import dcgm
from tests.collectors.fake_prometheus import FakePrometheus, fake_prometheus
from tests.collectors.pulling import STEP, assert_each_once, counted, engine, go_on, prompts, pulled_from


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with fake_prometheus() as server:
        yield server


class TestLive:
    def test_each_scrape_is_taken_once_however_often_we_pull(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        for number in range(6):
            go_on(fake, number)
            pulled.pull()
            pulled.pull()
        assert prompts(pulled) == [0, 100, 200, 300, 400, 500]
        assert_each_once(pulled)

    def test_a_restart_goes_on_where_it_was(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        for number in range(6):
            go_on(fake, number, target="a:8000")
            pulled = pulled.again() if number % 2 else pulled
            pulled.pull()
        assert prompts(pulled) == [0, 100, 200, 300, 400, 500]
        assert counted(pulled) == [5, 10, 15]
        assert_each_once(pulled)

    def test_samples_younger_than_the_lag_wait(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake, lag="5s")
        pulled.pull()
        go_on(fake, 1)
        pulled.pull()
        assert prompts(pulled) == []
        fake.now += 5
        pulled.pull()
        assert prompts(pulled) == [100]

    def test_a_scrape_that_comes_late_is_taken_and_the_others_are_not_taken_twice(
        self, fake: FakePrometheus
    ) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        go_on(fake, 1, target="late:8000")
        go_on(fake, 1)
        pulled.pull()
        late_at = fake.now
        go_on(fake, 2, 3)
        pulled.pull()
        for number in (2, 3):
            fake.scrape("vllm", "late:8000", engine(number), late_at + number)
        pulled.pull()
        of_late = [row for row in pulled.rows("engine_sample") if row["target"] == "vllm/late:8000"]
        assert [row["prompt_tokens_total"] for row in of_late] == [100, 200, 300]
        assert_each_once(pulled)

    def test_what_prometheus_could_not_scrape_is_a_failed_scrape(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        go_on(fake, 1)
        pulled.pull()
        fake.now += STEP
        fake.scrape("vllm", "a:8000", None)
        pulled.pull()
        row = [row for row in pulled.rows("scrape") if row["target"] == "vllm/a:8000"][-1]
        assert (row["ok"], row["error"]) == (False, "Prometheus could not scrape it")

    def test_a_target_without_known_metrics_is_none_of_ours(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        assert pulled.notes() == ["no series in it that infermeter knows"]
        go_on(fake, 1)
        fake.scrape("vllm", "sidecar:9", b"process_start_time_seconds 5\nother 1\n")
        fake.scrape("node", "n:9100", b"process_start_time_seconds 5\n")
        pulled.pull()
        assert list(pulled.puller.intake.targets) == ["vllm/a:8000"]
        assert pulled.notes() == []
        assert [row["process_start_time_seconds"] for row in pulled.rows("engine_sample")] == [1e9]

    def test_a_target_that_prometheus_dropped_is_gone_and_not_down(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        go_on(fake, 1)
        pulled.pull()
        for number in range(4):
            fake.now += 100
            fake.scrape("vllm", "b:8000", engine(number))
            pulled.pull()
        assert list(pulled.puller.intake.targets) == ["vllm/b:8000"]
        gone = {row["target"]: row["gone_at"] is not None for row in pulled.rows("target")}
        assert gone == {"vllm/a:8000": True, "vllm/b:8000": False, "prom": False}
        go_on(fake, 9)  # and it comes back
        pulled.pull()
        assert sorted(pulled.puller.intake.targets) == ["vllm/a:8000", "vllm/b:8000"]
        assert_each_once(pulled)

    def test_a_target_is_expected_as_often_as_it_is_scraped_after_a_restart_too(
        self, fake: FakePrometheus
    ) -> None:
        pulled = pulled_from(fake, backfill="10m", lag="5s")
        for number in range(5):
            fake.scrape("vllm", "a:8000", engine(number), fake.now - 30 * (5 - number))
        pulled.pull()
        for _ in range(2):
            # A scrape every 30 s, and 5 s that samples are left lying.
            assert pulled.puller.intake.targets["vllm/a:8000"].interval_seconds == 35
            pulled = pulled.again()
            fake.now += 60
            for number in (1, 2):
                fake.scrape("vllm", "a:8000", engine(number), fake.now - 30 * (3 - number))
            pulled.pull()

    def test_the_source_itself_has_a_scrape_row(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        go_on(fake, 1)
        pulled.pull()
        row = pulled.last_try()
        assert (row["ok"], row["http_status"], row["error"]) == (True, 200, None)
        # 5 gauges and counters, 3 buckets, sum, count; and up, the duration of the scrape, process start.
        assert row["lines"] == 13
        assert row["bytes"] > 500
        (target,) = [row for row in pulled.rows("target") if row["target"] == "prom"]
        assert (target["found_kind"], target["role"]) == ("prometheus", "source")


class TestClocks:
    def test_a_server_ahead_of_us_is_read_later_and_nothing_lies_in_our_future(
        self, fake: FakePrometheus
    ) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        fake.skew = 30
        fake.scrape("vllm", "a:8000", engine(1), fake.now + 20)
        pulled.pull()
        assert (
            pulled.notes()[0] == "its clock is 30 s ahead of ours: samples are taken that much later; use NTP"
        )
        assert prompts(pulled) == []
        fake.now += 20
        pulled.pull()
        assert prompts(pulled) == [100]
        assert all(row["ts"] <= fake.clock() for row in pulled.rows("engine_sample"))

    def test_a_server_behind_us_is_read_by_its_own_time(self, fake: FakePrometheus) -> None:
        fake.skew = -40
        pulled = pulled_from(fake)
        pulled.pull()
        fake.now += 10
        fake.scrape("vllm", "a:8000", engine(1), fake.now - 41)
        pulled.pull()
        assert pulled.notes() == ["its clock is 40 s behind ours: samples bear that older time; use NTP"]
        assert prompts(pulled) == [100]

    def test_two_seconds_are_no_skew(self, fake: FakePrometheus) -> None:
        fake.skew = 2
        go_on(fake, 1)
        pulled = pulled_from(fake)
        pulled.pull()
        assert pulled.notes() == ["no series in it that infermeter knows"]

    def test_a_clock_that_jumps_back_doubles_nothing(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        go_on(fake, 1, 4)
        pulled.pull()
        fake.now -= 25
        pulled.pull()
        fake.now += 30
        pulled.pull()
        assert prompts(pulled) == [100, 200, 300, 400]
        assert_each_once(pulled)


class TestPairs:
    def scrape(self, fake: FakePrometheus, number: int, *replicas: str) -> None:
        fake.now += STEP
        for place, replica in enumerate(replicas):
            at = fake.now - place * 3  # each scrapes at its own time
            fake.scrape("vllm", "a:8000", engine(number), at, {"replica": replica, "cluster": "c"})

    def test_of_an_ha_pair_one_is_read(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        for number in range(1, 5):
            self.scrape(fake, number, "r0", "r1")
            pulled.pull()
        assert prompts(pulled) == [100, 200, 300, 400]
        assert list(pulled.puller.intake.targets) == ["vllm/a:8000"]
        assert pulled.puller.intake.targets["vllm/a:8000"].labels == {
            "job": "vllm", "instance": "a:8000", "cluster": "c"
        }  # fmt: skip
        assert pulled.notes() == ["1 targets are shown by an HA pair, one replica of each is read"]

    def test_the_other_is_read_when_the_first_is_silent(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        for number, replicas in enumerate([("r0", "r1"), ("r0", "r1"), ("r1",), ("r1",)], start=1):
            self.scrape(fake, number, *replicas)
            pulled.pull()
        assert prompts(pulled) == [100, 200, 300, 400]
        assert_each_once(pulled)

    def test_the_other_is_read_when_the_first_cannot_scrape(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        for number in range(1, 4):
            self.scrape(fake, number, "r0", "r1")
            pulled.pull()
        read = dict(pulled.puller._fetcher._upstreams._read.popitem()[1])["replica"]
        other = {"r0": "r1", "r1": "r0"}[read]
        pulled = pulled.again()
        self.scrape(fake, 4, other)
        fake.scrape("vllm", "a:8000", None, fake.now - 1, {"replica": read, "cluster": "c"})
        pulled.pull()
        assert prompts(pulled) == [100, 200, 300, 400]
        assert [row for row in pulled.rows("scrape") if not row["ok"]] == []


class TestTwoTargetsOfOneName:
    def test_labels_tell_them_apart_and_names_stay(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        for _ in range(2):
            fake.now += STEP
            for cluster in ("a", "b"):
                fake.scrape("dcgm", "gpu-1:9400", dcgm(uuid=f"GPU-{cluster}"), labels={"cluster": cluster})
            pulled.pull()
        names = set(pulled.puller.intake.targets)
        assert names in (
            {"dcgm/gpu-1:9400", "dcgm/gpu-1:9400 (cluster=b)"},
            {"dcgm/gpu-1:9400", "dcgm/gpu-1:9400 (cluster=a)"},
        )
        again = pulled.again()
        again.pull()
        assert set(again.puller.intake.targets) == names
        assert_each_once(again)


def test_a_match_restricts_what_is_asked_for(fake: FakePrometheus) -> None:
    pulled = pulled_from(fake, match='{cluster="prod",}', tenant="team-1")
    pulled.pull()
    go_on(fake, 1)
    pulled.pull()
    assert all(asked.headers["x-scope-orgid"] == "team-1" for asked in fake.asked)
    names = [asked.parameters for asked in fake.asked if asked.path.endswith("values")]
    assert names[0]["match[]"] == '{cluster="prod"}'
    go_on(fake, 2)
    pulled.pull()
    queries = [asked.parameters["query"] for asked in fake.asked if asked.seconds]
    assert queries
    assert all(query.split("[")[0].endswith(',cluster="prod"}') for query in queries)


def test_three_questions_a_pull(fake: FakePrometheus) -> None:
    pulled = pulled_from(fake)
    pulled.pull()
    go_on(fake, 1)
    pulled.pull()
    go_on(fake, 2)
    pulled.pull()
    fake.now += 1
    before = len(fake.asked)
    pulled.pull()
    assert [asked.path.rpartition("/")[2] for asked in fake.asked[before:]] == ["query"] * 3
    assert {asked.method for asked in fake.asked[before:]} == {"POST"}
