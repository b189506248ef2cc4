"""What every engine's table can say. Expected values are worked out by hand from the lines."""

from __future__ import annotations

import math

from collectors.engines.table import PROCESS, EngineKind, Mean, Named
from collectors.exposition import Nowhere
from collectors.reading import Histogram, Reading
from collectors.source import TargetReader

KIND = EngineKind(
    name="made-up",
    role="engine",
    marks=("e_*",),
    prefixes=("e:",),
    columns={
        "requests_running": ("running", "active"),
        "requests_waiting": ("waiting",),
        "_grammar": ("waiting_grammar",),
        "_api": ("waiting_api",),
        "requests_swapped": ("paused",),
        "generation_tokens_total": ("made_tokens_total",),
        "kv_cache_used_ratio": ("usage",),
        "_used": ("blocks_used",),
        "_blocks": ("blocks",),
        "finished_error_total": (Named("done_total", {"why": "oom|*error"}),),
        "finished_stop_total": (Named("done_total", {"why": "stop"}, absent_is_zero=True),),
    },
    histograms={"ttft": ("first_seconds",), "queue": (Named("queue_ms", scale=1e-3),)},
    means={
        "ttft": (Mean("ttft_sum", "ttft_n"), Mean(Named("ttft_us", scale=1e-6), "ttft_n_old")),
        "queue": (Mean(Named("queue_ms_total", scale=1e-3), "queue_n"),),
        "tpot": (Mean("made_seconds_total", "made_tokens_total"),),
    },
    plus={"requests_waiting": ("_grammar", "_api")},
    ratios={"kv_cache_used_ratio": ("_used", "_blocks")},
    endpoint=PROCESS,
    replica_labels=("Replica",),
    model_labels=("model",),
    copies=("tp_rank", "pp_rank"),
    totals={"requests_waiting": "priority"},
)


def read(*lines: str, kind: EngineKind = KIND) -> Reading:
    return TargetReader(kind).read("\n".join(lines).encode())


def test_a_sum_and_a_count_are_a_mean_and_no_percentile() -> None:
    reading = read('e:ttft_sum{model="m"} 12.5', 'e:ttft_n{model="m"} 50')
    assert reading.histograms == [Histogram("0", "m", "ttft", (math.inf,), (50,), 12.5, 50)]
    assert reading.found_names == (("ttft", "e:ttft_sum / e:ttft_n"),)
    assert "ttft" not in reading.missing


def test_a_mean_has_the_unit_of_its_name_and_its_series_are_added_up() -> None:
    reading = read(
        'e:queue_ms_total{model="m",kind="a"} 1500', 'e:queue_ms_total{model="m",kind="b"} 500',
        'e:queue_n{model="m",kind="a"} 3', 'e:queue_n{model="m",kind="b"} 1',
        'e:ttft_us{model="m"} 2500000', 'e:ttft_n_old{model="m"} 5',
    )  # fmt: skip
    assert {one.metric: (one.sum_seconds, one.count) for one in reading.histograms} == {
        "queue": (2, 4),
        "ttft": (2.5, 5),
    }


def test_a_histogram_with_buckets_goes_before_a_mean() -> None:
    reading = read(
        'e:ttft_sum{model="m"} 12.5', 'e:ttft_n{model="m"} 50',
        'e:first_seconds_bucket{model="m",le="1"} 1', 'e:first_seconds_bucket{model="m",le="+Inf"} 2',
        'e:first_seconds_sum{model="m"} 3', 'e:first_seconds_count{model="m"} 2',
    )  # fmt: skip
    assert reading.histograms == [Histogram("0", "m", "ttft", (1, math.inf), (1, 2), 3, 2)]
    assert reading.found_names == (("ttft", "e:first_seconds"),)


