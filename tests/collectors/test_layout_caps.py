"""A label without end costs time in proportion, and not rows without end."""

from __future__ import annotations

from collectors.engines.series import ROWS_CAP
from collectors.gpu.entities import GPUS_CAP
from collectors.gpu.layout import USERS_CAP
from collectors.reading import Reading
from collectors.registry import KINDS
from collectors.source import NOTES_CAP, TargetReader


def read(kind: str, *lines: str) -> Reading:
    return TargetReader(KINDS[kind]).read("\n".join(lines).encode())


def test_of_many_models_the_first_are_read_and_the_rest_is_said() -> None:
    """In time that grows with their number: squared, 20 000 models would take a minute."""
    count = 20_000
    reading = read(
        "vllm",
        *(f'vllm:num_requests_running{{engine="0",model_name="m{n}"}} {n}' for n in range(count)),
        *(f'http_requests_total{{handler="{n}",status="4xx"}} 1' for n in range(count)),
    )
    models = {engine.model: engine.requests_running for engine in reading.engines}
    assert models == {f"m{n}": n for n in range(ROWS_CAP)}
    assert sum(engine.http_4xx_total or 0 for engine in reading.engines) == count
    assert "19000 replicas and models past the first 1000 are left out" in reading.notes


def test_histograms_end_at_a_number_of_buckets() -> None:
    edges = [*map(str, range(999)), "+Inf"]
    reading = read(
        "vllm",
        *(f'vllm:num_requests_running{{engine="0",model_name="m{n}"}} 1' for n in range(260)),
        *(f'vllm:time_to_first_token_seconds_bucket{{le="{edge}"}} 1' for edge in edges),
    )
    assert (len(reading.engines), len(reading.histograms)) == (260, 250)
    assert "10 histograms past the first 250000 buckets are left out" in reading.notes


def test_what_names_no_model_is_of_every_model_of_its_replica() -> None:
    reading = read(
        "vllm",
        *(f'vllm:num_requests_running{{engine="{e}",model_name="{m}"}} 1' for e in "01" for m in "ab"),
        'vllm:num_preemptions_total{engine="1"} 7',
        'vllm:generation_tokens_total{pool="x"} 5',
        'vllm:generation_tokens_total{pool="y"} 6',
        'vllm:prompt_tokens_total{pool="x"} 9',
        'vllm:prompt_tokens_total{engine="0",model_name="b"} 100',
    )
    assert [
        (one.replica, one.model, one.preemptions_total, one.generation_tokens_total, one.prompt_tokens_total)
        for one in reading.engines
    ] == [
        ("0", "a", None, 11, None), ("0", "b", None, 11, 100),
        ("1", "a", 7, 11, None), ("1", "b", 7, 11, None),
    ]  # fmt: skip


def test_many_replicas_without_a_model_take_no_time() -> None:
    """Each compared with each other one, these 20 000 took half a minute, and four times as many eight."""
    reading = read("vllm", *(f'vllm:num_requests_running{{engine="{n}"}} 1' for n in range(20_000)))
    assert len(reading.engines) == ROWS_CAP
    assert f"{20_000 - ROWS_CAP} replicas and models past the first {ROWS_CAP} are left out" in reading.notes


def test_a_series_without_a_name_beside_named_ones_is_added_to_none_and_said() -> None:
    reading = read(
        "vllm",
        'vllm:num_requests_running{engine="0"} 3', 'vllm:num_requests_running{engine="1"} 4',
        'vllm:num_requests_running{engine="",model_name=""} 5',
        'vllm:num_requests_waiting{engine="0",model_name="m"} 1',
        'vllm:num_requests_waiting{engine="0"} 8',
    )  # fmt: skip
    assert [(one.replica, one.requests_running, one.requests_waiting) for one in reading.engines] == [
        ("0", 3, 1),
    ]  # fmt: skip
    assert "2 series without a replica or model beside those with one, left out" in reading.notes
    plain = read(
        "vllm", *(f'vllm:num_requests_running{{engine="{e}"}} {n}' for e, n in (("0", 3), ("1", 4), ("", 5)))
    )
    assert [(one.replica, one.requests_running) for one in plain.engines] == [("0", 3), ("1", 4)]


def test_of_many_gpus_the_first_are_read_and_the_rest_is_said() -> None:
    reading = read("dcgm", *(f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-{n}"}} 40' for n in range(5000)))
    assert [gpu.gpu_uuid for gpu in reading.gpus] == [f"GPU-{n}" for n in range(GPUS_CAP)]
    assert "904 GPUs and MIG instances past the first 4096 are left out" in reading.notes


def test_of_many_pods_on_one_gpu_the_first_are_named() -> None:
    reading = read(
        "dcgm", *(f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-a",pod="p{n}"}} 40' for n in range(300))
    )
    assert reading.gpus[0].temperature_celsius == 40
    assert (reading.gpus[0].pod or "").split(",") == [f"p{n}" for n in range(USERS_CAP)]
    assert "a GPU has more than 100 users: the first 100 are named" in reading.notes


def test_of_many_notes_the_first_are_kept() -> None:
    lines = [
        f'DCGM_FI_DEV_FB_{name}{{gpu="0",UUID="GPU-{n}"}} {mib}'
        for n in range(80)
        for name, mib in (("USED", 90), ("TOTAL", 50))
    ]
    notes = read("dcgm", *lines).notes
    assert (len(notes), notes[-1]) == (NOTES_CAP + 1, "30 more notes are left out")


def test_one_uuid_on_several_hosts_of_one_answer_is_told_apart_by_host() -> None:
    """As a Prometheus shows it that gathers many nodes; without a UUID the exporter's pod is no host."""
    reading = read(
        "dcgm",
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-*",Hostname="n1"} 41',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-*",Hostname="n2"} 42',
        'DCGM_FI_DEV_GPU_TEMP{gpu="3",Hostname="dcgm-exporter-x7"} 43',
    )
    assert [(gpu.gpu_uuid, gpu.host, gpu.temperature_celsius) for gpu in reading.gpus] == [
        ("GPU-*@n1", "n1", 41), ("GPU-*@n2", "n2", 42), ("#gpu3", None, 43),
    ]  # fmt: skip
