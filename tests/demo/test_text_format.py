from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from app.demo.text_format import c_number, labels_text, python_number


@settings(max_examples=300, deadline=None)
@given(st.floats(min_value=0, allow_nan=False))
@example(2210381824.0)
@example(1796057387.9530416)
@example(1e6)
@example(999999.0)
@example(1e22)
def test_numbers_are_written_as_prometheus_client_writes_them(value: float) -> None:
    assert python_number(value) == floatToGoString(value)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("value", "text"),
    [(960, "960"), (10350.31, "10350.3"), (5.868264, "5.86826"), (0, "0"), (1234567, "1.23457e+06")],
)
def test_llama_cpp_writes_six_digits(value: float, text: str) -> None:
    assert c_number(value) == text


def test_labels_are_sorted_and_escaped() -> None:
    assert labels_text({"b": 'x"y\\z\n', "a": "1"}) == '{a="1",b="x\\"y\\\\z\\n"}'
    assert labels_text({}) == ""
