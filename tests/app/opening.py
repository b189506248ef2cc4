"""Opening a page of the product in a test, as Streamlit runs it: fixtures and what is on the page."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from streamlit.testing.v1 import AppTest

import app
from tests.app import data

NOW = datetime(2026, 11, 30, 13, 0)
FOLDER = Path(app.__file__).parent
LLAMA = data.ENGINES[0][2]


Open = Callable[..., AppTest]


def text_of(test: AppTest) -> str:
    """All Markdown of the page without its escapes and with plain spaces."""
    found = "\n".join(element.value for element in test.markdown)
    return found.replace("\\", "").replace("\u00a0", " ").replace("\u202f", " ")


def first_line(test: AppTest) -> str:
    return next(line for line in text_of(test).splitlines() if line.startswith("### "))


def url(test: AppTest) -> dict[str, str]:
    """The query parameters as they now stand."""
    return {name: value if isinstance(value, str) else value[-1] for name, value in test.query_params.items()}


def warnings_of(test: AppTest) -> str:
    return "\n".join(element.value for element in test.warning).replace("\\", "").replace("\u00a0", " ")
