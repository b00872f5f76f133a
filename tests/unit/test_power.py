"""The clock under a power cap, against AMD's published rates of one silicon at two caps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels import catalog
from hwmodels.power import MissingRate, achievable_flops, busy_share, compute_scale, sustained_clock_Hz

MI300X, MI325X, MI355X = catalog.gpu("mi300x"), catalog.gpu("mi325x"), catalog.gpu("mi355x")


@pytest.mark.parametrize(("dtype", "published"), [("bf16", 843e12), ("fp8", 1519e12)])
def test_an_mi300x_given_1000_watts_becomes_an_mi325x(dtype: str, published: float) -> None:
    """708 -> 843 and 1273 -> 1519 TFLOP/s: ROCm blog "Measuring Max-Achievable FLOPs, part 2"."""
    assert MI300X.power_cap_W == 750.0
    assert MI325X.achievable_flops[dtype] == pytest.approx(published)
    assert achievable_flops(MI300X, dtype, 1000.0) == pytest.approx(published, rel=0.01)


def test_an_mi300x_in_bf16_holds_1207_of_2100_mhz() -> None:
    assert sustained_clock_Hz(MI300X, "bf16") == pytest.approx(1207e6)
    # 708 TFLOP/s of 751 at that clock
    assert busy_share(MI300X, "bf16") == pytest.approx(708 / (1307.4 * 1207 / 2100))


def test_an_mi355x_capped_at_1000_of_1400_watts_keeps_82_percent() -> None:
    assert MI355X.power_cap_W == 1400.0
    capped = achievable_flops(MI355X, "bf16", 1000.0) / achievable_flops(MI355X, "bf16")
    assert capped == pytest.approx((1000 / 1400) ** 0.6) == pytest.approx(0.817, abs=5e-4)
    assert compute_scale(MI355X, 1000.0) == pytest.approx(capped)
    assert compute_scale(MI355X, None) == 1.0


@pytest.mark.parametrize("name", catalog.names("gpu"))
def test_the_catalog_rate_comes_back_at_the_gpus_own_cap(name: str) -> None:
    gpu = catalog.gpu(name)
    for dtype, rate in gpu.achievable_flops.items():
        assert achievable_flops(gpu, dtype) == pytest.approx(rate, rel=1e-12)
        assert achievable_flops(gpu, dtype, gpu.power_cap_W) == pytest.approx(rate, rel=1e-12)
        assert busy_share(gpu, dtype) <= 1.0


@given(watts=st.floats(1.0, 1e5), name=st.sampled_from(catalog.names("gpu")))
def test_the_clock_never_passes_its_peak(watts: float, name: str) -> None:
    gpu = catalog.gpu(name)
    for dtype, rate in gpu.achievable_flops.items():
        assert sustained_clock_Hz(gpu, dtype, watts) <= gpu.peak_clock_Hz
        assert achievable_flops(gpu, dtype, watts) <= gpu.peak_flops[dtype]
        if watts < gpu.power_cap_W:
            assert achievable_flops(gpu, dtype, watts) < rate


def test_a_lower_peak_clock_is_what_a_gemm_gets() -> None:
    slow = replace(MI300X, peak_clock_Hz=1.05e9, peak_flops={k: v / 2 for k, v in MI300X.peak_flops.items()})
    assert sustained_clock_Hz(slow, "bf16") == 1.05e9
    assert achievable_flops(slow, "bf16") == pytest.approx(708e12 * 1050 / 1207)


def test_a_format_without_a_rate_is_refused_by_name() -> None:
    with pytest.raises(
        MissingRate, match=r"mi300x has no matrix rate for 'mxfp4'; known formats: bf16, fp16, fp8"
    ):
        achievable_flops(MI300X, "mxfp4")