def test_a_histogram_whose_buckets_were_dropped_on_the_way_is_a_mean() -> None:
    reading = read(
        'e:first_seconds_sum{model="m"} 3', 'e:first_seconds_count{model="m"} 2',
        'e:queue_ms_sum{model="m"} 1500', 'e:queue_ms_count{model="m"} 3',
        'e:ttft_sum{model="m"} 99', 'e:ttft_n{model="m"} 99',
    )  # fmt: skip
    assert reading.histograms == [
        Histogram("0", "m", "ttft", (math.inf,), (2,), 3, 2),
        Histogram("0", "m", "queue", (math.inf,), (3,), 1.5, 3),
    ]
    assert ("ttft", "e:first_seconds_sum / e:first_seconds_count") in reading.found_names


def test_series_whose_edges_differ_are_one_mean() -> None:
    reading = read(*(
        f'e:first_seconds_{part}"m",stream="{stream}"{rest}'
        for stream, edge, n in (("yes", "1", 2), ("no", "4", 3))
        for part, rest in (
            ("bucket{model=", f',le="{edge}"}} 1'), ("bucket{model=", f',le="+Inf"}} {n}'),
            ("sum{model=", f"}} {n}.5"), ("count{model=", f"}} {n}"),
        )
    ))  # fmt: skip
    assert reading.histograms == [Histogram("0", "m", "ttft", (math.inf,), (5,), 6, 5)]
    assert reading.notes == (
        "ttft: series with different bucket edges cannot be added up, the buckets are left out",
    )


def test_a_sum_of_some_of_its_series_alone_is_no_sum() -> None:
    """A line that cannot be read: 2 s of one series over 5 requests of two would be a mean of 0.4 s."""
    lines = [
        'e:first_seconds_bucket{model="m",stream="yes",le="+Inf"} 2',
        'e:first_seconds_bucket{model="m",stream="no",le="+Inf"} 3',
        'e:first_seconds_sum{model="m",stream="yes"} 2', 'e:first_seconds_sum{model="m",stream="no"} ?',
        'e:first_seconds_count{model="m",stream="yes"} 2', 'e:first_seconds_count{model="m",stream="no"} ?',
    ]  # fmt: skip
    assert read(*lines).histograms == [Histogram("0", "m", "ttft", (math.inf,), (5,), None, 5)]
    assert read(*lines[2:]).histograms == [Histogram("0", "m", "ttft", (math.inf,), (2,), 2, 2)]
    assert read(*lines[2:4], lines[4], lines[5].replace("?", "3")).histograms == []


def test_a_mean_that_names_no_model_beside_means_of_models_is_nobodys() -> None:
    reading = read(
        'e:first_seconds_sum{model="m"} 3', 'e:first_seconds_count{model="m"} 2',
        "e:first_seconds_sum 5", "e:first_seconds_count 5",
    )  # fmt: skip
    assert [(one.sum_seconds, one.count) for one in reading.histograms] == [(3, 2)]


def test_a_counter_may_lack_its_total_and_goes_after_one_that_has_it() -> None:
    """OpenTelemetry's Prometheus exporter leaves the suffix out with `add_metric_suffixes: false`."""
    without = read(
        'e:made_tokens{model="m"} 7', 'e:made_seconds{model="m"} 2', 'e:done{model="m",why="stop"} 3'
    )
    assert without.engines[0].generation_tokens_total == 7
    assert without.engines[0].finished_stop_total == 3
    assert [(one.metric, one.sum_seconds, one.count) for one in without.histograms] == [("tpot", 2, 7)]
    assert ("generation_tokens_total", "e:made_tokens") in without.found_names
    both = read('e:made_tokens{model="m"} 7', 'e:made_tokens_total{model="m"} 8')
    assert both.engines[0].generation_tokens_total == 8


def test_a_sum_without_its_count_says_nothing() -> None:
    reading = read('e:ttft_sum{model="m"} 12.5', 'e:running{model="m"} 1')
    assert reading.histograms == []
    assert "ttft" in reading.missing


