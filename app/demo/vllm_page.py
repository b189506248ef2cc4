"""The /metrics page of a vLLM server, written from the state of its replicas.

One replica: one process, with `_created` gauges and the process's own families. Several: the form of the
multiprocess mode (`--data-parallel-size`): families sorted by type, no `_created`, no `process_*`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from app.demo.engine import Replica
from app.demo.histogram import Histogram
from app.demo.process_families import HTTP, PYTHON, SharedFamily, Summary
from app.demo.text_format import labels_text, python_number
from app.demo.topology import EngineSpec
from app.demo.vllm_families import VLLM_0_9_2, VLLM_0_32, Family

Reads = Callable[[], "float | Histogram | Summary"]
Series = tuple[dict[str, str], Reads]

_TYPE_ORDER = ("histogram", "counter", "gauge", "summary")


class VllmPage:
    """`render(now)` gives the body. The texts around the values are made once per start of the process."""

    content_type = "text/plain; version=1.0.0; charset=utf-8"

    def __init__(self, spec: EngineSpec, replicas: Sequence[Replica]) -> None:
        self._spec = spec
        self._replicas = replicas
        self._own: tuple[Family, ...] = VLLM_0_9_2 if spec.version == "0.9.2" else VLLM_0_32
        self._multiprocess = len(replicas) > 1
        self._made_for: float | None = None
        self._pieces: list[tuple[str, str, Reads, list[str]]] = []

    def render(self, _now: float) -> bytes:
        """The page at the replicas' own time."""
        if self._made_for != self._replicas[0].started:
            self._made_for = self._replicas[0].started
            self._pieces = self._make()
        out: list[str] = []
        for before, after, reads, prefixes in self._pieces:
            out.append(before)
            value = reads()
            if isinstance(value, Histogram):
                total, *buckets, count = prefixes
                sum_line = f"{total}{python_number(value.sum)}\n"
                if self._multiprocess:
                    out.append(sum_line)
                out += [
                    f"{prefix}{python_number(below)}\n"
                    for prefix, below in zip(buckets, value.cumulative(), strict=True)
                ]
                out.append(f"{count}{python_number(value.count)}\n")
                if not self._multiprocess:
                    out.append(sum_line)
            elif isinstance(value, Summary):
                out.append(
                    f"{prefixes[0]}{python_number(value.observations)}\n{prefixes[1]}{python_number(value.total)}\n"
                )
            else:
                out.append(f"{prefixes[0]}{python_number(value)}\n")
            out.append(after)
        return "".join(out).encode()

    def _make(self) -> list[tuple[str, str, Reads, list[str]]]:
        families: list[tuple[Family | SharedFamily, list[Series]]] = []
        if not self._multiprocess:
            families += [(family, self._shared(family)) for family in PYTHON]
        families += [(family, self._per_engine(family)) for family in (*self._own, self._cache_config())]
        families += [(family, self._shared(family)) for family in HTTP]
        if self._multiprocess:
            families.sort(key=lambda entry: _TYPE_ORDER.index(entry[0].kind))
        pieces = []
        for family, series in families:
            created = not self._multiprocess and family.kind != "gauge" and not family.name.startswith("py")
            created = created and family.name != "process_cpu_seconds"
            before = _header(family)
            for number, (labels, reads) in enumerate(series):
                last = number == len(series) - 1
                after = self._created(family, [labels for labels, _ in series]) if created and last else ""
                pieces.append((before, after, reads, _prefixes(family, labels, reads())))
                before = ""
        return pieces

    def _shared(self, family: SharedFamily) -> list[Series]:
        return [(labels, partial(value, self._replicas)) for labels, value in family.series]

    def _per_engine(self, family: Family) -> list[Series]:
        """Label by label, and within that engine by engine, as the library does."""
        series: list[Series] = []
        for labels, value in family.series:
            for number, replica in enumerate(self._replicas if family.per_engine else self._replicas[:1]):
                own = {"model_name": self._spec.model}
                if family.name == "vllm:cache_config_info":
                    own = {}
                if family.per_engine:
                    own["engine"] = str(number)
                series.append(({**own, **labels}, partial(value, replica)))
        return series

    def _created(self, family: Family | SharedFamily, labels: list[dict[str, str]]) -> str:
        name = f"{family.name}_created"
        # The families are made one after the other, 20 s after the process has started.
        offset = 20.24 + (sum(map(ord, family.name)) % 997) * 1e-6
        value = python_number(self._replicas[0].started + offset)
        lines = [f"# HELP {name} {family.help}\n# TYPE {name} gauge\n"]
        lines += [f"{name}{labels_text(one)} {value}\n" for one in labels]
        return "".join(lines)

    def _cache_config(self) -> Family:
        spec = self._spec
        limits = spec.limits
        reservation = repr(spec.reservation)
        if spec.version == "0.9.2":
            labels = {
                "block_size": str(limits.block_size), "cache_dtype": "auto", "enable_prefix_caching": "True",
                "gpu_memory_utilization": reservation, "num_gpu_blocks": str(limits.kv_blocks),
                "sliding_window": "None",
            }  # fmt: skip
        else:
            tokens = limits.kv_blocks * limits.block_size
            labels = {
                "_block_size_resolved": "True", "block_size": str(limits.block_size), "cache_dtype": "auto",
                "cache_hit_alignment_tokens": "None",
                "effective_attention_block_size": str(limits.block_size),
                "enable_mamba_shared_prefix_checkpoint": "False", "enable_prefix_caching": "True",
                "gpu_memory_utilization": reservation, "hash_block_size": "None",
                "is_attention_free": "False",
                "kv_cache_dtype_skip_layers": "[]", "kv_cache_layout": "None",
                "kv_cache_max_concurrency": repr(tokens / limits.max_model_len),
                "kv_cache_memory_bytes": str(tokens * spec.kv_bytes_per_token),
                "kv_cache_size_tokens": str(tokens), "kv_offloading_backend": "native",
                "kv_offloading_size": "None", "kv_sharing_fast_prefill": "False", "mamba_block_size": "None",
                "mamba_cache_dtype": "auto", "mamba_cache_mode": "none", "mamba_page_size_padded": "None",
                "mamba_ssm_cache_dtype": "float32", "num_cpu_blocks": "None",
                "num_gpu_blocks": str(limits.kv_blocks), "num_gpu_blocks_override": "None",
                "prefix_cache_retention_interval": "0", "prefix_caching_hash_algo": "sha256",
                "prefix_match_unit": "None", "replayssm_buffer_len": "16", "skip_page_size_padded": "None",
                "sliding_window": "None", "swa_bounded_replay": "True", "use_kda_recoverssm": "False",
                "use_replayssm": "False", "user_specified_block_size": "False",
            }  # fmt: skip
        help_ = "Information of the LLMEngine CacheConfig"
        return Family("vllm:cache_config_info", "gauge", help_, ((labels, lambda _replica: 1.0),))


def _header(family: Family | SharedFamily) -> str:
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    return f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n"


def _prefixes(
    family: Family | SharedFamily, labels: dict[str, str], value: float | Histogram | Summary
) -> list[str]:
    """Everything of a sample line before its value: of a histogram the sum, the buckets, the count."""
    name = family.name
    text = labels_text(labels)
    if isinstance(value, Histogram):
        edges = [*map(python_number, value.edges), "+Inf"]
        buckets = [f"{name}_bucket{labels_text({**labels, 'le': edge})} " for edge in edges]
        return [f"{name}_sum{text} ", *buckets, f"{name}_count{text} "]
    if isinstance(value, Summary):
        return [f"{name}_count{text} ", f"{name}_sum{text} "]
    return [f"{name}_total{text} " if family.kind == "counter" else f"{name}{text} "]
