"""Usage counters beside engine rows, of a made-up engine."""

from __future__ import annotations

from functools import partial

from collectors.engines.series import ROWS_CAP
from collectors.engines.table import EngineKind, Named
from collectors.engines.usage import UsageTable, metered
from collectors.reading import UsageCounter, UsageKey
from tests.collectors.engine_lines import read_lines

ENGINE = EngineKind(
    name="e", role="engine", marks=("e_*",), prefixes=("e_",), model_labels=("model",),
    columns={"prompt_tokens_total": ("in_total",), "generation_tokens_total": ("out_total",)},
)  # fmt: skip
USAGE = UsageTable(
    source="otel",
    counters={
        "prompt_tokens_total": ("e_in_total",),
        "generation_tokens_total": (Named("e_tokens_total", {"type": "out*"}), "e_out_total"),
    },
    project_labels=("project", "team"),
    environment_labels=("env",),
    model_labels=("model",),
    needs_project=True,
)
KIND = metered(ENGINE, USAGE, no_value=frozenset({"", "none"}))


read = partial(read_lines, KIND)


def test_a_series_counts_for_the_engine_and_for_the_project() -> None:
    reading = read('e_in_total{model="m",team="a",env="prod"} 5', 'e_in_total{model="m",team="b"} 7')
    assert reading.engines[0].prompt_tokens_total == 12
    assert reading.usage == [
        UsageCounter(UsageKey("a", "prod", "m", None, "otel"), 5),
        UsageCounter(UsageKey("b", None, "m", None, "otel"), 7),
    ]


def test_a_series_without_a_project_counts_for_the_engine_alone() -> None:
    reading = read('e_in_total{model="m",team="none"} 5', 'e_in_total{model="m",team="",project=""} 2')
    assert reading.engines[0].prompt_tokens_total == 7
    assert reading.usage == []


def test_the_first_name_that_a_project_has_is_read_and_aliases_are_not_added_up() -> None:
    reading = read(
        'e_tokens_total{type="output",project="a",model="m"} 5',
        'e_tokens_total{type="input",project="a",model="m"} 50',
        'e_out_total{project="a",model="m"} 5',
        'e_out_total{project="b",model="m"} 6',
    )
    assert [(one.key.project, one.generation_tokens_total) for one in reading.usage] == [("a", 5), ("b", 6)]
    assert dict(reading.found_names)["generation_tokens_total"] == "e_out_total"  # the engine row's


def test_the_same_series_shown_twice_counts_once() -> None:
    line = 'e_in_total{model="m",project="a"} 5'
    assert read(line, line).usage[0].prompt_tokens_total == 5


def test_projects_without_end_are_capped_and_that_is_said() -> None:
    reading = read(*(f'e_in_total{{model="m",project="p{n}"}} 1' for n in range(ROWS_CAP + 3)))
    assert len(reading.usage) == ROWS_CAP
    assert f"3 projects, keys and models past the first {ROWS_CAP} are left out" in reading.notes


def test_a_name_is_wanted_for_the_row_or_for_the_usage() -> None:
    assert KIND.wants("e_in_total")
    assert KIND.wants("E_TOKENS_TOTAL")
    assert not KIND.wants("e_other")
