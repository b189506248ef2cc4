"""The HTTP API: parameters, what is wrong with them, and how values are written."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from app import runtime
from app.api import ENDPOINTS, ParameterError, moment, parameters, plain, routes
from app.config import Config
from sql.store import Store
from tests.app import data, further

NOW = datetime(2026, 11, 30, 13, 0)
BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(method, path with query) → status, headers, body as JSON: the routes on a filled store."""
    store = Store.open(tmp_path_factory.mktemp("api") / "api.duckdb")
    data.fill(store, NOW, minutes=3)
    further.fill(store, NOW, minutes=3)
    used = {
        "interval_seconds": 60.0,
        "target": "lite-1",
        "project": "chat",
        "source": "litellm",
        "model": "m",
    }
    with store.write() as writer:
        writer.append(
            "project_usage",
            data.frame(
                [
                    {**used, "ts": NOW - timedelta(minutes=minutes), "prompt_tokens": 100.0, "requests": 2.0}
                    for minutes in (1, 2, 60 * 25)
                ]
            ),
        )
        writer.append(
            "engine_sample",
            data.frame([{**data.engine_rows(NOW, NOW)[0], "kv_cache_used_ratio": math.nan, "model": "odd"}]),
        )
    runtime.set_current(runtime.Runtime(store, Config(), clock=lambda: NOW))
    app = Starlette(routes=routes())
    yield lambda path, method="GET": asyncio.run(call(app, method, path))
    runtime.set_current(None)
    store.close()


