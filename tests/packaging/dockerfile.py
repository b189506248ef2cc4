"""A Dockerfile as instructions, as far as ours needs it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple


class Instruction(NamedTuple):
    """One instruction: its keyword and the text after it, continued lines joined."""

    keyword: str
    text: str

    @property
    def exec_form(self) -> list[str]:
        """The command of CMD or HEALTHCHECK, which must be in the form that no shell parses."""
        command: Any = json.loads(self.text[self.text.index("[") :])
        assert isinstance(command, list), self.text
        return [str(word) for word in command]


def read_dockerfile(path: Path) -> list[Instruction]:
    """All instructions in order, without comments."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = (line.split(None, 1) for line in text.splitlines() if line.strip())
    return [Instruction(keyword, rest) for keyword, rest in pairs]
