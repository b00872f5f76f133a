"""Kernel times by hand: tiles and waves, attention, streaming."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.machines import cluster, with_gpu, with_stack

from hwmodels.kernels import ATTENTION_RAMP, K_OVERHEAD, KernelModel, tile_utilisation
from sim.ops import Attention
from sim.pricing import op_seconds

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


# An MI300X (best bf16 rate 708 TFLOP/s) with shares and ramps that divide well: forward 1/(1 + 1000/s), further
# 1/(1 + 3000/s) when causal; backward 500 and 1500. Its exponential unit keeps up with 2048/64 = 32 multiply-adds.
RAMP = {"forward": (1000.0, 3000.0), "backward": (500.0, 1500.0)}
SHAPED = replace(
    with_stack(cluster(), attention_share={"forward": 0.8, "backward": 0.6}).kernels, attention_ramp=RAMP
)


@pytest.mark.parametrize(
    ("length", "backward", "causal", "expected"),
    [
        (1000, False, False, 0.8 / 2.0),
        (1000, False, True, 0.8 / 2.0 / 4.0),
        (3000, False, True, 0.8 / (4 / 3) / 2.0),
        (500, True, False, 0.6 / 2.0),
        (1500, True, True, 0.6 / (4 / 3) / 2.0),
        (10**9, False, True, 0.8),  # no ramp left
        (1, False, True, 0.8 / 1001.0 / 3001.0),  # tiles all but empty
    ],
)
def test_attention_by_hand(length: int, backward: bool, causal: bool, expected: float) -> None:
    rate = SHAPED.attention_rate_flops(length, 128, backward=backward, causal=causal)
    assert rate == pytest.approx(expected * 708e12, rel=1e-5)
    seconds = SHAPED.attention_s(1e15, 0.0, length, backward=backward, fused=True, causal=causal)
    assert seconds == pytest.approx(1e15 / rate, rel=1e-12)


@pytest.mark.parametrize(
    ("backward", "causal", "blocks", "tokens"),
    [
        (
            False,
            True,
            4,
            2 * 256 * 304 / 4,
        ),  # the longest tile of 256 queries outweighs 3,000 tokens of the ramp
        (False, True, 1024, 3000.0),
        (False, True, 0, 3000.0),  # not said: many
        (True, True, 4, 1500.0),  # backward does not show it
        (False, False, 4, 0.0),  # no mask: all tiles are as long
    ],
)
def test_few_heads_wait_for_the_longest_tile(
    backward: bool, causal: bool, blocks: int, tokens: float
) -> None:
    tiled = replace(SHAPED, stack=replace(SHAPED.stack, attention_tile_rows=256.0))
    rate = tiled.attention_rate_flops(8192, backward=backward, causal=causal, blocks=blocks)
    unmasked = SHAPED.attention_rate_flops(8192, backward=backward, causal=False)
    assert rate == pytest.approx(unmasked / (1 + tokens / 8192), rel=1e-12)
    assert SHAPED.attention_rate_flops(8192, backward=backward, causal=causal, blocks=blocks) >= rate


def test_heads_of_this_rank_and_sequences_of_a_micro_batch_make_the_tiles() -> None:
    b200 = cluster("b200-8x400g", "megatron-2025-b200")
    eight, both = (Attention(b, h, 1, 4096, 128, True, False, fused=True) for b, h in ((2, 4), (1, 8)))
    four = Attention(1, 4, 1, 4096, 128, True, False, fused=True)
    assert op_seconds(eight, b200) == op_seconds(both, b200) < 2 * op_seconds(four, b200)


def test_uneven_widths_cost_what_the_stack_says() -> None:
    uneven = with_stack(cluster(), uneven_width_share=0.5).kernels
    even, wide = (
        uneven.attention_s(1e12, 0.0, 4096, backward=False, fused=True, value_dim=v) for v in (128, 192)
    )
    assert wide == pytest.approx(2 * even, rel=1e-12)


@pytest.mark.parametrize(
    ("node", "stack", "keeps_up"),
    [
        ("mi300x-8x400g", "primus-2026-mi300x", 32),  # 2048 FLOP per clock and compute unit in bf16
        ("mi355x-8x400g", "primus-2026-mi355x", 64),  # 4096
        ("h100-8x400g", "nemo-2024-h100", 64),  # 4096 per multiprocessor
    ],
)
def test_narrow_heads_wait_for_exponentials(node: str, stack: str, keeps_up: int) -> None:
    """One exponential per score beside head_dim multiply-adds: (1 + d0/128) / (1 + d0/64) of the rate at 128."""
    kernels = cluster(node, stack).kernels
    wide, narrow = (kernels.attention_rate_flops(8192, d, backward=False) for d in (128, 64))
    assert narrow / wide == pytest.approx((1 + keeps_up / 128) / (1 + keeps_up / 64), rel=0.01)
    assert kernels.attention_rate_flops(8192, backward=False) == wide  # 128 unless told


def test_the_ramps_are_those_of_the_page() -> None:
    """docs/models.md states them; the micro-ledger holds them to a refit."""
    assert dict(ATTENTION_RAMP) == {"forward": (317.0, 453.0), "backward": (427.0, 738.0)}
    assert MODEL.attention_ramp == ATTENTION_RAMP
    share = STACK.attention_share["forward"]
    expected = 708e12 * share / (1 + 317 / 2048) / (1 + 453 / 2048)
    assert MODEL.attention_rate_flops(2048, backward=False) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("backward", [False, True])
def test_a_mask_halves_the_work_and_saves_less_than_half_the_time(backward: bool) -> None:
    whole, half = (
        op_seconds(Attention(2, 32, 32, 2048, 128, causal, backward, fused=True), cluster())
        for causal in (False, True)
    )
    assert whole / 2 < half < whole


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_grouped_heads_share_keys_not_work(backward: bool, fused: bool) -> None:
    """Scores and products are per query head."""
    grouped, full = (Attention(2, 32, kv, 4096, 128, True, backward, fused) for kv in (4, 32))
    assert grouped.flops == full.flops
    assert op_seconds(grouped, cluster()) == op_seconds(full, cluster())


@pytest.mark.parametrize(("backward", "passes"), [(False, 5.0), (True, 8.0)])
def test_unfused_attention_adds_passes_over_the_scores(backward: bool, passes: float) -> None:
    """Five passes forward and eight backward over the 16-bit score matrix, beside the products' FLOPs."""
    assert STACK.attention_unfused_passes == 5.0
    scores, flops = 2.0 * 96 * 2048**2, 4.0 * 2 * 96 * 128 * 2048.0**2
    expected = flops / RATE + passes * scores * 2.0 / HBM
    assert MODEL.attention_s(flops, scores, 2048, backward=backward, fused=False) == pytest.approx(expected)


