"""Which endpoints are ours, asked over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collectors import known_targets
from collectors.known_targets import KnownTargets
from collectors.target import Target
from tests.collectors.list_server import Answer, ListServer, list_server

VLLM = b'vllm:num_requests_running{model_name="m"} 1\n'
NODE = b"node_load1 0.5\n"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[ListServer]:
    bodies = {"/vllm": Answer(VLLM), "/other": Answer(b"up 1\n"), "/down": Answer(status=503)}
    with list_server(lambda path: bodies[path]) as running:
        yield running


def target(server: ListServer, path: str, kind: str = "auto") -> Target:
    return Target(name=path, url=server.url + path, kind=kind)


def asked(server: ListServer) -> list[str]:
    paths = [path for path, _ in server.requests]
    server.requests.clear()
    return sorted(paths)


def test_what_is_of_a_known_kind_is_taken_and_asked_only_once(server: ListServer) -> None:
    clock = Clock()
    known = KnownTargets(clock)
    targets = [target(server, path) for path in ("/vllm", "/other", "/down")]
    assert [each.name for each in known.among(targets)[0]] == ["/vllm"]
    assert asked(server) == ["/down", "/other", "/vllm"]
    assert known.among(targets) == ([targets[0]], 0)
    assert asked(server) == []


def test_what_does_not_answer_is_asked_again_soon_and_what_is_unknown_later(server: ListServer) -> None:
    clock = Clock()
    known = KnownTargets(clock)
    targets = [target(server, path) for path in ("/vllm", "/other", "/down")]
    known.among(targets)
    asked(server)
    clock.now += 60
    known.among(targets)
    assert asked(server) == ["/down"]
    clock.now += 3540
    known.among(targets)
    assert asked(server) == ["/down", "/other"]


def test_an_engine_that_goes_down_stays_as_long_as_it_is_listed(server: ListServer) -> None:
    clock = Clock()
    known = KnownTargets(clock)
    engine = target(server, "/vllm")
    known.among([engine])
    server.answer = lambda _path: Answer(status=503)
    clock.now += 7200
    assert known.among([engine]) == ([engine], 0)
    assert known.among([]) == ([], 0)
    assert known.among([engine]) == ([], 0)  # listed anew: nothing is known of it


def test_with_a_kind_set_only_that_kind_is_taken(server: ListServer) -> None:
    known = KnownTargets(Clock())
    assert known.among([target(server, "/vllm", kind="dcgm")]) == ([], 0)
    assert len(KnownTargets(Clock()).among([target(server, "/vllm", kind="vllm")])[0]) == 1


def test_what_was_not_asked_in_time_is_counted_and_asked_first_the_next_time(
    server: ListServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_targets, "LONGEST_SECONDS", 0.3)
    monkeypatch.setattr(known_targets, "AT_ONCE", 1)
    known = KnownTargets(Clock())
    targets = [target(server, "/hangs"), target(server, "/vllm")]
    server.answer = lambda path: Answer(VLLM, hang=path == "/hangs")
    assert known.among(targets) == ([], 2)
    assert asked(server) == ["/hangs"]
    server.answer = lambda _path: Answer(VLLM)
    assert known.among(targets) == (targets, 0)
