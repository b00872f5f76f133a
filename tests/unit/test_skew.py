"""Zipf's ids: how many differ, and how often the first one comes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.workload.skew import distinct, hottest_share


def test_uniform_ids_follow_the_closed_form() -> None:
    rows, draws = 100_000, 250_000.0
    assert distinct(draws, rows, 0.0) == pytest.approx(rows * -math.expm1(-draws / rows), rel=1e-3)
    assert hottest_share(rows, 0.0) == pytest.approx(1 / rows, rel=1e-3)


@pytest.mark.parametrize("skew", [0.5, 1.0, 1.3])
def test_bins_agree_with_the_sum_over_all_rows(skew: float) -> None:
    rows, draws = 20_000, 30_000.0
    weights = [rank**-skew for rank in range(1, rows + 1)]
    total = math.fsum(weights)
    exact = math.fsum(-math.expm1(-draws * weight / total) for weight in weights)
    assert distinct(draws, rows, skew) == pytest.approx(exact, rel=2e-3)
    assert hottest_share(rows, skew) == pytest.approx(1.0 / total, rel=2e-3)


@given(st.floats(1, 1e9), st.integers(1, 10**9), st.floats(0, 3))
def test_there_are_at_most_as_many_as_draws_and_rows(draws: float, rows: int, skew: float) -> None:
    found = distinct(draws, rows, skew)
    assert 0.0 < found <= min(draws, rows * (1 + 1e-6))


@given(st.floats(10, 1e8), st.integers(10, 10**8), st.floats(0, 2))
def test_more_skew_means_fewer_different_ids(draws: float, rows: int, skew: float) -> None:
    assert distinct(draws, rows, skew + 0.5) <= distinct(draws, rows, skew) * (1 + 1e-3)
