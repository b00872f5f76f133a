"""Grouped and thin matrix products: tiles shared by experts, loops that quantise alone, HBM-bound rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels import catalog
from hwmodels.kernels import BYTES, KernelModel, grouped_utilisation, tile_utilisation

MODEL = KernelModel(
    catalog.gpu("mi355x"), replace(catalog.stack("primus-2026-mi355x"), grouped_gemm_efficiency=1.0)
)


def test_one_group_is_a_plain_product_without_split_k() -> None:
    # 256 tiles of 256 x 256 fill the 256 compute units once: nothing is gained by splitting K.
    rows, n, k = 4096, 4096, 8192
    assert grouped_utilisation((rows,), n, k, 256) == tile_utilisation(rows, n, k, 256)
    assert MODEL.grouped_gemm_s((rows,), n, k, "bf16", pooled=True) == MODEL.gemm_s(rows, n, k, "bf16")


def test_experts_share_the_last_wave_when_pooled() -> None:
    """32 experts of 256 rows, 4,096 wide: 512 tiles, two full waves; alone each leaves 240 of 256 units idle."""
    rows = (256,) * 32
    pooled = MODEL.grouped_gemm_s(rows, 4096, 8192, "bf16", pooled=True)
    looped = MODEL.grouped_gemm_s(rows, 4096, 8192, "bf16", pooled=False)
    assert grouped_utilisation(rows, 4096, 8192, 256) == pytest.approx(8192 / 8448)
    assert looped > 1.5 * pooled  # split K fills half of what each expert leaves idle


@pytest.mark.parametrize("pooled", [True, False])
def test_experts_run_at_the_share_of_a_plain_product_that_the_stack_states(pooled: bool) -> None:
    slower = replace(MODEL, stack=replace(MODEL.stack, grouped_gemm_efficiency=0.8, kernel_gap_s=0.0))
    alone = replace(MODEL, stack=replace(MODEL.stack, kernel_gap_s=0.0))
    rows = (4096,) * 8
    whole = alone.grouped_gemm_s(rows, 4096, 8192, "bf16", pooled=pooled)
    assert slower.grouped_gemm_s(rows, 4096, 8192, "bf16", pooled=pooled) == pytest.approx(whole / 0.8)


def test_empty_experts_cost_nothing() -> None:
    assert MODEL.grouped_gemm_s((0, 512, 0), 4096, 4096, "bf16", pooled=True) == pytest.approx(
        MODEL.grouped_gemm_s((512,), 4096, 4096, "bf16", pooled=True)
    )
    assert MODEL.grouped_gemm_s((0, 0), 4096, 4096, "bf16", pooled=True) == 0.0


def test_a_thin_product_is_bound_by_reading_its_weights() -> None:
    n, k = 8192, 65536
    weights_s = BYTES["bf16"] * n * k / MODEL.stream_Bps
    assert MODEL.gemm_s(16, n, k, "bf16") == pytest.approx(weights_s, rel=0.01)


@given(
    st.lists(st.integers(0, 4096), min_size=1, max_size=16).filter(any),
    st.integers(64, 8192),
    st.integers(64, 8192),
)
@settings(deadline=None, max_examples=60)
def test_pooling_is_bounded_by_the_work_and_never_slower_than_the_loop_of_unsplit_tiles(
    rows: list[int], n: int, k: int
) -> None:
    busy = tuple(r for r in rows if r)
    share = grouped_utilisation(busy, n, k, 256)
    assert 0.0 < share <= 1.0
    alone = [grouped_utilisation((r,), n, k, 256) for r in busy]
    slowest = sum(r / u for r, u in zip(busy, alone, strict=True)) / sum(busy)
    assert 1.0 / share <= slowest * (256 / 16) + 1e-9  # one tile shape for all may cost the ratio of tiles
