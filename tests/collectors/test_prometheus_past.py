"""The past of a Prometheus is read beside what is new; each request is counted once, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from collectors.ingest import Ingest
from collectors.prometheus import progress
from sql.store import Writer
from tests.collectors.fake_prometheus import FakePrometheus, Reply, fake_prometheus
from tests.collectors.pulling import (
    STEP,
    assert_each_once,
    counted,
    engine,
    go_on,
    prompts,
    pulled_from,
    scrape_past,
)


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with fake_prometheus() as server:
        yield server


class TestPast:
    def test_the_past_and_what_comes_meanwhile_count_every_request_once(self, fake: FakePrometheus) -> None:
        count = scrape_past(fake, 3600)
        pulled = pulled_from(fake, backfill="1h")
        pulled.pull()
        assert pulled.notes() == ["back-filled 0s of 1h"]
        go_on(fake, count, 3)
        pulled.pull()  # before the past is read
        pulled.read_past()
        go_on(fake, count + 3, 2)
        pulled.pull()
        assert pulled.notes() == []
        assert prompts(pulled) == [100.0 * number for number in range(count + 5)]
        assert counted(pulled) == [count + 4, 2 * (count + 4), 3 * (count + 4)]
        first, *others = pulled.rows("engine_histogram")
        assert first["increases"] is None
        assert {row["interval_seconds"] for row in others} == {STEP}
        assert_each_once(pulled)

    def test_without_a_past_live_rows_begin_at_first_sight(self, fake: FakePrometheus) -> None:
        count = scrape_past(fake, 600)
        pulled = pulled_from(fake)
        pulled.pull()
        go_on(fake, count, 2)
        pulled.pull()
        pulled.read_past()
        assert prompts(pulled) == [100.0 * count, 100.0 * (count + 1)]

    @pytest.mark.parametrize("broken_at", [1, 3, 6])
    def test_a_backfill_that_was_cut_off_goes_on(self, fake: FakePrometheus, broken_at: int) -> None:
        count = scrape_past(fake, 7200)
        fake.most_samples = 600  # small answers, so that there are many
        pulled = pulled_from(fake, backfill="2h")
        pulled.pull()
        commits = 0
        whole = Ingest.commit

        def killed(ingest: Ingest, batch: Any, also: Any = None, **more: Any) -> None:
            nonlocal commits
            commits += 1
            if commits == broken_at:
                raise KeyboardInterrupt
            whole(ingest, batch, also, **more)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Ingest, "commit", killed)
            pulled.read_past()
        again = pulled.again()
        go_on(fake, count, 2)
        again.pull()
        again.read_past()
        assert prompts(again) == [100.0 * number for number in range(count + 2)]
        assert counted(again) == [count + 1, 2 * (count + 1), 3 * (count + 1)]
        assert_each_once(again)

    def test_a_long_pause_of_ours_is_read_beside_what_is_new(self, fake: FakePrometheus) -> None:
        pulled = pulled_from(fake)
        pulled.pull()
        go_on(fake, 1, 3)
        pulled.pull()
        go_on(fake, 4, 200)  # 33 minutes without us
        again = pulled.again()
        again.pull()
        assert again.notes() == ["back-filled 0s of 33m20s"]
        go_on(fake, 204)
        again.pull()
        assert max(prompts(again)) == 20400  # the newest is there before the gap is filled
        again.read_past()
        assert prompts(again) == [100.0 * number for number in range(1, 205)]
        assert counted(again) == [203, 406, 609]
        assert_each_once(again)

    def test_a_target_of_the_past_is_known_and_gone(self, fake: FakePrometheus) -> None:
        for number in range(5):
            fake.scrape("vllm", "old:8000", engine(number), fake.now - 3000 + STEP * number)
        scrape_past(fake, 100)
        pulled = pulled_from(fake, backfill="1h")
        pulled.pull()
        pulled.read_past()
        gone = {row["target"]: row["gone_at"] is not None for row in pulled.rows("target")}
        assert gone == {"vllm/a:8000": False, "vllm/old:8000": True, "prom": False}
        assert len([row for row in pulled.rows("engine_sample") if row["target"] == "vllm/old:8000"]) == 5

    def test_a_stretch_that_is_stored_answer_by_answer_is_read_when_all_are_stored(
        self, fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scrape_past(fake, 600)
        pulled = pulled_from(fake, backfill="60s")  # the last six scrapes
        pulled.pull()
        append, note = Writer.append, progress.note_backfilled
        stored_before: list[int] = []

        def refuse_several(writer: Writer, table: str, some: Any) -> None:
            if table == "engine_sample" and some.num_rows > 1:
                raise duckdb.ConversionException("one of them")
            append(writer, table, some)

        def note_and_count(*arguments: Any) -> None:
            stored_before.append(len(prompts(pulled)))
            note(*arguments)

        monkeypatch.setattr(Writer, "append", refuse_several)
        monkeypatch.setattr(progress, "note_backfilled", note_and_count)
        pulled.read_past()
        assert prompts(pulled) == [5400.0, 5500.0, 5600.0, 5700.0, 5800.0, 5900.0]
        assert stored_before == [0, 5]  # with all, which is refused, and with the last one

    def test_an_error_is_told_and_the_rest_is_read_later(self, fake: FakePrometheus) -> None:
        count = scrape_past(fake, 600)
        pulled = pulled_from(fake, backfill="10m")
        pulled.pull()
        fake.wrong = lambda asked: Reply(500, b"boom") if asked.seconds else None
        pulled.read_past()
        fake.wrong = lambda _: None
        pulled.pull()
        assert pulled.notes()[-1] == "back-filling stopped and is tried again: HTTP 500 (boom)"
        pulled.read_past()
        assert prompts(pulled) == []  # not at once
        fake.now += 6
        pulled.read_past()
        assert prompts(pulled) == [100.0 * number for number in range(count)]
