"""`infermeter read`: what one answer says, as JSON and as text."""

from __future__ import annotations

import gzip
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.read import FILE_LIMIT, ReadError, read_payload, render_text
from collectors.reading import EngineSample, GpuSample, ProbeResult, Reading, UsageCounter, UsageKey
from collectors.registry import KINDS
from tests.shared import SHARED, needs_shared

KEYS = {
    "source", "engine", "role", "gpus", "engines", "histograms", "rejected_lines", "unowned_lines", "missing",
    "notes", "found_names",
}  # fmt: skip


def vllm(replica: str, edges_and_counts: dict[str, float], *, seconds: float, model: str = "m") -> str:
    labels = f'engine="{replica}",model_name="{model}"'
    count = max(edges_and_counts.values())
    return "\n".join(
        [
            f"vllm:num_requests_running{{{labels}}} 1",
            *(
                f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{e}"}} {n}'
                for e, n in edges_and_counts.items()
            ),
            f"vllm:time_to_first_token_seconds_sum{{{labels}}} {seconds}",
            f"vllm:time_to_first_token_seconds_count{{{labels}}} {count}",
            "",
        ]
    )


def read(text: str, kind: str = "auto") -> dict[str, Any]:
    payload = read_payload(text.encode(), kind)
    json.dumps(payload, allow_nan=False)
    return payload


def fixture(name: str) -> dict[str, Any]:
    payload = read_payload(SHARED / "fixtures" / name)
    json.dumps(payload, allow_nan=False)
    return payload


def test_an_engine_says_what_it_is_in_canonical_names() -> None:
    payload = read(vllm("0", {"1": 5, "2": 9, "+Inf": 10}, seconds=12))
    assert payload.keys() == KEYS
    assert (payload["source"], payload["engine"], payload["role"], payload["gpus"]) == (
        "vllm",
        "vllm",
        "engine",
        [],
    )
    assert list(payload["engines"][0]) == list(EngineSample._fields)
    assert payload["histograms"] == [
        {
            "metric": "ttft", "model": "m", "count": 10, "sum_seconds": 12, "mean_seconds": 1.2,
            "p50_seconds": 1.0, "p50_range_seconds": [0.0, 1.0],
            "p95_seconds": None, "p95_range_seconds": [2.0, None],
            "p99_seconds": None, "p99_range_seconds": [2.0, None],
        }
    ]  # fmt: skip
    assert "ttft p99 > 2 s: it lies beyond the last bucket edge" in payload["notes"]


def test_a_gpu_exporter_is_no_engine() -> None:
    payload = read('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 91')
    assert (payload["source"], payload["engine"], payload["role"]) == ("dcgm", None, "gpu")
    assert list(payload["gpus"][0]) == list(GpuSample._fields)
    assert payload["gpus"][0]["utilization_ratio"] == 0.91


def test_histograms_are_summed_over_replicas_and_kept_apart_by_model() -> None:
    text = (
        vllm("0", {"1": 10, "2": 10, "+Inf": 10}, seconds=5)
        + vllm("1", {"1": 0, "2": 10, "+Inf": 10}, seconds=15)
        + vllm("0", {"1": 1, "2": 1, "+Inf": 1}, seconds=1, model="other")
    )
    payload = read(text)
    assert [(one["model"], one["count"], one["mean_seconds"]) for one in payload["histograms"]] == [
        ("m", 20, 1.0), ("other", 1, 1.0),
    ]  # fmt: skip
    assert payload["histograms"][0]["p50_seconds"] == 1.0  # 10 of 20 are within 1 s
    assert payload["histograms"][0]["p95_seconds"] == pytest.approx(1.9)  # rank 19: 9 of 10 from 1 to 2 s
    assert len(payload["engines"]) == 3


def test_replicas_with_different_edges_have_a_mean_and_no_percentile() -> None:
    payload = read(vllm("0", {"1": 1, "+Inf": 1}, seconds=1) + vllm("1", {"3": 1, "+Inf": 1}, seconds=3))
    only = payload["histograms"][0]
    assert (only["count"], only["mean_seconds"], only["p50_seconds"]) == (2, 2.0, None)
    assert "ttft: the replicas have different bucket edges, there is no common percentile" in payload["notes"]


def test_without_an_observation_there_is_no_mean_and_no_percentile() -> None:
    only = read(vllm("0", {"1": 0, "+Inf": 0}, seconds=0))["histograms"][0]
    assert (only["count"], only["mean_seconds"], only["p50_seconds"], only["p50_range_seconds"]) == (
        0,
        None,
        None,
        None,
    )


