"""Probes of a real llama.cpp server agree with what the server itself says of the same requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from app.runtime import utc_now
from collectors.fetch import new_session
from collectors.ingest import Ingest
from collectors.rounds import Rounds
from collectors.target import Target
from sql.store import Store
from tests.e2e.llama_server import llama_server, metric_values, metrics_text, needs_llama, write_tiny_model
from tests.web_server import serving

pytestmark = [pytest.mark.wide, needs_llama]

PROBES, TOKENS = 3, 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    with llama_server(model, slots=2, context_tokens=4096) as base_url:
        yield base_url


@dataclass
class Tap:
    """Between probe and server: passes everything on as it comes and keeps the answers."""

    base_url: str
    bodies: list[bytearray] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, f"{self.base_url}{request.path_qs}", data=await request.read(),
                headers={"Content-Type": "application/json"},
            ) as answer,
        ):  # fmt: skip
            passed = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )
            await passed.prepare(request)
            body = bytearray()
            self.bodies.append(body)
            async for chunk in answer.content.iter_any():
                body += chunk  # before it is passed on: who reads [DONE] may be gone at once
                await passed.write(chunk)
            return passed


def probe_rows(store: Store) -> list[dict[str, Any]]:
    now = utc_now()
    return store.query(
        "api_probes", from_ts=now - timedelta(hours=1), to_ts=now, project=None, environment=None, target=None
    ).to_dicts()


def last_timings(body: bytearray) -> dict[str, Any]:
    """What the server says of one streamed completion: its `timings` and `usage`."""
    said: dict[str, Any] = {}
    for line in body.decode().splitlines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            said.update({key: event[key] for key in ("timings", "usage") if event.get(key)})
    return said


def test_probes_agree_with_the_servers_own_timings_and_counters(server: str) -> None:
    store = Store.open()
    before = metric_values(metrics_text(server))

    async def go() -> tuple[list[dict[str, Any]], list[bytearray]]:
        tap = Tap(server)
        async with serving(tap.handle) as url, new_session() as session:
            target = Target.model_validate(
                {
                    "name": "tiny", "kind": "probe", "url": url,
                    "probe": {"max_tokens": TOKENS, "spend_per_day": 1,
                              "prices": {"prompt_per_million": 2, "generation_per_million": 8}},
                }
            )  # fmt: skip
            rounds = Rounds(Ingest(store), session, utc_now)
            rounds.ingest.sync_targets([target], utc_now())
            for _ in range(PROBES):
                await rounds.run([target], 60.0)
            await rounds.aclose()
            return probe_rows(store), tap.bodies

    rows, bodies = asyncio.run(go())
    after = metric_values(metrics_text(server))
    models, *answers = bodies  # the model was asked for once
    (model,) = (entry["id"] for entry in json.loads(models)["data"])
    assert len(rows) == len(answers) == PROBES
    for row, body in zip(rows, answers, strict=True):
        said = last_timings(body)
        usage, timings = said["usage"], said["timings"]
        assert (row["ok"], row["error"], row["http_status"], row["model"]) == (True, None, 200, model)
        assert (row["prompt_tokens"], row["generation_tokens"]) == (
            usage["prompt_tokens"],
            usage["completion_tokens"],
        )
        assert 2 <= row["generation_tokens"] <= TOKENS
        assert row["cost"] == (2 * Decimal(usage["prompt_tokens"]) + 8 * usage["completion_tokens"]) / 10**6
        # Nothing can be seen from outside before the server has it: the prompt is worked through before the
        # first token, and the last cannot come before all of them are made.
        assert row["ttft_seconds"] >= timings["prompt_ms"] / 1000
        assert row["e2e_seconds"] >= (timings["prompt_ms"] + timings["predicted_ms"]) / 1000 * 0.95
        assert row["ttft_seconds"] < row["e2e_seconds"] < 30
        assert 0 < row["tpot_seconds"] * (row["generation_tokens"] - 1) < row["e2e_seconds"]
    generated = after["llamacpp:tokens_predicted_total"] - before["llamacpp:tokens_predicted_total"]
    assert generated == sum(row["generation_tokens"] for row in rows)

    (engine,) = store.query(
        "api_engines", since=utc_now() - timedelta(hours=1), project=None, environment=None, target="tiny"
    ).to_dicts()
    assert (engine["engine"], engine["role"], engine["model"]) == ("probe", "probe", model)
    assert engine["generation_tokens_total"] == generated
    assert engine["finished_error_total"] == 0
    (source,) = store.query("target_rows").to_dicts()
    assert (source["found_kind"], source["role"]) == ("probe", "probe")


def test_a_path_that_the_server_does_not_have_is_said(server: str) -> None:
    store = Store.open()

    async def go() -> None:
        async with new_session() as session:
            target = Target.model_validate(
                {"name": "gone", "kind": "probe", "url": f"{server}/nowhere", "model": "m"}
            )
            rounds = Rounds(Ingest(store), session, utc_now)
            rounds.ingest.sync_targets([target], utc_now())
            await rounds.run([target], 60.0)
            await rounds.aclose()

    asyncio.run(go())
    (row,) = store.query("scrape_rows", target="gone").to_dicts()
    assert (row["ok"], row["http_status"]) == (False, 404)
    assert row["error"].startswith(
        "HTTP 404: there is no such model or no such path; check `model` and `url`"
    )
