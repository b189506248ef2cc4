"""What infermeter reads of each sample answer, as text that a person can look through.

`python -m tests.approved.readings` writes the readings of all samples anew, for a look at what changed
(`git diff tests/approved`); the test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.read import ReadError, read_payload
from tests.shared import SHARED

APPROVED = Path(__file__).parent
FOLDERS = ("engines", "gpu")


def samples() -> list[Path]:
    """Every sample answer that is there."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (SHARED / "fixtures" / folder).glob("*")
        if path.is_file() and path.name != "INDEX.md"
    )


def approved(sample: Path) -> Path:
    """Where the approved reading of a sample stands."""
    return APPROVED / sample.parent.name / f"{sample.stem}.json"


def reading(sample: Path) -> str:
    """The reading as JSON, a row a line, what is not known left out."""
    try:
        payload = read_payload(sample)
    except ReadError as error:
        return (
            json.dumps({"error": str(error).replace(f"{sample}: ", "")}, indent=1, ensure_ascii=False) + "\n"
        )
    lines = [
        f" {_json(key)}: {_value(value)}" for key, value in payload.items() if value not in (None, [], {})
    ]
    # A home folder in a process's name is of the machine that the sample was taken on.
    return ("{\n" + ",\n".join(lines) + "\n}\n").replace("/" + "root/", "~/")


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict | list | str):
        return "[\n" + ",\n".join(f"  {_json(_known(row))}" for row in value) + "\n ]"
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"  {_json(key)}: {_json(inner)}" for key, inner in value.items()) + "\n }"
    return _json(value)


def _known(row: Any) -> Any:
    if not isinstance(row, dict):
        return row
    return {key: value for key, value in row.items() if value not in (None, "")}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    for one in samples():
        approved(one).parent.mkdir(exist_ok=True)
        approved(one).write_text(reading(one), encoding="utf-8")
