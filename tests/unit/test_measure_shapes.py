"""Which matrix products and attention calls a scenario asks to measure."""

from __future__ import annotations

from fakes.scenarios import small

from sim.measure import attention, gemm_shapes
from sim.measure.gemm_shapes import GemmShape, scenario_shapes
from sim.ops import Gemm
from sim.step import Step

TOKENS, HIDDEN, FFN, VOCAB = 2048, 1024, 2816, 32000


def shapes(*changes: str) -> set[str]:
    return {str(shape) for shape in scenario_shapes(Step(small(*changes)).program)}


def test_every_product_of_the_program_is_there_and_no_other() -> None:
    program = Step(small()).program
    ops = {w.op for t in program.tasks for w in t.work if isinstance(w.op, Gemm)}
    assert {Gemm(s.m, s.n, s.k, s.dtype) for s in scenario_shapes(program)} == ops


def test_layouts_follow_from_forward_input_gradient_and_weight_gradient() -> None:
    found = shapes()
    down = {s for s in found if str(FFN) in s and str(2 * FFN) not in s}
    assert down == {
        f"bf16 TN {TOKENS}x{HIDDEN}x{FFN}",
        f"bf16 NN {TOKENS}x{FFN}x{HIDDEN}",
        f"bf16 NT {HIDDEN}x{FFN}x{TOKENS}",
    }
    # Square: its output and its input gradient have equal shapes, not equal layouts.
    assert {f"bf16 TN {TOKENS}x{HIDDEN}x{HIDDEN}", f"bf16 NN {TOKENS}x{HIDDEN}x{HIDDEN}"} <= found


def test_recomputation_runs_no_new_product() -> None:
    assert shapes("training.recompute=full") == shapes()


def test_eight_bit_products_are_all_tn() -> None:
    found = {s.split()[1] for s in shapes("training.precision=fp8") if s.startswith("fp8")}
    assert found == {"TN"}


def test_tensor_parallel_ranks_multiply_their_share() -> None:
    assert f"bf16 TN {TOKENS}x{VOCAB // 4}x{HIDDEN}" in shapes("parallelism.tp=4")


def test_the_largest_come_first() -> None:
    flops = [shape.flops for shape in scenario_shapes(Step(small()).program)]
    assert flops == sorted(flops, reverse=True)


def test_sweeps_cover_all_formats_and_shrink() -> None:
    full, quick, tiny = (
        gemm_shapes.sweep(quick=quick, small=small)
        for quick, small in ((False, False), (True, False), (True, True))
    )
    assert {shape.dtype for shape in full} == {shape.dtype for shape in tiny} == set(gemm_shapes.DTYPES)
    assert GemmShape(4096, 4864, 32896, "bf16") in full
    assert sum(s.flops for s in tiny) < 1e9 < sum(s.flops for s in quick) < sum(s.flops for s in full)


def test_attention_of_the_scenario_is_that_of_one_rank() -> None:
    ops = attention.scenario_attention(Step(small("parallelism.tp=4")).program)
    assert {(op.heads, op.kv_heads, op.backward) for op in ops} == {(4, 2, False), (4, 2, True)}


def test_the_attention_sweep_has_both_directions_masks_and_groupings() -> None:
    ops = attention.sweep(quick=False, small=False)
    assert {op.backward for op in ops} == {op.causal for op in ops} == {True, False}
    assert {op.heads // op.kv_heads for op in ops} == {1, 4}
    assert len({op.sequence_length for op in ops}) == 6
