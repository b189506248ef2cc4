"""What pages show of gateways, probes, engines with means alone, placements, processes, hosts and names."""

from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from app import runtime
from app.pages import facts, placements, probe_charts, sources, states
from app.view import Window
from sql.store import Store
from tests.app import data, further
from tests.app.opening import NOW, Open, first_line, text_of


@pytest.fixture(scope="module")
def store() -> Store:
    made = Store.open()
    data.fill(made, NOW)
    further.fill(made, NOW)
    return made


def test_figures_of_gateways_and_probes_are_added_to_no_engines(store: Store, opened: Open) -> None:
    # 6 engines and the TGI; the gateway's 500 waiting requests and the probe are none of theirs.
    line = first_line(opened(store, "engines"))
    assert "6 of 7 engines well" in line
    waiting = store.query_rows("page_engines", as_of=NOW, look_back=300, project=None, environment=None)
    assert len(waiting) == 9
    assert "500" not in line
    assert "6 of 7 engines" in first_line(opened(store))


def test_where_only_a_gateway_is_watched_it_stands_for_what_it_sees() -> None:
    rows = pl.DataFrame({"role": ["gateway", "probe"], "requests_waiting": [3.0, None]})
    assert states.serving(rows).height == 2


def test_an_engine_without_buckets_shows_its_mean_and_says_so(store: Store, opened: Open) -> None:
    page = opened(store, "engines", engine="tgi-1")
    assert "TTFT mean 820 ms (5 min, n 150)" in first_line(page)  # 30 scrapes of 5 requests
    text = text_of(page)
    assert "mean 820 ms · n " in text
    assert any("TGI gives a sum and a count, no buckets" in one.value for one in page.caption)


def test_an_engine_says_which_gpus_it_uses_and_how_that_is_known(store: Store, opened: Open) -> None:
    assert ":gray[GPU]  \nnode-2/6 (by its pod, 20 s ago)" in text_of(
        opened(store, "engines", engine="tgi-1")
    )
    # The configuration goes before what the pod says.
    assert ":gray[GPU]  \nnode-3/5 (configured)" in text_of(opened(store, "engines", engine="llama-70b"))
    assert ":gray[GPU]  \n–" in text_of(opened(store, "engines", engine="lite-1"))


def test_a_gpu_names_its_engines_its_processes_and_its_host(store: Store, opened: Open) -> None:
    text = text_of(opened(store, "gpus", gpu=data.FULL_GPU))
    assert "(configured)" in text
    assert "processes: VLLM::EngineCor 4711: 60.0 GiB · ? 815: –" in text.replace("\u2060", "")
    assert ":gray[host CPU]  \n25 %" in text
    assert ":gray[host memory free]  \n300 GiB / 512 GiB" in text
    assert "(by its pod, 20 s ago)" in text_of(opened(store, "gpus", gpu=data.gpu_uuid(2, 6)))


def test_a_projects_gpus_are_those_its_engines_were_found_on_too(store: Store) -> None:
    found = store.query("page_gpus", as_of=NOW, look_back=300.0, project="search", environment="prod")
    assert data.gpu_uuid(2, 6) in found["gpu_uuid"]  # of tgi-1, known by its pod alone
    assert data.gpu_uuid(2, 7) not in found["gpu_uuid"]
    other = store.query("page_gpus", as_of=NOW, look_back=300.0, project="edge", environment=None)
    assert data.gpu_uuid(2, 6) not in other["gpu_uuid"]


def test_a_placement_not_seen_for_a_quarter_of_an_hour_is_gone(store: Store) -> None:
    later = NOW + timedelta(minutes=16)
    assert store.query_rows("page_engine_gpus", as_of=later, look_back=900) == []


def test_a_placement_of_one_replica_or_of_all() -> None:
    before = NOW - timedelta(minutes=3)
    rows = [
        ("e", "1", "GPU-1", "pod", before),
        ("e", "0", "GPU-0", "pod", NOW),
        ("e", "", "GPU-9", "process", NOW),
    ]
    frame = pl.DataFrame(
        [(target, replica, gpu, "", way, seen) for target, replica, gpu, way, seen in rows],
        schema=["target", "replica", "gpu_uuid", "mig_instance", "source", "last_seen"],
        orient="row",
    )
    assert placements.engine_gpus(frame, "e", "1") == ([("GPU-1", "")], "pod", before)
    assert placements.engine_gpus(frame, "e", "2") == ([("GPU-9", "")], "process", NOW)
    assert placements.engine_gpus(frame, "f", "0") == ([], "", None)
    assert [one.target for one in placements.on_gpu(frame, "GPU-0", "")] == ["e"]


