"""Hosts: what may stand for one. Whether it exists is not asked."""

import pytest

from collectors.urls import checked_host, checked_url


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "0.0.0.0", "::", "::1", "fe80::1%eth0", "localhost", "gpu-node-1", "gpu_node_1",
     "a.b.example.", "1und1.de", "10-0-0-1.node", "münchen", "x" * 63],
)  # fmt: skip
def test_an_address_or_a_name_is_a_host(host: str) -> None:
    assert checked_host(host) == host


@pytest.mark.parametrize(
    "host",
    ["nonsense host", "300.1.1.1", "127.0.0", "8501", "a..b", ".a", "-a", "a-", "http://a", "a/b", "a:1",
     "[::1]", ":::", "a,b", "*", "x" * 64, ".".join(["x" * 60] * 5), "."],
)  # fmt: skip
def test_what_cannot_be_a_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="is neither an IP address nor a host name"):
        checked_host(host)


@pytest.mark.parametrize("url", ["http://h:0", "https://h:0/metrics", "http://[::1]:00/"])
def test_port_0_is_no_place_to_scrape(url: str) -> None:
    with pytest.raises(ValueError, match="has the port 0"):
        checked_url(url)


@pytest.mark.parametrize(
    "url", ["http://[::1]:9400/metrics", "http://10.0.0.1/m", "http://gpu_1:9400/metrics"]
)
def test_a_url_keeps_its_host(url: str) -> None:
    assert checked_url(url) == url
