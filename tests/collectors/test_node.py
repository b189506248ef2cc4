"""node_exporter: figures are those of a real exposition's text, added up by hand."""

from __future__ import annotations

from collectors.host.node_exporter import HOSTS_CAP, KIND
from collectors.reading import HostSample, Reading
from collectors.source import TargetReader

TWO_CPUS = """\
node_boot_time_seconds 1.796062487e+09
node_cpu_guest_seconds_total{cpu="0",mode="user"} 900
node_cpu_seconds_total{cpu="0",mode="idle"} 5295.5
node_cpu_seconds_total{cpu="0",mode="iowait"} 19.25
node_cpu_seconds_total{cpu="0",mode="irq"} 0
node_cpu_seconds_total{cpu="0",mode="nice"} 397.5
node_cpu_seconds_total{cpu="0",mode="softirq"} 9
node_cpu_seconds_total{cpu="0",mode="steal"} 4
node_cpu_seconds_total{cpu="0",mode="system"} 750.5
node_cpu_seconds_total{cpu="0",mode="user"} 5060.25
node_cpu_seconds_total{cpu="1",mode="idle"} 4145
node_cpu_seconds_total{cpu="1",mode="user"} 6000
node_load1 0.12
node_load5 0.26
node_memory_MemAvailable_bytes 2.4768622592e+10
node_memory_MemTotal_bytes 2.5276514304e+10
node_memory_SwapFree_bytes 0
node_memory_SwapTotal_bytes 0
node_uname_info{domainname="(none)",machine="x86_64",nodename="gpu-node-1",sysname="Linux"} 1
"""


def read(text: str) -> Reading:
    return TargetReader(KIND).read(text.encode())


def test_a_host_is_read_in_full() -> None:
    reading = read(TWO_CPUS)
    assert (reading.source, reading.role, reading.missing, reading.notes) == ("node", "host", (), ())
    assert reading.hosts == [
        HostSample(
            "gpu-node-1",
            cpu_count=2,
            cpu_busy_seconds_total=397.5 + 9 + 4 + 750.5 + 5060.25 + 6000,
            cpu_seconds_total=5295.5 + 19.25 + 397.5 + 9 + 4 + 750.5 + 5060.25 + 4145 + 6000,
            load1=0.12,
            memory_total_bytes=25276514304,
            memory_available_bytes=24768622592,
            swap_total_bytes=0,
            swap_free_bytes=0,
            boot_time_seconds=1796062487,
        )
    ]
    assert dict(reading.found_names)["cpu_busy_seconds_total"] == "node_cpu_seconds_total"
    assert dict(reading.found_names)["host"] == "node_uname_info"


def test_names_before_0_16_say_the_same_and_guests_are_not_counted_twice() -> None:
    old = (
        TWO_CPUS.replace("node_cpu_seconds_total", "node_cpu")
        .replace("_bytes ", " ")
        .replace("node_boot_time_seconds", "node_boot_time")
        .replace('node_cpu_guest_seconds_total{cpu="0",mode="user"}', 'node_cpu{cpu="0",mode="guest"}')
    )
    assert read(old).hosts == read(TWO_CPUS).hosts


def test_of_an_old_and_a_new_name_one_is_read() -> None:
    hosts = read(TWO_CPUS + 'node_cpu{cpu="0",mode="user"} 1\nnode_memory_MemTotal 5\n').hosts
    assert hosts == read(TWO_CPUS).hosts


def test_hosts_of_a_federation_are_told_apart_by_their_instance() -> None:
    reading = read(
        'node_memory_MemTotal_bytes{instance="a:9100"} 1\nnode_memory_MemTotal_bytes{instance="b:9100"} 2\n'
        'node_uname_info{instance="b:9100",nodename="b"} 1\n'
    )
    assert [(host.host, host.memory_total_bytes) for host in reading.hosts] == [("a", 1), ("b", 2)]
    many = "\n".join(f'node_load1{{instance="{n}"}} 1' for n in range(HOSTS_CAP + 2))
    assert len(read(many).hosts) == HOSTS_CAP
    assert read(many).notes == (f"2 hosts past the first {HOSTS_CAP} are left out",)


def test_what_is_not_shown_is_not_known() -> None:
    reading = read('node_cpu_seconds_total{cpu="0",mode="user"} 5\nnode_load1 NaN\n')
    assert reading.hosts == [HostSample(None, cpu_count=1, cpu_busy_seconds_total=5)]
    assert {"host", "memory_total_bytes"} <= set(reading.missing)


def test_what_cannot_be_is_not_known_and_said() -> None:
    reading = read("node_memory_MemTotal_bytes -5\nnode_boot_time_seconds 3\n")
    assert reading.hosts == [HostSample(None)]
    assert {note.split(":")[0] for note in reading.notes} == {"memory_total_bytes", "boot_time_seconds"}


def test_rows_follow_the_values_while_the_series_stay() -> None:
    read_target = TargetReader(KIND).read
    seen = [read_target(f"node_load1 {load}\n".encode()).hosts[0].load1 for load in (1, 2, 3, 4)]
    assert seen == [1, 2, 3, 4]


def test_a_host_that_does_not_say_its_name_has_that_of_its_instance() -> None:
    named = {
        "10.0.0.7:9100": "10.0.0.7",
        "[fd00::7]:9100": "fd00::7",
        "node-a": "node-a",
        "localhost:9100": None,
    }
    text = "".join(f'node_load1{{instance="{instance}"}} 1\n' for instance in named)
    assert [host.host for host in read(text).hosts] == list(named.values())
    assert dict(read('node_load1{instance="a:9100"} 1\n').found_names)["host"] == "instance"


def test_idle_time_alone_is_not_all_of_the_cpu_time() -> None:
    host = read('node_cpu_seconds_total{cpu="0",mode="idle"} 7\n').hosts[0]
    assert (host.cpu_count, host.cpu_busy_seconds_total, host.cpu_seconds_total) == (1, None, None)


def test_256_cpus() -> None:
    modes = {"idle": 1000, "iowait": 2, "irq": 3, "nice": 4, "softirq": 5, "steal": 6, "system": 7, "user": 8}
    lines = [
        f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {seconds}'
        for cpu in range(256)
        for mode, seconds in modes.items()
    ]
    guests = [f'node_cpu_guest_seconds_total{{cpu="{cpu}",mode="user"}} 8' for cpu in range(256)]
    host = read("\n".join(lines + guests)).hosts[0]
    # 33 = 3 + 4 + 5 + 6 + 7 + 8 of each CPU is busy, 1002 is not.
    assert (host.cpu_count, host.cpu_busy_seconds_total, host.cpu_seconds_total) == (256, 8448, 264960)
