"""What attention needs while it runs and frees at its end: parts of other ranks, partial gradients."""

from __future__ import annotations

from math import ceil

from sim.parallel.context import ALL_GATHER, RING
from sim.parallel.layout import Layout
from sim.parallel.memory_facts import MemoryFacts, MemoryRequest
from sim.workload.architecture import Architecture

WIDE_HEAD = 128
"""Heads wider than this take half the keys per block (Composable Kernel, fused_attn_ck.cpp of ROCm's TE)."""


def exchange_bytes(architecture: Architecture, layout: Layout, request: MemoryRequest) -> float:
    """Keys and values of other context-parallel ranks during a backward pass, with their gradients.

    All-gather: those of the whole sequence, gathered again, and their gradients before they are summed
    where they belong. Ring: the block that is sent, the one that arrives, and the gradients that go round
    with them. All-to-all keeps what it exchanges (``activations``).
    """
    if layout.cp == 1:
        return 0.0
    width = architecture.kv_heads * (architecture.head_dim + architecture.value_dim) / layout.tp
    block = request.element_bytes * layout.micro_batch * request.sequence_length / layout.cp * width
    blocks = {ALL_GATHER: 2.0 * layout.cp, RING: 4.0}
    return block * blocks.get(request.context_exchange, 0.0)


def accumulator_bytes(
    architecture: Architecture, layout: Layout, request: MemoryRequest, facts: MemoryFacts
) -> float:
    """fp32 query gradients of every block of keys, until they are added in a fixed order.

    ceil(s / keys per block) · heads · tokens · head_dim · 4 (fused_attn_ck.cpp of ROCm's Transformer Engine).
    """
    if not request.deterministic:
        return 0.0
    tokens = layout.micro_batch * request.sequence_length / layout.cp
    blocks = key_blocks(request.sequence_length, architecture.head_dim, facts.deterministic_keys)
    return 4.0 * blocks * tokens * architecture.q_width / layout.tp


def key_blocks(sequence_length: int, head_dim: int, keys: float) -> int:
    """Blocks of a deterministic attention backward. Raises ``ValueError`` where ``keys`` is not known."""
    if keys <= 0.0:
        raise ValueError("deterministic attention: the stack does not say how many keys a block has")
    return ceil(sequence_length / (keys if head_dim <= WIDE_HEAD else keys / 2.0))
