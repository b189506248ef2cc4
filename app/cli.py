"""The command line: `infermeter serve | demo | read | record | replay | check-config`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import duckdb
import typer

from app.config import Config, ConfigError, load_config
from app.config_check import check_config
from collectors.durations import parse_duration
from collectors.urls import checked_host
from sql.store import Store, StoreError

app = typer.Typer(
    name="infermeter",
    help="Watches LLM inference on GPUs: why it is slow or about to die, and who pays for it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DEFAULT_CONFIG = Path("infermeter.yaml")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="Configuration file. Without it: ./infermeter.yaml, if there is one."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _note(message: str) -> None:
    """A line on stderr. That nobody can read it is no reason to end what runs."""
    try:
        typer.echo(message, err=True)
    except OSError:
        _drop(sys.stderr)


def _fail(message: str, code: int = 1) -> NoReturn:
    """What went wrong, on stderr, without a traceback."""
    _note(message)
    raise typer.Exit(code)


def _print(text: str) -> None:
    """A command's result, on stdout. `infermeter replay … | head` has its end here, and is not a fault."""
    try:
        typer.echo(text.encode(_encoding(), "backslashreplace").decode(_encoding()))
    except BrokenPipeError:
        _drop(sys.stdout)
        raise typer.Exit(0) from None
    except OSError as error:
        _drop(sys.stdout)
        _fail(f"the output cannot be written: {error.strerror}")


