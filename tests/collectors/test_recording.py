"""Recordings: what is written is read again, and what cannot be read is said with its line."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors import recording
from collectors.fetch import Fetched
from collectors.target import Target

TARGET = Target(name="vllm-a", kind="vllm", url="http://host:8000/metrics", labels={"team": "chat"})
T = 1_796_000_000.0  # 2026-11-30
GOOD = {"t": T, "target": {"name": "a", "kind": "auto", "labels": {}}, "status": 200, "body": "m 1"}


def written(path: Path, *fetched: Fetched) -> list[recording.Answer]:
    with recording.writer(path) as write:
        for i, answer in enumerate(fetched):
            write(recording.line(T + i, TARGET, answer))
    return list(recording.read(path))


@pytest.mark.parametrize("name", ["r.jsonl.gz", "r.jsonl"])
def test_an_answer_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    body = 'm{a="é"} 1\n'.encode() + b"\xff\xfe broken utf-8\n"
    (answer,) = written(tmp_path / name, Fetched(200, body, 0.01, None))
    assert answer.t == T
    assert (answer.name, answer.kind, answer.labels) == ("vllm-a", "vllm", {"team": "chat"})
    assert answer.fetched.body == body
    assert answer.fetched.error is None


def test_a_failed_scrape_stays_a_failed_scrape(tmp_path: Path) -> None:
    answers = written(
        tmp_path / "r.jsonl.gz",
        Fetched(None, b"", 5.0, "no whole answer within 5 s"),
        Fetched(500, b"", 0.1, "HTTP 500"),
    )
    assert [a.fetched.error for a in answers] == ["no whole answer within 5 s", "HTTP 500"]
    assert [a.fetched.status for a in answers] == [None, 500]


def one(path: Path, **changed: Any) -> recording.Answer:
    entry = {key: value for key, value in {**GOOD, **changed}.items() if value is not ...}
    path.write_text(json.dumps(entry) + "\n")
    (answer,) = recording.read(path)
    return answer


def test_a_status_other_than_200_is_an_error_even_without_words(tmp_path: Path) -> None:
    assert one(tmp_path / "r", status=503).fetched.error == "HTTP 503"
    assert one(tmp_path / "r", status=None).fetched.error == "there was no answer"
    assert one(tmp_path / "r", status=None, error="no route").fetched.error == "no route"
    assert one(tmp_path / "r", body=...).fetched.error == "the answer is empty (200 with no metrics)"


def test_an_answer_knows_its_line(tmp_path: Path) -> None:
    (tmp_path / "r").write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(GOOD)}\n")
    assert [answer.line for answer in recording.read(tmp_path / "r")] == [1, 3]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"t": "x"}, "'t' must be unix seconds between the years 2000 and 2100"),
        ({"t": 1e300}, "'t' must be unix seconds"),
        ({"t": 10**400}, "'t' must be unix seconds"),
        ({"t": float("nan")}, "'t' must be unix seconds"),
        ({"t": float("-inf")}, "'t' must be unix seconds"),
        ({"t": True}, "'t' must be unix seconds"),
        ({"t": T * 1000}, "'t' must be unix seconds"),  # milliseconds
        ({"t": ...}, "'t' is missing"),
        ({"target": ...}, "'target' is missing"),
        ({"target": "a"}, "'target' must be an object with a 'name'"),
        ({"target": {"name": ""}}, "'target' must be an object with a 'name'"),
        ({"target": {"name": "x" * 201}}, "name: String should have at most 200 characters"),
        ({"target": {"name": "a\nb"}}, "a name cannot hold line breaks"),
        ({"target": {"name": "\ud800"}}, "that is no character"),
        ({"target": {"name": "a", "labels": {"x": "\ud800"}}}, "that is no character"),
        ({"target": {"name": "a", "labels": None}}, "'labels' must be an object"),
        ({"status": "abc"}, "'status' must be an HTTP status"),
        ({"status": 200.5}, "'status' must be an HTTP status"),
        ({"status": True}, "'status' must be an HTTP status"),
        ({"status": 10**30}, "'status' must be an HTTP status"),
        ({"body": 5}, "'body' must be a text"),
        ({"body": None}, "'body' must be a text"),
        ({"body": "\ud800"}, "that is no character"),
        ({"error": "\udfff"}, "that is no character"),
        ({"error": 5}, "'error' must be a text, or null"),
    ],
)
def test_a_value_no_answer_has_is_named(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(recording.RecordingError, match="line 1: not a line of a recording") as caught:
        one(tmp_path / "r", **changed)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"not json\n", r"line 1: not a line of a recording \(Expecting value"),
        (b"[]\n", r"line 1: not a line of a recording \(it is no JSON object\)"),
        (b"[" * 100_000, "line 1: not a line of a recording"),
        (b'{"t": \xff}\n', r"line 1: not a line of a recording \(this is not UTF-8 text\)"),
        (b'{"t": 1', "line 1: the recording is cut off within this line"),
        (b"9" * 5000 + b"\n", "line 1: not a line of a recording"),
    ],
)
def test_a_broken_line_is_named_with_what_is_wanted(tmp_path: Path, text: bytes, says: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(text)
    with pytest.raises(recording.RecordingError, match=says):
        list(recording.read(path))


@given(st.dictionaries(st.sampled_from([*GOOD, "error"]), st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "labels"]), inner),
    max_leaves=4,
)))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_values_are_an_answer_or_a_recording_error(
    tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    try:
        answer = one(path, **changed)
    except recording.RecordingError:
        return
    assert 946_684_800 <= answer.t <= 4_102_444_800
    assert answer.fetched.status is None or 100 <= answer.fetched.status <= 999


def whole_lines(path: Path) -> tuple[list[int], str]:
    numbers: list[int] = []
    with pytest.raises(recording.RecordingError) as caught:
        numbers.extend(answer.line for answer in recording.read(path))
    return numbers, str(caught.value)


def test_of_a_recording_cut_anywhere_all_whole_lines_are_read_then_the_error(tmp_path: Path) -> None:
    lines = [json.dumps({**GOOD, "t": T + i, "body": f"m {i * 7919}"}).encode() + b"\n" for i in range(60)]
    packed = gzip.compress(b"".join(lines))
    path = tmp_path / "r.jsonl.gz"
    for end in range(2, len(packed) - 1, 7):
        path.write_bytes(packed[:end])
        there = zlib.decompressobj(wbits=31).decompress(packed[:end])
        numbers, says = whole_lines(path)
        assert numbers == list(range(1, there.count(b"\n") + 1)), end
        assert f"{path} after line {len(numbers)}: the gzip stream is cut or broken" in says
    plain = b"".join(lines)
    path.write_bytes(plain[:-3])
    numbers, says = whole_lines(path)
    assert (len(numbers), says) == (59, f"{path} line 60: the recording is cut off within this line")


def test_a_damaged_gzip_stream_is_an_error_in_words(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"".join(json.dumps(GOOD).encode() + b"\n" for _ in range(100))))
    packed[20:30] = b"\xff" * 10
    (tmp_path / "r.gz").write_bytes(packed)
    assert "the gzip stream is cut or broken" in whole_lines(tmp_path / "r.gz")[1]


def test_whether_it_is_gzipped_is_seen_from_the_content(tmp_path: Path) -> None:
    (tmp_path / "r.gz").write_text(json.dumps(GOOD) + "\n")
    (tmp_path / "r.jsonl").write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert len([*recording.read(tmp_path / "r.gz"), *recording.read(tmp_path / "r.jsonl")]) == 2


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(recording.RecordingError, match=f"{tmp_path} cannot be read: Is a directory"):
        list(recording.read(tmp_path))


@pytest.mark.parametrize("name", ["r.jsonl.gz", "r.jsonl"])
def test_after_a_second_what_is_written_survives_the_writer(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("collectors.recording.time.monotonic", lambda: clock[0])
    path = tmp_path / name

    def there() -> int:
        data = path.read_bytes()
        text = zlib.decompressobj(wbits=31).decompress(data) if name.endswith(".gz") else data
        return text.count(b"\n")

    with recording.writer(path) as write:
        write(recording.line(T, TARGET, Fetched(200, b"m 1\n", 0.0, None)))
        clock[0] += 0.9
        write(recording.line(T + 1, TARGET, Fetched(200, b"m 2\n", 0.0, None)))
        assert there() == 0
        clock[0] += 0.1
        write.flush_when_due()
        assert there() == 2
        clock[0] += 5
        size = path.stat().st_size
        write.flush_when_due()
        assert path.stat().st_size == size, "nothing new: nothing written"
        write(recording.line(T + 2, TARGET, Fetched(200, b"m 3\n", 0.0, None)))
        assert there() == 3
    assert len(list(recording.read(path))) == 3


def test_a_recording_that_is_there_is_written_over_only_when_told(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("precious")
    with pytest.raises(FileExistsError), recording.writer(path):
        pass
    assert path.read_text() == "precious"
    with recording.writer(path, overwrite=True):
        pass
    assert path.read_text() == ""
    with recording.writer(Path("/dev/null")) as write:  # no file that could be lost
        write(recording.line(T, TARGET, Fetched(200, b"m 1\n", 0.0, None)))


def answers(*seconds: float) -> list[recording.Answer]:
    return [
        recording.Answer(T + s, "a", "auto", {}, Fetched(200, b"m 1", 0.0, None), number)
        for number, s in enumerate(seconds, 1)
    ]


def ordered(*seconds: float) -> tuple[list[float], recording.Faults]:
    faults = recording.Faults()
    return [answer.t - T for answer in recording.in_order(answers(*seconds), 30, faults)], faults


def test_answers_within_the_window_are_put_in_order() -> None:
    # A target that hangs until its timeout has its line behind those of the others.
    assert ordered(0, 10, 20, 5, 30, 40, 10.5, 39) == ([0, 5, 10, 10.5, 20, 30, 39, 40], recording.Faults())


def test_answers_far_behind_are_skipped_counted_and_the_first_is_named() -> None:
    given, faults = ordered(0, 7200, 0, 10, 7190, 7210)
    assert given == [0, 7190, 7200, 7210]
    assert faults.skipped_words() == (
        "line 3 is 2h older than a line before it; 2 answers skipped: sort the recording by t"
    )
    assert ordered(0, 10)[1].skipped_words() is None


@given(st.lists(st.floats(0, 200), max_size=30))
@settings(max_examples=200, deadline=None)
def test_whatever_the_order_the_times_never_go_back_and_none_is_lost_without_count(
    times: list[float],
) -> None:
    given, faults = ordered(*times)
    assert given == sorted(given)
    assert len(given) + faults.skipped == len(times)
    late = [t for i, t in enumerate(answers(*times)) if t.t < max(a.t for a in answers(*times)[: i + 1]) - 30]
    assert faults.skipped == len(late)
