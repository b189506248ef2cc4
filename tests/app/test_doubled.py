"""What is read in two ways is told, by whatever name; what only looks alike is not."""

from __future__ import annotations

from app.doubled import doubled
from collectors.target import Target


def target(name: str, url: str, **settings: object) -> Target:
    return Target.model_validate({"name": name, "url": url, **settings})


def pulled(name: str, **labels: str) -> Target:
    return target(name, "http://prometheus:9090", labels=labels)


PROM = target("prom", "http://prometheus:9090", kind="prometheus")
SECOND = target("prom-2", "http://prometheus-2:9090", kind="prometheus")
A = pulled("vllm/node-1:8000", job="vllm", instance="node-1:8000")


def test_a_target_that_is_scraped_and_pulled_is_told_with_the_cure() -> None:
    scraped = [PROM, target("llama", "http://NODE-1:8000/metrics")]
    (said,) = doubled(scraped, {"prom": {A.name: A}})
    assert said == (
        "1 target is pulled from prom and scraped directly as well (vllm/node-1:8000 is llama): what they"
        " count stands twice. Take them out of `targets`, or out of prom by `prometheus.match`"
    )


def test_two_sources_with_the_same_targets_are_told() -> None:
    again = A.model_copy(update={"name": "prom-2/vllm/node-1:8000"})
    (said,) = doubled([PROM, SECOND], {"prom": {A.name: A}, "prom-2": {again.name: again}})
    assert said.startswith(
        "1 target is pulled from prom-2 and from prom (prom-2/vllm/node-1:8000): what they count"
    )


def test_another_cluster_with_the_same_addresses_is_told_apart_by_labels() -> None:
    east = A.model_copy(update={"labels": {**A.labels, "cluster": "east"}})
    west = A.model_copy(update={"labels": {**A.labels, "cluster": "west"}})
    assert doubled([PROM, SECOND], {"prom": {A.name: east}, "prom-2": {"x": west}}) == []


def test_localhost_of_a_prometheus_is_its_own_host() -> None:
    local = pulled("dcgm/localhost:9400", job="dcgm", instance="localhost:9400")
    here = target("gpus", "http://127.0.0.1:9400")
    there = target("gpus", "http://prometheus:9400")
    assert doubled([PROM, here], {"prom": {local.name: local}}) == []
    assert len(doubled([PROM, there], {"prom": {local.name: local}})) == 1


def test_a_probe_of_an_engine_is_no_second_scrape_and_odd_instances_are_nothing() -> None:
    probe = target("chat", "http://node-1:8000", kind="probe", model="m")
    odd = {name: pulled(name, job="j", instance=name) for name in ("", "[x", "a:b:c", "node 1", "x:99999")}
    assert doubled([PROM, probe], {"prom": {A.name: A, **odd}}) == []


def test_of_many_five_are_named() -> None:
    scraped = [PROM, *[target(f"t{number}", f"http://node-{number}:8000") for number in range(7)]]
    many = {f"p{n}": pulled(f"p{n}", job="vllm", instance=f"node-{n}:8000") for n in range(7)}
    (said,) = doubled(scraped, {"prom": many})
    assert said.startswith("7 targets are pulled from prom and scraped directly as well (p0 is t0, p1 is t1,")
    assert "p4 is t4 …)" in said
