"""The configuration file: its settings, and how they are read, completed and checked.

`docs/configuration.md` is generated from the models here, in `collectors/target.py`, in the lists of targets
(`collectors/*_sd.py`) and in `alerts/settings.py`: the docstring below a field is its documentation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from alerts.settings import AlertSettings
from app.config_errors import ConfigError, fields_of, models_in, place_of, problem_of
from app.config_yaml import Document, Problem, path_text, read_yaml
from app.config_yaml import Path as Place
from collectors.dns_sd import DnsList
from collectors.durations import Duration
from collectors.file_sd import FileList
from collectors.hiding import hide
from collectors.http_sd import HttpList
from collectors.kubernetes_sd import KubernetesList
from collectors.plain_files import read_plain_file
from collectors.probe.settings import PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS
from collectors.prometheus_sd import PrometheusList
from collectors.settings import Pace, Settings, with_pace
from collectors.target import NVML, Target, TargetSettings, usual_name
from collectors.urls import checked_host, checked_url

__all__ = ["Config", "ConfigError", "Listen", "Problem", "Retention", "Scrape", "load_config", "load_text"]

MEBIBYTE = 1024 * 1024

LISTS = ("file_sd", "http_sd", "dns_sd", "prometheus_sd", "kubernetes")
"""The settings that are lists of lists of targets."""


class Listen(Settings):
    """Where the pages and the HTTP API are served."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """The address to listen on; `0.0.0.0` for every network this machine is in. There is no log-in."""
    port: int = Field(default=8501, ge=1, le=65535)
    """The port to listen on."""

    @field_validator("host")
    @classmethod
    def _whole_host(cls, value: str) -> str:
        return checked_host(value)


class Scrape(Pace):
    """How targets are scraped that do not say otherwise."""

    body_limit_mib: int = Field(default=16, ge=1, le=1024)
    """An answer larger than this is refused (MiB)."""

    @property
    def body_limit_bytes(self) -> int:
        """`body_limit_mib` in bytes."""
        return self.body_limit_mib * MEBIBYTE


class Retention(Settings):
    """How long is kept what was measured."""

    raw: Duration = 30 * 86_400.0
    """Rows as scraped; at least 1h."""

    @field_validator("raw")
    @classmethod
    def _long_enough(cls, value: float) -> float:
        if value < 3600:
            raise ValueError("must be at least 1h: the rules and the pages look back that far")
        return value


class Config(Settings):
    """Everything that can be set. `Config()` is what holds without a file."""

    store: str = Field(default="infermeter.duckdb", min_length=1)
    """The DuckDB file that holds everything: a path, or a URL (`duckdb:///relative/path`,
    `duckdb:////absolute/path`). Created when absent."""
    listen: Listen = Listen()
    """Where the pages and the HTTP API are served."""
    base_url: str | None = None
    """What links in messages begin with; left out, `http://localhost:` and the port."""
    simulated: bool = False
    """Mark every page as simulated data."""
    scrape: Scrape = Scrape()
    """How targets are scraped that do not say otherwise."""
    targets: list[Target] = Field(default_factory=list)
    """The endpoints to scrape."""
    file_sd: list[FileList] = Field(default_factory=list)
    """Files that list targets, in Prometheus' file_sd format; read again when they change."""
    http_sd: list[HttpList] = Field(default_factory=list)
    """Web servers that list targets, in Prometheus' http_sd format."""
    dns_sd: list[DnsList] = Field(default_factory=list)
    """DNS names whose records are targets."""
    prometheus_sd: list[PrometheusList] = Field(default_factory=list)
    """Prometheus servers whose targets are scraped too."""
    kubernetes: list[KubernetesList] = Field(default_factory=list)
    """Kubernetes clusters whose pods are scraped; for a single one, its settings without the list."""
    retention: Retention = Retention()
    """How long is kept what was measured."""
    alerts: AlertSettings = Field(default_factory=AlertSettings)
    """What is judged, and who is told."""
    discover: bool = Field(
        default_factory=lambda others: not any(others.get(name) for name in ("targets", *LISTS))
    )
    """Look for exporters and engines on this machine at start; left out, only when nothing else is
    configured to be scraped."""

    @property
    def lists(self) -> list[TargetSettings]:
        """All lists of targets, of whatever sort."""
        return [entry for name in LISTS for entry in getattr(self, name)]

    @property
    def links_base(self) -> str:
        """What a link to a page begins with, without a slash at the end."""
        return self.base_url or f"http://localhost:{self.listen.port}"

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        if "://" in value and not value.startswith("duckdb:///"):
            raise ValueError("only a path or duckdb:///path is known as a store")
        if value == "duckdb:///":
            raise ValueError("the path after duckdb:/// is missing")
        return value

    @field_validator("base_url")
    @classmethod
    def _whole_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            checked_url(value)
        except ValueError:
            raise ValueError("is no web address; write it like https://infermeter.example.com") from None
        return value.strip().rstrip("/")

    @field_validator("kubernetes", mode="before")
    @classmethod
    def _one_cluster(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value

    @field_validator("targets", *LISTS, mode="before")
    @classmethod
    def _inherit_pace(cls, value: Any, info: ValidationInfo) -> Any:
        scrape = info.data.get("scrape")
        if not isinstance(value, list) or not isinstance(scrape, Scrape):
            return value
        own = (PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS)
        general = (scrape.interval_seconds, scrape.timeout_seconds)
        return [
            with_pace(item, *(own if isinstance(item, dict) and item.get("kind") == "probe" else general))
            for item in value
        ]


def load_config(path: Path | str) -> Config:
    """The configuration in a file. Raises ConfigError with everything that is wrong with it."""
    file = Path(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise _about_file(path, "there is no such file; infermeter.example.yaml is a start") from None
    except OSError as error:
        raise _about_file(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(str(path), [Problem(line, None, "", "this is not UTF-8 text")]) from None
    return load_text(text, str(path), folder=file.parent)


def load_text(
    text: str,
    source_name: str,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """The configuration in a text. Raises ConfigError with everything that is wrong with it.

    `source_name` is what problems call the text. Relative paths of files that settings name are taken
    from `folder` (default: the working directory); `${NAME}` from `environment` (default: the process's).
    """
    document = read_yaml(text, os.environ if environment is None else environment)
    reading = _Reading(document, folder or Path())
    values = {} if document.values is None else document.values
    if not isinstance(values, dict):
        message = "the file must hold settings (lines like `name: value`) at the top"
        raise ConfigError(source_name, [*reading.problems, Problem(1, 1, "", message)])
    values = _completed(values, [Config], (), reading)
    _complain_of_doubles(values.get("targets"), reading)
    config = None
    errors: list[ErrorDetails] = []
    try:
        # By the names in the file only: the Python names of fields are no second spelling.
        config = Config.model_validate(values, by_alias=True, by_name=False)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)
    told = {problem.path for problem in document.problems}
    for error in errors:
        if error["type"] != "default_factory_not_called":
            problem = problem_of(error, document, Config)
            if problem.path not in told or not problem.path:
                reading.problems.append(problem)
    if config is None or reading.problems:
        raise ConfigError(source_name, [_without_secrets(problem, document) for problem in reading.problems])
    return config


def _without_secrets(problem: Problem, document: Document) -> Problem:
    """The problem without what of its setting came from the environment: secrets do."""
    around = re.compile(rf"{re.escape(problem.path)}($|[.\[])" if problem.path else "")
    taken = [text for path, texts in document.taken.items() if around.match(path) for text in texts]
    return problem._replace(message=hide(problem.message, taken))


def _about_file(path: Path | str, message: str) -> ConfigError:
    return ConfigError(str(path), [Problem(None, None, "", message)])


class _Reading:
    """What reading one text needs at every step: where it is, and what was wrong so far."""

    def __init__(self, document: Document, folder: Path) -> None:
        self.document = document
        self.folder = folder
        self.problems = list(document.problems)

    def complain(self, path: Place, message: str) -> None:
        line, column = place_of(path, self.document.places)
        self.problems.append(Problem(line, column, path_text(path), f"`{path_text(path)}`: {message}"))

    def whole_path(self, text: str) -> str:
        """Relative to the configuration's folder; `~/` is the home directory."""
        if not text:
            return ""  # not the folder itself
        if text.startswith("~/"):
            return os.path.expanduser(text)  # noqa: PTH111 (Path.expanduser raises where there is no home)
        return str(self.folder / text)


def _completed(
    values: dict[str, Any], models: list[type[BaseModel]], path: Place, reading: _Reading
) -> dict[str, Any]:
    """The values with paths made whole, files they name looked for, and settings left empty left out."""
    fields = {name: field for model in models for name, field in fields_of(model).items()}
    done: dict[str, Any] = {}
    for key, value in values.items():
        here = (*path, key)
        field = fields.get(key)
        if field is None:
            done[key] = value
        elif value is not None or field.is_required():
            done[key] = _completed_value(key, value, models_in(field.annotation), here, reading)
    return done


def _completed_value(
    key: str, value: Any, models: list[type[BaseModel]], path: Place, reading: _Reading
) -> Any:
    if isinstance(value, str) and (key.endswith("_file") or key == "kubeconfig"):
        value = reading.whole_path(value)
        if complaint := _unreadable(value):
            reading.complain(path, complaint)
        return value
    if isinstance(value, dict) and models:
        return _completed(value, models, path, reading)
    if isinstance(value, list) and key == "files":
        return [reading.whole_path(item) if isinstance(item, str) else item for item in value]
    if isinstance(value, list) and models:
        return [
            _completed(item, models, (*path, index), reading) if isinstance(item, dict) else item
            for index, item in enumerate(value)
        ]
    return value


def _unreadable(file: str) -> str | None:
    """Why a file that a setting names cannot be read, or None."""
    if not file:
        return "the value is empty"
    try:
        read_plain_file(file, 16 * MEBIBYTE)
        return None
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}"
    except ValueError:  # a NUL in the name
        return "this cannot be the name of a file"


def _complain_of_doubles(targets: Any, reading: _Reading) -> None:
    """Two targets of one name would be one row in the store and one line on every page; GPUs that are read
    twice would be counted twice."""
    first: dict[str, Place] = {}
    nvml: Place | None = None
    for index, target in enumerate(targets if isinstance(targets, list) else ()):
        if not isinstance(target, dict):
            continue
        if target.get("kind") == NVML:
            place: Place = ("targets", index)
            if nvml is not None:
                line, _ = place_of(nvml, reading.document.places)
                message = f"the GPUs of this machine are read on line {line} already; take one of the two out"
                reading.complain(place, message)
                continue
            nvml = place
        name, place = target.get("name"), ("targets", index, "name")
        if not name or (isinstance(name, str) and not name.strip()):
            name, place = usual_name(target), ("targets", index, "url")
        if not isinstance(name, str) or not (name := name.strip()):
            continue
        if name not in first:
            first[name] = place
            continue
        line, _ = place_of(first[name], reading.document.places)
        reading.complain(
            place, f"the name {name!r} is taken by the target on line {line}; give one of them another `name`"
        )
