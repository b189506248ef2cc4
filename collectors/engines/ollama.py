"""Ollama: the models it has loaded, from `/api/ps`.

No release has a metrics endpoint (ollama #3144). `size` is what a model takes in all, `size_vram` the part of
it in GPU memory; the rest is computed on the CPU, which slows every token. `expires_at` is not read: a model
stays listed until it is unloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collectors.engines.json_answer import MalformedError, aliases_of, found_in, load, number, possible
from collectors.engines.series import ROWS_CAP
from collectors.plausible import OddValues
from collectors.reading import EngineSample, Reading
from collectors.source import Families

NO_MODEL = "no model is loaded"
_FIELDS: Mapping[str, str] = {"model_memory_bytes": "size", "model_gpu_memory_bytes": "size_vram"}
_GIGABYTE = 1e9


class _Ollama:
    name = "ollama"
    role = "engine"
    default_path = "/api/ps"
    yields = tuple(_FIELDS)
    aliases = aliases_of(_FIELDS, "/api/ps")
    impossible: Mapping[str, str] = dict.fromkeys(
        ("requests_running", "requests_waiting", "kv_cache_used_ratio", "ttft", "tpot", "e2e"),
        "Ollama counts no requests and no tokens; its answers hold times, and `kind: probe` asks for one",
    )

    def score(self, body: bytes, families: Families) -> int:
        """The number of loaded models; 1 for an answer without one."""
        del families
        try:
            models = _models(load(body))
        except MalformedError:
            return 0
        own = [one for one in models if isinstance(one, dict) and {"size_vram", "expires_at"} & one.keys()]
        return len(own) or int(not models)

    def reader(self) -> Callable[[bytes], Reading]:
        """A function that reads answer after answer."""
        odd = OddValues()

        def read(body: bytes) -> Reading:
            try:
                models = _models(load(body))
            except MalformedError:
                return Reading(self.name, self.role, [], [], [], 1, 1, 0, self.yields)
            rows: dict[str, EngineSample] = {}
            rejected = 0
            for model in models:
                try:
                    row = _row(model)
                except MalformedError:
                    rejected += 1
                    continue
                rows.setdefault(row.model or "", row)
            notes: list[str] = []
            if len(rows) > ROWS_CAP:
                notes.append(f"{len(rows) - ROWS_CAP} models past the first {ROWS_CAP} are left out")
            samples = list(rows.values())[:ROWS_CAP]
            if not models:
                samples = [EngineSample(self.name, self.role, "0", None)]
                notes.append(NO_MODEL)
            engines, faults = possible(samples, odd)
            notes += [note for row in engines if (note := _on_cpu(row))]
            found = found_in(_FIELDS, engines)
            missing = tuple(name for name in self.yields if name not in dict(found)) if models else ()
            return Reading(
                self.name, self.role, [], engines, [], len(models), rejected, 0, missing,
                (*notes, *faults), found,
            )  # fmt: skip

        return read


def _models(answer: Any) -> list[Any]:
    models = answer.get("models") if isinstance(answer, dict) else None
    if not isinstance(models, list):
        raise MalformedError("no list of models")
    return models


def _row(model: Any) -> EngineSample:
    """Raises MalformedError."""
    if not isinstance(model, dict):
        raise MalformedError("no model")
    name = model.get("name") or model.get("model")
    if not isinstance(name, str):
        raise MalformedError("a model without a name")
    return EngineSample(
        "ollama", "engine", "0", name,
        model_memory_bytes=number(model, "size"), model_gpu_memory_bytes=number(model, "size_vram"),
    )  # fmt: skip


def _on_cpu(row: EngineSample) -> str | None:
    """The note on a model that is not wholly in GPU memory."""
    whole, on_gpu = row.model_memory_bytes, row.model_gpu_memory_bytes
    if whole is None or on_gpu is None or on_gpu >= whole:
        return None
    where = "its layers run partly" if on_gpu else "it runs"
    return (
        f"{row.model}: {on_gpu / _GIGABYTE:.2f} GB of {whole / _GIGABYTE:.2f} GB are in GPU memory, "
        f"{where} on the CPU"
    )


KIND = _Ollama()
