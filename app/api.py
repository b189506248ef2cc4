"""The HTTP API, `/api/v1/*`: the pages' figures as JSON.

Answers are `{"as_of": ISO time, "rows": [{column: value}…]}`; unknown is null; times are ISO 8601 UTC.
An unknown parameter or a value that cannot be read is answered with 400 and `{"error": what and cure}`.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app import runtime

CURRENT = timedelta(minutes=15)
"""How far back "now" looks: older samples are history, not the state of a GPU."""

DEFAULT_SPAN = timedelta(hours=24)

EARLIEST_YEAR, LATEST_YEAR = 2000, 2200
"""No time outside holds a row, and arithmetic near the ends of the calendar overflows."""

STATES = ("pending", "firing", "resolved")
"""An incident's."""

JSON_COLUMNS = ("labels", "evidence")


class ParameterError(ValueError):
    """A request's parameter cannot be used."""


@dataclass(frozen=True)
class Endpoint:
    """One route: its query and the parameters it takes."""

    name: str
    query: str
    text: tuple[str, ...]
    """Parameters passed on as they are; absent is NULL, which means all."""
    span: bool
    """Takes `from` and `to` (the last 24 h without); else it is about now."""


ENDPOINTS = (
    Endpoint("gpus", "api_gpus", ("project", "environment", "host"), span=False),
    Endpoint("engines", "api_engines", ("project", "environment", "target"), span=False),
    Endpoint("hosts", "api_hosts", ("host",), span=False),
    Endpoint("probes", "api_probes", ("project", "environment", "target"), span=True),
    Endpoint("usage", "api_usage", ("project", "environment", "target"), span=True),
    Endpoint("incidents", "api_incidents", ("state", "project", "environment"), span=True),
    Endpoint("findings", "api_findings", ("project", "environment"), span=True),
)


def parameters(endpoint: Endpoint, given: dict[str, str], now: datetime) -> dict[str, Any]:
    """A request's parameters as the query takes them. Raises ParameterError."""
    allowed = {*endpoint.text, *(("from", "to") if endpoint.span else ())}
    if unknown := sorted(given.keys() - allowed):
        raise ParameterError(f"unknown parameter {', '.join(unknown)}; known: {', '.join(sorted(allowed))}")
    bound: dict[str, Any] = {name: given.get(name) or None for name in endpoint.text}
    if bound.get("state") not in (None, *STATES):
        raise ParameterError(f"`state` must be one of {', '.join(STATES)}")
    if not endpoint.span:
        return bound | {"since": now - CURRENT}
    end = moment(given["to"], "to") if given.get("to") else now
    start = moment(given["from"], "from") if given.get("from") else end - DEFAULT_SPAN
    if start >= end:
        raise ParameterError("`from` must be before `to`")
    return bound | {"from_ts": start, "to_ts": end}


def _each_once(items: list[tuple[str, str]]) -> dict[str, str]:
    given = dict(items)
    if len(given) < len(items):
        twice = sorted({name for name, _ in items if [key for key, _ in items].count(name) > 1})
        raise ParameterError(f"{', '.join(twice)} is given more than once; ask once for each value")
    return given


def moment(text: str, name: str) -> datetime:
    """ISO 8601 (UTC where no zone is given) → UTC without a zone. Raises ParameterError."""
    try:
        parsed = datetime.fromisoformat(text)
        found = parsed.astimezone(UTC).replace(tzinfo=None) if parsed.tzinfo else parsed
    except (ValueError, OverflowError):
        raise ParameterError(f"`{name}`: {text!r} is no time; write it as 2026-11-30T13:00:00Z") from None
    if not EARLIEST_YEAR <= found.year <= LATEST_YEAR:
        raise ParameterError(f"`{name}`: the year must lie between {EARLIEST_YEAR} and {LATEST_YEAR}")
    return found


def plain(column: str, value: Any) -> Any:
    """A cell as JSON has it: times ISO with Z, money as text to its last digit, no NaN."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds") + "Z"
    if column in JSON_COLUMNS and isinstance(value, str):
        value = json.loads(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal):
        return f"{value:f}"  # not 0E-9
    if isinstance(value, list):
        return [plain("", inner) for inner in value]
    if isinstance(value, dict):
        return {key: plain("", inner) for key, inner in value.items()}
    return value


def _route(endpoint: Endpoint) -> Route:
    async def answer(request: Request) -> Response:
        now_running = runtime.current()
        now = now_running.clock()
        try:
            bound = parameters(endpoint, _each_once(request.query_params.multi_items()), now)
        except ParameterError as error:
            return _json({"error": str(error)}, 400)
        frame = await asyncio.to_thread(lambda: now_running.store.query(endpoint.query, **bound))
        rows = [{column: plain(column, value) for column, value in row.items()} for row in frame.to_dicts()]
        return _json({"as_of": plain("", now), "rows": rows}, 200)

    return Route(f"/api/v1/{endpoint.name}", answer, methods=["GET"])


def _json(content: Any, status: int, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


async def _elsewhere(request: Request) -> Response:
    """What no endpoint answers: without this, Streamlit's page would come, with a status of 200."""
    known = [f"/api/v1/{endpoint.name}" for endpoint in ENDPOINTS]
    if request.url.path in known:
        return _json(
            {"error": f"{request.method} is not answered here, only GET"}, 405, {"Allow": "GET, HEAD"}
        )
    return _json({"error": f"no such endpoint; known: {', '.join(known)}"}, 404)


def routes() -> list[Route]:
    """One route per endpoint, and one for all else below `/api`."""
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    rest = [Route(path, _elsewhere, methods=methods) for path in ("/api", "/api/{rest:path}")]
    return [*(_route(endpoint) for endpoint in ENDPOINTS), *rest]
