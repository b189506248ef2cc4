"""Each peculiarity of the exposition formats, by name."""

from __future__ import annotations

import gzip
import math
import tracemalloc

import pytest

from collectors.exposition import (
    LABEL_CAP,
    LINE_CAP,
    BodyError,
    BodyTooLargeError,
    Sample,
    decompress,
    parse,
)
from collectors.exposition_line import LINES_CAP


def only_sample(line: str | bytes) -> Sample:
    body = line.encode() if isinstance(line, str) else line
    exposition = parse(body)
    assert exposition.rejected == []
    (sample,) = exposition.samples
    return sample


def why_rejected(line: str | bytes) -> str:
    """Why the line between two good ones is rejected; both of those must survive."""
    body = line.encode() if isinstance(line, str) else line
    exposition = parse(b"before 1\n" + body + b"\nafter 2\n")
    assert [sample[:3] for sample in exposition.samples] == [("before", {}, 1.0), ("after", {}, 2.0)]
    assert exposition.lines == 3
    (rejected,) = exposition.rejected
    assert rejected.line_number == 2
    return rejected.why


def test_empty_body_says_nothing() -> None:
    for body in (b"", b"\n", b"\r\n \t\n", b"# EOF\n"):
        exposition = parse(body)
        assert (exposition.samples, exposition.rejected, exposition.lines) == ([], [], 0)


def test_last_line_needs_no_line_end() -> None:
    assert only_sample("a 1") == ("a", {}, 1.0, None)


def test_byte_order_mark_is_skipped() -> None:
    assert only_sample(b"\xef\xbb\xbfa 1\n") == ("a", {}, 1.0, None)


def test_escapes_in_label_values() -> None:
    assert only_sample(r'a{x="back\\slash",y="new\nline",z="quo\"te"} 1').labels == {
        "x": "back\\slash",
        "y": "new\nline",
        "z": 'quo"te',
    }


def test_a_backslash_that_escapes_nothing_stays() -> None:
    assert only_sample(r'a{path="C:\dir\\new"} 1').labels == {"path": "C:\\dir\\new"}


def test_escaped_backslash_before_the_closing_quote() -> None:
    assert only_sample(r'a{x="\\",y="b"} 1').labels == {"x": "\\", "y": "b"}


def test_label_values_may_hold_all_the_punctuation_of_the_format() -> None:
    assert only_sample('a{x="}, {=# 1 2",y=""} 3') == ("a", {"x": "}, {=# 1 2", "y": ""}, 3.0, None)


def test_utf8_label_values() -> None:
    assert only_sample('a{x="模型 é"} 1').labels == {"x": "模型 é"}


@pytest.mark.parametrize("gap", [" ", "\t", "  ", " \t "])
def test_blanks_between_all_parts(gap: str) -> None:
    line = f'{gap}a{gap}{{{gap}x{gap}={gap}"1"{gap},{gap}y="2"{gap},{gap}}}{gap}3{gap}4000{gap}'
    assert only_sample(line) == ("a", {"x": "1", "y": "2"}, 3.0, 4.0)


def test_no_blank_is_needed_after_the_braces() -> None:
    assert only_sample('a{x="1"}2') == ("a", {"x": "1"}, 2.0, None)


def test_empty_braces() -> None:
    assert only_sample("a{} 1") == ("a", {}, 1.0, None)
    assert only_sample("a{ } 1") == ("a", {}, 1.0, None)


def test_crlf_line_ends() -> None:
    exposition = parse(b'# TYPE a gauge\r\na{x="1"} 1\r\n\r\nb 2 3000\r\n# EOF\r\n')
    assert exposition.samples == [("a", {"x": "1"}, 1.0, None), ("b", {}, 2.0, 3000.0)]
    assert (exposition.types, exposition.lines) == ({"a": "gauge"}, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0), ("-0", 0.0), ("+3", 3.0), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("1E-2", 0.01),
        ("1.15891634176e+011", 115891634176.0), ("9223372036854775794", 9223372036854775794.0),
        ("1e400", math.inf), ("1e-400", 0.0), ("+Inf", math.inf), ("Inf", math.inf), ("-Inf", -math.inf),
        ("inf", math.inf), ("-infinity", -math.inf), ("9" * 5000, math.inf),
    ],
)  # fmt: skip
def test_numbers(text: str, value: float) -> None:
    assert only_sample(f"a {text}").value == value


