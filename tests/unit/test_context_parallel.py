"""Context parallelism: the same attention in parts, and what the exchange shows of itself."""

from __future__ import annotations

import math

import pytest
from fakes.scenarios import changes, small

from sim.ops import Attention, Collective, Group, Shift, Stream
from sim.parallel.context import ALL_GATHER, ALL_TO_ALL, METHODS, RING, ContextParallel, Parts
from sim.pricing import op_seconds
from sim.step import Step

WHOLE = Attention(2, 32, 8, 8192, 128, causal=True, backward=False, fused=True)
PARTS = Parts(query=32e6, key_value=16e6, output=32e6)


def ranks(method: str, size: int) -> ContextParallel:
    return ContextParallel(method, Group("cp", size, 8), Group("cp", 2, 2))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_all_ranks_together_compute_the_whole(method: str, size: int, backward: bool, causal: bool) -> None:
    whole = Attention(2, 32, 8, 8192, 128, causal=causal, backward=backward, fused=True)
    works = ranks(method, size).core(whole, PARTS)
    assert size * math.fsum(w.count * w.op.flops for w in works) == pytest.approx(whole.flops, rel=1e-12)


def test_a_ring_block_is_half_a_block_under_a_causal_mask() -> None:
    own, other = (w for w in ranks(RING, 4).core(WHOLE, PARTS) if isinstance(w.op, Attention))
    assert (own.count, other.count) == (1, 3)
    assert own.op.flops == other.op.flops  # a triangle, and half of a square
    assert isinstance(other.op, Attention)
    assert not other.op.causal


def test_all_to_all_divides_heads_and_keeps_the_length() -> None:
    works = ranks(ALL_TO_ALL, 8).core(WHOLE, PARTS)
    (attention,) = (w.op for w in works if isinstance(w.op, Attention))
    assert (attention.heads, attention.kv_heads, attention.sequence_length) == (4, 1, 8192)
    sent = [w.op.bytes for w in works if isinstance(w.op, Collective)]
    assert sent == [48e6, 32e6]  # queries, keys and values out; outputs back
    (copied,) = (w.op.bytes for w in works if isinstance(w.op, Stream))
    assert copied == 4 * 80e6  # read and written before the exchange, and after it


def test_all_gather_moves_keys_and_values_of_the_whole_sequence() -> None:
    forward = ranks(ALL_GATHER, 4).core(WHOLE, PARTS)
    kinds = [(w.op.kind, w.op.bytes) for w in forward if isinstance(w.op, Collective)]
    assert kinds == [("all_gather", 64e6)]


def showing(step: Step, bytes_moved: float, hop: Group = Group("cp", 2, 2)) -> tuple[float, float, float]:  # noqa: B008
    """(what shows, transfer alone, attention alone) of one ring step."""
    block = Attention(1, 16, 8, 4096, 64, causal=False, backward=False, fused=True, query_share=0.5)
    shown = op_seconds(Shift(bytes_moved, hop, block), step.cluster)
    moving = step.cluster.collectives.seconds("send", bytes_moved, 2, hop.per_domain, stride=hop.stride)
    return shown, moving, op_seconds(block, step.cluster)


def test_a_short_transfer_shows_only_as_slower_attention() -> None:
    step = Step(small("parallelism.cp=2"))
    shown, moving, block = showing(step, 1e5)
    assert moving < block
    kappa = step.cluster.stack.overlap_slowdown
    assert shown == pytest.approx((1.0 - 1.0 / kappa) * moving, rel=1e-9)


def test_a_long_transfer_shows_what_does_not_fit() -> None:
    step = Step(small("parallelism.cp=2"))
    shown, moving, block = showing(step, 1e10)
    assert shown == pytest.approx(moving - block, rel=1e-9)
    assert showing(step, 1e10, Group("cp", 2, 1))[0] > 0.0


def test_a_ring_over_two_nodes_is_as_slow_as_its_slowest_hop() -> None:
    inside = Step(small(*changes("cp=8 cluster.nodes=2"))).program
    across = Step(small(*changes("cp=16 cluster.nodes=2"))).program
    hops = [
        {w.op.group.per_domain for t in program.tasks for w in t.work if isinstance(w.op, Shift)}
        for program in (inside, across)
    ]
    assert hops == [{2}, {1}]


@pytest.mark.parametrize("method", METHODS)
def test_context_parallelism_shortens_a_long_step(method: str) -> None:
    """At 128k tokens attention dominates; dp shrinks with cp, so micro-batches per replica grow with it."""
    plan = "training.sequence_length=131072 training.global_batch=8"
    one, two = (Step(small(*changes(p))).result for p in (plan, f"{plan} cp=2 cp_method={method}"))
    assert two.breakdown_s["context_parallel"] > 0.0
    assert two.step_time_s > one.step_time_s  # nothing is gained where replicas could have done it
    assert two.worst_memory.parts_bytes["activations"] < 0.6 * one.worst_memory.parts_bytes["activations"]


def test_exchange_is_charged_to_its_own_cause_and_to_recomputation_when_repeated() -> None:
    plain = Step(small(*changes("cp=2"))).result.breakdown_s
    again = Step(small(*changes("cp=2 training.recompute=full"))).result.breakdown_s
    kept = Step(small(*changes("cp=2 training.recompute=operator"))).result.breakdown_s
    assert again["context_parallel"] == pytest.approx(plain["context_parallel"], rel=1e-9)
    assert kept["recompute"] < again["recompute"]
