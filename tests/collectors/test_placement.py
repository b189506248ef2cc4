"""Which engine stands on which GPU, and how that is known."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from collectors import placement
from collectors.batch import Scraped
from collectors.fetch import Fetched
from collectors.ingest import Ingest
from collectors.local_processes import FIRST_PID_NAMESPACE, is_here, listeners_of, parse_listeners
from collectors.placement import Engine, Gpu, Placed, place, place_engines
from collectors.reading import EngineSample, GpuProcess, GpuSample, Reading
from collectors.target import Target
from sql.store import Store

T0 = datetime(2026, 11, 30, 12, 0)


def gpu(uuid: str, mig: str = "", host: str | None = "node-1", index: int | None = 0, **more: str) -> Gpu:
    return Gpu(uuid, mig, host, index, more.get("pods"), more.get("namespaces"), more.get("target_host"))


def engine(*gpus: str, host: str = "10.0.0.9", **labels: str) -> Engine:
    return Engine("llm", "engine", host, labels, gpus)


def placed(one: Engine, *gpus: Gpu) -> list[tuple[str, str, str]]:
    return [(p.gpu_uuid, p.mig_instance, p.source) for p in place([one], gpus, {})]


@pytest.mark.parametrize(
    ("configured", "seen"),
    [
        ("GPU-1", gpu("GPU-1")),
        ("node-1/3", gpu("GPU-1", index=3)),
        ("node-1/3", gpu("GPU-1", host="Node-1.example.com", index=3)),
        ("Node-1.example.com/3", gpu("GPU-1", host="node-1", index=3)),
        ("10.0.0.2/3", gpu("GPU-1", host="10.0.0.2", index=3)),
        ("node-1/0", gpu("node-1:9400#gpu0", host=None, target_host="node-1")),
        ("GPU-1/7", gpu("GPU-1", "7")),
        ("MIG-GPU-1/7/0", gpu("GPU-1", "7")),
    ],
)
def test_a_configured_gpu_is_known_by_each_of_its_names(configured: str, seen: Gpu) -> None:
    other = gpu("GPU-2", host="node-2", index=1)
    assert placed(engine(configured), other, seen) == [(seen.gpu_uuid, seen.mig_instance, "config")]


@pytest.mark.parametrize("configured", ["GPU-9", "node-1/1", "node-3/0", "10.0.0.3/0"])
def test_what_is_configured_and_not_seen_is_not_placed(configured: str) -> None:
    assert placed(engine(configured), gpu("GPU-1"), gpu("GPU-2", host="10.0.0.2")) == []


def test_a_uuid_that_two_hosts_show_is_the_one_on_the_engines_own_host() -> None:
    gpus = [gpu("GPU-1@node-1"), gpu("GPU-1@node-2", host="node-2")]
    assert placed(engine("GPU-1", host="node-2.example.com"), *gpus) == [("GPU-1@node-2", "", "config")]
    assert placed(engine("GPU-1", node="node-1"), *gpus) == [("GPU-1@node-1", "", "config")]
    assert placed(engine("GPU-1"), *gpus) == []


def test_an_engines_pod_is_found_among_the_pods_of_a_shared_gpu_and_in_its_own_namespace() -> None:
    shared = gpu("GPU-1", pods="a-0,b-0", namespaces="x,y")
    other = gpu("GPU-2", index=1, pods="b-0", namespaces="z")
    assert placed(engine(pod="b-0", namespace="y"), shared, other) == [("GPU-1", "", "pod")]
    assert placed(engine(pod="b-0"), shared, other) == [("GPU-1", "", "pod"), ("GPU-2", "", "pod")]
    assert placed(engine(pod="c-0"), shared, other) == []
    assert placed(engine(), gpu("GPU-3", pods="")) == []


def test_each_way_of_knowing_is_kept_even_where_they_contradict() -> None:
    gpus = [gpu("GPU-1"), gpu("GPU-2", index=1, pods="b-0"), gpu("GPU-3", index=2)]
    found = place([engine("GPU-1", pod="b-0")], gpus, {"llm": {("GPU-3", "")}})
    assert found == [
        Placed("llm", "GPU-1", "", "config"), Placed("llm", "GPU-2", "", "pod"),
        Placed("llm", "GPU-3", "", "process"),
    ]  # fmt: skip


def test_a_router_or_gateway_in_a_pod_is_not_on_the_gpus_of_that_pod() -> None:
    router = Engine("llm", "router", None, {"pod": "b-0"}, [])
    assert placed(router, gpu("GPU-1", pods="b-0")) == []


# In the store.


def sample(store: Store, seconds: float, *gpus: GpuSample, processes: tuple[GpuProcess, ...] = ()) -> None:
    ingest = Ingest(store)
    ts = T0 + timedelta(seconds=seconds)
    reading = Reading("nvml", "gpu", list(gpus), [], [], 1, 0, 0, (), processes=processes)
    engines = [EngineSample("vllm", "engine", "0", "m")]
    told = Reading("vllm", "engine", [], engines, [], 1, 0, 0, ())
    answer = Fetched(200, b"x", 0.01, None)
    ingest.commit([Scraped(NODE, ts, answer, reading, None), Scraped(LLM, ts, answer, told, None)])


NODE = Target(kind="nvml", name="here")  # type: ignore[call-arg]
LLM = Target(name="llm", url="http://127.0.0.1:8000/metrics", gpus=["GPU-1"])


def known(store: Store, seconds: float) -> list[tuple[str, str, float, float]]:
    """(GPU, way, seconds to the first and to the last sight)."""
    as_of = T0 + timedelta(seconds=seconds)
    rows = store.query("page_engine_gpus", as_of=as_of, look_back=86_400.0).to_dicts()
    return [
        (r["gpu_uuid"], r["source"], *((r[one] - T0).total_seconds() for one in ("first_seen", "last_seen")))
        for r in rows
    ]


def test_a_placement_has_an_age_ends_when_the_gpu_is_not_seen_and_begins_anew_after_a_while() -> None:
    store = Store.open()
    Ingest(store).sync_targets([NODE, LLM], T0)
    sample(store, 0, GpuSample("GPU-1"))
    assert place_engines(store, T0 + timedelta(seconds=5)) == 1
    sample(store, 60, GpuSample("GPU-1"))
    place_engines(store, T0 + timedelta(seconds=65))
    assert known(store, 70) == [("GPU-1", "config", 5, 65)]
    sample(store, 400, GpuSample("GPU-2"))
    place_engines(store, T0 + timedelta(seconds=405))
    assert known(store, 410) == [("GPU-1", "config", 5, 65)]
    sample(store, 3600, GpuSample("GPU-1"))
    place_engines(store, T0 + timedelta(seconds=3605))
    assert known(store, 3610) == [("GPU-1", "config", 5, 65), ("GPU-1", "config", 3605, 3605)]


def test_an_engine_that_left_the_list_is_not_placed_anew() -> None:
    store = Store.open()
    ingest = Ingest(store)
    ingest.sync_targets([NODE, LLM], T0)
    sample(store, 0, GpuSample("GPU-1"))
    ingest.sync_targets([NODE], T0)
    assert place_engines(store, T0 + timedelta(seconds=5)) == 0


def test_an_engine_here_is_on_the_gpus_of_the_process_that_listens_at_its_url(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_proc(tmp_path)
    real = listeners_of
    monkeypatch.setattr(placement, "listeners_of", lambda pids, at: real(pids, at, tmp_path))
    store = Store.open()
    llm = LLM.model_copy(update={"gpus": []})
    away = Target(name="away", url="http://192.0.2.1:8000/metrics")
    Ingest(store).sync_targets([NODE, llm, away], T0)
    processes = (
        GpuProcess("GPU-1", "", 500), GpuProcess("GPU-2", "", 501), GpuProcess("GPU-3", "", 600),
        GpuProcess("GPU-3", "", 77_777),
    )  # fmt: skip
    sample(store, 0, *map(GpuSample, ("GPU-1", "GPU-2", "GPU-3")), processes=processes)
    place_engines(store, T0 + timedelta(seconds=5))
    assert known(store, 10) == [("GPU-1", "process", 5, 5), ("GPU-2", "process", 5, 5)]


# /proc.

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0
   1: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4343 1 0 100 0
   2: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4444 1 0 20 4
   3: nonsense
"""
TCP6 = """  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F42 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4545 1 0
"""


