"""Pods as targets: Kubernetes' own client against a small API server on the loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from collectors import kubernetes_api
from collectors.kubernetes_sd import KubernetesList, KubernetesSd
from tests.collectors.kubernetes_pods import pod
from tests.collectors.list_server import Answer, ListServer, as_json, list_server

NOW = datetime(2026, 11, 30, 3, 0)
SELECTED = {"label_selector": "app=vllm"}
VLLM = b'vllm:num_requests_running{model_name="m"} 1\n'


def pod_list(*pods: dict[str, Any], token: str = "") -> dict[str, Any]:
    meta = {"resourceVersion": "7"} | ({"continue": token} if token else {})
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(pods)}


def refusal(status: int, reason: str) -> Answer:
    return as_json({"kind": "Status", "status": "Failure", "reason": reason, "code": status}, status)


@pytest.fixture
def server() -> Iterator[ListServer]:
    with list_server() as running:
        yield running


@pytest.fixture
def kubeconfig(server: ListServer, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "one", "user": "me"}},
            {"name": "nowhere", "context": {"cluster": "none", "user": "me"}},
        ],
        "clusters": [
            {"name": "one", "cluster": {"server": server.url}},
            {"name": "none", "cluster": {"server": "http://127.0.0.1:9"}},
        ],
        "users": [{"name": "me", "user": {"token": "t0ken"}}],
    }
    file.write_text(json.dumps(config))
    return file


def kubernetes(kubeconfig: Path, **given_settings: Any) -> KubernetesSd:
    given = {"kubeconfig": str(kubeconfig), **SELECTED, **given_settings}
    return KubernetesSd(KubernetesList.model_validate(given))


def test_pods_with_a_named_port_are_targets(server: ListServer, kubeconfig: Path) -> None:
    server.says(pod_list(pod("vllm-0", ("http", 8000), ("metrics", 8001)), pod("sleeper", ("http", 80))))
    source = kubernetes(kubeconfig, project="chat", labels={"cluster": "eu"})
    source.refresh(NOW)
    (target,) = source.targets
    assert (target.name, target.url) == ("inference/vllm-0", "http://10.0.0.7:8001/metrics")
    assert target.project == "chat"
    assert target.labels == {
        "cluster": "eu", "namespace": "inference", "pod": "vllm-0", "node": "gpu-node-1"
    }  # fmt: skip
    assert source.problems == []
    path, headers = server.requests[0]
    assert headers["authorization"] == "Bearer t0ken"
    assert urlsplit(path).path == "/api/v1/pods"
    asked = parse_qs(urlsplit(path).query)
    assert asked["labelSelector"] == ["app=vllm"]
    assert asked["fieldSelector"] == ["status.phase=Running"]


def test_a_list_in_pages_is_read_to_its_end(server: ListServer, kubeconfig: Path) -> None:
    def answer(path: str) -> Answer:
        token = parse_qs(urlsplit(path).query).get("continue", [""])[0]
        page = int(token or 0)
        pods = [pod(f"vllm-{page}", ("metrics", 8000)), pod(f"other-{page}", ("metrics", 8000))]
        return as_json(pod_list(*pods, token=str(page + 1) if page < 2 else ""))

    server.answer = answer
    source = kubernetes(kubeconfig)
    source.refresh(NOW)
    assert [target.name for target in source.targets] == [
        f"inference/{name}-{page}" for page in range(3) for name in ("vllm", "other")
    ]


def test_a_page_that_has_expired_begins_the_list_anew(server: ListServer, kubeconfig: Path) -> None:
    expired = [True]

    def answer(path: str) -> Answer:
        if "continue=" not in path:
            return as_json(pod_list(pod("vllm-0", ("metrics", 8000)), token="next"))
        if expired.pop() if expired else False:
            return refusal(410, "Expired")
        return as_json(pod_list(pod("vllm-1", ("metrics", 8000))))

    server.answer = answer
    source = kubernetes(kubeconfig)
    source.refresh(NOW)
    assert [target.name for target in source.targets] == ["inference/vllm-0", "inference/vllm-1"]
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(401, "Unauthorized"), "HTTP 401; the API server does not accept these credentials"),
        (
            refusal(403, "Forbidden"),
            "HTTP 403; allow this account to list pods in all namespaces (or name `namespaces`)",
        ),
        (refusal(400, "BadRequest"), "HTTP 400; check `label_selector`"),
        (refusal(410, "Expired"), "the list of pods changes faster than it can be read (HTTP 410)"),
        (refusal(500, "InternalError"), "HTTP 500"),
        (
            Answer(status=302, headers={"Location": "http://127.0.0.1:9/"}),
            "HTTP 302; the API server redirects, which is not followed",
        ),
        (
            as_json(pod_list(pod("vllm-0", ("metrics", 8000)), token="same")),
            "the API server gives the same page of the list again and again",
        ),
        (Answer(b"<html>"), "the answer is no list of pods; is this a Kubernetes API?"),
        (Answer(b"[]"), "the answer is no list of pods; is this a Kubernetes API?"),
        (
            as_json({"kind": "PodList", "items": 1}),
            "the answer is no list of pods; is this a Kubernetes API?",
        ),
        (as_json({"items": []}), "the answer is no list of pods; is this a Kubernetes API?"),
        (Answer(b" " * (17 << 20)), "the answer is larger than 16 MiB"),
    ],
)
def test_what_is_no_list_keeps_the_last_good_one_and_says_since_when(
    server: ListServer, kubeconfig: Path, answer: Answer, reason: str
) -> None:
    server.says(pod_list(pod("vllm-0", ("metrics", 8000))))
    source = kubernetes(kubeconfig)
    source.refresh(NOW)
    server.answer = lambda _path: answer
    assert not source.refresh(NOW).any()
    kept = "; its last good list (1 targets) stays in use (since 2026-11-30 03:00 UTC)"
    assert source.problems == [f"Kubernetes: {reason}{kept}"]
    assert len(server.requests) <= 4


def test_an_api_server_that_hangs_is_given_up(
    server: ListServer, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = kubernetes_api.pods
    monkeypatch.setattr(
        kubernetes_api, "pods", lambda *args, **more: pods(*args, **more, timeout_seconds=0.3)
    )
    answers = [Answer(b"", hang=True), Answer(b'{"kind": "PodList", ', hang=True)]
    server.answer = lambda _path: answers.pop()
    source = kubernetes(kubeconfig)
    while answers:
        source.refresh(NOW)
        assert source.problems[0].startswith("Kubernetes: the API server has not answered in time;")


def test_an_api_server_that_is_not_there_is_told(kubeconfig: Path) -> None:
    source = kubernetes(kubeconfig, context="nowhere")
    source.refresh(NOW)
    assert source.problems == [
        (
            "Kubernetes (nowhere): the API server cannot be reached: Connection refused;"
            " it gives no targets (since 2026-11-30 03:00 UTC)"
        )
    ]


def test_a_namespace_that_is_refused_does_not_cost_the_others(server: ListServer, kubeconfig: Path) -> None:
    def answer(path: str) -> Answer:
        if "/namespaces/secret/" in path:
            return refusal(403, "Forbidden")
        return as_json(pod_list(pod("vllm-0", ("metrics", 8000))))

    server.answer = answer
    source = kubernetes(kubeconfig, namespaces=["secret", "inference"])
    source.refresh(NOW)
    assert [target.name for target in source.targets] == ["inference/vllm-0"]
    assert source.problems == [
        (
            "Kubernetes namespace secret: HTTP 403; allow this account to list pods in namespace secret;"
            " it gives no targets (since 2026-11-30 03:00 UTC)"
        )
    ]


def test_pods_come_and_go(server: ListServer, kubeconfig: Path) -> None:
    server.says(pod_list(pod("vllm-0", ("metrics", 8000)), pod("vllm-1", ("metrics", 8000), ip="10.0.0.8")))
    source = kubernetes(kubeconfig)
    source.refresh(NOW)
    server.says(pod_list(pod("vllm-1", ("metrics", 8000), ip="10.0.0.9"), pod("vllm-2", ("metrics", 8000))))
    changes = source.refresh(NOW)
    assert [target.name for target in changes.added] == ["inference/vllm-2"]
    assert [target.name for target in changes.removed] == ["inference/vllm-0"]
    assert [target.url for target in changes.changed] == ["http://10.0.0.9:8000/metrics"]


def test_without_a_selector_only_pods_of_a_known_kind_or_that_say_theirs(
    server: ListServer, kubeconfig: Path
) -> None:
    port = urlsplit(server.url).port
    assert port is not None
    here = {"ip": "127.0.0.1"}
    pods = [
        pod("engine", ("metrics", port), **here, annotations={"prometheus.io/path": "/vllm"}),
        pod("stranger", ("metrics", port), **here, annotations={"prometheus.io/path": "/other"}),
        pod("starts", ("metrics", 9), **here, annotations={"infermeter/kind": "vllm"}),
    ]
    bodies = {"/vllm": Answer(VLLM), "/other": Answer(b"some_thing_else 1\n")}
    server.answer = lambda path: bodies.get(path) or as_json(pod_list(*pods))
    source = kubernetes(kubeconfig, label_selector=None)
    source.refresh(NOW)
    assert [target.name for target in source.targets] == ["inference/engine", "inference/starts"]
    assert source.problems == []


def test_a_missing_client_is_told_with_its_cure(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    source = kubernetes(kubeconfig)
    source.refresh(NOW)
    assert source.problems == [
        (
            "Kubernetes: Kubernetes' client is not installed; run `pip install 'infermeter[kubernetes]'`;"
            " it gives no targets (since 2026-11-30 03:00 UTC)"
        )
    ]


def test_inside_a_cluster_the_service_account_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "9")
    source = KubernetesSd(KubernetesList())
    source.refresh(NOW)
    assert source.problems[0].startswith(
        "Kubernetes: the credentials of the cluster (`kubeconfig`) cannot be read: Service token file"
    )


@pytest.mark.parametrize("text", ["", "[", "contexts: 5", "current-context: a\ncontexts: [1]", "\x00", "- a"])
def test_a_kubeconfig_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    source = kubernetes(file)
    source.refresh(NOW)
    (problem,) = source.problems
    assert problem.startswith("Kubernetes: the credentials of the cluster (`kubeconfig`) cannot be read: ")
