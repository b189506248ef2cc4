"""Lists from a web server, against a real one on the loopback."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config import ConfigError, load_text
from collectors import served_list
from collectors.http_sd import HttpList, HttpSd
from collectors.target_groups import ListError, content_of, groups, targets_of
from tests.collectors.list_server import Answer, ListServer, as_json, list_server

NOW = datetime(2026, 11, 30, 3, 0)
LATER = datetime(2026, 11, 30, 3, 5)

# The shape of the example in Prometheus' page on http_sd.
LIST = [
    {"targets": ["10.0.10.2:9100", "10.0.10.3:9100"], "labels": {"__meta_datacenter": "london", "rack": "a"}},
    {"targets": ["10.0.40.2:9400"], "labels": {"project": "chat", "environment": "newyork"}},
]


@pytest.fixture
def server() -> Iterator[ListServer]:
    with list_server(lambda _path: as_json(LIST)) as running:
        yield running


def http_sd(server: ListServer, path: str = "/gpus", **given_settings: Any) -> HttpSd:
    return HttpSd(HttpList.model_validate({"url": server.url + path, **given_settings}))


def names(listed: HttpSd) -> list[str]:
    return [target.name for target in listed.targets]


def test_the_answer_is_read_like_a_file_of_targets(server: ListServer) -> None:
    listed = http_sd(server, "/gpus?team=a", kind="dcgm", labels={"site": "x"})
    assert listed.refresh(NOW).added == listed.targets
    assert [(target.name, target.url, target.project, target.labels) for target in listed.targets] == [
        ("10.0.10.2:9100", "http://10.0.10.2:9100/metrics", None, {"site": "x", "rack": "a"}),
        ("10.0.10.3:9100", "http://10.0.10.3:9100/metrics", None, {"site": "x", "rack": "a"}),
        ("10.0.40.2:9400", "http://10.0.40.2:9400/metrics", "chat", {"site": "x"}),
    ]
    assert {target.kind for target in listed.targets} == {"dcgm"}
    assert listed.problems == []
    assert [path for path, _ in server.requests] == ["/gpus?team=a"]


def test_credentials_in_the_url_stand_beside_other_settings_of_the_access(server: ListServer) -> None:
    server.says([{"targets": ["h:1"]}])
    server.url = server.url.replace("http://", "http://user:hunter2@")
    listed = http_sd(server, access={"tls": {"insecure": True}})
    listed.refresh(NOW)
    assert names(listed) == ["h:1"]
    ((_, headers),) = server.requests
    assert headers["authorization"] == "Basic " + base64.b64encode(b"user:hunter2").decode()
    assert listed.settings.access.tls.insecure


def test_the_credentials_of_the_list_are_not_those_of_its_targets(server: ListServer) -> None:
    listed = http_sd(server, bearer_token="of-targets", access={"bearer_token": "of-list"})
    listed.refresh(NOW)
    assert server.requests[-1][1]["authorization"] == "Bearer of-list"
    assert {target.authorization() for target in listed.targets} == {"Bearer of-targets"}
    http_sd(server, bearer_token="of-targets").refresh(NOW)
    assert "authorization" not in server.requests[-1][1]


def test_a_user_name_in_the_url_is_for_the_list_and_never_shown(server: ListServer) -> None:
    url = server.url.replace("http://", "http://me:s3cret@") + "/gpus?token=t0ken"
    listed = HttpSd(HttpList(url=url))
    listed.refresh(NOW)
    assert server.requests[-1][1]["authorization"] == "Basic bWU6czNjcmV0"  # base64 of me:s3cret
    server.says({})
    listed.refresh(NOW)
    for text in (
        repr(listed.settings),
        listed.title,
        str(listed.problems),
        str(listed.settings.model_dump()),
    ):
        assert "s3cret" not in text
        assert "t0ken" not in text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(status=401), "HTTP 401; give the credentials for the list under its `access`"),
        (Answer(status=403), "HTTP 403; the credentials under its `access` are not allowed to read it"),
        (Answer(status=404), "HTTP 404; check the path of its `url`"),
        (Answer(status=500), "HTTP 500"),
        (
            Answer(status=302, headers={"Location": "http://elsewhere.example/x"}),
            "HTTP 302: redirects to http://elsewhere.example/x; put that into `url`",
        ),
        (Answer(b""), "the answer is empty"),
        (Answer(b"<html>"), "line 1: this is not valid JSON (Expecting value)"),
        (Answer(b"\xff"), "it is not UTF-8 text"),
        (Answer(b"[" * 100_000), "it is nested too deeply"),
        (Answer(b"null"), 'it must hold a list of {"targets": […], "labels": {…}}'),
        (as_json({"targets": []}), 'it must hold a list of {"targets": […], "labels": {…}}'),
        (as_json([{"target": []}]), "group 1: target is not known; did you mean `targets`?"),
        (Answer(headers={"Content-Length": str(17 << 20)}), "the answer is larger than 16 MiB"),
    ],
)
def test_what_is_no_list_keeps_the_last_good_one_and_says_since_when(
    server: ListServer, answer: Answer, reason: str
) -> None:
    listed = http_sd(server)
    listed.refresh(datetime(2026, 11, 30, 2, 0))
    server.answer = lambda _path: answer
    for now in (NOW, LATER):
        assert not listed.refresh(now).any()
        assert listed.problems == [
            (
                f"{server.url}/gpus: {reason};"
                " its last good list (3 targets) stays in use (since 2026-11-30 03:00 UTC)"
            )
        ]
    server.says(LIST[:1])
    assert [target.name for target in listed.refresh(LATER).removed] == ["10.0.40.2:9400"]
    assert listed.problems == []


def test_a_server_that_is_not_there_gives_no_targets(server: ListServer) -> None:
    listed = HttpSd(HttpList(url="http://127.0.0.1:9/gpus"))
    listed.refresh(NOW)
    assert listed.problems == [
        (
            "http://127.0.0.1:9/gpus: cannot connect: Connection refused;"
            " it gives no targets (since 2026-11-30 03:00 UTC)"
        )
    ]


def test_a_list_that_never_ends_is_given_up(server: ListServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_list, "LIST_TIMEOUT_SECONDS", 0.2)
    server.answer = lambda _path: Answer(b"[", hang=True)
    listed = http_sd(server)
    listed.refresh(NOW)
    assert listed.problems[0].startswith(f"{server.url}/gpus: no whole answer within 0.2 s;")


def test_an_empty_list_after_an_error_is_believed_when_it_is_said_twice(server: ListServer) -> None:
    listed = http_sd(server)
    listed.refresh(NOW)
    server.says({}, status=503)
    listed.refresh(NOW)
    server.says([])
    assert not listed.refresh(LATER).any()
    assert listed.problems == [
        (
            f"{server.url}/gpus: it came back empty after an error, which the next look must confirm;"
            " its last good list (3 targets) stays in use (since 2026-11-30 03:00 UTC)"
        )
    ]
    assert len(listed.refresh(LATER).removed) == 3
    assert (listed.targets, listed.problems) == ([], [])


def test_an_error_between_two_empty_lists_starts_the_doubt_anew(server: ListServer) -> None:
    listed = http_sd(server)
    listed.refresh(NOW)
    for content, status in (({}, 503), ([], 200), ({}, 503), ([], 200)):
        server.says(content, status)
        assert not listed.refresh(LATER).any()
    assert len(listed.refresh(LATER).removed) == 3


def test_an_empty_list_without_an_error_before_is_believed_at_once(server: ListServer) -> None:
    listed = http_sd(server)
    listed.refresh(NOW)
    server.says([])
    assert len(listed.refresh(NOW).removed) == 3
    assert listed.problems == []


def test_a_label_that_no_text_can_hold_costs_its_target_alone(server: ListServer) -> None:
    server.answer = lambda _path: Answer(
        b'[{"targets": ["a:1"], "labels": {"x": "\\ud800"}}, {"targets": ["b:1"]}]'
    )
    listed = http_sd(server)
    listed.refresh(NOW)
    assert names(listed) == ["b:1"]
    assert listed.problems == [
        f"{server.url}/gpus: group 1, a:1: a label holds an escape (\\u…) that is no character"
    ]


def test_parameters_and_the_path_of_the_kind_make_the_url(server: ListServer) -> None:
    server.says(
        [
            {
                "targets": ["a:1"],
                "labels": {"__param_format": "prometheus", "model": "llama", "__scheme__": "https"},
            }
        ]
    )
    listed = http_sd(server, kind="ollama")
    listed.refresh(NOW)
    (target,) = listed.targets
    assert (target.url, target.model) == ("https://a:1/api/ps?format=prometheus", "llama")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- {url: cmdb/gpus}", "2: `http_sd[0].url`: does not say http or https; write http://cmdb/gpus"),
        ("- {refresh_interval: 1m}", "2: `http_sd[0].url`: this setting is needed"),
        (
            "- {url: 'http://h', refresh_interval: 1s}",
            "2: `http_sd[0].refresh_interval`: must be at least 5s",
        ),
        (
            "- {url: 'http://h', access: {bearer_token: a, basic_auth: {username: b, password: c}}}",
            "2: `http_sd[0].access.bearer_token`: `basic_auth` is set too; keep one of the two",
        ),
        ("- {urll: 'http://h'}", "2: `urll` is not a setting of `http_sd[0]`; did you mean `url`?"),
    ],
)
def test_a_mistake_in_the_settings_is_told_with_its_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(f"http_sd:\n  {text}\n", "c.yaml")
    assert f"c.yaml line {line}" in caught.value.lines()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["h:1", "targets"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["targets", "labels", "__scheme__", "kind"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.one_of(st.binary(max_size=60), JSON.map(lambda content: json.dumps(content).encode())))
@settings(max_examples=150, deadline=None)
def test_any_answer_is_a_list_of_targets_or_refused(data: bytes) -> None:
    try:
        found, _ = targets_of(groups(content_of(data, as_json=True)), HttpList(url="http://h"))
    except ListError:
        return
    assert len({target.name for target in found}) == len(found)