def test_of_two_means_the_first_that_is_whole_counts() -> None:
    reading = read("e:ttft_sum 12.5", "e:ttft_us 2000000", "e:ttft_n_old 5")
    assert [(one.sum_seconds, one.count) for one in reading.histograms] == [(2, 5)]


def test_one_series_is_a_counter_and_the_count_of_a_mean() -> None:
    reading = read("e:made_tokens_total 960", "e:made_seconds_total 5.75")
    assert reading.engines[0].generation_tokens_total == 960
    assert [(one.metric, one.sum_seconds, one.count) for one in reading.histograms] == [("tpot", 5.75, 960)]


def test_a_mean_of_each_replica_is_its_own() -> None:
    reading = read(
        *(f'e:ttft_sum{{replica="{n}"}} {n}' for n in (0, 1)),
        *(f'e:ttft_n{{replica="{n}"}} {2 * n}' for n in (0, 1)),
    )
    assert [(one.replica, one.sum_seconds, one.count) for one in reading.histograms] == [
        ("0", 0, 0),
        ("1", 1, 2),
    ]


def test_a_mean_that_is_no_number_is_left_out_and_said() -> None:
    reading = read("e:ttft_sum 1", "e:ttft_n NaN", "e:running 1")
    assert reading.histograms == []
    assert "ttft: a bucket count is no number, the histogram is left out" in reading.notes
    unknown_sum = read("e:ttft_sum NaN", "e:ttft_n 4", "e:running 1").histograms
    assert [(one.sum_seconds, one.count) for one in unknown_sum] == [(None, 4)]


def test_first_tokens_that_took_no_time_at_all_are_said_and_kept() -> None:
    """vllm #6337: with chunked prefill 0.5.1 counted every first token at 0 s."""
    reading = read("e:ttft_sum 0", "e:ttft_n 7", "e:queue_ms_total 0", "e:queue_n 7")
    assert [one.count for one in reading.histograms] == [7, 7]
    assert [note for note in reading.notes if "do not trust" in note] == [
        "ttft: requests are counted and their time is 0 in all, do not trust it"
    ]
    assert not read("e:ttft_sum 0", "e:ttft_n 0").notes


def test_names_are_told_as_the_target_spells_them() -> None:
    reading = read(
        'E_Active{model="m"} 1', 'e_done_total{model="m",why="length"} 1',
        'E:First_Seconds_Bucket{model="m",le="+Inf"} 2', "process_start_time_seconds 1.7e9",
    )  # fmt: skip
    assert reading.found_names == (
        ("requests_running", "E_Active"),
        ("finished_stop_total", "e_done_total"),
        ("process_start_time_seconds", "process_start_time_seconds"),
        ("ttft", "E:First_Seconds"),
    )


def test_of_an_old_and_a_new_name_the_one_that_is_read_is_told() -> None:
    reading = read("e:active 1", "e:running 2")
    assert reading.engines[0].requests_running == 2
    assert dict(reading.found_names)["requests_running"] == "e:running"


def test_helpers_are_neither_missing_nor_found() -> None:
    reading = read("e:waiting_api 4", "e:blocks 10")
    assert reading.found_names == ()
    assert not [name for name in reading.missing if name.startswith("_")]


def test_optional_parts_are_added_where_they_are_there() -> None:
    alone = read("e:waiting 2")
    assert (alone.engines[0].requests_waiting, dict(alone.found_names)["requests_waiting"]) == (
        2,
        "e:waiting",
    )
    both = read("e:waiting 2", "e:waiting_api 4", "e:waiting_grammar 8")
    assert both.engines[0].requests_waiting == 14
    assert dict(both.found_names)["requests_waiting"] == "e:waiting + e:waiting_grammar + e:waiting_api"
    assert read("e:waiting_api 4").engines[0].requests_waiting is None


