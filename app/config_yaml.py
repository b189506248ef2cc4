"""YAML text → plain values, with the place of each in the file, and all that is wrong with the text.

YAML 1.2's plain values: only `true` and `false` are booleans, only decimal digits are numbers, so that
`no`, `on`, `12:30` and `2026-01-01` stay the text they look like. `${NAME}` is taken from the environment,
inside strings only. Messages never show a value: it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

Path = tuple[str | int, ...]
"""Where a value stands: keys and list positions from the top."""

MOST_VALUES = 200_000
"""More than 20 000 targets written out; aliases of aliases pass it quickly."""

DEEPEST = 30
"""The settings nest 6 deep."""

_TOO_DEEP = f"lists and mappings are nested too deeply; no setting is more than {DEEPEST} levels down"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_DOLLAR = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Problem(NamedTuple):
    """One thing that is wrong with a configuration."""

    line: int | None
    """From 1; None when it is about the file as a whole."""
    column: int | None
    """From 1."""
    path: str
    """The setting, like `targets[2].url`; empty for the file as a whole."""
    message: str
    """What is wrong and what to do, as a sentence without its full stop."""


class Document(NamedTuple):
    """A file as read."""

    values: Any
    """Mappings, lists, strings, numbers, booleans and None."""
    places: dict[Path, tuple[int, int]]
    """Line and column, from 1, of each key and list item."""
    problems: list[Problem]
    taken: dict[str, list[str]]
    """By setting, as `path_text`: what was taken from the environment for it."""


_NO_TAG = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


class _Loader(yaml.SafeLoader):
    """Leaves plain values alone: this module reads them."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (as the base class declares it)


def read_yaml(text: str, environment: Mapping[str, str]) -> Document:
    """The document and everything wrong with it as YAML. Never raises."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return _broken(line, None, "here stands a character that no text file has (a control character?)")
    except yaml.MarkedYAMLError as error:
        mark, words = _syntax_in_words(error, text)
        return _broken(mark.line + 1, mark.column + 1, words) if mark else _broken(None, None, words)
    except RecursionError:
        return _broken(None, None, _TOO_DEEP)
    except (ValueError, OverflowError):  # PyYAML: "\UFFFFFFFF"
        return _broken(
            loader.line + 1, loader.column + 1, "here stands an escape (\\u…, \\U…) that is no character"
        )
    reader = _Reader(environment)
    if node is None:
        return Document(None, {}, [], {})
    try:
        values = reader.value(node, ())
    except RecursionError:
        return _broken(None, None, _TOO_DEEP)
    return Document(values, reader.places, reader.problems, reader.taken)


def path_text(path: Path) -> str:
    """`("targets", 2, "url")` as people write it: `targets[2].url`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _broken(line: int | None, column: int | None, message: str) -> Document:
    return Document(None, {}, [Problem(line, column, "", message)], {})


