"""Embedding kernels: what bounds them, and the published MI350X kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwmodels import catalog
from hwmodels.embeddings import EmbeddingModel
from hwmodels.stack import StackProfile


def model(**changes: float) -> EmbeddingModel:
    stack = catalog.stack("hugectr-2024-h100")
    return EmbeddingModel(catalog.gpu("h100-sxm"), _changed(stack, changes))


def _changed(stack: StackProfile, changes: dict[str, float]) -> StackProfile:
    return replace(stack, embedding={**stack.embedding, **changes})


def test_hbm_bounds_the_h100_and_loads_in_flight_the_b200() -> None:
    h100 = model()
    b200 = EmbeddingModel(catalog.gpu("b200"), catalog.stack("hugectr-2025-b200"))
    assert h100.rate_Bps("forward") == pytest.approx(0.75 * 3.35e12)
    assert 4.0e12 < b200.rate_Bps("forward") < 0.75 * 8.0e12


def test_a_table_in_the_cache_leaves_hbm_alone() -> None:
    lookups, row = 1e6, 512.0
    large = model().lookup_s([(lookups, lookups * row, 1e9)], 0.0)
    small = model().lookup_s([(lookups, lookups * row, 1e6)], 0.0)
    units = 15.06 * 132 * 1830e6
    assert large == pytest.approx(lookups * row / (0.75 * 3.35e12))
    assert small == pytest.approx(lookups * row / units)


def test_short_rows_are_bound_by_lookups() -> None:
    kernel = model(forward_lookup=1e-9)
    assert kernel.lookup_s([(1e6, 8e6, 1e9)], 0.0) == pytest.approx(1e-3, rel=0.01)


def test_two_limits_lie_between_the_larger_and_the_sum() -> None:
    kernel = model(backward_lookup=0.2e-9)
    both = kernel.update_s(1e6, 256.0, 4e5, 2048.0)
    bytes_alone, lookups_alone = model().update_s(1e6, 256.0, 4e5, 2048.0), 0.2e-3
    assert max(bytes_alone, lookups_alone) < both < bytes_alone + lookups_alone
