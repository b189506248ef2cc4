"""Valid expositions to test readers with: hypothesis strategies, and small bodies of the real shape."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

DCGM = b"""\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a1",device="nvidia0",modelName="NVIDIA L4",err="a \\"b\\" \\\\ c"} 91
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-a2",device="nvidia1",modelName="NVIDIA L4",err=""} 0
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0", UUID="GPU-a1"} 1.15891634176e+011
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-a1"} 9223372036854775794
"""
VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 4.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="m"} 0.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 21.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 21.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 3.5
vllm:time_to_first_token_seconds_created{engine="0",model_name="m"} 1.7644912e+09
process_start_time_seconds 1.76449116e+09
sglang:fwd_occupancy{model_name="m"} NaN
"""
OPENMETRICS = b"""\
# TYPE busy_ratio gauge
# UNIT busy_ratio ratio
busy_ratio 1 1700000000.25
# TYPE jobs counter
jobs_total{a="b # {c"} 17.0 1520879607.789 # {trace_id="KOO5S4vxi0o"} 0.67 1520879606.1
jobs_created{a="b # {c"} 1520430000.123 1520879607.789
# EOF
"""
EVERY_KIND = DCGM + b'\r\n{"my.name",a="b"} 1\t1700000000000\nx\t\t-Inf\r\ny{} +Inf\nz{a="\xc3\xa9",} -nan\n'

BLANKS = st.text(" \t", min_size=1, max_size=3)
MAYBE_BLANKS = st.text(" \t", max_size=2)
PLAIN_NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
PLAIN_KEYS = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,6}", fullmatch=True)
UTF8 = st.characters(exclude_categories=["Cs"])
TEXTS = st.one_of(st.text(UTF8, max_size=8), st.text('\\"\n{}=,# \tab', max_size=8))
NUMBERS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.6e}"),
    st.sampled_from(
        ["NaN", "+Inf", "-Inf", "Inf", "nan", "1.15891634176e+011", "1E-007", "1.", ".5", "+3", "1e400"]
    ),
)


class Line(NamedTuple):
    name: str
    labels: dict[str, str]
    quoted: bool
    """Whether the name stands in quotes in the braces."""


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def keys() -> st.SearchStrategy[str]:
    """Label names; what is not a plain one has to be quoted. A leading `__` is reserved."""
    return st.one_of(PLAIN_KEYS, TEXTS.filter(lambda key: key != "" and not key.startswith("__")))


@st.composite
def series_texts(draw: st.DrawFn, line: Line, blanks: st.SearchStrategy[str] = MAYBE_BLANKS) -> str:
    """One spelling of a series."""
    terms = [f'"{escape(line.name)}"'] if line.quoted else []
    for key, value in line.labels.items():
        plain = key.isascii() and key.isidentifier() and not draw(st.booleans())
        name = key if plain else f'"{escape(key)}"'
        terms.append(f'{name}{draw(blanks)}={draw(blanks)}"{escape(value)}"')
    inside = ",".join(draw(blanks) + term + draw(blanks) for term in terms)
    if line.quoted:
        return "{" + inside + "}"
    if not terms and draw(st.booleans()):
        return line.name
    return line.name + draw(blanks) + "{" + inside + "}"


