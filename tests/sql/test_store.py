"""The store: migrations, transactions, named queries, who holds the file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest

from sql.store import Store, StoreBusyError, StoreError, migrations, statement

NOW = datetime(2026, 11, 30, 12, 0)


def scrape_row(target: str = "a") -> pl.DataFrame:
    return pl.DataFrame({"ts": [NOW], "target": [target], "ok": [True], "duration_seconds": [0.01]})


def columns(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, ...]]:
    return connection.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL"
    ).fetchall()


def test_an_empty_file_gets_every_migration(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "new.duckdb")
    assert store.schema_version == len(migrations())
    assert [row[1] for row in store.query_rows("schema_versions")] == [name for _, name, _ in migrations()]
    store.close()


@pytest.mark.parametrize("version", range(1, len(migrations()) + 1))
def test_a_file_of_an_earlier_version_keeps_its_rows_and_ends_like_a_new_one(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "old.duckdb"
    old = duckdb.connect(str(path))
    old.execute(statement("create_schema_version")[0])
    for number, name, text in migrations()[:version]:
        old.execute(text)
        old.execute("INSERT INTO schema_version VALUES (?, ?, ?)", [number, name, NOW])
    old.execute("INSERT INTO scrape (ts, target, ok, duration_seconds) VALUES (?, 'kept', true, 0.5)", [NOW])
    old.close()

    Store.open(path).close()
    Store.open(tmp_path / "new.duckdb").close()
    upgraded, fresh = duckdb.connect(str(path)), duckdb.connect(str(tmp_path / "new.duckdb"))
    assert columns(upgraded) == columns(fresh)
    assert upgraded.execute("SELECT target, duration_seconds FROM scrape").fetchall() == [("kept", 0.5)]


def test_a_file_of_a_newer_infermeter_is_refused_with_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "newer.duckdb"
    Store.open(path).close()
    future = duckdb.connect(str(path))
    future.execute("INSERT INTO schema_version VALUES (9999, '9999_future.sql', ?)", [NOW])
    future.close()
    with pytest.raises(StoreError, match=r"newer infermeter \(schema 9999.*upgrade infermeter"):
        Store.open(path)


def test_a_second_process_is_told_who_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / "held.duckdb"
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreBusyError, match=rf"in use by process {holder.pid} .*stop it"):
            Store.open(path)
    finally:
        holder.communicate(b"\n", timeout=10)


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but longer than a header" * 200)
    with pytest.raises(StoreError, match="is not a DuckDB file"):
        Store.open(path)


def test_a_folder_that_cannot_be_made_is_an_error_in_words(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(blocker / "store.duckdb")


@pytest.mark.parametrize("location", ["ducklake:postgres:dbname=x", "postgres://host/db", "s3://bucket/x"])
def test_a_store_of_another_kind_is_refused_in_words(location: str) -> None:
    with pytest.raises(StoreError, match="not a store that this version can open"):
        Store.open(location)


def test_a_url_names_the_same_file_as_its_path(tmp_path: Path) -> None:
    Store.open(f"duckdb:///{tmp_path}/x.duckdb").close()
    assert (tmp_path / "x.duckdb").exists()


def test_a_block_that_raises_writes_nothing() -> None:
    store = Store.open()
    with pytest.raises(RuntimeError), store.write() as writer:
        writer.append("scrape", scrape_row())
        raise RuntimeError
    with store.write() as writer:
        writer.append("scrape", scrape_row("b"))
    assert [row[0] for row in store.query_rows("scraped_targets")] == ["b"]


def test_committed_rows_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    code = (
        "import sys, os, datetime, polars as pl; from sql.store import Store\n"
        "s = Store.open(sys.argv[1])\n"
        "with s.write() as w: w.append('scrape', pl.DataFrame({'ts': [datetime.datetime(2026, 1, 1)],"
        " 'target': ['kept'], 'ok': [True], 'duration_seconds': [0.1]}))\n"
        "os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=Path(__file__).parents[2], check=False
    )
    assert ended.returncode == -9
    store = Store.open(path)
    assert [row[0] for row in store.query_rows("scraped_targets")] == ["kept"]
    store.close()


def test_readers_in_other_threads_see_whole_commits_only() -> None:
    store = Store.open()
    seen: list[int] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(len(store.query_rows("scraped_targets")))

    reader = threading.Thread(target=look)
    reader.start()
    for i in range(20):
        with store.write() as writer:
            for j in range(5):
                writer.append("scrape", scrape_row(f"t{i}-{j}"))
    stop.set()
    reader.join()
    assert set(seen) <= {5 * i for i in range(21)}
    assert len(store.query_rows("scraped_targets")) == 100


def test_a_missing_or_unknown_parameter_is_named() -> None:
    store = Store.open()
    with pytest.raises(StoreError, match="expire_scrape needs before"), store.write() as writer:
        writer.run("expire_scrape")
    with pytest.raises(StoreError, match="schema_versions does not take since"):
        store.query("schema_versions", since=NOW)


def test_an_unknown_query_is_named() -> None:
    with pytest.raises(StoreError, match="no sql/queries/nonesuch.sql"):
        statement("nonesuch")


def test_a_query_answers_a_frame_with_types_and_no_rows_when_there_are_none() -> None:
    frame = Store.open().query("edge_sets")
    assert frame.shape == (0, 2)
    assert frame.schema["edges_seconds"] == pl.List(pl.Float64)


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    other = duckdb.connect(str(path))
    other.execute("CREATE TABLE gpu_sample (x INTEGER)")
    other.close()
    with pytest.raises(
        StoreError, match="holds tables of something else .*give infermeter a file of its own"
    ):
        Store.open(path)
    again = duckdb.connect(str(path))
    assert ("gpu_sample", "x", "INTEGER") in columns(again)


def test_an_sqlite_database_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreError, match="is an SQLite database"):
        Store.open(path)


def test_closing_waits_for_a_write_no_longer_than_it_is_told() -> None:
    store = Store.open()
    with store.write():
        assert not store.close(0.01)
    assert store.query_rows("schema_versions")  # still open
    assert store.close(0.01)
