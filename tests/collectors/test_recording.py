"""Recordings: what is written is read again, and what cannot be read is said with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from collectors import recording
from collectors.fetch import Fetched
from collectors.target import Target

TARGET = Target(name="vllm-a", kind="vllm", url="http://host:8000/metrics", labels={"team": "chat"})


def written(path: Path, *fetched: Fetched) -> list[recording.Answer]:
    with recording.writer(path) as write:
        for i, answer in enumerate(fetched):
            write(recording.line(1000.0 + i, TARGET, answer))
    return list(recording.read(path))


@pytest.mark.parametrize("name", ["r.jsonl.gz", "r.jsonl"])
def test_an_answer_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    body = 'm{a="é"} 1\n'.encode() + b"\xff\xfe broken utf-8\n"
    (answer,) = written(tmp_path / name, Fetched(200, body, 0.01, None))
    assert answer.t == 1000.0
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


def test_a_status_other_than_200_is_an_error_even_without_words(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(
        '{"t": 1, "target": {"name": "a", "kind": "auto", "labels": {}}, "status": 503, "body": "x"}\n'
    )
    (answer,) = recording.read(path)
    assert answer.fetched.error == "HTTP 503"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json\n", r"line 1: not a line of a recording \(Expecting value"),
        ('{"t": 1}\n', r"line 1: not a line of a recording \('target' is missing\)"),
        ('{"t": "x", "target": {"name": "a"}, "status": 200, "body": "m 1"}\n', "could not convert string"),
        ("[]\n", "line 1: not a line of a recording"),
    ],
)
def test_a_broken_line_is_named_with_what_is_wanted(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(recording.RecordingError, match=says):
        list(recording.read(path))


def test_a_cut_gzip_stream_gives_what_was_whole_then_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    good = b'{"t": 1, "target": {"name": "a"}, "status": 200, "body": "m 1"}\n'
    path.write_bytes(gzip.compress(good * 1000)[:-20])
    read: list[recording.Answer] = []
    with pytest.raises(recording.RecordingError, match="the gzip stream is cut or broken"):
        read.extend(recording.read(path))
    path.write_bytes(b"plain text under a .gz name\n")
    with pytest.raises(recording.RecordingError, match="gzip"):
        list(recording.read(path))