def test_a_sum_and_a_count_have_a_mean_and_no_percentile() -> None:
    """5.76 s for 960 tokens."""
    payload = read("llamacpp:tokens_predicted_seconds_total 5.76\nllamacpp:tokens_predicted_total 960\n")
    (only,) = payload["histograms"]
    assert (only["metric"], only["count"], only["mean_seconds"]) == ("tpot", 960, pytest.approx(0.006))
    assert (only["p50_seconds"], only["p99_seconds"], only["p99_range_seconds"]) == (None, None, None)
    assert "tpot: a sum and a count without buckets give a mean, and no percentile" in payload["notes"]
    assert not any("beyond" in note for note in payload["notes"])
    line = next(line for line in render_text(payload).splitlines() if line.startswith("tpot"))
    assert line.split() == ["tpot", "960", "6.00", "ms", "–", "–", "–"]


def test_bad_lines_and_lines_of_nobody_are_counted() -> None:
    payload = read('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} ?\nDCGM_FI_DEV_XID_ERRORS 45\n')
    assert (payload["rejected_lines"], payload["unowned_lines"], payload["gpus"]) == (1, 1, [])


def test_a_file_may_be_gzipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt.gz"
    path.write_bytes(gzip.compress(vllm("0", {"1": 5, "+Inf": 5}, seconds=1).encode()))
    assert read_payload(path)["source"] == "vllm"
    assert read_payload(str(path))["source"] == "vllm"


def test_other_kinds_in_the_same_answer_are_said() -> None:
    payload = read(vllm("0", {"1": 5, "+Inf": 5}, seconds=1) + 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} 91\n')
    assert "there are metrics of dcgm as well: read them with --kind dcgm" in payload["notes"]


def test_the_kind_can_be_given_and_nothing_of_it_is_said() -> None:
    payload = read("llamacpp:requests_processing 1", kind="vllm")
    assert (payload["source"], payload["engines"]) == ("vllm", [])
    assert "none of the 1 lines says anything of vllm" in payload["notes"]


def test_what_cannot_be_read_is_said_with_the_file_and_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<html>")
    with pytest.raises(
        ReadError, match=r"page\.html: the answer is not a Prometheus exposition.*Check the path"
    ):
        read_payload(path)
    with pytest.raises(ReadError, match="there is no kind 'vlm'"):
        read_payload(b"a 1", "vlm")
    with pytest.raises(ReadError, match="gzip"):
        read_payload(gzip.compress(b"a 1")[:-9])


def test_the_text_says_what_is_known_in_units_people_read() -> None:
    gpu = 'gpu="0",UUID="GPU-a",GPU_I_ID="3",modelName="NVIDIA H100"'
    text = render_text(
        read(
            f"DCGM_FI_DEV_FB_USED{{{gpu}}} 5120\nDCGM_FI_DEV_FB_FREE{{{gpu}}} 9791\n"
            f"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{gpu}}} 68\n"
        )
    ).replace("\u00a0", " ")
    assert "dcgm (gpu): 0 lines rejected, 0 name no GPU or engine" in text
    assert "GPU GPU-a, instance 3" in text
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.startswith("  ")]
    assert ["gpu_model", "NVIDIA H100"] in lines
    assert ["memory_used_bytes", "5.00 GiB"] in lines
    assert ["memory_used_ratio", "34.3 %"] in lines
    assert ["throttle_reasons", "0x44"] in lines
    assert "power_watts" not in dict(lines)
    assert "Note: memory_total_bytes is not known" in text


def test_the_text_gives_a_bound_where_there_is_no_percentile() -> None:
    text = render_text(read(vllm("0", {"1": 5, "2": 9, "+Inf": 10}, seconds=12))).replace("\u00a0", " ")
    line = next(line for line in text.splitlines() if line.startswith("ttft"))
    assert line.split() == ["ttft", "10", "1.20", "s", "1.00", "s", ">", "2.00", "s", ">", "2.00", "s"]


def test_the_text_tells_models_apart_and_says_what_the_latencies_are() -> None:
    lines = "".join(
        f'vllm:{name}_{part}model_name="{model}"{rest}\n'
        for model, n in (("a", 4), ("b", 9))
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds")
        for part, rest in (("bucket{", f',le="+Inf"}} {n}'), ("sum{", "} 2"), ("count{", f"}} {n}"))
    )
    text = render_text(read(lines)).replace("\u00a0", " ")
    rows = [line.split() for line in text.splitlines() if line.startswith(("ttft", "e2e"))]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("ttft", "4", "a"), ("ttft", "9", "b"), ("e2e", "4", "a"), ("e2e", "9", "b"),
    ]  # fmt: skip
    assert (
        "Latencies since the counters began (ttft to the first token; e2e of the whole request)"
        in text.splitlines()
    )


