"""What is wrong with a configuration, in words: where it is, what is meant, what to do."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from app.config_yaml import Document, Path, Problem, path_text
from collectors.durations import format_duration, parse_duration

NAMES_ELSEWHERE: dict[str, tuple[str | None, str]] = {
    "scrape_interval": (None, "`interval` under `scrape` or a target"),
    "scrape_timeout": (None, "`timeout` under `scrape` or a target"),
    "scrape_configs": ("targets", "`targets`"),
    "static_configs": ("targets", "`targets`"),
    "file_sd_configs": ("file_sd", "`file_sd`"),
    "job_name": ("name", "`name`"),
    "metrics_path": ("url", "a part of `url`"),
    "scheme": ("url", "a part of `url`"),
    "tls_config": ("tls", "`tls`"),
    "insecure_skip_verify": ("tls", "`insecure` under `tls`"),
    "authorization": ("bearer_token", "`bearer_token` or `bearer_token_file`"),
    "storage": ("store", "`store`"),
    "alerting": ("alerts", "`alerts`"),
    "receivers": ("alerts", "`alerts`"),
}
"""What Prometheus' and Alertmanager's files call it → the setting that must be known where it stands for
this to be meant (None: it can stand anywhere), and what it is called here."""


class ConfigError(Exception):
    """A configuration that cannot be used: all of what is wrong with it, in `problems`."""

    def __init__(self, source_name: str, problems: Iterable[Problem]) -> None:
        unique = dict.fromkeys(problems)
        self.source_name = source_name
        self.problems = sorted(unique, key=lambda problem: (problem.line or 0, problem.column or 0))
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """One line for each problem: `infermeter.yaml line 14: …`."""
        return [
            f"{self.source_name} line {problem.line}: {problem.message}"
            if problem.line is not None
            else f"{self.source_name}: {problem.message}"
            for problem in self.problems
        ]


def yaml_name(name: str, field: FieldInfo) -> str:
    """What a field is called in the file."""
    return field.validation_alias if isinstance(field.validation_alias, str) else name


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A model's fields by their names in the file."""
    return {yaml_name(name, field): field for name, field in model.model_fields.items()}


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The settings models an annotation speaks of: `list[Target]`, `Tls | None`, …"""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def problem_of(error: ErrorDetails, document: Document, top: type[BaseModel]) -> Problem:
    """One of pydantic's errors as a problem of the file."""
    path = _path_in(error, document.values, top)
    if error["type"] == "extra_forbidden":
        message = _unknown_setting(path, _models_at(top, path[:-1]))
    else:
        words = _in_words(error, is_duration=_is_duration(_models_at(top, path[:-1]), path))
        message = f"`{path_text(path)}`: {words}" if path else words
    line, column = place_of(path, document.places)
    return Problem(line, column, path_text(path), message)


def place_of(path: Path, places: Mapping[Path, tuple[int, int]]) -> tuple[int, int] | tuple[None, None]:
    """Line and column of a setting, or of the nearest thing around it that stands in the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return None, None


def _path_in(error: ErrorDetails, values: Any, top: type[BaseModel]) -> Path:
    """The error's place in the file: pydantic's, without the steps that only it knows (which kind of a
    union, `[key]`), but with a setting at the end that is missing there."""
    path: list[str | int] = []
    for step in error["loc"]:
        inside = isinstance(values, dict) and step in values
        if inside or (isinstance(values, list) and isinstance(step, int) and step < len(values)):
            path.append(step)
            values = values[step]
    last = error["loc"][-1] if error["loc"] else None
    if path[-1:] != [last] and any(last in fields_of(model) for model in _models_at(top, tuple(path))):
        path.append(str(last))
    return tuple(path)


def _models_at(top: type[BaseModel], path: Path) -> list[type[BaseModel]]:
    models = [top]
    for step in path:
        if isinstance(step, str):
            found = [
                inner
                for model in models
                if (field := fields_of(model).get(step)) is not None
                for inner in models_in(field.annotation)
            ]
            models = found or models
    return models


def _unknown_setting(path: Path, models: list[type[BaseModel]]) -> str:
    key = str(path[-1]) if path else ""
    of = f" of `{path_text(path[:-1])}`" if len(path) > 1 else ""
    known = list(dict.fromkeys(name for model in models for name in fields_of(model)))
    elsewhere = [name for name, (wanted, _) in NAMES_ELSEWHERE.items() if wanted is None or wanted in known]
    near = difflib.get_close_matches(key, known + elsewhere, n=1)
    if not near:
        return f"`{key}` is not a setting{of}; known here: " + ", ".join(f"`{name}`" for name in known)
    if near[0] in known:
        return f"`{key}` is not a setting{of}; did you mean `{near[0]}`?"
    return f"`{key}` is not a setting{of}; here it is {NAMES_ELSEWHERE[near[0]][1]}"


_WANTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "finite": "a number",
    "list": "a list (lines that begin with `- `)",
    "dict": "a group of settings (lines like `name: value`)",
    "model": "a group of settings (lines like `name: value`)",
}


def _is_duration(models: list[type[BaseModel]], path: Path) -> bool:
    """Whether the setting at the end is a length of time, which is written with its unit."""
    fields = [field for model in models if (field := fields_of(model).get(str(path[-1]))) is not None]
    return any(getattr(rule, "func", None) is parse_duration for field in fields for rule in field.metadata)


def _in_words(error: ErrorDetails, *, is_duration: bool) -> str:
    """What is wrong, without the value: it may be a secret."""
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "missing":
        return "this setting is needed"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if error["input"] is None:
        return "the value is missing"
    if kind == "string_type":
        plain = isinstance(error["input"], bool | int | float)
        return "text is wanted here; put the value in quotes" if plain else "text is wanted here"
    for limit, words in (
        ("gt", "must be more than"), ("ge", "must be at least"), ("lt", "must be less than"),
        ("le", "must be at most"),
    ):  # fmt: skip
        if limit in context:
            value = context[limit]
            return f"{words} {format_duration(value) if is_duration else format(value, 'g')}"
    if kind == "string_too_short":
        return "the value is empty"
    if kind == "string_too_long":
        return f"longer than {context['max_length']} characters"
    if kind == "too_short":
        return f"at least {context['min_length']} entry is wanted here"
    if "expected" in context:
        return f"must be {context['expected']}"
    if wanted := _WANTED.get(kind.partition("_")[0]):
        return f"{wanted} is wanted here"
    return error["msg"]
