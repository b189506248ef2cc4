"""`tests/testdata/config/bad-*.yaml` hold one mistake each; `messages.txt` what is said about it."""

import traceback
from pathlib import Path

import pytest

from app.config import ConfigError, load_config
from tests.shared import REPOSITORY

FOLDER = REPOSITORY / "tests" / "testdata" / "config"
MESSAGES = {
    line.split()[0].rstrip(":"): line
    for line in (FOLDER / "messages.txt").read_text(encoding="utf-8").splitlines()
}


def test_each_bad_file_has_its_message() -> None:
    assert sorted(MESSAGES) == sorted(path.name for path in FOLDER.glob("bad-*.yaml"))


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_a_mistake_is_told_with_its_line_and_its_cure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(ConfigError) as caught:
        load_config(Path(name))
    assert str(caught.value) == MESSAGES[name]
    assert len(caught.value.problems) == 1
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
