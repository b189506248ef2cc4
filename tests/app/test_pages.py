"""Every page through the entry script, as Streamlit runs it: empty, filled, from a link, from a bad link."""

from datetime import datetime, timedelta

import pytest

from app import view
from sql.store import Store
from tests.app import data
from tests.app.opening import LLAMA, NOW, Open, first_line, text_of, url, warnings_of


def test_on_call_says_first_what_is_wrong_and_how_much_is_well(filled: Store, opened: Open) -> None:
    # 32 GPUs + 2 MIG instances, one firing and one watched; 6 engines, one on the GPU that fires.
    assert first_line(opened(filled)) == (
        "### :red[■ **1 firing**] · :orange[▲ **1 watching**] · 5 of 6 engines and 32 of 34 GPUs well"
        " · :orange[▲ 1 of 11 targets not answering] · data as of 13:00:00 (0 s ago)"
    )


def test_an_incident_is_its_sentence_since_when_and_where(filled: Store, opened: Open) -> None:
    text = text_of(opened(filled))
    assert (
        ":red-badge[■ critical] **node-3 GPU 5: VRAM 92 % (73.5 of 79.4 GiB), over 80 % for 12 min;" in text
    )
    assert ":gray[since 12:46 · 14 m] · :gray[chat/prod] · :gray[pod llm-3-5]" in text


def test_a_channel_that_failed_is_said_on_on_call(filled: Store, opened: Open) -> None:
    assert "Alerts do not reach **slack**: 404 no_service" in warnings_of(opened(filled))


def test_a_project_shows_its_engines_its_gpus_and_its_incidents(filled: Store, opened: Open) -> None:
    # chat: llama-70b and llama-70b-b, on node-3/4, node-3/5 and node-1/0; vllm-old does not answer.
    line = first_line(opened(filled, project="chat"))
    assert ":red[■ **1 firing**] · 1 of 2 engines and 2 of 3 GPUs well · :orange[▲ 1 of 3 targets" in line
    assert "Nothing is firing" in first_line(opened(filled, project="search"))


def test_old_data_is_said_in_amber(filled: Store, opened: Open) -> None:
    line = first_line(opened(filled, now=NOW + timedelta(seconds=31)))
    assert ":orange[▲ data as of 13:00:00 (31 s ago)]" in line
    assert "0 of 6 engines and 0 of 34 GPUs well" in line
    assert ":orange" not in first_line(opened(filled, now=NOW + timedelta(seconds=30))).rpartition("·")[2]


def without_incidents() -> Store:
    store = Store.open()
    data.fill(store, NOW, minutes=5, incidents=False)
    return store


def test_when_no_target_answers_that_nothing_fires_is_not_said_first(opened: Open) -> None:
    store = without_incidents()
    # The scrapes end at 13:00:00; three intervals of 10 s later all are silent, one of them for longer.
    assert first_line(opened(store, now=NOW + timedelta(seconds=44))).startswith(
        "### :orange[▲ **unknown: 11 of 11 targets silent since 13:00:00**]"
        " · nothing was firing when they were last heard · 0 of "
    )
    long_after = first_line(opened(store, from_="2026-11-30T11:00:00Z", to="2026-11-30T12:00:00Z"))
    assert long_after.startswith(
        "### :orange[▲ **unknown: 11 of 11 targets silent**] · whether anything fires is not known · "
    )


def test_targets_that_are_silent_are_counted_beside_the_calm(opened: Open) -> None:
    line = first_line(opened(without_incidents()))
    assert "● **Nothing is firing**" in line
    assert "1 of 11 targets not answering" in line


def test_what_fires_leads_though_no_target_answers(filled: Store, opened: Open) -> None:
    line = first_line(opened(filled, now=NOW + timedelta(minutes=2)))
    assert line.startswith(
        "### :red[■ **1 firing**] · :orange[▲ **unknown: 11 of 11 targets silent since 13:00"
    )
    assert "nothing was firing" not in line


def test_a_link_into_the_future_is_shown_up_to_now_with_a_note(filled: Store, opened: Open) -> None:
    test = opened(filled, from_="2026-11-30T12:30:00Z", to="2026-11-30T16:30:00Z")
    assert "to=2026-11-30T16:30:00Z lies in the future" in warnings_of(test)
    assert "as it was at 13:00:00" in first_line(test)
    test = opened(filled, from_="2026-11-30T15:30:00Z", to="2026-11-30T16:30:00Z")
    assert "from=2026-11-30T15:30:00Z lies in the future. Showing the live view." in warnings_of(test)
    assert "data as of 13:00:00" in first_line(test)