def fake_proc(root: Path) -> None:
    """Process 400 listens on port 8000; 500 is its child, 501 that one's; 600 is of another family."""
    (root / "self/ns").mkdir(parents=True)
    (root / "self/ns/pid").symlink_to(FIRST_PID_NAMESPACE)
    (root / "net").mkdir()
    (root / "net/tcp").write_text(TCP)
    for pid, parent, sockets in (
        (1, 0, [4242]),
        (400, 1, [4242]),
        (500, 400, []),
        (501, 500, []),
        (600, 1, [9]),
    ):
        (root / str(pid) / "fd").mkdir(parents=True)
        (root / str(pid) / "stat").write_text(f"{pid} (a) name (x) S {parent} 1 1 0 -1")
        for number, inode in enumerate(sockets):
            (root / str(pid) / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
        (root / str(pid) / "fd" / "9").symlink_to("/dev/null")


def test_listening_sockets_are_read_as_the_kernel_writes_them() -> None:
    """Addresses in the machine's byte order, as in proc(5) and `ss -ltn`: 0x1F40 is 8000."""
    found = [(str(one.ip), one.port, one.inode) for one in parse_listeners(TCP) + parse_listeners(TCP6)]
    assert found == [("0.0.0.0", 8000, 4242), ("127.0.0.1", 8001, 4343), ("::1", 8002, 4545)]


def test_a_process_listens_where_it_or_a_parent_does_and_init_does_not_count(tmp_path: Path) -> None:
    fake_proc(tmp_path)
    address = ("10.0.0.1", 8000)
    assert listeners_of([400, 501, 600, 9999], {address}, tmp_path) == {400: {address}, 501: {address}}
    assert listeners_of([501], {("10.0.0.1", 8001)}, tmp_path) == {}


def test_in_a_container_nothing_is_concluded_from_process_ids(tmp_path: Path) -> None:
    fake_proc(tmp_path)
    (tmp_path / "self/ns/pid").unlink()
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026532000]")
    assert listeners_of([501], {("127.0.0.1", 8000)}, tmp_path) == {}


def test_a_real_listener_and_its_child_are_found() -> None:
    """The parent listens, the child holds the GPU: vLLM's server and its engine."""
    program = (
        "import socket, subprocess, sys\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(s.getsockname()[1], c.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "c.kill(); c.wait()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        port, child = map(int, parent.stdout.readline().split())
        address = ("localhost", port)
        found = listeners_of([child, parent.pid], {address}, first_namespace_only=False)
        parent.stdin.close()
    assert found == {child: {address}, parent.pid: {address}}


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost", True), ("127.0.0.53", True), ("::1", True), ("192.0.2.1", False), ("node-7", False)],
)
def test_which_hosts_are_this_machine(host: str, here: bool) -> None:
    """192.0.2.0/24 is for documentation (RFC 5737): no machine has it."""
    assert is_here(host) is here
