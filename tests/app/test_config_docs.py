import pytest

from app.config_docs import markdown, sections
from app.config_errors import fields_of
from tests.shared import REPOSITORY


def test_the_page_is_what_the_settings_say() -> None:
    written = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == markdown(), "run `python -m app.config_docs > docs/configuration.md`"


@pytest.mark.parametrize(("place", "model"), list(sections()))
def test_each_setting_is_explained(place: str, model: type) -> None:
    assert model.__doc__
    for name, field in fields_of(model).items():
        assert field.description, f"{place}.{name} has no docstring"