@pytest.mark.parametrize(
    "text", ["NaN", "nan", "-nan", "-NaN", "nan(ind)", "-nan(ind)", "-NaN(IND)", "nan(snan)"]
)
def test_nan_in_the_spellings_of_all_c_libraries(text: str) -> None:
    """llama.cpp prints `-nan`, and on Windows `-nan(ind)`, for an average over nothing."""
    assert math.isnan(only_sample(f'a{{x="1"}} {text}').value)


@pytest.mark.parametrize(
    "text",
    [
        "1_000",
        "0x10",
        "0b1",
        "0x1p-2",
        "1e1_0",
        "1,5",
        "one",
        "1\x0c",
        "\x0b1",
        "1\x00",
        "--1",
        "e5",
        "nan(",
        "١",
    ],
)
def test_not_numbers(text: str) -> None:
    assert why_rejected(f"a {text}").endswith("is not a number")


def test_timestamps_are_milliseconds_in_the_text_format() -> None:
    assert only_sample('a{x="1"} 2 1395066363000') == ("a", {"x": "1"}, 2.0, 1395066363.0)
    assert only_sample("a 2 -1500").timestamp == -1.5


def test_timestamps_are_seconds_in_openmetrics() -> None:
    assert only_sample("a 2 1395066363.25\n# EOF\n").timestamp == 1395066363.25


@pytest.mark.parametrize("text", ["NaN", "+Inf", "1_0", "soon"])
def test_bad_timestamps(text: str) -> None:
    assert why_rejected(f"a 1 {text}")


def test_text_after_the_timestamp_is_not_ignored() -> None:
    assert why_rejected("a 1 2 3").endswith("is not a number")


@pytest.mark.parametrize(
    "exemplar",
    ['# {trace_id="x"} 0.5 123', '# {trace_id="x"} 0.5', "# {} 0.5", '# {a="} # {",b="\\""} 1 1.5'],
)
def test_exemplars_are_passed_over(exemplar: str) -> None:
    assert only_sample(f'a_bucket{{le="1"}} 8 {exemplar}\n# EOF') == ("a_bucket", {"le": "1"}, 8.0, None)
    assert only_sample(f"a_total 8 9.5 {exemplar}\n# EOF") == ("a_total", {}, 8.0, 9.5)


@pytest.mark.parametrize(
    "exemplar", ["# ", "# {a}", "# {} x", "# {} 1 x", "# {} 1 2 3", "#{} 1_0", '# {a="} 1']
)
def test_bad_exemplars(exemplar: str) -> None:
    assert why_rejected(f"a 1 {exemplar}") in (
        "invalid exemplar",
        "'x' is not a number",
        "'1_0' is not a number",
    )


def test_families_may_stand_twice() -> None:
    exposition = parse(b"# TYPE a gauge\na 1\n# TYPE b counter\nb 2\n# TYPE a gauge\na 3\n")
    assert [(sample.name, sample.value) for sample in exposition.samples] == [
        ("a", 1.0),
        ("b", 2.0),
        ("a", 3.0),
    ]
    assert exposition.types == {"a": "gauge", "b": "counter"}


def test_created_series_are_samples_like_others() -> None:
    body = b"# TYPE a counter\na_total 1\n# TYPE a_created gauge\na_created 1.7e+09\n"
    assert [sample[:3] for sample in parse(body).samples] == [("a_total", {}, 1.0), ("a_created", {}, 1.7e9)]


