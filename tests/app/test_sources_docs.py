"""The table of support is made from the registry and must not lag behind it."""

from app.sources_docs import markdown
from collectors.reading import EngineSample, GpuSample, HostSample, UsageCounter
from collectors.registry import KINDS
from collectors.support import aliases, impossible
from tests.shared import REPOSITORY


def test_the_page_is_what_the_registry_says() -> None:
    written = (REPOSITORY / "docs" / "sources.md").read_text(encoding="utf-8")
    assert written == markdown(), "write it anew: python -m app.sources_docs > docs/sources.md"


def test_every_kind_says_what_it_reads() -> None:
    page = markdown()
    for name, kind in KINDS.items():
        assert f"\n## `{name}`\n" in page
        assert aliases(kind), f"{name} names nothing that it reads"


def test_only_canonical_figures_are_named_and_none_is_both_read_and_impossible() -> None:
    metrics = {"ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode"}
    known = {*EngineSample._fields, *GpuSample._fields, *HostSample._fields, *UsageCounter._fields, *metrics}
    for name, kind in KINDS.items():
        assert aliases(kind).keys() | impossible(kind).keys() <= known, name
        assert not aliases(kind).keys() & impossible(kind).keys(), name


def test_names_stand_as_the_references_have_them() -> None:
    # vLLM loggers.py, dcgm-exporter default-counters.csv, Triton metrics.md, Dynamo prometheus_names.py.
    page = markdown()
    for name in (
        "`vllm:kv_cache_usage_perc`<br>`vllm:gpu_cache_usage_perc`",
        "`dcgm_fb_used` | <br>× 1048576<br>× 1048576 | since 4.9<br>2.x to 4.8<br>1.x",
        "nv_inference_queue_duration_us",
        "dynamo_frontend_time_to_first_token_seconds",
        # Counted by project alone.
        "`cached_tokens_total` | `gen_ai_client_token_usage_sum{gen_ai_token_type=cached_input, project=?*}`",
    ):
        assert name in page
