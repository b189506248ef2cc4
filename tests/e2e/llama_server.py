"""A real llama.cpp server on a tiny random model, for tests: real routes, real metrics, no download.

The model is noise; what counts is that queueing, slots and counters are llama.cpp's own. The server
runs in a child process so that it can be ended, and ends by itself when its parent goes away.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.shared import REPOSITORY, lacks_library

needs_llama = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("gguf") is None or lacks_library("gomp"),
    reason="needs xllamacpp, gguf (pip install '.[dev]') and libgomp (apt-get install libgomp1)",
)

EMBEDDING, FEED_FORWARD, LAYERS, HEADS = 64, 128, 2, 4
CHAT_TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"


def write_tiny_model(path: Path, seed: int = 1) -> Path:
    """Write a random two-layer llama with a byte vocabulary (about 520 KB of F32) to `path`."""
    import gguf
    import numpy as np

    # SentencePiece vocabulary: 3 control tokens, 256 byte tokens, the 95 printable ASCII characters.
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256
    characters = [chr(code) for code in range(32, 127)]
    tokens += [("▁" if character == " " else character).encode() for character in characters]
    kinds += [gguf.TokenType.NORMAL] * len(characters)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-random")
    writer.add_block_count(LAYERS)
    writer.add_context_length(32768)
    writer.add_embedding_length(EMBEDDING)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(EMBEDDING // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)

    random = np.random.default_rng(seed)

    def noise(name: str, *shape: int) -> None:
        writer.add_tensor(name, random.normal(0.0, 0.05, shape).astype(np.float32))

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(EMBEDDING, dtype=np.float32))

    noise("token_embd.weight", len(tokens), EMBEDDING)
    for layer in range(LAYERS):
        ones(f"blk.{layer}.attn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            noise(f"blk.{layer}.{part}.weight", EMBEDDING, EMBEDDING)
        ones(f"blk.{layer}.ffn_norm.weight")
        noise(f"blk.{layer}.ffn_gate.weight", FEED_FORWARD, EMBEDDING)
        noise(f"blk.{layer}.ffn_up.weight", FEED_FORWARD, EMBEDDING)
        noise(f"blk.{layer}.ffn_down.weight", EMBEDDING, FEED_FORWARD)
    ones("output_norm.weight")
    noise("output.weight", len(tokens), EMBEDDING)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@contextmanager
def llama_server(
    model: Path, *, slots: int = 2, context_tokens: int = 512, deadline_seconds: float = 60
) -> Iterator[str]:
    """Run a server on a free port of 127.0.0.1; yields its base URL once /health answers 200.

    `context_tokens` is shared by the slots. Raises RuntimeError with the server's log when it does not
    come up before the deadline.
    """
    command = [sys.executable, "-m", "tests.e2e.llama_server", str(model)]
    command += ["--slots", str(slots), "--context-tokens", str(context_tokens)]
    log_path = model.with_suffix(".log")
    with log_path.open("w") as log:
        child = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        yield _wait_until_healthy(child, log_path, time.monotonic() + deadline_seconds)
    finally:
        child.kill()  # the C++ server has no state worth a polite end
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def _wait_until_healthy(child: subprocess.Popen[str], log_path: Path, deadline: float) -> str:
    assert child.stdout is not None
    first_line = child.stdout.readline()  # ends at once when the child dies
    if not first_line.startswith("{"):
        raise RuntimeError(f"the llama.cpp server did not start:\n{log_path.read_text()[-2000:]}")
    base_url = str(json.loads(first_line)["url"])
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(f"{base_url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return base_url
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.05)
    raise RuntimeError(f"{base_url}/health did not answer 200 in time:\n{log_path.read_text()[-2000:]}")


def metrics_text(base_url: str) -> str:
    """The body of /metrics, as the server sends it."""
    with urllib.request.urlopen(f"{base_url}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def metric_values(text: str) -> dict[str, float]:
    """Name → value of an exposition without labels, as llama.cpp's is."""
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def complete(base_url: str, prompt: str, tokens: int) -> dict[str, Any]:
    """One completion of exactly `tokens` tokens; the server's JSON answer."""
    body = json.dumps({"prompt": prompt, "n_predict": tokens, "ignore_eos": True}).encode()
    request = urllib.request.Request(
        f"{base_url}/completion", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return dict(json.load(answer))


@contextmanager
def completions(base_url: str, count: int, tokens: int) -> Iterator[list[Future[dict[str, Any]]]]:
    """`count` completions at the same time, running while the block runs; joined at its end."""
    with ThreadPoolExecutor(count) as pool:
        yield [pool.submit(complete, base_url, f"request {number}", tokens) for number in range(count)]


def _serve(model: Path, slots: int, context_tokens: int) -> None:
    """The child: print the address as one JSON line, serve until standard input ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.n_ctx = context_tokens
    parameters.n_parallel = slots
    parameters.n_gpu_layers = 0
    parameters.endpoint_metrics = True
    parameters.endpoint_slots = True
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    # By default a few more threads than slots: with those all taken by waiting completions, /metrics has to
    # wait for one of them to end.
    parameters.n_threads_http = 32
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(json.dumps({"url": server.listening_address}), flush=True)
    sys.stdin.read()
    os._exit(0)  # its threads do not end on their own


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--context-tokens", type=int, default=512)
    given = parser.parse_args()
    _serve(given.model, given.slots, given.context_tokens)
