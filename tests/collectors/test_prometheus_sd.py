"""The targets of a Prometheus: from answers in its words, and from a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config import ConfigError, load_text
from collectors.prometheus_sd import PrometheusList, PrometheusSd, active_targets
from collectors.target_groups import ListError
from collectors.urls import reachable_url
from tests.collectors.list_server import Answer, ListServer, as_json, list_server
from tests.e2e.prometheus_server import needs_prometheus, prometheus_server

NOW = datetime(2026, 11, 30, 3, 0)
VLLM = b'vllm:num_requests_running{model_name="m"} 1\n'


def entry(url: str, job: str, **more: Any) -> dict[str, Any]:
    """As the example of `/api/v1/targets` in Prometheus' documentation."""
    instance = url.split("/")[2]
    return {
        "discoveredLabels": {"__address__": instance, "__scheme__": "http", "job": job},
        "labels": {"instance": instance, "job": job},
        "scrapePool": job,
        "scrapeUrl": url,
        "globalUrl": url,
        "lastError": "",
        "lastScrape": "2026-11-30T02:59:58.066661+00:00",
        "lastScrapeDuration": 0.050688943,
        "health": "up",
        "scrapeInterval": "15s",
        "scrapeTimeout": "10s",
        **more,
    }


def answer(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"status": "success", "data": {"activeTargets": list(entries), "droppedTargets": []}}


@pytest.fixture
def server() -> Iterator[ListServer]:
    with list_server() as running:
        yield running


def prometheus_sd(server: ListServer, path: str = "", **given_settings: Any) -> PrometheusSd:
    return PrometheusSd(PrometheusList.model_validate({"url": server.url + path, **given_settings}))


def test_the_targets_of_the_jobs_are_taken_with_their_labels(server: ListServer) -> None:
    labels = {"instance": "gpu-1", "job": "dcgm", "project": "chat", "environment": "prod", "rack": "a4"}
    server.says(
        answer(
            entry("http://gpu-1:9400/metrics", "dcgm", labels=labels),
            entry("https://llm-1:8000/v1/metrics", "vllm-eu", scrapePool="serviceMonitor/x/vllm/0"),
            entry("http://node-1:9100/metrics", "node"),
        )
    )
    source = prometheus_sd(server, "/prometheus/", jobs=["dcgm", "vllm-*"], interval="30s")
    source.refresh(NOW)
    assert [path for path, _ in server.requests] == ["/prometheus/api/v1/targets?state=active"]
    assert [(each.name, each.url, each.project, each.environment) for each in source.targets] == [
        ("gpu-1:9400", "http://gpu-1:9400/metrics", "chat", "prod"),
        ("llm-1:8000/v1/metrics", "https://llm-1:8000/v1/metrics", None, None),
    ]
    assert source.targets[0].labels == {"instance": "gpu-1", "job": "dcgm", "rack": "a4"}
    assert source.targets[0].interval_seconds == 30
    assert source.problems == []


def test_a_job_can_be_named_as_in_prometheus_own_configuration(server: ListServer) -> None:
    server.says(answer(entry("http://a:1/metrics", "vllm", scrapePool="serviceMonitor/x/vllm/0")))
    source = prometheus_sd(server, jobs=["serviceMonitor/x/*"])
    source.refresh(NOW)
    assert [each.name for each in source.targets] == ["a:1"]


def test_a_job_without_targets_is_told(server: ListServer) -> None:
    server.says(answer(entry("http://a:1/metrics", "vllm")))
    source = prometheus_sd(server, jobs=["vllm", "vlm"])
    source.refresh(NOW)
    assert source.problems == [f"{server.url}: it has no active target of job vlm"]


def test_one_url_in_two_jobs_is_one_target(server: ListServer) -> None:
    server.says(answer(entry("http://a:1/metrics", "vllm-a"), entry("http://a:1/metrics", "vllm-b")))
    source = prometheus_sd(server, jobs=["vllm-*"])
    source.refresh(NOW)
    assert [each.labels["job"] for each in source.targets] == ["vllm-a"]
    assert source.problems == []


def test_the_pod_is_known_though_relabelling_dropped_it(server: ListServer) -> None:
    discovered = {
        "__meta_kubernetes_pod_name": "vllm-0",
        "__meta_kubernetes_namespace": "inference",
        "__meta_kubernetes_pod_node_name": "gpu-node-1",
    }
    kept = {"job": "vllm", "namespace": "as-relabelled"}
    server.says(
        answer(entry("http://10.0.0.7:8000/metrics", "vllm", discoveredLabels=discovered, labels=kept))
    )
    source = prometheus_sd(server, jobs=["vllm"])
    source.refresh(NOW)
    assert source.targets[0].labels == {
        "job": "vllm", "pod": "vllm-0", "namespace": "as-relabelled", "node": "gpu-node-1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "prometheus", "reachable"),
    [
        ("http://localhost:9100/metrics", "http://prom.example:9090", "http://prom.example:9100/metrics"),
        ("http://127.0.0.1/m?x=1", "https://10.0.0.5/prometheus", "http://10.0.0.5/m?x=1"),
        ("http://[::1]:9100/metrics", "http://[fd00::5]:9090", "http://[fd00::5]:9100/metrics"),
        ("http://localhost:9100/metrics", "http://127.0.0.1:9090", "http://localhost:9100/metrics"),
        ("http://node-1:9100/metrics", "http://prom.example:9090", "http://node-1:9100/metrics"),
    ],
)
def test_localhost_is_prometheus_own_host(url: str, prometheus: str, reachable: str) -> None:
    assert reachable_url(url, prometheus) == reachable