def test_counters_keep_the_name_they_have() -> None:
    body = b"# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 1\n"
    assert [sample.name for sample in parse(body).samples] == ["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]


def test_reading_goes_on_after_the_end_mark() -> None:
    assert [sample.name for sample in parse(b"a 1\n# EOF\nb 2\n").samples] == ["a", "b"]


def test_quoted_metric_names() -> None:
    assert only_sample('{"my.name",a="b"} 1') == ("my.name", {"a": "b"}, 1.0, None)
    assert only_sample('{"my.name"} 1') == ("my.name", {}, 1.0, None)
    assert only_sample('{a="b","my \\"name\\""} 1') == ('my "name"', {"a": "b"}, 1.0, None)
    assert parse(b'# TYPE "my.name" counter\n').types == {"my.name": "counter"}


def test_quoted_label_names() -> None:
    assert only_sample('a{"k8s.pod/naam-é"="b",c="d"} 1').labels == {"k8s.pod/naam-é": "b", "c": "d"}


def test_name_given_as_label() -> None:
    assert only_sample('{__name__="up",job="x"} 1') == ("up", {"job": "x"}, 1.0, None)


@pytest.mark.parametrize(
    "line",
    [
        "a", "a ", "a{} ", 'a{x="1"}', "1a 1", "a-b 1", "a.b 1", "é 1", "= 1", "{} 1", '{a="b"} 1', '{""} 1',
        "a{ 1", 'a{x="1" 1', 'a{x="1} 1', 'a{x=1} 1', "a{x} 1", 'a{="1"} 1', 'a{1x="1"} 1', 'a{x.y="1"} 1',
        'a{x="1"y="2"} 1', 'a{x="1",,y="2"} 1', 'a{,x="1"} 1', 'a{x="1",x="2"} 1', 'a{""="1"} 1',
        'a{"b"} 1', '{"a","b"} 1', 'a{__name__="b"} 1', 'a{x="1"}} 1', 'a{x="1"} {y="2"} 1',
        'a{gpu="0",...} 1',
        'a{x="\\"} 1', "a # {} 1", '{"a",__name__="b"} 1', "<?xml version='1.0'?>", "[1]",
    ],
)  # fmt: skip
def test_bad_lines_cost_themselves_alone(line: str) -> None:
    assert why_rejected(line)


def test_lines_that_are_not_utf8() -> None:
    assert why_rejected(b'a{x="\xff"} 1') == "not UTF-8"
    assert why_rejected(b'a{x="\xed\xa0\x80"} 1') == "not UTF-8"


def test_dcgm_error_text_as_value() -> None:
    line = 'DCGM_FI_DEV_COMPUTE_PIDS{gpu="1"} ERROR - FAILED TO CONVERT TO STRING'
    assert why_rejected(line) == "'ERROR - FAILED TO CONVERT TO STRING' is not a number"


def test_rejected_lines_are_shown_cut() -> None:
    (rejected,) = parse(b"\n\n  a{" + b"\xff" * 1000).rejected
    assert rejected == (3, "a{" + "\ufffd" * 198, rejected.why)


@pytest.mark.parametrize(
    "line",
    ["#", "#a 1", "# a 1", "  # a 1", "# TYPE", "# TYPE a", "# TYPE 'a", "# HELP", "# UNIT a s", "# \udcff"],
)
def test_comments_are_never_rejected(line: str) -> None:
    exposition = parse(line.encode(errors="surrogateescape"))
    assert (exposition.rejected, exposition.types, exposition.lines) == ([], {}, 0)


def test_a_huge_line_costs_itself_alone() -> None:
    """vLLM can put its whole configuration, prompts templates included, into labels of one series."""
    line = 'vllm:vllm_config_info{config="' + "x" * LINE_CAP + '"} 1'
    assert why_rejected(line) == f"{len(line)} bytes, longer than {LINE_CAP}"


def test_a_long_label_value_is_cut_and_counted() -> None:
    exposition = parse(f'a{{x="{"é" * LABEL_CAP}",y="{"z" * LABEL_CAP}"}} 1\n'.encode())
    (sample,) = exposition.samples
    assert sample.labels == {"x": "é" * (LABEL_CAP // 2), "y": "z" * LABEL_CAP}
    assert sample.value == 1.0
    assert exposition.cut_labels == 1


def test_a_body_of_too_many_lines_is_read_up_to_there() -> None:
    exposition = parse(b"a 1\n" + b"\n" * (LINES_CAP - 1) + b"b 2\nc 3\n")
    assert [sample.name for sample in exposition.samples] == ["a"]
    assert [rejected.text for rejected in exposition.rejected] == [
        f"(8 bytes past the first {LINES_CAP} lines)"
    ]
    assert exposition.lines == 2


def test_gzip_comes_out_as_it_went_in() -> None:
    body = b'a{x="1"} 1\n' * 1000
    assert decompress(gzip.compress(body), len(body)) == body


def test_gzip_in_several_streams() -> None:
    assert decompress(gzip.compress(b"a 1\n") + gzip.compress(b"b 2\n"), 100) == b"a 1\nb 2\n"
    with pytest.raises(BodyError, match="more than 16"):
        decompress(gzip.compress(b"") * 17, 100)


def test_gzip_bomb_is_refused_without_unpacking_it() -> None:
    body = b"\0" * 2**28
    bomb = gzip.compress(body)
    del body
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError, match="larger than 1048576 bytes"):
            decompress(bomb, 2**20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_the_limit_counts_over_all_gzip_streams() -> None:
    with pytest.raises(BodyTooLargeError):
        decompress(gzip.compress(b"x" * 60) + gzip.compress(b"x" * 60), 100)


@pytest.mark.parametrize(
    "body", [b"", b"a 1\n", gzip.compress(b"a 1\n")[:-3], gzip.compress(b"a 1\n") + b"rest"]
)
def test_gzip_that_is_none(body: bytes) -> None:
    with pytest.raises(BodyError, match="gzip"):
        decompress(body, 100)
