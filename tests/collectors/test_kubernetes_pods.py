"""Which targets a pod is, by its annotations, ports and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config import ConfigError, load_text
from collectors.kubernetes_sd import KubernetesList, pod_targets
from collectors.target_groups import targets_of
from tests.collectors.kubernetes_pods import pod


def found(read: dict[str, Any], **given_settings: Any) -> list[tuple[str, str]]:
    wanted = KubernetesList.model_validate(given_settings)
    listed, problem = pod_targets(read, wanted)
    assert problem is None
    return [(target.name, target.url) for target in targets_of(listed, wanted)[0]]


ANNOTATED = {"prometheus.io/scrape": "true"}


def test_annotations_say_where_the_metrics_are() -> None:
    full = {
        **ANNOTATED,
        "prometheus.io/port": "9090",
        "prometheus.io/path": "/v1/metrics",
        "prometheus.io/scheme": "https",
    }
    here = [("inference/a", "https://10.0.0.7:9090/v1/metrics")]
    assert found(pod("a", ("metrics", 8000), annotations=full)) == here
    named = [("inference/a", "http://10.0.0.7:8000/metrics")]
    assert found(pod("a", ("http", 80), ("metrics", 8000), annotations=ANNOTATED)) == named
    assert found(pod("a", ("http", 8000), annotations=ANNOTATED)) == named
    assert found(pod("a", ("metrics", 8000), annotations={"prometheus.io/scrape": "false"})) == []


@pytest.mark.parametrize("annotations", [ANNOTATED, {**ANNOTATED, "prometheus.io/port": "metrics"}])
def test_an_annotation_that_leaves_the_port_open_is_told(annotations: dict[str, str]) -> None:
    listed, problem = pod_targets(
        pod("a", ("http", 80), ("x", 81), annotations=annotations), KubernetesList()
    )
    assert listed == []
    assert problem == (
        "inference/a: prometheus.io/scrape is set, and not clear for which port;"
        " set prometheus.io/port to its number"
    )


def test_several_ports_of_a_pod_are_several_targets() -> None:
    both = pod("a", ("metrics", 8000), ("http-metrics", 9400))
    assert [name for name, _ in found(both)] == ["inference/a:8000", "inference/a:9400"]
    assert found(both, port_names=["http-metrics"]) == [("inference/a", "http://10.0.0.7:9400/metrics")]


def test_an_ipv6_pod_has_its_address_in_brackets() -> None:
    assert found(pod("a", ("metrics", 80), ip="fd00::7")) == [("inference/a", "http://[fd00::7]:80/metrics")]


@pytest.mark.parametrize("more", [{"phase": "Pending"}, {"phase": "Succeeded"}, {"ip": None}, {"ip": ""}])
def test_a_pod_that_does_not_run_is_no_target(more: dict[str, Any]) -> None:
    assert found(pod("a", ("metrics", 8000), **more)) == []


def test_annotations_and_labels_of_ours_set_project_environment_model_and_kind() -> None:
    labels = {"infermeter/project": "chat", "infermeter/environment": "prod", "team": "nlp", "app": "x"}
    annotations = {
        "infermeter/model": "meta-llama/Llama-3.3-70B",
        "infermeter/kind": "vllm",
        "infermeter/environment": "staging",
    }
    wanted = KubernetesList(pod_labels=["team", "absent"], project="default")
    listed, _ = pod_targets(pod("a", ("metrics", 8000), labels=labels, annotations=annotations), wanted)
    (target,) = targets_of(listed, wanted)[0]
    assert (target.project, target.environment, target.model, target.kind) == (
        "chat", "staging", "meta-llama/Llama-3.3-70B", "vllm"
    )  # fmt: skip
    assert target.labels == {"namespace": "inference", "pod": "a", "node": "gpu-node-1", "team": "nlp"}


def test_one_cluster_needs_no_list_and_a_kubeconfig_is_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "kc").write_text("{}")
    one = load_text("kubernetes: {namespaces: [a], kubeconfig: kc}", "c.yaml", folder=tmp_path)
    several = load_text("kubernetes: [{namespaces: [a], kubeconfig: kc}]", "c.yaml", folder=tmp_path)
    assert one.kubernetes == several.kubernetes
    assert one.kubernetes[0].kubeconfig == str(tmp_path / "kc")
    assert one.kubernetes[0].interval_seconds == 10
    assert not one.discover


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{namespace: [a]}", "`namespace` is not a setting of `kubernetes`; did you mean `namespaces`?"),
        ("{namespaces: a}", "`kubernetes.namespaces`: a list (lines that begin with `- `) is wanted here"),
        ("[{context: ''}]", "`kubernetes[0].context`: the value is empty"),
    ],
)
def test_a_mistake_in_the_settings_is_told_with_its_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(f"kubernetes: {text}\n", "c.yaml")
    assert caught.value.lines() == [f"c.yaml line 1: {line}"]


def test_credentials_are_not_sent_to_pods_that_nobody_selected() -> None:
    with pytest.raises(ConfigError, match="`label_selector` is needed beside `bearer_token`"):
        load_text("kubernetes: {bearer_token: t}\n", "c.yaml")


KEYS = ["metadata", "spec", "status", "name", "namespace", "annotations", "labels", "containers", "ports"]
KEYS += ["containerPort", "podIP", "phase", "prometheus.io/scrape", "prometheus.io/port", "infermeter/kind"]
VALUES = (
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["Running", "true", "a", "10.0.0.1"])
)
PODS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(KEYS), PODS), PODS)
@settings(max_examples=60, deadline=None)
def test_any_pod_is_targets_or_nothing(read: dict[str, Any], value: Any) -> None:
    whole = pod("a", ("metrics", 8000))
    whole["metadata"] |= read
    for candidate in (
        read,
        whole,
        {**whole, "spec": value},
        {**whole, "status": {**whole["status"], **read}},
    ):
        listed, _ = pod_targets(candidate, KubernetesList())
        targets_of(listed, KubernetesList())
