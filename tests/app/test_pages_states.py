"""In what state targets, GPUs and engines are, at a given moment."""

from datetime import datetime, timedelta

import polars as pl
import pytest

from app.pages import states
from tests.app import data

NOW = datetime(2026, 11, 30, 13, 0)


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def target(**values: object) -> pl.DataFrame:
    row = {
        "gone_at": None,
        "last_at": ago(seconds=5),
        "last_ok": True,
        "last_ok_at": ago(seconds=5),
        "first_seen": ago(days=1),
        "interval_seconds": 10.0,
        **values,
    }
    kinds = dict.fromkeys(("gone_at", "last_at", "last_ok_at", "first_seen"), pl.Datetime)
    return pl.DataFrame([row], schema_overrides=kinds)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, "ok"),
        ({"last_ok": False}, "failing"),
        ({"last_at": ago(seconds=30)}, "ok"),
        ({"last_at": ago(seconds=31)}, "stale"),
        ({"last_at": ago(seconds=31), "interval_seconds": 60.0}, "ok"),
        ({"last_at": None, "first_seen": ago(seconds=3)}, "waiting"),
        ({"last_at": None}, "stale"),
        ({"gone_at": ago(minutes=1)}, "gone"),
        ({"gone_at": NOW + timedelta(minutes=1)}, "ok"),
    ],
)
def test_the_state_of_a_target(values: dict[str, object], state: str) -> None:
    assert states.target_states(target(**values), NOW)["state"].to_list() == [state]


def test_freshness_is_that_of_the_newest_good_scrape() -> None:
    both = pl.concat([target(last_ok_at=ago(seconds=200)), target(last_ok_at=ago(seconds=4))])
    assert states.freshness(both, NOW) == (ago(seconds=4), False)
    assert states.freshness(target(last_ok_at=ago(seconds=31)), NOW) == (ago(seconds=31), True)
    assert states.freshness(target(last_ok_at=None), NOW) == (None, True)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("gpu:GPU-1", ("GPU-1", "")),
        ("gpu:GPU-1/7", ("GPU-1", "7")),
        ("engine:x", None),
        ("gpu:", None),
        ("", None),
    ],
)
def test_whom_an_incident_is_about(text: str, subject: tuple[str, str] | None) -> None:
    assert states.subject_of(text) == subject


def test_a_uuid_with_slashes_is_the_one_of_the_labels() -> None:
    labels = '{"gpu_uuid": "MIG-GPU-1/1/0", "mig_instance": ""}'
    assert states.subject_of("gpu:MIG-GPU-1/1/0", labels) == ("MIG-GPU-1/1/0", "")


def test_what_is_silent_or_unsure_is_not_ranked() -> None:
    rows = [("a", "well", 5), ("b", "firing", 44), ("c", "unknown", 5), ("d", "firing", 30)]
    frame = pl.DataFrame(
        [
            {"name": name, "state": state, "ts": ago(seconds=old), "interval_seconds": 10.0}
            for name, state, old in rows
        ]
    )
    assert states.fresh(frame, NOW)["name"].to_list() == ["a", "d"]


def incidents() -> pl.DataFrame:
    return data.frame(data.incident_rows(NOW))


def gpus(**values: object) -> pl.DataFrame:
    row = {"gpu_uuid": data.FULL_GPU, "mig_instance": "", "ts": NOW, "interval_seconds": 10.0, **values}
    return pl.DataFrame([row])


def test_a_gpu_is_in_the_state_of_its_worst_open_incident() -> None:
    found = states.gpu_states(gpus(), incidents(), NOW).row(0, named=True)
    assert (found["state"], found["verdict"]) == ("firing", "VRAM high")
    slice_of = gpus(gpu_uuid=data.gpu_uuid(4, 7), mig_instance="1")
    assert states.gpu_states(slice_of, incidents(), NOW)["state"].to_list() == ["watching"]


def test_a_mig_instance_and_its_gpu_do_not_share_an_incident() -> None:
    parent = gpus(gpu_uuid=data.gpu_uuid(4, 7))
    assert states.gpu_states(parent, incidents(), NOW)["state"].to_list() == ["well"]