def test_a_probe_shows_what_a_caller_waited_for_and_what_it_cost(store: Store, opened: Open) -> None:
    page = opened(store, "engines", engine="together")
    # The 54 good ones of the last hour: numpy's quantile of 0.95 by linear interpolation is 0.8535.
    assert "TTFT p95 854 ms (1 h, n 54) · :orange[▲ 6 of 60 probes failed]" in first_line(page)
    said = [one.value.replace("\\", "") for one in page.caption]
    assert "last error (24 h): HTTP 429: too many requests" in said  # later probes went well
    text = text_of(page)
    # 60 probes, 6 refused; the good ones took 300 … 880 ms. 54 × 0.0001 USD.
    assert ":gray[succeeded (24 h)]  \n54 of 60" in text
    assert ":gray[cost (24 h)]  \n0.0054 USD" in text
    good = [0.3 + 0.01 * minute for minute in range(60) if minute % 10 != 9]
    middle = (good[26] + good[27]) / 2
    assert f":gray[TTFT median (24 h)]  \n{middle * 1000:.3g} ms" in text


def test_costs_of_two_currencies_are_not_added_and_unknown_ones_are_told() -> None:
    found = Store.open()
    rows = [("0.5", "USD"), ("0.25", "EUR"), (None, "EUR"), ("0.125", "EUR"), (None, None)]
    with found.write() as writer:
        probes = [
            {"ts": NOW - timedelta(minutes=len(rows) - number), "target": "p", "ok": True,
             "cost": None if cost is None else Decimal(cost), "currency": currency}
            for number, (cost, currency) in enumerate(rows)
        ]  # fmt: skip
        writer.append("probe", pl.DataFrame(probes, schema_overrides={"cost": pl.Decimal(18, 9)}))
    asked = {"targets": ["p"], "as_of": NOW, "look_back": 86_400.0}
    (summary,) = found.query("page_probe_summary", **asked).iter_rows(named=True)
    assert (summary["cost"], summary["currency"], summary["unpriced"]) == (Decimal("0.375"), "EUR", 1)
    assert probe_charts.cost_text(summary) == "≥ 0.375 EUR"
    assert probe_charts.cost_text({**summary, "unpriced": 0}) == "0.375 EUR"
    assert probe_charts.cost_text({**summary, "cost": None}) == ""


def test_too_few_probes_have_no_p95() -> None:
    assert probe_charts.p95_text({"timed": 19, "ttft_p95": 1.0}) == "–"
    assert probe_charts.p95_text({"timed": 20, "ttft_p95": 1.0}) == "1.00\u00a0s"
    assert probe_charts.p95_text(None) == "–"


def test_each_figure_is_listed_with_the_name_it_is_read_by_and_missing_ones_with_those_looked_for() -> None:
    rows = pl.DataFrame(
        {
            "target": ["a", "b", "c"],
            "state": ["ok", "ok", "gone"],
            "found_kind": ["vllm", "vllm", "vllm"],
            "found_names": ['{"requests_running": "vllm:num_requests_running"}'] * 3,
        }
    )
    found = {row[2]: row for row in sources.name_rows(rows)}
    assert found["requests_running"][1:] == (
        ["a", "b"], "requests_running", "vllm:num_requests_running", "vllm:num_requests_running",
    )  # fmt: skip
    assert found["kv_cache_used_ratio"][3:] == ("", "vllm:kv_cache_usage_perc, vllm:gpu_cache_usage_perc")
    assert list(found)[-1] == "requests_running"  # what is missing stands first


def test_what_is_wrong_with_a_list_of_targets_is_said_on_sources(store: Store, opened: Open) -> None:
    problem = "http://lists.example/targets: HTTP 500; its last good list (3 targets) stays in use"
    opened(store, "sources")
    running = runtime.current()
    running.monitor = SimpleNamespace(targets=SimpleNamespace(problems=[problem]))  # type: ignore[assignment]
    page = AppTest.from_function(_sources_page, default_timeout=30).run()
    assert not page.exception
    text = text_of(page).replace("\u2060", "")
    assert f":orange[▲ {problem}]" in text


def _sources_page() -> None:
    from app.pages import sources

    sources.page()


@pytest.mark.parametrize(
    ("asked", "told"),
    [("10.0.0.5", "10.0.0.5"), ("10.0.0.7", None), ("NODE-9", "node-9.example.com"), ("node-8", None)],
)
def test_hosts_are_compared_by_their_short_name_and_addresses_whole(asked: str, told: str | None) -> None:
    made = Store.open()
    rows = [{"ts": NOW, "target": "h", "host": host} for host in ("10.0.0.5", "node-9.example.com")]
    with made.write() as writer:
        writer.append("host_sample", data.frame(rows))
    window = Window(NOW - timedelta(hours=1), NOW, 60, live=True)
    found = facts.host(made, asked, window)
    assert (found and found["host"]) == told