@pytest.mark.parametrize("path", view.PAGES)
def test_an_incident_that_is_not_known_is_said_on_every_page(filled: Store, opened: Open, path: str) -> None:
    assert "incident nope, which is not known here" in warnings_of(opened(filled, path, incident="nope"))
    assert "not known here" not in warnings_of(opened(filled, path, incident="i-firing"))


def test_an_incident_without_its_gpu_opens_that_gpu(filled: Store, opened: Open) -> None:
    test = opened(filled, "gpus", incident="i-firing")
    assert url(test) == {"gpu": data.FULL_GPU, "incident": "i-firing"}
    assert "**node-3 GPU 5**" in first_line(test)


@pytest.mark.parametrize("path", ["", "gpus"])
def test_an_incident_is_not_told_as_resolved_where_it_is_shown_before_its_end(
    filled: Store, opened: Open, path: str
) -> None:
    # i-resolved: from 12:10, fired at 12:12, resolved at 12:30 with the sentence "VRAM peaked at 88 %".
    test = opened(
        filled, path, incident="i-resolved", from_="2026-11-30T12:00:00Z", to="2026-11-30T12:11:00Z"
    )
    assert "watching] **node-2 GPU 1: VRAM high, peak 88 %, threshold 80 %**" in text_of(test)
    assert "VRAM peaked at" not in text_of(test)


@pytest.mark.parametrize("path", view.PAGES)
def test_without_a_target_every_page_says_what_to_add(empty: Store, opened: Open, path: str) -> None:
    test = opened(empty, path)
    assert first_line(test)
    assert "targets:" in test.code[0].value
    assert not test.warning


@pytest.mark.parametrize("path", view.PAGES)
@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_data_is_called_so_on_every_page(
    empty: Store, opened: Open, path: str, simulated: bool
) -> None:
    assert ("simulated fleet" in text_of(opened(empty, path, simulated=simulated))) == simulated


@pytest.mark.parametrize("path", view.PAGES)
def test_a_bad_link_is_a_note_and_never_an_error(filled: Store, opened: Open, path: str) -> None:
    test = opened(
        filled,
        path,
        range="2y",
        from_="then",
        to="2026-01-01",
        project="<b>",
        lang="fr",
        measure="$",
        mig="x",
        replica="y",
        model="z",
        incident="none",
    )
    said = warnings_of(test)
    for name in ("range=2y", "from=then", "project=<b>", "lang=fr", "measure=$"):
        assert name in said
    assert first_line(test)


LINKS: list[tuple[str, dict[str, str], str]] = [
    ("", {"range": "6h", "project": "chat"}, "1 firing"),
    ("gpus", {"gpu": data.FULL_GPU, "incident": "i-firing"}, "**node-3 GPU 5** · VRAM 9"),
    ("gpus", {"gpu": data.gpu_uuid(4, 7), "mig": "1"}, "**node-4 GPU 7 MIG 1** · VRAM 72.8 %"),
    ("gpus", {"measure": "power", "range": "15m"}, "34 GPUs on 4 nodes"),
    ("engines", {"engine": "llama-70b", "replica": "0", "model": LLAMA}, "**llama-70b** · TTFT p95"),
    ("engines", {"environment": "staging"}, "1 engine well"),
    ("sources", {"lang": "zh"}, "11 个目标中 10 个正常"),
]


@pytest.mark.parametrize(("path", "parameters", "line"), LINKS)
def test_a_link_opens_what_it_says_and_stays_as_it_is_when_the_page_is_drawn_again(
    filled: Store, opened: Open, path: str, parameters: dict[str, str], line: str
) -> None:
    test = opened(filled, path, **parameters)
    before = first_line(test)
    assert line in before
    assert not [one for one in test.warning if "link" in one.value]
    test.run()
    assert first_line(test) == before
    assert url(test) == parameters


def test_the_link_of_an_alert_shows_that_gpu_at_that_time_with_the_incident(
    filled: Store, opened: Open
) -> None:
    start, end = NOW - timedelta(minutes=30), NOW - timedelta(minutes=5)
    test = opened(
        filled,
        "gpus",
        now=NOW + timedelta(hours=3),
        gpu=data.FULL_GPU,
        mig="",
        from_=view.format_time(start),
        to=view.format_time(end),
        incident="i-firing",
    )
    line = first_line(test)
    assert "**node-3 GPU 5** · VRAM 8" in line  # 14 minutes in: between 80 and 90 %
    assert "firing since 12:46, 9 m" in line
    assert "as it was at 12:55:00" in line
    assert "critical] **node-3 GPU 5: VRAM 92 %" in text_of(test)