def test_a_resolved_incident_leaves_its_gpu_well_and_an_old_sample_is_not_well() -> None:
    assert states.gpu_states(gpus(gpu_uuid=data.gpu_uuid(2, 1)), incidents(), NOW)["state"].to_list() == [
        "well"
    ]
    old = gpus(gpu_uuid="other", ts=ago(seconds=31))
    assert states.gpu_states(old, incidents(), NOW)["state"].to_list() == ["unknown"]


def targets() -> pl.DataFrame:
    return data.frame(data.target_rows(NOW))


def engines(*names: str) -> pl.DataFrame:
    row = {"ts": NOW, "interval_seconds": 10.0, "frozen_seconds": None}
    return pl.DataFrame([{"target": name, **row} for name in names])


def test_an_engine_has_the_verdict_of_an_incident_on_a_gpu_it_is_configured_to_use() -> None:
    found = states.engine_states(engines("llama-70b", "qwen-7b"), targets(), incidents(), NOW)
    assert found.select("target", "state", "verdict").rows() == [
        ("llama-70b", "firing", "VRAM high"),  # its target names node-3/5
        ("qwen-7b", "well", ""),
    ]


def test_an_incident_that_names_its_engine_is_that_engines_too() -> None:
    row = {**data.incident_rows(NOW)[0], "subject": "gpu:other", "labels": '{"engine_target": "qwen-7b"}'}
    assert states.engines_of(row, targets()) == ["qwen-7b"]


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        ([f"node-1/{index}" for index in range(8)], "node-1/0–7"),
        (["n/4", "n/5", "n/0", "m/1", "GPU-9"], "n/0, n/4–5, m/1, GPU-9"),
        ([], ""),
        (["a/b/c"], "a/b/c"),
    ],
)
def test_gpus_in_a_row_are_said_as_a_range(gpus: list[str], text: str) -> None:
    assert states.gpu_list(gpus) == text


def test_a_project_and_its_environment() -> None:
    assert states.place_of("chat", "prod") == "chat/prod"
    assert states.place_of("chat", None) == "chat"
    assert states.place_of(None, "prod") == "–/prod"
    assert states.place_of(None, None) == ""


def test_a_gpu_knows_its_engines_by_place_and_by_uuid() -> None:
    watched = pl.DataFrame(
        {"target": ["a", "b", "c"], "gpus": [["n/0"], ["GPU-9"], None]},
        schema_overrides={"gpus": pl.List(pl.String)},
    )
    assert states.gpu_engines({"gpu_uuid": "GPU-9", "host": "n", "gpu_index": 0}, watched) == ["a", "b"]
    assert states.gpu_engines({"gpu_uuid": "GPU-8", "host": "n", "gpu_index": 1}, watched) == []


@pytest.mark.parametrize(
    ("moment", "state"),
    [
        (ago(minutes=60), "later"),
        (ago(minutes=49), "pending"),
        (ago(minutes=40), "firing"),
        (ago(minutes=30), "resolved"),
        (NOW, "resolved"),
    ],
)
def test_a_past_view_shows_an_incident_as_it_was_then(moment: datetime, state: str) -> None:
    # Began 50 minutes before NOW, fired 48 before, resolved 30 before.
    resolved = incidents().filter(pl.col("incident_id") == "i-resolved")
    assert states.as_of(resolved, moment)["state"].to_list() == [state]


def test_the_worst_comes_first_and_unknown_values_last() -> None:
    frame = pl.DataFrame(
        {
            "state": ["well", "firing", "well", "unknown", "watching"],
            "p95": [1.0, 0.1, None, 9.0, 2.0],
            "n": range(5),
        }
    )
    assert states.sorted_by_state(frame, "p95")["n"].to_list() == [1, 4, 3, 0, 2]


@pytest.mark.parametrize("text", [None, "", "[1]", "{bad", "null"])
def test_labels_that_are_no_object_are_empty(text: str | None) -> None:
    assert states.read_json(text) == {}
