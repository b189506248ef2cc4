"""A counter that fell: a restart, or another worker of the same endpoint."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.multiworker import ALTERNATES_FOR, Counting, Watch, look
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import vllm
from tests.collectors.moments import T0, at, unix

TARGET = Target(name="llm", url="http://host:8000/metrics", kind="vllm")
FLAG = "multi-worker endpoint: each scrape is answered by another worker with its own counters"


def verdicts(values: list[float], starts: list[float | None] | None = None) -> list[Counting]:
    """Of one counter, scraped every 10 s."""
    watch, found = Watch(), []
    level: float | None = None
    counted_at: datetime | None = None
    for i, value in enumerate(values):
        fell: dict[Hashable, float] = {"c": value} if level is not None and value < level else {}
        start = starts[i] if starts is not None else None
        watch, counting = look(watch, at(10 * i), counted_at, start, fell, {"c"})
        if counting is not Counting.HELD:
            level, counted_at = value, at(10 * i)
        found.append(counting)
    return found


ON, HELD, SETTLED, RESTARTED, OFF = (
    Counting.ON, Counting.HELD, Counting.SETTLED, Counting.RESTARTED, Counting.OFF,
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1000, 1010, 1020], [ON, ON, ON]),
        ([1000, 5, 10, 15, 20], [ON, HELD, HELD, SETTLED, ON]),
        ([1000, 5, 1010, 7], [ON, HELD, OFF, OFF]),
        ([1000, 5, 6, 1010], [ON, HELD, HELD, OFF]),
        ([1000, 500, 200, 510, 1010], [ON, HELD, HELD, HELD, OFF]),
        ([1000, 1000, 0, 0, 0, 0], [ON, ON, HELD, HELD, SETTLED, ON]),
    ],
    ids=["grows", "restart", "back at once", "back after two", "three workers", "restart, then idle"],
)
def test_what_comes_back_within_two_scrapes_was_another_worker(
    values: list[float], expected: list[Counting]
) -> None:
    assert verdicts(values) == expected


@pytest.mark.parametrize(
    ("values", "starts", "expected"),
    [
        ([1000, 5, 10], [0, 12, 12], [ON, RESTARTED, ON]),
        ([3, 0, 5, 9], [0, 12, 12, 12], [ON, RESTARTED, ON, ON]),
        ([3, 5, 9], [0, 8, 8], [ON, RESTARTED, ON]),
        ([1000, 5, 1010], [0, -3, 0], [ON, HELD, OFF]),
        ([5, 1000, 7], [0, -3, 0], [ON, HELD, OFF]),
        ([10, 2, 12, 14], [0, -3, -3, -3], [ON, HELD, RESTARTED, ON]),
        ([10, 2, 12, 14], [0, -9000, -9000, -9000], [ON, HELD, Counting.ANEW, ON]),
        ([10, 12, 2, 14], [0, -9000, -8000, -8000], [ON, HELD, OFF, OFF]),
        ([1000, 5, 10, 15, 20], [0, 0, 0, 0, 0], [ON, HELD, HELD, Counting.SHIFTED, ON]),
        ([1000, 5, 1001], [0, 0, 0], [ON, HELD, OFF]),
    ],
    ids=[
        "a restart is known at once",
        "a restart that soon passes the old level",
        "a restart that is past the old level already",
        "the process from before answers again",
        "the process from before answers again, though nothing had fallen",
        "a restart by an engine whose clock is behind",
        "another worker that stays",
        "a third worker",
        "a fall of a process that is the same",
        "workers that show the start of their common parent",
    ],
)
def test_the_start_of_the_process_decides_where_it_is_told(
    values: list[float], starts: list[float], expected: list[Counting]
) -> None:
    assert verdicts(values, [unix(start) for start in starts]) == expected


def test_workers_that_alternated_are_not_counted_until_a_quarter_of_an_hour_without_a_sign() -> None:
    quiet = int(ALTERNATES_FOR.total_seconds() // 10)
    found = verdicts([1000, 5, 1010, 6, *range(1020, 1022 + quiet)])
    # The last sign is the fall to 6 at 30 s; 900 s later it is over.
    assert found[4 : 3 + quiet] == [OFF] * (quiet - 1)
    assert found[3 + quiet :] == [Counting.ANEW, ON, ON]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), min_size=4, max_size=60))
def test_restarts_that_the_process_tells_are_never_taken_for_workers(steps: list[tuple[bool, int]]) -> None:
    value, start = 0.0, unix(-100)
    values, starts = [], list[float | None]()
    for i, (restart, gained) in enumerate(steps):
        if restart:
            value, start = 0.0, unix(10 * i - 3)
        value += gained
        values.append(value)
        starts.append(start)
    found = verdicts(values, starts)
    assert OFF not in found
    assert HELD not in found
    for (before, now), counting in zip(pairwise(starts), found[1:], strict=True):
        assert (counting is RESTARTED) == (before != now)


# Through the whole of it: what is stored.


def take(ingest: Ingest, seconds: float, count: float, start: float | None = None) -> None:
    buckets = {"0.1": count, "1.0": count, "+Inf": count}
    body = vllm(prompt=10 * count, generation=100 * count, ttft=buckets, ttft_sum=count, start=start)
    ingest.commit([ingest.read(TARGET, at(seconds), Fetched(200, body, 0.01, None))])


def fresh(store: Store) -> Ingest:
    ingest = Ingest(store)
    ingest.restore()
    ingest.sync_targets([TARGET], T0)
    return ingest


def stored(store: Store) -> list[tuple[float | None, float | None]]:
    """(increase of the count, seconds it covers) of each row."""
    rows = store.query_rows("histogram_rows", target="llm")
    return [(row[1][-1] if row[1] else None, row[2]) for row in rows]


def notes(store: Store) -> list[str]:
    (row,) = store.query("target_rows").to_dicts()
    return [note for note in row["notes"] if note.startswith(FLAG)]


def rates(store: Store, until: float) -> list[float | None]:
    found = store.query(
        "page_engine_series", target="llm", replica="0", model="m", from_ts=T0, to_ts=at(until),
        step=10.0, lead=30.0,
    )  # fmt: skip
    return found["generation_tokens_per_second"].to_list()


def test_alternating_workers_give_no_increase_and_no_rate_and_are_said() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i, count in enumerate([1000, 1001, 5, 1003, 6, 1004, 1005, 7]):
        take(ingest, 10 * i, count)
    assert stored(store)[:2] == [(None, None), (1, 10)]
    assert stored(store)[2:] == [(None, None)] * 6
    assert rates(store, 80)[:2] == [None, 10]  # 100 tokens in 10 s
    assert set(rates(store, 80)[2:]) == {None}
    assert len(notes(store)) == 1
    engines = store.query("api_engines", since=T0, project=None, environment=None, target=None).to_dicts()
    assert [row["requests_running"] for row in engines] == [1]


def test_a_real_restart_without_a_start_time_is_counted_two_scrapes_later_and_not_flagged() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i, count in enumerate([1000, 1001, 2, 3, 5, 9]):
        take(ingest, 10 * i, count)
    # What the new process had counted by 40 s: 5, since the last counted scrape at 10 s.
    assert stored(store) == [(None, None), (1, 10), (None, None), (None, None), (5, 30), (4, 10)]
    assert notes(store) == []
    assert not any(rate is not None and rate > 100 for rate in rates(store, 60))


def test_a_restart_that_the_process_tells_is_counted_at_once() -> None:
    store = Store.open()
    ingest = fresh(store)
    for seconds, count, start in ((0, 1000, -9), (10, 1001, -9), (20, 2, 15), (30, 3, 15)):
        take(ingest, seconds, count, unix(start))
    assert stored(store) == [(None, None), (1, 10), (2, 10), (1, 10)]
    assert notes(store) == []


def test_only_what_fell_counts_from_0() -> None:
    """One of two data-parallel replicas restarts; both are told by one endpoint."""
    store = Store.open()
    ingest = fresh(store)
    for i, (one, other) in enumerate([(100, 50), (110, 51), (3, 52), (4, 53), (6, 54)]):
        body = b"".join(
            vllm(engine=engine, ttft={"0.1": n, "1.0": n, "+Inf": n}, prompt=n, generation=n, start=None)
            for engine, n in (("0", one), ("1", other))
        )
        ingest.commit([ingest.read(TARGET, at(10 * i), Fetched(200, body, 0.01, None))])
    rows = store.query_rows("histogram_rows", target="llm")
    assert [row[1][-1] for row in rows[-2:]] == [6, 3]  # 6 since 0; 51 to 54
    assert notes(store) == []


@pytest.mark.parametrize("while_held", [True, False])
def test_a_restart_of_infermeter_neither_forgets_the_flag_nor_what_is_held(
    tmp_path: Path, while_held: bool
) -> None:
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = fresh(store)
    before = [1000, 1001, 5] if while_held else [1000, 1001, 5, 1003]
    for i, count in enumerate(before):
        take(ingest, 10 * i, count)
    store.close()
    store = Store.open(path)
    ingest = fresh(store)
    after = [1003, 6] if while_held else [6, 1004]
    for i, count in enumerate(after):
        take(ingest, 10 * (len(before) + i), count)
    if while_held:  # 1003 is the first worker's, 2 more than at its last counted scrape; then 6 falls
        assert stored(store)[3:] == [(2, 20), (None, None)]
    else:
        assert stored(store)[4:] == [(None, None), (None, None)]
        assert len(notes(store)) == 1


def test_after_alternating_the_counters_begin_anew_and_the_note_goes() -> None:
    store = Store.open()
    ingest = fresh(store)
    for i, count in enumerate([1000, 5, 1001, 6]):
        take(ingest, 10 * i, count)
    take(ingest, 2000, 1100)
    take(ingest, 2010, 1101)
    assert stored(store)[-2:] == [(None, None), (1, 10)]
    assert notes(store) == []
    again = fresh(store)
    assert [last.buckets[-1] for last in again.lasts.values()] == [1101]