class _Reader:
    """Turns nodes into values, noting places and problems."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.places: dict[Path, tuple[int, int]] = {}
        self.problems: list[Problem] = []
        self.taken: dict[str, list[str]] = {}
        self.count = 0
        self.within: set[int] = set()
        """The collections being read, outermost first: an alias to one of them would never end."""

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.count += 1
        if self.count > MOST_VALUES:
            if self.count == MOST_VALUES + 1:
                self._complain(node, path, f"the file holds more than {MOST_VALUES} values (aliases counted)")
            return None
        if len(path) > DEEPEST:
            self._complain(node, (), _TOO_DEEP)
            return None
        if id(node) in self.within:
            self._complain(node, path, "an alias (`*…`) stands inside of what it names")
            return None
        if node.tag not in _NO_TAG:
            self._complain(node, path, "YAML tags (`!…`) are not used here; put a value with `!` in quotes")
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self.within.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return self._sequence(node, path)
        finally:
            self.within.remove(id(node))

    def _sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        values = []
        for index, item in enumerate(node.value):
            self.places[*path, index] = _place(item)
            values.append(self.value(item, (*path, index)))
        return values

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        own: dict[str, yaml.Node] = {}
        # Merged settings (`<<: *name`) first, so that the mapping's own win.
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                for merged in self._merged(value_node, path):
                    for key, value in merged.items():
                        values.setdefault(key, value)
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _NO_TAG:
                self._complain(key_node, path, "a key must be plain text")
                continue
            key = key_node.value
            if _SURROGATE.search(key):
                self._complain(key_node, path, "a key must be plain text")
                continue
            if key in own:
                first = own[key].start_mark.line + 1
                self._complain(key_node, (*path, key), f"set twice; it stands on line {first} already")
                continue
            own[key] = key_node
            self.places[*path, key] = _place(key_node)
            values[key] = self.value(value_node, (*path, key))
        return values

    def _merged(self, node: yaml.Node, path: Path) -> list[dict[str, Any]]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(part, yaml.MappingNode) for part in parts):
            self._complain(node, path, "`<<` merges settings in; give it an alias of a mapping (`<<: *name`)")
            return []
        return [value for part in parts if isinstance(value := self.value(part, path), dict)]

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text: str = node.value
        if node.style is None:
            if text in _NULLS:
                return None
            if text in _BOOLEANS:
                return _BOOLEANS[text]
            if _INTEGER.fullmatch(text):
                return int(text)
            if _NUMBER.fullmatch(text):
                return float(text)
        if _SURROGATE.search(text):
            self._complain(node, path, "holds an escape (\\u…) that is no character")
            return None
        return _DOLLAR.sub(lambda match: self._expanded(match, node, path), text)

    def _expanded(self, match: re.Match[str], node: yaml.Node, path: Path) -> str:
        if match[0] == "$$":
            return "$"
        name, default = match[1], match[3]
        if name is None:
            self._complain(
                node, path, "`${` begins no `${NAME}`; close it, or write `$${` where a dollar is meant"
            )
            return ""
        found = self.environment.get(name)
        if found:
            self.taken.setdefault(path_text(path), []).append(found)
        if default is not None:
            return found or default
        if found is None:
            self._complain(
                node, path,
                f"the environment variable {name} is not set; set it, or give a default: ${{{name}:-…}}",
            )  # fmt: skip
            return ""
        return found

    def _complain(self, node: yaml.Node, path: Path, message: str) -> None:
        line, column = _place(node)
        where = f"`{path_text(path)}`: " if path else ""
        self.problems.append(Problem(line, column, path_text(path), where + message))


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value == "<<"


def _syntax_in_words(error: yaml.MarkedYAMLError, text: str) -> tuple[yaml.Mark | None, str]:
    """Where and what, in words a person can act on; free of the file's own text, which may be secret."""
    problem = error.problem or ""
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "'\\t'" in problem or "\t" in line[: len(line) - len(line.lstrip())]:
        return mark, "a tab stands where YAML wants spaces; indent with spaces"
    context = error.context or ""
    if "quoted scalar" in context and "end of stream" in problem:
        return error.context_mark, "the quote that opens here is never closed"
    if "flow sequence" in context or "flow mapping" in context:
        return error.context_mark, "the bracket that opens here is not closed, or a `,` is missing in it"
    for piece, words in _SYNTAX:
        if piece in problem:
            return mark, words
    return mark, "this is not valid YAML; check the indentation, the quotes and the brackets here and above"


_SYNTAX = (
    (
        "undefined alias",
        "`*` begins an alias that is not defined; put a value that begins with `*` in quotes",
    ),
    ("duplicate anchor", "an anchor (`&…`) of this name exists already; give it another name"),
    ("mapping values are not", "a `:` stands where no key can be; put a value with `: ` in it in quotes"),
    ("expected the node content", "a value or a closing bracket is missing here or above"),
    (
        "cannot start any token",
        "a value begins with a character YAML keeps for itself (@ ` %); put it in quotes",
    ),
    ("expected ':'", "a `:` after the key is missing, here or on the line above"),
    ("another document", "the file holds a second document (`---`); one file, one document"),
    ("unknown escape", "a `\\` in double quotes begins no escape; use single quotes, or write `\\\\`"),
    ("expected <block end>", "the indentation does not fit the lines above, or a list item misses its `- `"),
    ("undefined tag handle", "YAML tags (`!…`) are not used here; put a value with `!` in quotes"),
)
