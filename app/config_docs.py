"""`docs/configuration.md`, made from the settings themselves, so that it cannot lag behind them.

`python -m app.config_docs > docs/configuration.md` writes it anew; a test fails where that was forgotten.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from app.config import Config
from app.config_errors import fields_of, models_in
from collectors.discovery import PROBES
from collectors.dns_sd import DnsList
from collectors.durations import format_duration, parse_duration
from collectors.file_sd import FileList
from collectors.http_sd import HttpList
from collectors.kubernetes_sd import KubernetesList
from collectors.prometheus_sd import PrometheusList
from collectors.target import TargetSettings, kind_names

LEADING = ("name", "url", "kind", "project", "environment")
"""What a table of settings begins with, where it has them; the rest is as in the code."""

INTRODUCTION = """\
# Configuration

<!-- Made by `python -m app.config_docs > docs/configuration.md`; change the docstrings in the code. -->

`infermeter serve --config infermeter.yaml` reads one YAML file; without `--config` it takes `infermeter.yaml`
of the working directory, if there is one. `infermeter check-config infermeter.yaml` says everything that is
wrong with it at once, each with its line and what to do. `infermeter.example.yaml` is a complete example.

A file that gives one target is enough, and so is no file at all:

```yaml
targets:
  - url: http://gpu-node-1:9400
```

## How the file is read

- **Unknown settings are refused**, and so is a setting that stands twice. A setting without a value is as if
  it were not there.
- **Lengths of time** are written `500ms`, `30s`, `5m`, `1h30m`, `30d`; a plain number is seconds.
- **`${NAME}`** inside a text is taken from the environment; a name that is not set there is an error.
  `${NAME:-text}` gives a default, used also where the variable is empty. `$$` is a dollar sign.
- **Secrets** may stand in a file: each `…_file` setting names one. It is read whenever the secret is used, so
  a rotated secret is taken up without a restart. Secrets are never shown, not in errors either.
- **Paths** of `…_file` settings and of `files` are relative to the folder of the configuration file, and
  `~/` is the home directory. The path of the `store` is relative to the working directory.
- **Plain words** stay text: only `true` and `false` are booleans (`yes` and `on` are taken where one is
  wanted), and `12:30` or `2026-01-01` are no numbers. A text of digits alone needs quotes.
- **Repetition** is saved by YAML's own means: an anchor (`&name`), its alias (`*name`), and `<<: *name` to
  merge settings in.
- The file is read at start. Files that `file_sd` names are read again when they change, and lists that come
  over the network at their `refresh_interval`.
"""

DISCOVERY = """\
## Without targets

With neither `targets` nor a list of them, infermeter asks these ports of this machine (127.0.0.1) and
NVIDIA's driver at start, scrapes what it knows, and says what it found and what not. Where no exporter shows
the GPUs, they are read from the driver (`kind: nvml`). `discover: true` does so beside configured targets,
`discover: false` never does.

| port | path | usually | as said in |
|---|---|---|---|
"""

FILE_SD = """\
A file holds a list in Prometheus' `file_sd` format, JSON or YAML:

```json
[{"targets": ["gpu-node-1:9400", "gpu-node-2:9400"], "labels": {"project": "chat", "rack": "a4"}}]
```

- `__scheme__`, `__metrics_path__` and `__param_NAME` make the URL (default `http` and the kind's own path,
  `/metrics` as a rule); other labels that begin with `__` are dropped.
- `project`, `environment` and `model` set these; `infermeter_kind` sets the kind, and so does `kind` where
  its value is a known one (not `probe` and `prometheus`, which such a label may say of something else). A
  target that its label makes a probe is asked once a minute at most. All other labels are shown as they are.
- A target is called host:port, with the path where it is not /metrics. A name that exists already (in
  `targets`, or in a file before) is not taken again, and that is told.
- A file that changes is read again. A broken or empty file keeps its last good list, and that is told; the
  targets of a file that is deleted go.
"""

SEE_LISTS = (
    "What else can be set, and how the list is kept up to date: [Lists of targets](#lists-of-targets).\n"
)

LISTS_OF_TARGETS = """\
## Lists of targets

In each entry of `file_sd`, `http_sd`, `dns_sd`, `prometheus_sd` and `kubernetes`, all settings of a target
can stand too, except `name`, `url`, `gpus`, `probe` and `prometheus`; they hold for each target of the list.
`labels` are added to those that the list gives. `kind: nvml` is no kind of a list.

- A list that comes over the network is looked at every `refresh_interval`, by itself: one that hangs delays
  nothing else, no other list and no scrape.
- When a list cannot be had, its last good state stays in use, and that is told with since when. A list that
  comes back empty after an error is believed when the next look says so too.
- Targets that a list no longer has are gone, not down. After a restart none is gone before its list could be
  had once.
- Where targets are asked what they are (`prometheus_sd` without `jobs`, `kubernetes` without
  `label_selector`), one of no known kind is asked again after an hour, one that does not answer after a
  minute. One that was known once stays as long as the list has it, until a restart.
- Of two targets with the same name one is used, and that is told: the one in `targets` before those of lists,
  and these in the order above.
"""

HTTP_SD = """\
The answer is the JSON of a `file_sd` file, at most 16 MiB; its labels mean the same. Redirects are not
followed.
"""

DNS_SD = """\
A target is called host:port. A name without records is an empty list and is told; a server that fails, or
does not answer, is an error.
"""

PROMETHEUS_SD = """\
infermeter reads `/api/v1/targets` below the URL and scrapes the targets itself. A Prometheus whose series are
to be read instead is a target with `kind: prometheus`.

