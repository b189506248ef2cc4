"""From answers to committed rows: one transaction a batch, and what is remembered between scrapes."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.reading import GpuProcess, HostSample, ProbeResult
from collectors.target import Target
from sql.store import Store
from tests.collectors.exposition_samples import dcgm, vllm
from tests.collectors.moments import T0, at, unix

EARLY = 1e9
"""A process start long before T0 (unix seconds)."""
ENGINE = Target(name="llm", url="http://host:8000/metrics", project="chat")
GPU = Target(name="node-1", url="http://host:9400/metrics", kind="dcgm")


def answer(body: bytes) -> Fetched:
    return Fetched(200, body, 0.01, None)


def take(ingest: Ingest, seconds: float, target: Target, body: bytes) -> None:
    ingest.commit([ingest.read(target, at(seconds), answer(body))])


def ttft(small: float, middle: float, count: float) -> dict[str, float]:
    return {"0.1": small, "1.0": middle, "+Inf": count}


@pytest.fixture
def store() -> Store:
    return Store.open()


def ingest_on(store: Store, *targets: Target) -> Ingest:
    ingest = Ingest(store)
    ingest.restore()
    ingest.sync_targets(targets or (ENGINE, GPU), T0)
    return ingest


def increases(store: Store) -> list[tuple[list[float] | None, float | None]]:
    rows = store.query_rows("histogram_rows", target="llm")
    return [(row[1], row[2]) for row in rows]


def test_a_batch_writes_scrapes_samples_and_histograms_in_one_commit(store: Store) -> None:
    ingest = ingest_on(store)
    ingest.commit(
        [
            ingest.read(ENGINE, T0, answer(vllm(running=4, waiting=12))),
            ingest.read(GPU, T0, answer(dcgm())),
        ]
    )
    (engine,) = store.query("api_engines", since=T0, project=None, environment=None, target=None).to_dicts()
    assert (engine["engine"], engine["role"], engine["replica"], engine["model"]) == (
        "vllm",
        "engine",
        "0",
        "m",
    )
    assert (engine["requests_running"], engine["requests_waiting"], engine["project"]) == (4, 12, "chat")
    (gpu,) = store.query("api_gpus", since=T0, project=None, environment=None, host="node-1").to_dicts()
    assert gpu["memory_used_bytes"] == 10_000 * 2**20
    assert gpu["memory_used_ratio"] == pytest.approx(10_000 / 80_000)
    assert gpu["temperature_celsius"] is None
    assert store.query_rows("scraped_targets") == [("llm",), ("node-1",)]


def test_a_failed_scrape_is_a_row_with_its_reason_and_no_sample(store: Store) -> None:
    ingest = ingest_on(store)
    ingest.commit([ingest.read(ENGINE, T0, Fetched(None, b"", 5.0, "no whole answer within 5 s"))])
    (row,) = store.query("scrape_rows", target="llm").to_dicts()
    assert (row["ok"], row["http_status"], row["error"]) == (False, None, "no whole answer within 5 s")
    assert row["lines"] is None
    assert store.query("api_engines", since=T0, project=None, environment=None, target=None).is_empty()


def test_an_answer_of_no_known_kind_is_said_in_the_scrape_row(store: Store) -> None:
    ingest = ingest_on(store)
    ingest.commit([ingest.read(ENGINE, T0, answer(b"node_load1 0.5\n"))])
    (row,) = store.query("scrape_rows", target="llm").to_dicts()
    assert not row["ok"]
    assert "no known kind of target shows these metrics: node_load1" in row["error"]


def test_an_answer_without_the_expected_metrics_is_a_failed_scrape(store: Store) -> None:
    ingest = ingest_on(store)
    ingest.commit([ingest.read(GPU, T0, answer(b"go_goroutines 10\n"))])
    (row,) = store.query("scrape_rows", target="node-1").to_dicts()
    assert (row["ok"], row["error"]) == (False, "no dcgm metrics in the answer")


def test_another_program_on_the_same_port_is_detected_anew(store: Store) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm())
    take(ingest, 10, ENGINE, b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n")
    take(ingest, 20, ENGINE, b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n")
    rows = store.query("scrape_rows", target="llm")
    assert rows["ok"].to_list() == [True, True, True]
    (engine,) = store.query(
        "api_engines", since=at(20), project=None, environment=None, target=None
    ).to_dicts()
    assert engine["engine"] == "llamacpp"


def test_increases_start_at_the_second_scrape_of_a_running_engine(store: Store) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm(ttft=ttft(500, 900, 1000), start=EARLY))
    take(ingest, 10, ENGINE, vllm(ttft=ttft(501, 903, 1004), start=EARLY))
    assert increases(store) == [(None, None), ([1, 3, 4], 10)]


def test_an_engine_that_restarts_counts_from_0_without_a_spike_or_a_negative_value(store: Store) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm(ttft=ttft(500, 900, 1000), start=EARLY))
    take(ingest, 10, ENGINE, vllm(ttft=ttft(500, 900, 1000), start=EARLY))
    take(ingest, 20, ENGINE, vllm(ttft=ttft(0, 1, 2), start=unix(15)))
    assert increases(store)[1:] == [([0, 0, 0], 10), ([0, 1, 2], 10)]


def test_a_model_that_comes_up_on_a_known_engine_counts_from_0_only_when_its_process_is_new(
    store: Store,
) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm(model="a", start=EARLY))
    take(ingest, 10, ENGINE, vllm(model="b", ttft=ttft(9, 9, 9), start=EARLY))
    take(
        ingest,
        20,
        ENGINE,
        vllm(model="c", ttft=ttft(1, 2, 3), start=unix(15)),
    )
    assert increases(store) == [(None, None), (None, None), ([1, 2, 3], 10)]


@pytest.mark.parametrize("stop", ["close", "kill"])
def test_a_restart_of_infermeter_goes_on_from_the_last_buckets(tmp_path: Path, stop: str) -> None:
    path = tmp_path / "s.duckdb"
    store = Store.open(path)
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm(ttft=ttft(500, 900, 1000), ttft_sum=100.0))
    take(ingest, 10, ENGINE, vllm(ttft=ttft(501, 902, 1003), ttft_sum=110.0))
    take(ingest, 20, ENGINE, vllm(ttft=ttft(501, 903, 1005), ttft_sum=115.0))
    if stop == "close":
        store.close()
    else:  # what a kill leaves behind: the file and its write-ahead log, no checkpoint
        import shutil

        copy = tmp_path / "killed.duckdb"
        shutil.copy(path, copy)
        if path.with_suffix(".duckdb.wal").exists():
            shutil.copy(path.with_suffix(".duckdb.wal"), copy.with_suffix(".duckdb.wal"))
        path = copy

    again = Store.open(path)
    ingest = ingest_on(again)
    take(ingest, 3620, ENGINE, vllm(ttft=ttft(511, 923, 1035), ttft_sum=215.0))
    assert increases(again)[-1] == ([10, 20, 30], 3600)
    (row,) = again.query_rows("histogram_rows", target="llm")[-1:]
    assert row[3] == 100.0


def test_a_restart_goes_on_over_a_reset_and_an_hourly_base(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.duckdb")
    ingest = ingest_on(store)
    raw = [0.0, 0.0, 0.0]
    for i in range(800):  # 2 h 13 min at 10 s: two hourly bases
        if i == 500:
            raw = [0.0, 0.0, 0.0]
        raw = [raw[0] + i % 2, raw[1] + i % 3, raw[2] + i % 3 + i % 2]
        raw[1] = max(raw[1], raw[0])
        take(ingest, 10 * i, ENGINE, vllm(ttft=ttft(*raw)))
    remembered = dict(ingest.lasts)
    store.close()
    again = Ingest(Store.open(tmp_path / "s.duckdb"))
    again.restore()
    assert again.lasts == remembered
    assert {last.buckets for last in again.lasts.values()} == {tuple(raw)}


def test_a_batch_that_fails_to_write_is_forgotten_and_its_increase_comes_with_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm(ttft=ttft(1, 1, 1)))
    with monkeypatch.context() as patch:
        patch.setattr("sql.store.Writer.append", _full_disk)
        with pytest.raises(duckdb.Error):
            take(ingest, 10, ENGINE, vllm(ttft=ttft(2, 2, 2)))
    take(ingest, 20, ENGINE, vllm(ttft=ttft(3, 3, 3)))
    assert increases(store) == [(None, None), ([2, 2, 2], 20)]


def test_a_store_that_refuses_the_last_usage_at_the_end_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm(prompt=100))
    take(ingest, 30, ENGINE, vllm(prompt=150))
    with monkeypatch.context() as patch:
        patch.setattr("sql.store.Writer.append", _full_disk)
        with pytest.raises(duckdb.Error, match="No space left"):
            ingest.commit([], ending=True)
    ingest.commit([], ending=True)
    assert store.query("usage_rows", target="llm")["prompt_tokens"].to_list() == [50]


def _full_disk(*_: object) -> None:
    raise duckdb.IOException("No space left on device")


def test_edges_are_stored_once(store: Store) -> None:
    ingest = ingest_on(store)
    for i in range(3):
        take(ingest, 10 * i, ENGINE, vllm())
    assert store.query_rows("edge_sets") == [(1, [0.1, 1.0, float("inf")])]


def test_a_target_says_what_it_is_and_what_it_lacks(store: Store) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm())
    (row,) = store.query("target_rows").filter(target="llm").to_dicts()
    assert (row["found_kind"], row["role"], row["kind"]) == ("vllm", "engine", "auto")
    assert "preemptions_total" in row["missing"]
    assert "ttft" not in row["missing"]


def test_a_target_that_left_the_list_is_gone_and_comes_back(store: Store) -> None:
    ingest = ingest_on(store, ENGINE, GPU)
    ingest.sync_targets([GPU], at(60))
    gone = {row["target"]: row["gone_at"] for row in store.query("target_rows").to_dicts()}
    assert gone == {"llm": at(60), "node-1": None}
    ingest.sync_targets([ENGINE, GPU], at(120))
    back = {
        row["target"]: (row["gone_at"], row["first_seen"]) for row in store.query("target_rows").to_dicts()
    }
    assert back == {"llm": (None, T0), "node-1": (None, T0)}


def test_a_list_of_thousands_of_targets_that_changes_is_stored_in_a_moment(store: Store) -> None:
    listed = [Target(name=f"node-{i}:9400", url=f"http://node-{i}:9400") for i in range(5000)]
    ingest = ingest_on(store, *listed)
    started = time.process_time()
    ingest.sync_targets(listed[1:], at(5))
    assert time.process_time() - started < 5  # of the CPU; one statement a target took 20 s
    gone = store.query("target_rows").drop_nulls("gone_at")
    assert gone.select("target", "gone_at").rows() == [("node-0:9400", at(5))]


def test_the_first_answers_of_thousands_of_targets_are_stored_in_a_moment(store: Store) -> None:
    listed = [Target(name=f"node-{i}", url="http://host:9400") for i in range(2000)]
    ingest = ingest_on(store, *listed)
    one = ingest.read(listed[0], at(0), answer(dcgm()))
    started = time.process_time()
    ingest.commit([one._replace(target=target) for target in listed])
    assert time.process_time() - started < 4  # of the CPU; one statement a target takes twice as long
    found = store.query("target_rows").select("found_kind", "role").unique().rows()
    assert found == [("dcgm", "gpu")]


def test_a_model_named_in_the_target_fills_in_where_the_engine_does_not_say(store: Store) -> None:
    target = Target(name="cpp", url="http://host:8080/metrics", model="qwen-7b")
    ingest = ingest_on(store, target)
    take(ingest, 0, target, b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n")
    (engine,) = store.query("api_engines", since=T0, project=None, environment=None, target="cpp").to_dicts()
    assert engine["model"] == "qwen-7b"


def test_an_answer_that_cannot_be_stored_costs_the_other_targets_nothing(store: Store) -> None:
    ingest = ingest_on(store)
    odd = ingest.read(GPU, T0, answer(dcgm()))
    assert odd.reading is not None
    too_big = odd.reading.gpus[0]._replace(gpu_index=3_000_000_000)
    odd = odd._replace(reading=odd.reading._replace(gpus=[too_big]))
    ingest.commit([odd, ingest.read(ENGINE, T0, answer(vllm()))])
    assert store.query("scrape_rows", target="llm")["ok"].to_list() == [True]
    (row,) = store.query("scrape_rows", target="node-1").to_dicts()
    assert not row["ok"]
    assert row["error"].startswith("infermeter could not store this, please report: ConversionException")


def test_histograms_of_models_that_are_gone_are_forgotten_after_an_hour(store: Store) -> None:
    ingest = ingest_on(store)
    for i in range(90):
        take(ingest, 60 * i, ENGINE, vllm(model=f"model-{i // 10}"))
        ingest.forget()
    assert {key.model for key in ingest.lasts} == {f"model-{i}" for i in range(2, 9)}


def test_what_is_remembered_of_a_target_goes_with_it(store: Store) -> None:
    ingest = ingest_on(store)
    take(ingest, 0, ENGINE, vllm())
    ingest.sync_targets([GPU], at(10))
    ingest.forget()
    assert (ingest.known, ingest.lasts, ingest.readers) == ({}, {}, {})


def test_hosts_probes_and_processes_are_stored_and_a_cost_is_rounded_to_its_column(store: Store) -> None:
    ingest = ingest_on(store)
    good = ingest.read(GPU, T0, answer(dcgm(uuid="GPU-1")))
    assert good.reading is not None
    reading = good.reading._replace(
        processes=[GpuProcess("GPU-1", "", 4242, "python3", 3 * 2**30, "compute")],
        hosts=[HostSample("node-1", 64, 1234.5, 5000.0, 3.5, 2**38, 2**37, 0, 0, 1.7e9)],
        probes=[ProbeResult("m", ok=True, http_status=200, cost=Decimal("0.00000012345678"), currency="USD")],
    )
    ingest.commit([good._replace(reading=reading)])
    assert store.query_rows("process_rows", target="node-1") == [
        (T0, "GPU-1", "", 4242, "python3", 3 * 2**30, "compute")
    ]
    (host,) = store.query("page_host", host="node-1", as_of=at(1), look_back=60.0).to_dicts()
    assert (host["cpu_count"], host["memory_available_bytes"]) == (64, 2**37)
    assert store.query_rows("probe_rows", target="node-1") == [(T0, "m", True, 200, Decimal("0.000000123"))]


def test_a_host_that_does_not_fit_its_columns_costs_the_other_targets_nothing(store: Store) -> None:
    ingest = ingest_on(store)
    odd = ingest.read(GPU, T0, answer(dcgm()))
    assert odd.reading is not None
    odd = odd._replace(reading=odd.reading._replace(hosts=[HostSample("node-1", 70_000)]))  # a SMALLINT
    ingest.commit([odd, ingest.read(ENGINE, T0, answer(vllm()))])
    assert store.query("scrape_rows", target="llm")["ok"].to_list() == [True]
    assert store.query("scrape_rows", target="node-1")["ok"].to_list() == [False]