def _encoding() -> str:
    """What stdout can show: a console of Windows has fewer characters than a target may send."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _json(value: object) -> str:
    """JSON in readable characters, or in escapes where stdout cannot show one of them."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _said(text: str) -> None:
    """A line on stdout of a server, which goes on when nobody takes it."""
    try:
        typer.echo(text)
    except OSError:
        _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    """Python writes what it could not when it ends; that must not fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _host(text: str | None) -> str | None:
    try:
        return None if text is None else checked_host(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _config(path: Path | None) -> Config | None:
    """The configuration, or None when none was named and none is there."""
    if path is None:
        if not DEFAULT_CONFIG.exists():
            return None
        path = DEFAULT_CONFIG
    try:
        return load_config(path)
    except ConfigError as error:
        _fail(str(error), 2)


def _logging(verbose: bool) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("apscheduler").setLevel(logging.ERROR)


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[
        str | None, typer.Option(callback=_host, help="Address to listen on, instead of the configured.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on, instead of the configured; 0: any free one."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is going on.")] = False,
) -> None:
    """Collect, judge, alert and show, in one process."""
    from app.run import serve_forever
    from app.server import ListenError

    _logging(verbose)
    try:
        serve_forever(_config(config), host=host, port=port, said=_said)
    except (StoreError, ListenError) as error:
        _fail(str(error))


@app.command()
def demo(
    fault: Annotated[
        list[str] | None,
        typer.Option(help="A fault to show, as name@where, e.g. memory_creep@node-2. May be repeated."),
    ] = None,
    host: Annotated[str, typer.Option(callback=_host, help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8501,
    seed: Annotated[int, typer.Option(help="Another seed, another fleet's day.")] = 1,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is going on.")] = False,
) -> None:
    """A simulated fleet over real HTTP, and infermeter watching it."""
    from app.demo.run import DemoError, run_demo
    from app.server import ListenError

    _logging(verbose)
    try:
        run_demo(faults=fault or [], host=host, port=port, seed=seed, said=_said)
    except (StoreError, ListenError, DemoError) as error:
        _fail(str(error))


@app.command()
def read(
    file: Annotated[
        Path, typer.Argument(help="An exposition, as a target answered it; - is standard input.")
    ],
    kind: Annotated[str, typer.Option(help="The kind of target; auto finds it from the text.")] = "auto",
    as_json: JsonOption = False,
) -> None:
    """Read one exposition through the real collector and say what is in it."""
    from app.read import ReadError, read_payload, render_text

    try:
        payload = read_payload(file, kind=kind)
    except ReadError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{file} cannot be read: {error.strerror}")
    _print(_json(payload) if as_json else render_text(payload))


@app.command()
def record(
    out: Annotated[Path, typer.Argument(help="The recording to write, e.g. out.jsonl.gz.")],
    config: ConfigOption = None,
    for_: Annotated[
        str | None, typer.Option("--for", help="How long, e.g. 10m; until Ctrl-C without.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a recording that is there.")] = False,
) -> None:
    """Record what the configured targets answer, for a bug report or a back-test of a rule."""
    from app.recorder import record as record_answers
    from app.run import target_list

    loaded = _config(config)
    try:
        seconds = None if for_ is None else parse_duration(for_)
    except ValueError as error:
        _fail(f"--for: {error}", 2)
    targets, notes = target_list(loaded or Config())
    for note in notes:
        _note(note)
    if not targets.targets:
        _fail("there is nothing to record: no targets")
    said: set[str] = set()

    def say_once(message: str) -> None:
        if message not in said:
            said.add(message)
            _note(message)

    _note(f"recording {len(targets.targets)} targets to {out}; Ctrl-C ends it")
    try:
        count = asyncio.run(record_answers(out, targets, seconds, say_once, overwrite=force))
    except FileExistsError:
        _fail(f"{out} exists; give another name, or --force to write over it")
    except OSError as error:
        _fail(f"{out} cannot be written: {error.strerror}")
    _note(f"{count} answers in {out}")


@app.command()
def replay(
    recording: Annotated[Path, typer.Argument(help="A recording made by `infermeter record`.")],
    config: ConfigOption = None,
    store: Annotated[Path | None, typer.Option(help="Keep the rows in this new DuckDB file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a recording through the whole pipeline on its own clock; print findings and incident changes."""
    from app.replay import moment
    from app.replay import replay as replay_answers
    from collectors.recording import Faults, RecordingError
    from collectors.recording import read as read_recording

    loaded = _config(config) or Config()
    # A back-test tells nobody.
    quiet = loaded.model_copy(update={"alerts": loaded.alerts.model_copy(update={"channels": []})})
    if store is not None and store.exists():
        _fail(f"{store} exists; a replay needs a new file")
    faults = Faults()
    try:
        opened = Store.open(store or ":memory:")
        try:
            for event in replay_answers(read_recording(recording), quiet, opened, faults=faults):
                if as_json:
                    _print(_json(event._asdict()))
                else:
                    when = f"{moment(event.t):%Y-%m-%d %H:%M:%S}"
                    _print(
                        f"{when}  {event.kind:8} {event.state:9} {event.name} {event.subject}: {event.reason}"
                    )
        finally:
            opened.close()
            if skipped := faults.skipped_words():
                _note(f"{recording}: {skipped}")
    except (RecordingError, StoreError) as error:
        _fail(str(error))


@app.command("check-config")
def check_config_command(
    config: Annotated[Path, typer.Argument(help="The file to check.")] = DEFAULT_CONFIG,
) -> None:
    """Say everything that is wrong with a configuration, at once."""
    try:
        lines = check_config(config)
    except ConfigError as error:
        _fail(str(error), 2)
    for line in lines:
        _print(line)


@app.command()
def version() -> None:
    """The versions of infermeter and of what it stands on."""
    import polars
    import streamlit

    parts = {
        "Python": sys.version.split()[0],
        "DuckDB": duckdb.__version__,
        "Polars": polars.__version__,
        "Streamlit": streamlit.__version__,
    }
    stands_on = ", ".join(f"{name} {number}" for name, number in parts.items())
    try:
        own = package_version("infermeter")
    except PackageNotFoundError:
        own = "unknown (not installed)"
    _print(f"infermeter {own} ({stands_on})")


def main() -> None:
    """Entry point of the `infermeter` command."""
    try:
        app()
    except OSError as error:
        # Each command tells of its own files; what is left is the help, or what no command expected.
        _drop(sys.stdout)
        about = f"{error.filename}: " if error.filename else ""
        _note(f"infermeter cannot go on: {about}{error.strerror or error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
