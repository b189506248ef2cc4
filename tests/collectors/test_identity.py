"""GPUs of several targets are one only where they are one."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from collectors.fetch import Fetched
from collectors.gpu.entities import short_host
from collectors.gpu.identity import Identities
from collectors.ingest import Ingest
from collectors.reading import GpuProcess, GpuSample, Reading
from collectors.target import Target
from sql.store import Store

T0 = datetime(2026, 11, 30, 12, 0)
MIB = 2**20


def reading(*gpus: GpuSample) -> Reading:
    return Reading("dcgm", "gpu", list(gpus), [], [], 1, 0, 0, ())


def stored(identities: Identities, target: str, *gpus: GpuSample) -> list[str]:
    return [gpu.gpu_uuid for gpu in identities.tell_apart(target, reading(*gpus)).gpus]


def gpu(uuid: str, host: str | None) -> GpuSample:
    return GpuSample(uuid, host=host)


def test_a_gpu_without_uuid_and_host_is_its_targets() -> None:
    identities = Identities()
    assert stored(identities, "a:9400", gpu("#gpu0", None), gpu("n1#gpu1", "n1")) == [
        "a:9400#gpu0", "n1#gpu1",
    ]  # fmt: skip


def test_one_uuid_on_two_hosts_is_two_gpus_and_said() -> None:
    identities = Identities()
    identities.learn("a", [gpu("GPU-x", "n1"), gpu("GPU-y", "n1")])
    identities.learn("b", [gpu("GPU-x", "n2")])
    found = identities.tell_apart("a", reading(gpu("GPU-x", "n1"), gpu("GPU-y", "n1")))
    assert [one.gpu_uuid for one in found.gpus] == ["GPU-x@n1", "GPU-y"]
    assert found.notes == (
        "GPU-x is shown for GPUs of 2 hosts (masked, or copied with a virtual machine?): here it is GPU-x@n1",
    )
    assert stored(identities, "b", gpu("GPU-x", "n2")) == ["GPU-x@n2"]
    assert stored(identities, "c", gpu("GPU-x", None)) == ["GPU-x@c"]


def test_two_exporters_of_one_host_show_one_gpu() -> None:
    identities = Identities()
    for target, host in (("a", "node-1"), ("b", "Node-1.example.com"), ("c", None)):
        identities.learn(target, [gpu("GPU-x", host)])
    assert stored(identities, "b", gpu("GPU-x", "Node-1.example.com")) == ["GPU-x"]


def test_a_gpu_that_moved_and_a_target_that_went_are_no_second_host() -> None:
    identities = Identities()
    identities.learn("a", [gpu("GPU-x", "n1")])
    identities.learn("b", [gpu("GPU-x", "n2")])
    identities.learn("a", [gpu("GPU-z", "n1")])
    assert stored(identities, "b", gpu("GPU-x", "n2")) == ["GPU-x"]
    identities.learn("a", [gpu("GPU-x", "n1")])
    assert stored(identities, "b", gpu("GPU-x", "n2")) == ["GPU-x@n2"]
    identities.forget({"b"})
    assert stored(identities, "b", gpu("GPU-x", "n2")) == ["GPU-x"]


@pytest.mark.parametrize(
    ("host", "short"),
    [("Node-1.example.com", "node-1"), ("node-1", "node-1"), ("10.0.0.2", "10.0.0.2"), ("::1", "::1")],
)
def test_hosts_are_compared_without_domain(host: str, short: str) -> None:
    assert short_host(host) == short


@pytest.mark.parametrize(
    ("labels", "uuids"),
    [
        (('gpu="0"', 'gpu="0"'), ["a#gpu0", "b#gpu0"]),
        (
            ('gpu="0",UUID="GPU-*",Hostname="n1"', 'gpu="0",UUID="GPU-*",Hostname="n2"'),
            ["GPU-*@n1", "GPU-*@n2"],
        ),
        (('gpu="0",UUID="GPU-1",Hostname="n1"', 'gpu="0",UUID="GPU-1",Hostname="n1"'), ["GPU-1"]),
    ],
)  # fmt: skip
def test_a_full_gpu_is_seen_beside_another_of_its_name(labels: tuple[str, str], uuids: list[str]) -> None:
    """From the first round on, and in what is judged."""
    store = Store.open()
    targets = [Target(name=name, url=f"http://{name}:9400/metrics", kind="dcgm") for name in ("a", "b")]
    ingest = Ingest(store)
    ingest.sync_targets(targets, T0)
    for used, seconds in ((79_000, 0), (79_500, 10)):
        ts = T0 + timedelta(seconds=seconds)
        answers = [
            f"DCGM_FI_DEV_FB_USED{{{who}}} {mib}\nDCGM_FI_DEV_FB_FREE{{{who}}} {80_000 - mib}\n"
            for who, mib in zip(labels, (used, 10), strict=True)
        ]
        ingest.commit(
            [
                ingest.read(target, ts, Fetched(200, body.encode(), 0.01, None))
                for target, body in zip(targets, answers, strict=True)
            ]
        )
    since = T0 - timedelta(seconds=60)
    samples = store.query("vram_latest_samples", since=since, now=T0 + timedelta(seconds=10))
    assert samples["gpu_uuid"].to_list() == uuids
    assert samples["memory_used_bytes"].max() == 79_500 * MIB
    listed = store.query("api_gpus", since=since, project=None, environment=None, host=None)
    assert sorted(listed["gpu_uuid"]) == uuids


def test_processes_stand_under_the_name_of_their_gpu() -> None:
    identities = Identities()
    identities.learn("a", [gpu("GPU-x", "n1")])
    identities.learn("b", [gpu("GPU-x", "n2")])
    seen = reading(gpu("GPU-x", "n1"), gpu("#gpu3", None), gpu("GPU-y", "n1"))._replace(
        processes=[
            GpuProcess(uuid, "", pid)
            for pid, uuid in enumerate(("GPU-x", "#gpu3", "GPU-y", "#gpu4"), start=10)
        ]
    )
    found = identities.tell_apart("a", seen)
    assert [(one.pid, one.gpu_uuid) for one in found.processes] == [
        (10, "GPU-x@n1"), (11, "a#gpu3"), (12, "GPU-y"), (13, "a#gpu4"),
    ]  # fmt: skip
    assert found.processes[0].gpu_uuid == found.gpus[0].gpu_uuid
