"""How the exporters' metrics libraries write numbers and labels (Prometheus text format)."""

from __future__ import annotations

from collections.abc import Mapping


def python_number(value: float) -> str:
    """As prometheus_client writes a sample: `3.0`, `1.5e+06` from a million on, `+Inf`."""
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6 and "e" not in text:
        digits = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{digits}e+{dot - 1:02d}"
    return "+Inf" if text == "inf" else text


def c_number(value: float) -> str:
    """As llama.cpp writes a sample: six significant digits (C++ streams)."""
    return f"{value:.6g}"


def labels_text(labels: Mapping[str, str]) -> str:
    """`{a="1",b="2"}` sorted by key, or nothing."""
    if not labels:
        return ""
    pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in sorted(labels.items()))
    return "{" + pairs + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