@pytest.mark.parametrize(
    ("now", "end", "controls"),
    [
        (datetime(2026, 12, 1, 9), "30 Nov 12:55:00", "30 Nov 12:30 – 30 Nov 12:55"),
        (datetime(2027, 2, 1, 9), "30 Nov 2026 12:55:00", "30 Nov 2026 12:30 – 30 Nov 2026 12:55"),
    ],
)
def test_a_held_window_of_another_day_says_its_date(
    filled: Store, opened: Open, now: datetime, end: str, controls: str
) -> None:
    test = opened(filled, now=now, from_="2026-11-30T12:30:00Z", to="2026-11-30T12:55:00Z")
    assert f"as it was at {end}" in first_line(test)
    assert controls in text_of(test)


def test_a_gpu_that_is_not_known_is_said_and_not_drawn(filled: Store, opened: Open) -> None:
    assert "No sample of GPU NOPE in the week before" in first_line(opened(filled, "gpus", gpu="NOPE"))


def test_a_gpu_names_its_engine_its_reservation_and_what_slows_it(filled: Store, opened: Open) -> None:
    text = text_of(opened(filled, "gpus", gpu=data.FULL_GPU))
    assert "Engines on this GPU:" in text
    assert "inference/llm-3-5" in text
    assert "NVIDIA H100 80GB HBM3" in text


def test_an_engine_without_histograms_says_so_and_shows_the_rest(filled: Store, opened: Open) -> None:
    text = text_of(opened(filled, "engines", engine="phi-edge"))
    assert "llama.cpp measures no TTFT; a probe would" in text
    assert "– KV-cache use is not reported by this engine" in text
    assert "aborts: not measured by llama.cpp" in text
    assert "**Tokens per second**" in text


def test_an_engine_shows_percentiles_with_n_and_too_few_requests_show_none(
    filled: Store, opened: Open
) -> None:
    text = text_of(opened(filled, "engines", engine="llama-70b"))
    assert "**TTFT** :gray[p50 " in text
    assert "aborts: not measured by vLLM" in text
    rare = text_of(opened(filled, "engines", engine="mistral-small", range="15m"))
    assert "p95 – · p99 – · n " in rare


def test_an_engine_whose_target_does_not_answer_says_why(filled: Store, opened: Open) -> None:
    test = opened(filled, "engines", engine="vllm-old")
    assert "No fresh sample of engine vllm-old" in first_line(test)
    assert "connection refused by 10.0.0.9:8000" in text_of(test)


def test_sources_says_what_fails_since_when_and_what_is_missing(filled: Store, opened: Open) -> None:
    test = opened(filled, "sources")
    assert first_line(test).startswith("### 10 of 11 targets answer · :red[■ 1 failing] · data as of")
    text = text_of(test)
    assert "connection refused by 10.0.0.9:8000; is the engine running there?" in text
    assert "failing since 11:50, 1 h 10 m" in text
    assert "**phi-edge** :gray[llamacpp] · does not say `ttft`, `itl`, `e2e`, `kv_cache_used_ratio`" in text
    table = test.dataframe[0].value
    assert len(table) == 11
    assert next(iter(table["target"])) == "vllm-old"


def test_a_label_from_outside_is_shown_and_not_obeyed(opened: Open) -> None:
    store = Store.open()
    data.fill(store, NOW, minutes=5, incidents=False)
    row = {**data.incident_rows(NOW)[0], "summary": "<img src=x> **bold** :material/home: [link](http://x)"}
    with store.write() as writer:
        writer.append("incident", data.frame([row]))
    found = [element.value for element in opened(store).markdown if "img" in element.value]
    assert found
    assert r"\<img src\=x\>" in found[0] or r"\<img src=x\>" in found[0]
    safe = r"\*\*bold\*\* \:JOINmaterial/home\: \[link\]\(http\:JOIN//x\)"
    assert safe.replace("JOIN", "\u2060") in found[0]


@pytest.mark.parametrize("path", ["", "gpus"])
def test_gpus_are_coloured_by_power_where_none_tells_its_limit(opened: Open, path: str) -> None:
    store = Store.open()
    rows = [{**row, "power_limit_watts": None} for row in data.gpu_rows(NOW)]
    with store.write() as writer:
        writer.append("target", data.frame(data.target_rows(NOW)))
        writer.append("scrape", data.frame(data.scrape_rows(NOW)))
        writer.append("gpu_sample", data.frame(rows))
    captions = " ".join(element.value for element in opened(store, path, measure="power").caption)
    assert "Power" in captions


def test_a_large_fleet_is_cut_to_its_worst_and_says_how_much_is_left(opened: Open) -> None:
    store = Store.open()
    data.fill(store, NOW, minutes=0, nodes=60)
    test = opened(store, "gpus")
    captions = " ".join(element.value for element in test.caption)
    assert "And 37 more nodes" in captions  # 24 rows of tiles: node-4 takes two of them
    assert "and 282 more" in captions  # 482 GPUs and MIG instances, 200 rows
    assert len(test.dataframe[0].value) == 200
