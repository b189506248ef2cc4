"""Every sample answer is read as a person approved it."""

from pathlib import Path

import pytest

from tests.approved.readings import APPROVED, FOLDERS, approved, reading, samples
from tests.shared import needs_shared


@needs_shared
@pytest.mark.parametrize("sample", samples(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_sample_is_read_as_approved(sample: Path) -> None:
    """After a wanted change: python -m tests.approved.readings, and look at each difference."""
    assert reading(sample) == approved(sample).read_text(encoding="utf-8")


@needs_shared
def test_no_approved_reading_is_without_its_sample() -> None:
    there = {path for folder in FOLDERS for path in (APPROVED / folder).glob("*.json")}
    assert there == {approved(sample) for sample in samples()}