def test_the_text_gives_money_below_a_cent_and_the_day_of_a_start() -> None:
    """1796057382 s after 1970 is 2026-11-30 16:49:42 UTC (date -u -d @1796057382)."""
    text = render_text(
        read(
            'litellm_spend_metric_total{model="m"} 5.4e-05\nprocess_start_time_seconds 1796057382\n'
            'litellm_input_tokens_metric_total{model="m"} 40\n'
        )
    ).replace("\u00a0", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.startswith("  ")]
    assert ["spend_usd_total", "0.0000540 USD"] in lines
    assert ["process_start_time_seconds", "2026-11-30 16:49:42 UTC"] in lines


def test_a_gpu_exporters_names_and_processes_are_shown() -> None:
    who = 'uuid="a",pid="8",process_name="/opt/serve"'
    payload = read(
        'nvidia_smi_temperature_gpu{uuid="a"} 40\n'
        f"nvidia_smi_compute_app_used_memory_bytes{{{who}}} 1073741824\n"
        'nvidia_smi_utilization_gpu_ratio{uuid="a"} 0.5\n'
    )
    assert payload["found_names"] == {
        "utilization_ratio": "nvidia_smi_utilization_gpu_ratio",
        "temperature_celsius": "nvidia_smi_temperature_gpu",
    }
    assert payload["processes"] == [
        {
            "gpu_uuid": "GPU-a", "mig_instance": "", "pid": 8, "name": "/opt/serve",
            "memory_used_bytes": 1073741824, "kind": "compute",
        }
    ]  # fmt: skip
    lines = render_text(payload).replace("\u00a0", " ").splitlines()
    assert lines[lines.index("Processes on GPUs (pid, memory, kind, GPU, name)") + 1].split() == [
        "8", "1.00", "GiB", "compute", "GPU-a", "/opt/serve",
    ]  # fmt: skip
    assert lines[lines.index("Read by these names") + 2].split() == [
        "temperature_celsius", "nvidia_smi_temperature_gpu",
    ]  # fmt: skip


def test_a_host_is_shown_and_is_no_engine() -> None:
    payload = read('node_memory_MemTotal_bytes 2147483648\nnode_uname_info{nodename="n1"} 1\n')
    assert (payload["source"], payload["role"], payload["engine"]) == ("node", "host", None)
    assert [(host["host"], host["memory_total_bytes"]) for host in payload["hosts"]] == [("n1", 2147483648)]
    lines = render_text(payload).replace("\u00a0", " ").splitlines()
    assert lines[lines.index("Host n1") + 1].split() == ["memory_total_bytes", "2.00", "GiB"]


@pytest.mark.parametrize(
    ("line", "source"),
    [("vllm:num_requests_running 1\n", "vllm"), ('DCGM_FI_DEV_GPU_TEMP{gpu="0"} 4\n', "dcgm")],
)
def test_an_engine_or_a_gpu_beside_a_host_is_what_is_read(line: str, source: str) -> None:
    node = "".join(f'node_cpu_seconds_total{{cpu="{n}",mode="idle"}} 1\n' for n in range(9))
    payload = read(node + "node_memory_MemTotal_bytes 1\n" + line)
    assert payload["source"] == source
    assert "there are metrics of node as well: read them with --kind node" in payload["notes"]