async def call(app: Starlette, method: str, path: str) -> tuple[int, dict[str, str], Any]:
    path, _, query = path.partition("?")
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [], "server": ("test", 80), "client": ("test", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])

    def never(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    return sent[0]["status"], headers, json.loads(body, parse_constant=never) if body else None


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_an_endpoint_answers_rows_as_json_that_no_cache_keeps(asked: Any, name: str) -> None:
    status, headers, body = asked(f"/api/v1/{name}")
    assert (status, headers["content-type"], headers["cache-control"]) == (
        200,
        "application/json",
        "no-store",
    )
    assert body.keys() == {"as_of", "rows"}
    assert body["as_of"] == "2026-11-30T13:00:00.000Z"


def test_gpus_are_their_newest_samples_under_the_canonical_names(asked: Any) -> None:
    rows = asked("/api/v1/gpus")[2]["rows"]
    assert len({(row["gpu_uuid"], row["mig_instance"]) for row in rows}) == len(rows) > 8
    assert {row["ts"] for row in rows} == {"2026-11-30T13:00:00.000Z"}
    assert all(isinstance(row["memory_used_bytes"], int | None) for row in rows)
    assert all(isinstance(row["memory_used_ratio"], float | None) for row in rows)
    (one_host,) = {row["host"] for row in asked("/api/v1/gpus?host=node-2")[2]["rows"]}
    assert one_host == "node-2"


def test_what_is_not_known_and_what_is_no_number_is_null(asked: Any) -> None:
    rows = asked("/api/v1/engines")[2]["rows"]
    (odd,) = [row for row in rows if row["model"] == "odd"]
    assert odd["kv_cache_used_ratio"] is None
    assert any(value is None for row in rows for value in row.values())


def test_a_projects_use_is_summed_over_the_time_asked_for(asked: Any) -> None:
    rows = asked("/api/v1/usage?project=chat")[2]["rows"]  # the last 24 h: two of the three rows
    assert [(row["source"], row["prompt_tokens"], row["requests"], row["cached_tokens"]) for row in rows] == [
        ("litellm", 200.0, 4.0, None)
    ]
    assert asked("/api/v1/usage?project=other")[2]["rows"] == []


def test_probes_are_told_one_by_one_their_cost_to_the_last_digit(asked: Any) -> None:
    rows = asked("/api/v1/probes?target=together")[2]["rows"]
    assert len(rows) == 60
    assert {row["cost"] for row in rows} == {"0.000100000", None}
    assert {row["error"] for row in rows if not row["ok"]} == {"HTTP 429: too many requests"}


def test_money_is_written_without_an_exponent() -> None:
    assert plain("cost", Decimal("0E-9")) == "0.000000000"
    assert plain("cost", Decimal("1E+3")) == "1000"


def test_hosts_have_their_newest_counters(asked: Any) -> None:
    (row,) = asked("/api/v1/hosts")[2]["rows"]
    assert (row["host"], row["ts"], row["cpu_count"]) == (
        "node-3.example.com",
        "2026-11-30T13:00:00.000Z",
        32,
    )
    assert row["cpu_busy_seconds_total"] / row["cpu_seconds_total"] == pytest.approx(0.25)


def test_incidents_are_filtered_by_state_and_their_labels_are_objects(asked: Any) -> None:
    assert {row["state"] for row in asked("/api/v1/incidents")[2]["rows"]} == {
        "pending",
        "firing",
        "resolved",
    }
    (firing,) = asked("/api/v1/incidents?state=firing&project=chat")[2]["rows"]
    assert firing["labels"]["host"] == "node-3"
    assert firing["labels"]["gpu_index"] == 5
    assert firing["evidence"] == {"series": "memory_used_ratio"}
    assert (firing["started_at"], firing["resolved_at"]) == ("2026-11-30T12:46:00.000Z", None)
    # The resolved one ended 30 minutes ago: a later span does not hold it.
    late = asked("/api/v1/incidents?from=2026-11-30T12:40:00Z&to=2026-11-30T13:00:00Z")[2]["rows"]
    assert {row["state"] for row in late} == {"pending", "firing"}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("gpus?hosts=x", "unknown parameter hosts; known: environment, host, project"),
        ("gpus?from=2026-11-30", "unknown parameter from; known: environment, host, project"),
        ("gpus?host=a&host=b", "host is given more than once; ask once for each value"),
        ("incidents?state=fring", "`state` must be one of pending, firing, resolved"),
        ("incidents?from=soon", "`from`: 'soon' is no time; write it as 2026-11-30T13:00:00Z"),
        ("findings?to=0001-01-01T00:00:00%2B14:00", "`to`: '0001-01-01T00:00:00+14:00' is no time"),
        ("findings?from=2026-11-30T13:00:00Z&to=2026-11-30T13:00:00Z", "`from` must be before `to`"),
        ("findings?from=2027-01-01", "`from` must be before `to`"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_a_400_with_the_cure(asked: Any, query: str, says: str) -> None:
    status, headers, body = asked(f"/api/v1/{query}")
    assert (status, headers["content-type"]) == (400, "application/json")
    assert body["error"].startswith(says)


@pytest.mark.parametrize(
    "path", ["/api/v1/costs", "/api/v1/gpus/", "/api/v1/", "/api/v2/gpus", "/api/v1/gpus/x", "/api", "/api/"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_no_endpoint_is_a_404_that_names_those_there_are(asked: Any, path: str, method: str) -> None:
    status, headers, body = asked(path, method)
    assert (status, headers["content-type"]) == (404, "application/json")
    assert body == {
        "error": "no such endpoint; known: /api/v1/gpus, /api/v1/engines, /api/v1/hosts, /api/v1/probes,"
        " /api/v1/usage, /api/v1/incidents, /api/v1/findings"
    }


def test_only_get_is_answered(asked: Any) -> None:
    status, headers, body = asked("/api/v1/gpus", "DELETE")
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert body == {"error": "DELETE is not answered here, only GET"}
    assert asked("/api/v1/gpus", "HEAD")[0] == 200


def test_a_span_is_the_last_day_where_none_is_given() -> None:
    bound = parameters(BY_NAME["incidents"], {}, NOW)
    assert (bound["from_ts"], bound["to_ts"]) == (NOW - timedelta(days=1), NOW)
    bound = parameters(BY_NAME["incidents"], {"to": "2026-11-20"}, NOW)
    assert (bound["from_ts"], bound["to_ts"]) == (datetime(2026, 11, 19), datetime(2026, 11, 20))
    assert parameters(BY_NAME["gpus"], {"project": ""}, NOW)["project"] is None


def test_a_time_with_a_zone_is_taken_to_utc() -> None:
    assert moment("2026-11-30T14:00:00+01:00", "from") == NOW
    assert moment("2026-11-30T13:00:00Z", "from") == moment("2026-11-30T13:00", "from") == NOW
    with pytest.raises(ParameterError, match="`from`: '' is no time"):
        moment("", "from")


def test_values_become_json() -> None:
    assert plain("ts", datetime(2026, 11, 30, 13, 0, 0, 123456)) == "2026-11-30T13:00:00.123Z"
    assert [plain("x", value) for value in (math.nan, math.inf, 0.5, 0, "", None, True)] == [
        None, None, 0.5, 0, "", None, True
    ]  # fmt: skip
    assert plain("edges_seconds", [0.1, math.inf]) == [0.1, None]
    assert plain("evidence", '{"a": [NaN, {"b": 1}]}') == {"a": [None, {"b": 1}]}
    assert plain("title", '{"a": 1}') == '{"a": 1}'


def test_the_endpoints_stand_on_the_server_before_the_pages(tmp_path: Path) -> None:
    from app.server import build

    app = build()
    runtime.set_current(runtime.Runtime(Store.open(":memory:"), Config(), clock=lambda: NOW))
    try:
        status, _, body = asyncio.run(call(app, "GET", "/api/v1/costs"))  # type: ignore[arg-type]
    finally:
        runtime.current().store.close()
        runtime.set_current(None)
    assert status == 404
    assert "no such endpoint" in body["error"]


@pytest.mark.parametrize("text", ["0001-01-01T05:00:00", "9999-12-31T23:59:59Z", "1999-12-31"])
def test_a_time_at_the_ends_of_the_calendar_is_refused(text: str) -> None:
    incidents = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "incidents")
    with pytest.raises(ParameterError, match="the year must lie between 2000 and 2200"):
        parameters(incidents, {"to": text}, datetime(2026, 11, 30))
