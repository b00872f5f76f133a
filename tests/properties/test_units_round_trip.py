"""What is shown can be read back, and no text whatever breaks the parser."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hwmodels.units import DIMENSIONS, UnitError, format_quantity, parse

_dimensions = st.sampled_from(DIMENSIONS)


@given(st.floats(min_value=1e-12, max_value=1e24), _dimensions)
def test_shown_quantities_read_back(value: float, dimension: str) -> None:
    shown = format_quantity(value, dimension)
    assert math.isclose(parse(shown, dimension), value, rel_tol=6e-4), shown
    assert math.isclose(parse(format_quantity(value, dimension, digits=17), dimension), value, rel_tol=1e-14)


@given(st.floats(min_value=1e-6, max_value=1e6), st.sampled_from(("kB", "MB", "GB", "TB", "KiB", "GiB")))
def test_larger_prefixes_are_larger(value: float, unit: str) -> None:
    assert parse(f"{value!r} {unit}", "bytes") > parse(f"{value!r} B", "bytes")


@given(st.text(max_size=80) | st.integers() | st.floats() | st.none() | st.booleans(), _dimensions)
def test_only_unit_errors_come_out(text: object, dimension: str) -> None:
    try:
        value = parse(text, dimension)
    except UnitError:
        return
    assert value >= 0
    assert math.isfinite(value)
