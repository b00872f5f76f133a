"""Kernel times by hand: tiles and waves, attention, streaming."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.machines import cluster, with_gpu, with_stack

from hwmodels.kernels import K_OVERHEAD, KernelModel, tile_utilisation
from hwmodels.stack import AttentionRate

MODEL = cluster().kernels
GPU, STACK = MODEL.gpu, MODEL.stack
RATE = 708e12 * STACK.gemm_efficiency["bf16"]
HBM = 5.3e12 * STACK.stream_efficiency


def loop(k: int, split: int = 1) -> float:
    """Share of the inner loop that is not prologue and epilogue."""
    return k / (k + K_OVERHEAD * split)


@pytest.mark.parametrize(
    ("m", "n", "k", "units", "expected"),
    [
        (256, 256, 4096, 1, loop(4096)),  # one tile on one unit
        (16 * 256, 19 * 256, 32768, 304, loop(32768)),  # 304 tiles in one wave of 304: AMD's own test shape
        (16 * 256, 16 * 256, 4096, 256, loop(4096)),
        (128, 128, 4096, 1, 0.80 * loop(4096)),  # the small tile beats a quarter of the large one
        (256 * 3, 256, 8192, 2, 0.97 * loop(8192)),  # four 192-wide tiles in two whole waves
    ],
)
def test_tiles_and_waves_by_hand(m: int, n: int, k: int, units: int, expected: float) -> None:
    assert tile_utilisation(m, n, k, units) == pytest.approx(expected, rel=1e-12)


def test_one_tile_more_than_a_wave_costs_a_wave_unless_smaller_tiles_fit_better() -> None:
    whole, over = tile_utilisation(4096, 4864, 8192, 304), tile_utilisation(4096, 4865, 8192, 304)
    assert 0.5 * whole < over < whole


def test_splitting_k_fills_a_machine_that_has_too_few_tiles() -> None:
    """Four tiles on 32 units: eight ways in K use all of them at 90 %, with eight prologues."""
    assert tile_utilisation(512, 512, 65536, 32) == pytest.approx(0.90 * loop(65536, 8), rel=1e-12)
    assert tile_utilisation(512, 512, 65536, 4) == pytest.approx(loop(65536), rel=1e-12)


def test_a_large_gemm_takes_its_flops_over_the_achieved_rate() -> None:
    m, n, k = 4096, 4864, 32896
    expected = 2.0 * m * n * k / (RATE * loop(k))
    assert MODEL.gemm_s(m, n, k, "bf16") == pytest.approx(expected, rel=1e-12)


def test_a_gemm_that_waits_for_memory_takes_its_bytes_over_hbm() -> None:
    """Rank-64 updates on a machine with a tenth of the bandwidth: operands and a 16-bit result."""
    slow = with_gpu(cluster(), hbm_bandwidth_Bps=5.3e11).kernels
    m, n, k = 16384, 16384, 64
    assert slow.gemm_s(m, n, k, "bf16") == pytest.approx(2.0 * (m * k + k * n + m * n) / (HBM / 10))
    assert slow.gemm_s(m, n, k, "fp8") == pytest.approx((1.0 * (m * k + k * n) + 2.0 * m * n) / (HBM / 10))


def test_square_gemms_ramp_up_as_on_an_mi355x() -> None:
    """Measured on MI355X in bf16: 57, 328, 1139, 1521, 1560 TFLOP/s at 1k, 2k, 4k, 8k, 16k."""
    kernels = cluster("mi355x-8x400g", "primus-2026-mi355x").kernels
    rates = [2.0 * n**3 / kernels.gemm_s(n, n, n, "bf16") for n in (1024, 2048, 4096, 8192, 16384)]
    assert rates == sorted(rates)
    assert rates[0] < 0.5 * rates[-1]
    assert rates[3] > 0.9 * rates[-1]


def test_a_power_cap_slows_compute_and_leaves_hbm() -> None:
    capped = replace(MODEL, power_cap_W=375.0)
    assert capped.gemm_s(8192, 8192, 8192, "bf16") == pytest.approx(
        2**0.6 * MODEL.gemm_s(8192, 8192, 8192, "bf16")
    )
    assert capped.attention_rate_flops(4096, backward=True) == pytest.approx(
        MODEL.attention_rate_flops(4096, backward=True) / 2**0.6
    )
    assert capped.stream_s(1e9, fusible=False) == MODEL.stream_s(1e9, fusible=False)


RATES = (
    AttentionRate("forward", 1024, 100e12),
    AttentionRate("forward", 16384, 500e12),
    AttentionRate("backward", 4096, 300e12),
)
MEASURED = with_stack(cluster(), attention_rates=RATES).kernels


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (1024, 100e12),
        (4096, 300e12),  # half way in log(length)
        (2048, 200e12),
        (16384, 500e12),
        (128, 100e12),  # flat outside the table
        (131072, 500e12),
    ],
)
def test_attention_rates_are_interpolated_in_log_length(length: int, expected: float) -> None:
    assert MEASURED.attention_rate_flops(length, backward=False) == pytest.approx(expected, rel=1e-12)
    assert MEASURED.attention_rate_flops(length, backward=True) == 300e12
    assert MEASURED.attention_s(1e15, 0.0, length, backward=False, fused=True) == pytest.approx(
        1e15 / expected
    )


@pytest.mark.parametrize(("backward", "passes"), [(False, 5.0), (True, 8.0)])
def test_unfused_attention_adds_passes_over_the_scores(backward: bool, passes: float) -> None:
    """Five passes forward and eight backward over the 16-bit score matrix, beside the products' FLOPs."""
    assert STACK.attention_unfused_passes == 5.0
    scores, flops = 2.0 * 96 * 2048**2, 4.0 * 2 * 96 * 128 * 2048.0**2
    expected = flops / RATE + passes * scores * 2.0 / HBM
    assert MODEL.attention_s(flops, scores, 2048, backward=backward, fused=False) == pytest.approx(expected)


