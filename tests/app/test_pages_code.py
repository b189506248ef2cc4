"""What the code of the pages may not do."""

import ast
from pathlib import Path

import app

FOLDER = Path(app.__file__).parent


def test_no_code_makes_a_fragment_but_the_one_place_for_it() -> None:
    found = []
    for file in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute | ast.Name):
                name = node.attr if isinstance(node, ast.Attribute) else node.id
                if name in ("fragment", "run_every", "experimental_fragment"):
                    found.append(file.name)
                if isinstance(node, ast.Attribute) and name == "live" and ast.unparse(node) == "parts.live":
                    found.append(f"{file.name}: live")
    assert sorted(found) == [
        "engines.py: live",
        "gpus.py: live",
        "oncall.py: live",
        "parts.py",
        "sources.py: live",
    ]


def test_no_page_writes_html() -> None:
    for file in FOLDER.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "unsafe_allow_html" not in text, file
        assert "st.html" not in text, file
        assert "components." not in text, file