def test_without_jobs_only_targets_of_a_known_kind_are_taken(server: ListServer) -> None:
    urls = {path: server.url + path for path in ("/vllm", "/node", "/down")}
    listing = answer(*(entry(url, path.strip("/")) for path, url in urls.items()))
    bodies = {"/vllm": Answer(VLLM), "/node": Answer(b"some_thing_else 1\n"), "/down": Answer(status=500)}
    server.answer = lambda path: bodies.get(path) or as_json(listing)
    source = prometheus_sd(server)
    source.refresh(NOW)
    assert [each.url for each in source.targets] == [urls["/vllm"]]
    assert source.problems == []
    bodies["/vllm"] = Answer(status=503)
    source.refresh(NOW)
    assert [each.url for each in source.targets] == [urls["/vllm"]]


def test_without_jobs_it_is_told_when_nothing_is_of_a_known_kind(server: ListServer) -> None:
    listing = answer(entry(server.url + "/node", "node"))
    server.answer = lambda path: Answer(b"some_thing_else 1\n") if path == "/node" else as_json(listing)
    source = prometheus_sd(server)
    source.refresh(NOW)
    assert source.targets == []
    assert source.problems == [
        (
            f"{server.url}: none of its 1 targets is of a known kind or can be reached from here;"
            " to have some scraped all the same, name their `jobs`"
        )
    ]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            as_json({"status": "error", "errorType": "x", "error": "y"}),
            "the answer is no list of Prometheus' targets;",
        ),
        (as_json([]), "the answer is no list of Prometheus' targets;"),
        (as_json({"data": {"activeTargets": {}}}), "the answer is no list of Prometheus' targets;"),
        (Answer(b"<html>"), "line 1: this is not valid JSON (Expecting value);"),
        (Answer(status=404), "HTTP 404; check the path of its `url`;"),
    ],
)
def test_what_is_no_answer_of_prometheus_keeps_the_last_good_list(
    server: ListServer, said: Answer, reason: str
) -> None:
    server.says(answer(entry("http://a:1/metrics", "vllm")))
    source = prometheus_sd(server, jobs=["vllm"])
    source.refresh(NOW)
    server.answer = lambda _path: said
    assert not source.refresh(NOW).any()
    assert source.problems[0].startswith(f"{server.url}: {reason}")
    assert source.problems[0].endswith(
        "its last good list (1 targets) stays in use (since 2026-11-30 03:00 UTC)"
    )


@pytest.mark.parametrize("secret", ["bearer_token: t", "basic_auth: {username: a, password: b}"])
def test_credentials_are_not_sent_to_targets_that_nobody_named(secret: str) -> None:
    name = secret.partition(":")[0]
    with pytest.raises(ConfigError) as caught:
        load_text(f"prometheus_sd:\n  - url: http://p:9090\n    {secret}\n", "c.yaml")
    (line,) = caught.value.lines()
    assert line.startswith(
        f"c.yaml line 2: `prometheus_sd[0]`: `jobs` is needed beside `{name}`, which would be sent to"
    )
    assert line.endswith("the credentials for the list itself go under `access`")
    load_text(f"prometheus_sd:\n  - url: http://p:9090\n    jobs: [a]\n    {secret}\n", "c.yaml")


ENTRIES = st.recursive(
    st.none() | st.text(max_size=5) | st.sampled_from(["http://a:1/m", "http://[", "x"]) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "activeTargets", "scrapeUrl", "labels", "discoveredLabels", "job"]),
            inner,
        )
    ),
    max_leaves=10,
)


@given(ENTRIES | ENTRIES.map(lambda inner: {"data": {"activeTargets": [inner]}}), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_answer_is_targets_or_refused(content: object, named: bool) -> None:
    wanted = PrometheusList(url="http://p:9090", jobs=["*"] if named else [])
    try:
        found, _ = active_targets(json.dumps(content).encode(), wanted)
    except ListError:
        return
    assert len({listed.url for listed in found}) == len(found)


@pytest.mark.wide
@needs_prometheus
def test_a_real_prometheus_lists_what_it_scrapes(server: ListServer, tmp_path: Path) -> None:
    server.answer = lambda path: Answer(VLLM if path == "/vllm" else b"some_thing_else 1\n")
    urls = [server.url + "/vllm", server.url + "/other"]
    with prometheus_server(urls, tmp_path) as prometheus:
        prometheus.wait_for("up", at_least=2, deadline_seconds=30)
        source = PrometheusSd(PrometheusList(url=prometheus.url))
        source.refresh(NOW)
        assert [each.url for each in source.targets] == urls[:1]
        assert source.problems == []
        jobs = sorted({each["labels"]["job"] for each in prometheus.targets()})
        every = PrometheusSd(PrometheusList(url=prometheus.url, jobs=jobs))
        every.refresh(NOW)
        assert sorted(each.url for each in every.targets) == sorted(urls)
