"""The DuckDB store: migrations, appends by frame, named queries.

One process owns the file. Writes go through one lock, `Store.write()`, a transaction each; reads run
on a cursor per call and see the last commit. All SQL text lives in `sql/**/*.sql`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

_MIGRATION = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")


class StoreError(Exception):
    """The store cannot be used; the message says why and what to do."""


class StoreBusyError(StoreError):
    """Another process holds the file."""


@cache
def migrations() -> tuple[tuple[int, str, str], ...]:
    """All migrations in order: (number, file name, SQL text). Raises StoreError on a gap."""
    found = [
        (int(match.group(1)), entry.name, entry.read_text(encoding="utf-8"))
        for entry in files("sql").joinpath("migrations").iterdir()
        if (match := _MIGRATION.match(entry.name))
    ]
    found.sort()
    numbers = [number for number, _, _ in found]
    if numbers != list(range(1, len(numbers) + 1)):
        raise StoreError(f"migrations are not numbered 1, 2, 3, …: {numbers}")
    return tuple(found)


@cache
def statement(name: str) -> tuple[str, frozenset[str]]:
    """The SQL text of `sql/queries/NAME.sql` or `sql/commands/NAME.sql` and the parameters it names."""
    for folder in ("queries", "commands"):
        entry = files("sql").joinpath(folder, f"{name}.sql")
        if entry.is_file():
            text = entry.read_text(encoding="utf-8")
            parsed = duckdb.extract_statements(text)
            if len(parsed) != 1:
                raise StoreError(f"sql/{folder}/{name}.sql must hold one statement, it holds {len(parsed)}")
            return text, frozenset(parsed[0].named_parameters)
    raise StoreError(f"there is no sql/queries/{name}.sql and no sql/commands/{name}.sql")


def _bind(name: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    text, wanted = statement(name)
    if missing := wanted - parameters.keys():
        raise StoreError(f"query {name} needs {', '.join(sorted(missing))}")
    if extra := parameters.keys() - wanted:
        raise StoreError(f"query {name} does not take {', '.join(sorted(extra))}")
    return text, dict(parameters)


class Writer:
    """One open transaction. Obtained from `Store.write()`; not kept beyond it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def append(self, table: str, rows: pa.Table | pl.DataFrame) -> None:
        """Append a frame by column name; columns the frame lacks are NULL or their default."""
        if not table.isidentifier():
            raise StoreError(f"not a table name: {table!r}")
        frame = rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows
        if frame.num_rows == 0:
            return
        self._connection.register("appended_rows", frame)
        try:
            self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM appended_rows")  # noqa: S608
        finally:
            # In a transaction that the insert has aborted this fails too, and would hide the reason.
            with suppress(duckdb.Error):
                self._connection.unregister("appended_rows")

    def run(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run `sql/commands/NAME.sql` (or a query) inside the transaction; its rows, if it returns any."""
        text, bound = _bind(name, parameters)
        return self._connection.execute(text, bound).fetchall()


class Store:
    """An open store. `close()` checkpoints and releases the file."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, location: str) -> None:
        self._connection = connection
        self._write_lock = threading.Lock()
        self._cursor_lock = threading.Lock()
        self.location = location

    @classmethod
    def open(cls, location: str | Path = ":memory:") -> Store:
        """Open (and create) the file, or an in-memory store, and bring it to the newest version.

        Raises StoreBusyError when another process holds the file, StoreError when the file is not a
        DuckDB database, is from a newer infermeter, or cannot be written.
        """
        name = str(location).removeprefix("duckdb:///")
        if match := re.match(r"[a-z][a-z0-9+]+:(?!\\)", name):
            raise StoreError(
                f"{match.group()} is not a store that this version can open; give a path or duckdb:///PATH"
            )
        try:
            if name != ":memory:":
                Path(name).parent.mkdir(parents=True, exist_ok=True)
            connection = duckdb.connect(name, config={"autoinstall_known_extensions": False})
        except duckdb.Error as error:
            raise _opening_error(name, str(error)) from error
        except OSError as error:
            raise StoreError(f"{name} cannot be opened: {error.strerror} ({error.filename})") from error
        connection.execute("SET TimeZone = 'UTC'")
        store = cls(connection, name)
        try:
            store._migrate()
        except BaseException:
            connection.close()
            raise
        return store

    def _migrate(self) -> None:
        create, _ = statement("create_schema_version")
        self._connection.execute(create)
        done = self._connection.execute(statement("schema_versions")[0]).fetchall()
        applied = {row[0] for row in done}
        newest = len(migrations())
        if ahead := [number for number in applied if number > newest]:
            raise StoreError(
                f"{self.location} was written by a newer infermeter (schema {max(ahead)}, this one knows"
                f" {newest}); upgrade infermeter or use another file"
            )
        for number, file_name, text in migrations():
            if number in applied:
                continue
            try:
                with self.write() as writer:
                    self._connection.execute(text)
                    writer.run("record_schema_version", version=number, file_name=file_name)
            except duckdb.CatalogException as error:
                raise StoreError(
                    f"{self.location} holds tables of something else ({str(error).splitlines()[0]});"
                    " give infermeter a file of its own"
                ) from error

    @property
    def schema_version(self) -> int:
        """The number of the last migration applied."""
        return int(self.query_rows("schema_versions")[-1][0])

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """One transaction: committed at the end of the block, rolled back when it raises."""
        with self._write_lock:
            self._connection.begin()
            try:
                yield Writer(self._connection)
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        with self._cursor_lock:
            return self._connection.cursor()

    def query(self, name: str, **parameters: Any) -> pl.DataFrame:
        """Run `sql/queries/NAME.sql` on the last commit; a Polars frame. Safe from any thread."""
        text, bound = _bind(name, parameters)
        cursor = self._cursor()
        try:
            table = cursor.sql(text, params=bound).to_arrow_table()
        finally:
            cursor.close()
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def query_rows(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """As `query`, as plain tuples: for small answers."""
        text, bound = _bind(name, parameters)
        cursor = self._cursor()
        try:
            return cursor.execute(text, bound).fetchall()
        finally:
            cursor.close()

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file."""
        with self._write_lock:
            self._connection.checkpoint()

    def close(self, wait_seconds: float | None = None) -> bool:
        """Close after the write in progress, if any, has ended. False when that takes longer than
        `wait_seconds`: the store is then still open, and whoever ends now loses that write and nothing else.
        """
        if not self._write_lock.acquire(timeout=-1 if wait_seconds is None else wait_seconds):
            return False
        try:
            self._connection.close()
        finally:
            self._write_lock.release()
        return True


def _opening_error(name: str, message: str) -> StoreError:
    """Say who holds the file, or what is wrong with it."""
    if match := re.search(r"Conflicting lock is held in (.+?) \(PID (\d+)\)", message):
        program, pid = match.groups()
        return StoreBusyError(
            f"{name} is in use by process {pid} ({program}); stop it, or give this one another file"
            " (store: in the configuration)"
        )
    if "sqlite_scanner" in message:
        return StoreError(f"{name} is an SQLite database; give infermeter a file of its own")
    if "not a valid DuckDB database" in message:
        return StoreError(f"{name} is not a DuckDB file; move it away or give another path")
    first_line = message.splitlines()[0] if message else "unknown error"
    return StoreError(f"{name} cannot be opened: {first_line}")


def to_json(value: object) -> str:
    """Compact JSON for the JSON columns (labels, evidence, payloads)."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