@pytest.mark.parametrize(("share", "backward"), [({}, False), ({"forward": 0.8}, True)])
def test_a_stack_without_a_fused_kernel_says_what_to_do(share: dict[str, float], backward: bool) -> None:
    bare = with_stack(cluster(), attention_share=share).kernels
    direction = "backward" if backward else "forward"
    with pytest.raises(ValueError, match=f"no fused attention {direction} figure; use attention: unfused"):
        bare.attention_rate_flops(4096, backward=backward)


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


def test_kernels_over_heads_reach_their_share_of_the_bandwidth() -> None:
    slow = with_stack(cluster(), head_kernel_share=0.5).kernels
    assert slow.stream_s(HBM, fusible=False, by_head=True) == pytest.approx(2.0)
    assert slow.stream_s(HBM, fusible=False) == pytest.approx(1.0)


def test_tile_search_and_model_agree_on_the_machine() -> None:
    """The model asks the tile search about its own number of compute units."""
    half = KernelModel(replace(GPU, compute_units=152), STACK)
    m, n, k = 16 * 256, 19 * 256, 32768
    assert half.gemm_s(m, n, k, "bf16") == MODEL.gemm_s(m, n, k, "bf16")  # two whole waves at the same rate
    assert half.gemm_s(256, 152 * 256, k, "bf16") < MODEL.gemm_s(256, 152 * 256, k, "bf16")