def test_use_and_probes_are_shown_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a kind that is made to yield them: what each kind yields is tested with it."""
    use = UsageCounter(
        UsageKey("chat", None, "m", "team-a", "litellm"), prompt_tokens_total=10, spend_usd_total=0.5
    )
    tried = ProbeResult("m", ok=False, http_status=503, cost=Decimal("0.000125"), error="no answer")
    found = Reading("litellm", "gateway", [], [], [], 1, 0, 0, (), usage=[use], probes=[tried])
    monkeypatch.setattr(type(KINDS["litellm"]), "reader", lambda self: lambda body: found)
    payload = read("a 1", kind="litellm")
    assert payload["usage"] == [
        {
            "project": "chat", "environment": None, "model": "m", "key_alias": "team-a", "source": "litellm",
            "prompt_tokens_total": 10, "cached_tokens_total": None, "generation_tokens_total": None,
            "requests_total": None, "spend_usd_total": 0.5,
        }
    ]  # fmt: skip
    assert (payload["probes"][0]["cost"], payload["probes"][0]["http_status"]) == ("0.000125", 503)
    text = render_text(payload)
    assert "Use of project chat, model m, key_alias team-a (from litellm)" in text
    assert "Probe of model m: failed" in text
    assert not any(note.startswith("none of the") for note in payload["notes"])


def test_nvidia_smi_csv_xml_and_rocm_smi_json_are_read() -> None:
    csv = read("uuid, memory.used [MiB]\nGPU-a, 12 MiB\n")
    xml = read("<nvidia_smi_log><gpu><uuid>GPU-a</uuid></gpu></nvidia_smi_log>")
    rocm = read('{"card0": {"GPU use (%)": "7"}}')
    assert [one["source"] for one in (csv, xml, rocm)] == ["nvidia_smi_csv", "nvidia_smi_xml", "rocm_smi"]
    assert csv["gpus"][0]["memory_used_bytes"] == 12 * 2**20


def test_a_packed_file_of_another_form_is_unpacked_first(tmp_path: Path) -> None:
    path = tmp_path / "smi.xml.gz"
    path.write_bytes(gzip.compress(b"<nvidia_smi_log><gpu><uuid>GPU-a</uuid></gpu></nvidia_smi_log>"))
    assert read_payload(path)["source"] == "nvidia_smi_xml"


def test_a_file_too_large_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "recording.txt"
    with path.open("wb") as file:
        file.truncate(FILE_LIMIT + 1)  # takes no space on the disk
    with pytest.raises(ReadError, match=r"recording\.txt: is larger than 64 MiB.*replay"):
        read_payload(path)


def test_standard_input_is_read_and_as_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    table = b"uuid, memory.used [MiB]\nGPU-a, 7 MiB\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(table))))
    assert read_payload("-")["gpus"][0]["memory_used_bytes"] == 7 * 2**20
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(ReadError, match="standard input: is larger than 64 MiB"):
            read_payload(Path("-"))


def test_a_kind_of_the_wrong_sort_is_told_from_the_right_one() -> None:
    notes = read("node_load1 1\nnode_memory_MemTotal_bytes 2\n", kind="dcgm")["notes"]
    assert notes[-1] == "it looks like an answer of node: leave --kind out"
    assert "leave --kind out" not in str(read("node_load1 1", kind="node")["notes"])
    assert "leave --kind out" not in str(read("nothing_known 1", kind="node")["notes"])


def test_a_file_that_powershell_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text("node_load1 2.5\nnode_memory_MemTotal_bytes 7\n", encoding="utf-16")
    assert read_payload(path)["hosts"][0]["load1"] == 2.5


def test_what_a_name_holds_does_not_steer_the_terminal() -> None:
    text = render_text(read('DCGM_FI_DEV_GPU_TEMP{UUID="GPU-a",modelName="\x1b[2J\u202eevil"} 40'))
    assert "\x1b" not in text
    assert "\ufffd[2J\ufffdevil" in text


@needs_shared
def test_in_flight_requests_of_vllm() -> None:
    payload = fixture("engines/vllm-0.32.0-2.txt")
    by_metric = {one["metric"]: one for one in payload["histograms"]}
    assert list(by_metric) == ["ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode"]
    assert by_metric["ttft"]["count"] == 4
    assert by_metric["ttft"]["p50_seconds"] == pytest.approx(0.05)  # all four in 0.04 to 0.06
    assert [by_metric["e2e"][key] for key in ("count", "mean_seconds", "p50_seconds", "p99_seconds")] == [
        0, None, None, None,
    ]  # fmt: skip


@needs_shared
def test_two_replicas_of_vllm() -> None:
    payload = fixture("engines/vllm-0.32.0-dp2-1.txt")
    assert [engine["replica"] for engine in payload["engines"]] == ["0", "1"]
    ttft = payload["histograms"][0]
    assert (ttft["metric"], ttft["count"]) == ("ttft", 21)
    assert ttft["sum_seconds"] == pytest.approx(54.223393201828 + 41.641688108444214)


@needs_shared
@pytest.mark.parametrize(
    "path",
    sorted((SHARED / "fixtures").glob("*/*.txt")) if SHARED.is_dir() else [],
    ids=lambda path: str(path.stem),
)
def test_every_file_is_read_or_refused_in_words(path: Path) -> None:
    try:
        payload = read_payload(path)
    except ReadError as error:
        said = str(error)
    else:
        json.dumps(payload, allow_nan=False)
        said = render_text(payload)
    assert said.startswith((*(f"{kind} (" for kind in KINDS), f"{path}: "))