def test_a_ratio_is_divided_where_it_is_not_shown_itself() -> None:
    divided = read("e:blocks_used 3", "e:blocks 12")
    assert divided.engines[0].kv_cache_used_ratio == 0.25
    assert dict(divided.found_names)["kv_cache_used_ratio"] == "e:blocks_used / e:blocks"
    assert read("e:blocks_used 3", "e:blocks 12", "e:usage 0.5").engines[0].kv_cache_used_ratio == 0.5
    assert read("e:blocks_used 3", "e:blocks 0").engines[0].kv_cache_used_ratio is None


def test_of_copies_the_lowest_rank_is_taken_per_column() -> None:
    """sglang #29372: each rank of one model shows the same queue."""
    reading = read(
        *(f'e:running{{replica="0",tp_rank="{rank}",lane="{lane}"}} {value}'
          for rank, lane, value in ((10, "a", 99), (2, "a", 4), (2, "b", 3), (10, "b", 98))),
        'e:waiting{replica="0",tp_rank="10"} 7',
        *(f'e:first_seconds_bucket{{replica="0",tp_rank="{rank}",le="{le}"}} {rank}'
          for rank in (0, 1) for le in ("1", "+Inf")),
        *(f'e:first_seconds_sum{{replica="0",tp_rank="{rank}"}} {rank + 1}' for rank in (0, 1)),
    )  # fmt: skip
    assert (reading.engines[0].requests_running, reading.engines[0].requests_waiting) == (7, 7)
    assert [(one.buckets, one.sum_seconds) for one in reading.histograms] == [((0, 0), 1)]


def test_the_series_without_a_priority_is_the_total_of_those_with_one() -> None:
    shared_out = [f'e:waiting{{priority="{priority}"}} {value}' for priority, value in (("1", 2), ("5", 1))]
    assert read('e:waiting{priority=""} 3', *shared_out).engines[0].requests_waiting == 3
    assert read("e:waiting 3", *shared_out).engines[0].requests_waiting == 3
    assert read(*shared_out).engines[0].requests_waiting == 3
    assert read('e:running{priority=""} 3', 'e:running{priority="1"} 2').engines[0].requests_running == 5


def test_a_condition_can_name_several_patterns() -> None:
    reading = read(*(f'e:done_total{{why="{why}"}} 1' for why in ("OOM", "engine_error", "stop", "length")))
    assert (reading.engines[0].finished_error_total, reading.engines[0].finished_stop_total) == (2, 1)


def test_of_worker_processes_the_largest_gauge_counts() -> None:
    """client_python #495, #985: the gauges of dead processes stay, so adding up counts them."""
    reading = read(
        'e:paused{lane="a",pid="11"} 3', 'e:paused{lane="a",pid="12"} 5', 'e:paused{lane="b",pid="12"} 1'
    )
    assert reading.engines[0].requests_swapped == 6


def test_a_name_is_wanted_whatever_its_labels_must_be() -> None:
    wanted = ("e:done_total", "E_First_Seconds_Bucket", "e:ttft_us", "e:blocks", "process_start_time_seconds")
    assert all(KIND.wants(name) for name in wanted)
    assert not KIND.wants("e:first_seconds")
    assert not KIND.wants("running")


def test_a_gauge_with_le_is_no_histogram() -> None:
    assert KIND.place("e:first_seconds", {"le": "1"}) is Nowhere.UNWANTED


def test_a_kind_with_common_marks_needs_one_name_of_its_own() -> None:
    kind = EngineKind(
        name="x", role="engine", marks=("running",), prefixes=("",), columns={},
        only_with=frozenset({"x_max", "x_min"}), not_with=frozenset({"other"}),
    )  # fmt: skip
    none: frozenset[str] = frozenset()
    assert kind.score(b"", {"running": none}) == 0
    assert kind.score(b"", {"running": none, "X:max": none}) == 1
    assert kind.score(b"", {"running": none, "x_max": none, "other": none}) == 0