@st.composite
def text_expositions(draw: st.DrawFn) -> tuple[bytes, dict[str, str]]:
    """A valid body in the text format, and the types that it states."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    families = draw(st.lists(st.one_of(PLAIN_NAMES, TEXTS), max_size=5, unique=True))
    types: dict[str, str] = {}
    lines: list[str] = []
    for family in families:
        if family == "":
            continue
        quoted = not (family.isascii() and family.replace(":", "_").isidentifier()) or draw(st.booleans())
        shown = f'"{escape(family)}"' if quoted else family
        lines += draw(st.lists(st.sampled_from(["", "# a remark", "#", "#x", " # y"]), max_size=2))
        if draw(st.booleans()):
            lines.append(f"# HELP {shown} " + draw(TEXTS).replace("\\", "\\\\").replace("\n", "\\n"))
        kind = draw(st.sampled_from([None, "gauge", "counter", "untyped", "histogram", "summary"]))
        if kind is not None:
            types[family] = kind
            lines.append(f"#{draw(BLANKS)}TYPE{draw(BLANKS)}{shown}{draw(BLANKS)}{kind}")
        suffixes = {"histogram": ["_bucket", "_sum", "_count"], "summary": ["", "_sum", "_count"]}
        for _ in range(draw(st.integers(0, 4))):
            name = family + draw(st.sampled_from(suffixes.get(kind or "", [""])))
            labels = draw(st.dictionaries(keys(), TEXTS, max_size=4))
            series = draw(series_texts(Line(name, labels, quoted)))
            gap = draw(MAYBE_BLANKS if series.endswith("}") else BLANKS)
            line = draw(MAYBE_BLANKS) + series + gap + draw(NUMBERS)
            if draw(st.booleans()):
                line += draw(BLANKS) + str(draw(st.integers(-(10**13), 10**13)))
            lines.append(line + draw(MAYBE_BLANKS))
    return "".join(line + end for line in lines).encode(), types


@st.composite
def openmetrics_expositions(draw: st.DrawFn) -> tuple[bytes, dict[str, str]]:
    """A valid OpenMetrics body, and the types that it states."""
    types: dict[str, str] = {}
    lines: list[str] = []
    for number in range(draw(st.integers(0, 4))):
        quoted = draw(st.booleans())
        family = f"f{number}." + draw(TEXTS) if quoted else f"f{number}_" + draw(PLAIN_KEYS)
        shown = f'"{escape(family)}"' if quoted else family
        kind = draw(
            st.sampled_from(["gauge", "counter", "histogram", "summary", "info", "stateset", "unknown"])
        )
        types[family] = kind
        lines.append(f"# TYPE {shown} {kind}")
        if draw(st.booleans()):
            lines.append(f'# HELP {shown} words with \\\\ and \\n and \\"')
        stamp = draw(st.sampled_from(["", ".0", ".789", ".123456789"]))
        for group in range(draw(st.integers(1, 2))):
            labels = draw(st.dictionaries(keys().filter(lambda key: key not in ("le", "quantile")), TEXTS))
            labels = {**labels, "group": str(group)}
            when = stamp and f" {1700000000 + group}{stamp}"
            for suffix, extra, value in draw(openmetrics_group(kind, family)):
                series = draw(series_texts(Line(family + suffix, labels | extra, quoted), st.just("")))
                line = f"{series} {value}{when}"
                if suffix in ("_bucket", "_total") and draw(st.booleans()):
                    line += ' # {trace_id="a1",x=""} ' + draw(st.sampled_from(["0.67", "1e-3 1700000000.5"]))
                lines.append(line)
    return "".join(line + "\n" for line in [*lines, "# EOF"]).encode(), types


@st.composite
def openmetrics_group(draw: st.DrawFn, kind: str, family: str) -> list[tuple[str, dict[str, str], str]]:
    """The samples of one label set: (suffix, labels of its own, value)."""
    number = draw(st.floats(min_value=0, max_value=1e15))
    if kind == "counter":
        created: tuple[str, dict[str, str], str] = ("_created", {}, "1520430000.123")
        return [("_total", {}, repr(number)), *draw(st.sampled_from([[], [created]]))]
    if kind == "info":
        return [("_info", {}, "1")]
    if kind == "stateset":
        return [("", {family: state}, draw(st.sampled_from("01"))) for state in ("on", "off")]
    if kind == "summary":
        return [("_count", {}, "3"), ("_sum", {}, repr(number)), ("", {"quantile": "0.5"}, repr(number))]
    if kind == "histogram":
        low, high = sorted(draw(st.lists(st.integers(0, 10**9), min_size=2, max_size=2)))
        edges = [("0.005", low), ("2.5", low), ("1e+06", high), ("+Inf", high)]
        buckets = [("_bucket", {"le": edge}, str(count)) for edge, count in edges]
        return [*buckets, ("_count", {}, str(high)), ("_sum", {}, repr(number))]
    return [("", {}, draw(NUMBERS.filter(lambda text: text != "Inf" and text != "nan")))]
