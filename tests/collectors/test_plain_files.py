"""Files that settings name: what is none is told at once."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from app.config import ConfigError, load_text
from collectors.file_sd import FileList, FileSd
from collectors.plain_files import read_plain_file
from collectors.target import TargetSecretError, read_secret_file


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return str(path)


def test_a_file_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 2048)
    assert read_plain_file(str(file), 2048) == b"x" * 2048
    with pytest.raises(OSError, match="it is larger than 1 KiB"):
        read_plain_file(str(file), 1024)


def test_what_is_no_plain_file_is_told_without_waiting_for_it(tmp_path: Path, pipe: str) -> None:
    for path, words in (
        (pipe, "no plain file"),
        ("/dev/zero", "no plain file"),
        (str(tmp_path), "directory"),
    ):
        with pytest.raises(OSError, match=words):
            read_plain_file(path, 1024)


def test_a_pipe_among_the_files_of_a_list_holds_up_nothing(pipe: str) -> None:
    listed = FileSd(FileList(files=[pipe, "/dev/zero"]))
    listed.refresh(datetime(2026, 11, 30))
    since = "it gives no targets (since 2026-11-30 00:00 UTC)"
    assert listed.problems == [
        f"{path}: cannot be read: it is no plain file; {since}" for path in ("/dev/zero", pipe)
    ]


def test_a_pipe_as_a_secret_holds_up_nothing(pipe: str) -> None:
    with pytest.raises(TargetSecretError, match="cannot be read: it is no plain file"):
        read_secret_file(pipe)
    with pytest.raises(ConfigError) as caught:
        load_text(f"targets: [{{url: 'http://h', bearer_token_file: {pipe}}}]", "c.yaml")
    words = f"`targets[0].bearer_token_file`: {pipe} cannot be read: it is no plain file"
    assert caught.value.lines() == [f"c.yaml line 1: {words}"]
