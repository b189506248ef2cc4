"""Whatever stands in the file: a configuration or a ConfigError, and no secret in either."""

import re
import traceback
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.config import Config, ConfigError, load_text
from app.config_errors import fields_of
from tests.shared import REPOSITORY

EXAMPLE = (REPOSITORY / "infermeter.example.yaml").read_text(encoding="utf-8")
LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def load(text: str) -> tuple[Config | None, ConfigError | None]:
    try:
        return load_text(text, "infermeter.yaml", environment={"HOME": "/nowhere"}), None
    except ConfigError as error:
        return None, error


LETTERS = st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"])
SECRETS = st.text(LETTERS, min_size=9, max_size=30).map("q9Z{}".format)  # no word of the code begins so
PLACES = [
    "bearer_token: {}",
    "bearer_token: '{}",
    "bearer_token: *{}",
    "bearer_token: !{}",
    "bearer_token: [{}]",
    "bearer_token: {{{}: 1}}",
    "bearer_token: {}: x",
    "bearer_token: ${{{}",
    "bearer_tokn: {}",
    "bearer_token: {}\n    basic_auth: {{username: u, password: p}}",
    "basic_auth: {{username: u, password: {}}}",
    "basic_auth: {{username: u, pasword: {}}}",
    "basic_auth: {}",
    "basic_auth: [u, {}]",
    "url: http://u:{}@h:1/",
    "url: u:{}@h:1/",
    "url: http://u:{}@h:port/",
    "url: http://u:{}@[h/",
    "url: http://h/?token={}",
    "url: ftp://u:{}@h/",
]


@given(SECRETS, st.sampled_from(PLACES), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_secret_is_never_shown_whatever_is_wrong_around_it(secret: str, place: str, broken: bool) -> None:
    text = "targets:\n  - name: a\n    kind: " + ("vlm" if broken else "vllm") + "\n"
    text += "" if place.startswith("url") else "    url: http://h\n"
    text += f"    {place.format(secret)}\n"
    text += (
        f"alerts: {{channels: [{{name: a, kind: slack, webhook_url: 'https://hooks.slack.com/{secret}'}}]}}\n"
    )
    config, error = load(text)
    if error is not None:
        assert secret not in str(error) + repr(error) + "".join(traceback.format_exception(error))
        assert error.__context__ is None
    if config is not None:
        assert secret not in f"{config} {config!r} {config.model_dump()} {config.model_dump_json()}"


def names(model: Any = Config) -> list[str]:
    return sorted(
        {"zzz", "<<", "files", "url", "name", "kind", "host", "raw", "for"} | fields_of(model).keys()
    )


NUMBERS = ["", "~", "1", "-1", "1.5", ".inf", "true", "10s", "1h", "0x1", "9" * 40]
TEXTS = ["http://h:1", "h:1", "auto", "slack", "x.json", "GPU-1", "h/0", "''", "'a b'", '"\\u0000"']
YAML_WORDS = ["${X}", "${HOME}", "$$", "*a", "&a 1", "!t x"]
SCALARS = st.sampled_from([*NUMBERS, *TEXTS, *YAML_WORDS])
FLOWS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(names()), inner, max_size=4).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
        )
    ),
    max_leaves=10,
)


@given(st.lists(st.tuples(st.sampled_from(names()), FLOWS), max_size=5))
@settings(max_examples=200, deadline=None)
def test_any_yaml_loads_or_raises_a_config_error(entries: list[tuple[str, str]]) -> None:
    load_or_be_told("\n".join(f"{key}: {value}" for key, value in entries))


@given(st.text() | st.text(st.sampled_from("ab:-[]{}#&*!|>'\"%@`,? \t\n\\u0U<~$")))
@settings(max_examples=300, deadline=None)
def test_any_text_loads_or_raises_a_config_error(text: str) -> None:
    load_or_be_told(text)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_example_with_a_slip_loads_or_raises_a_config_error(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(EXAMPLE)))
    end = start + data.draw(st.integers(0, 5))
    load_or_be_told(EXAMPLE[:start] + data.draw(st.text(max_size=3)) + EXAMPLE[end:])


def load_or_be_told(text: str) -> None:
    config, error = load(text)
    assert (config is None) is (error is not None)
    for problem in error.problems if error is not None else ():
        assert problem.message
        assert problem.line is None or 1 <= problem.line <= len(LINE_END.findall(text)) + 2