- Labels are those after relabelling and mean what they mean in a `file_sd` file. `pod`, `namespace` and
  `node` are taken from Kubernetes' meta labels where relabelling dropped them.
- A target is called as in a `file_sd` file; one URL in several jobs is one target.
- What Prometheus reaches as localhost is asked on Prometheus' own host.
"""

KUBERNETES = """\
Running pods with an IP address are targets, called namespace/pod, with the port where a pod has several.
Where a pod's metrics are say, in this order:

1. its annotations `prometheus.io/scrape: "true"` (`"false"` leaves the pod out) with `prometheus.io/port`;
2. the container ports named as in `port_names`;
3. with `prometheus.io/scrape: "true"`, its only port.

`prometheus.io/path` and `prometheus.io/scheme` say the rest. The annotations or labels `infermeter/project`,
`infermeter/environment`, `infermeter/model` and `infermeter/kind` set those; an annotation wins, and may hold
a slash. The labels `namespace`, `pod` and `node` stand with each target: by them engines are matched to GPUs.

The account needs the verb `list` on `pods`, in the namespaces named or in all.
"""

AFTER: dict[type[BaseModel], str] = {
    FileList: FILE_SD,
    HttpList: HTTP_SD,
    DnsList: DNS_SD,
    PrometheusList: PROMETHEUS_SD,
    KubernetesList: KUBERNETES,
}
"""What follows the table of a list's own settings."""


def markdown() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for place, model in sections():
        parts.append(_section(place, model))
        if model in AFTER:
            parts += [AFTER[model], SEE_LISTS]
    ports = "".join(
        f"| {probe.port} | {', '.join(probe.paths)} | {probe.usual} | {probe.source} |\n" for probe in PROBES
    )
    return "\n".join([*parts, LISTS_OF_TARGETS, DISCOVERY + ports])


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Each group of settings once, with the first place where it stands, outer ones before inner ones."""
    waiting: list[tuple[str, type[BaseModel]]] = [("", Config)]
    seen: set[type[BaseModel]] = set()
    while waiting:
        place, model = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        yield place, model
        inner = []
        for name, field in fields_of(model).items():
            mark = "[]" if get_origin(field.annotation) is list else ""
            where = f"{place}.{name}{mark}" if place else f"{name}{mark}"
            inner += [(where, found) for found in models_in(field.annotation)]
        waiting = inner + waiting


def _section(place: str, model: type[BaseModel]) -> str:
    title = f"## `{place}`" if place else "## All settings"
    about = f"{_one_line(model.__doc__)}\n\n" if place else ""
    fields = fields_of(model)
    names = [name for name in LEADING if name in fields] + [name for name in fields if name not in LEADING]
    rows = [
        f"| `{name}` | {_value(name, fields[name], model)} | {_default(name, fields[name], model)}"
        f" | {_one_line(fields[name].description)} |"
        for name in names
        if model not in AFTER or name not in fields_of(TargetSettings)
    ]
    table = "\n".join(["| setting | value | default | meaning |", "|---|---|---|---|", *rows])
    return f"{title}\n\n{about}{table}\n"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _value(name: str, field: FieldInfo, model: type[BaseModel]) -> str:
    words = _type(field.annotation)
    if _is_duration(field):
        words = "length of time"
    if name == "kind" and issubclass(model, TargetSettings):
        words = ", ".join(f"`{name}`" for name in kind_names())
    limits = []
    for limit in field.metadata:
        if isinstance(limit, Gt):
            limits.append(f"more than {limit.gt}")
        elif isinstance(limit, Ge):
            least = format_duration(float(str(limit.ge))) if _is_duration(field) else limit.ge
            limits.append(f"at least {least}")
        elif isinstance(limit, Lt):
            limits.append(f"less than {limit.lt}")
        elif isinstance(limit, Le):
            limits.append(f"at most {limit.le}")
    return ", ".join([words, *limits])


def _is_duration(field: FieldInfo) -> bool:
    return any(isinstance(mark, BeforeValidator) and mark.func is parse_duration for mark in field.metadata)


_TYPES: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "whole number",
    float: "number",
    Decimal: "number",
    SecretStr: "secret text",
    list[str]: "list of texts",
    dict[str, str]: "names with texts",
}


def _type(annotation: Any) -> str:
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type(get_args(annotation)[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in get_args(annotation) if part is not type(None))
    if models_in(annotation):
        return "list of settings, below" if origin is list else "settings, below"
    raise TypeError(f"the documentation has no words for {annotation}; add them to app/config_docs.py")


def _default(name: str, field: FieldInfo, model: type[BaseModel]) -> str:
    if name in ("interval", "timeout") and issubclass(model, TargetSettings):
        return f"`scrape.{name}`"
    if field.is_required():
        return "needed"
    default = field.default
    if field.annotation == list[str] and (texts := field.get_default(call_default_factory=True)):
        return f"`[{', '.join(texts)}]`"
    if (
        field.default_factory is not None
        or default is None
        or default == ""
        or isinstance(default, BaseModel)
    ):
        return ""
    if _is_duration(field):
        return f"`{format_duration(default)}`"
    if isinstance(default, bool):
        return "`true`" if default else "`false`"
    return f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(markdown())