def test_a_stack_without_fused_rates_says_what_to_do() -> None:
    bare = with_stack(cluster(), attention_rates=()).kernels
    with pytest.raises(ValueError, match="no fused attention forward rate; use attention: unfused"):
        bare.attention_rate_flops(4096, backward=False)


def test_streaming_kernels_move_their_bytes_at_the_achieved_bandwidth() -> None:
    loose = with_stack(
        cluster(),
        streaming_factor=2.0,
        optimizer_bytes_per_parameter=30.0,
        gradient_accumulation_bytes_per_parameter=8.0,
        cross_entropy_bytes_per_logit={"default": 30.0, "fused": 16.0, "unfused": 60.0},
        kernel_gap_s=5e-6,
    ).kernels
    assert loose.stream_s(HBM, fusible=False) == pytest.approx(1.0)
    assert loose.stream_s(HBM, fusible=True) == pytest.approx(2.0)
    assert loose.optimizer_s(HBM) == pytest.approx(30.0)
    assert loose.accumulate_s(HBM) == pytest.approx(8.0)
    assert [
        loose.cross_entropy_s(HBM, kernel) for kernel in ("default", "fused", "unfused")
    ] == pytest.approx([30.0, 16.0, 60.0])
    assert loose.launch_s(14) == pytest.approx(70e-6)


def test_tile_search_and_model_agree_on_the_machine() -> None:
    """The model asks the tile search about its own number of compute units."""
    half = KernelModel(replace(GPU, compute_units=152), STACK)
    m, n, k = 16 * 256, 19 * 256, 32768
    assert half.gemm_s(m, n, k, "bf16") == MODEL.gemm_s(m, n, k, "bf16")  # two whole waves at the same rate
    assert half.gemm_s(256, 152 * 256, k, "bf16") < MODEL.gemm_s(256, 152 * 256, k, "bf16")
