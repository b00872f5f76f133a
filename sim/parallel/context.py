"""Attention over a sequence that several ranks hold parts of: who sends what, and which blocks each computes.

Causal parts are balanced: a rank holds one chunk from the front and its mirror image from the back, so that
all ranks attend to equally many positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.ops import Attention, Collective, Group, Launches, Op, Shift, Stream
from sim.program import Work

ALL_GATHER, RING, ALL_TO_ALL = "all-gather", "ring", "all-to-all"
METHODS = (RING, ALL_GATHER, ALL_TO_ALL)

CAUSE = "context_parallel"  # whatever attention on one rank would not do

_KERNELS_PER_BLOCK = 3  # attention, and two that merge its output and its softmax statistics
_MERGE_PASSES = 3.0  # the block's output is read, the running one read and written
_REORDER_PASSES = (
    4.0  # heads brought together before the exchange, chunks of the sequence put in order after it
)


@dataclass(frozen=True)
class Parts:
    """Bytes of the tokens that one rank holds, for its heads."""

    query: float
    key_value: float
    output: float


@dataclass(frozen=True)
class ContextParallel:
    """``ring``: keys and values go round, one block at a time, beside the attention on the block before.
    ``all-gather``: they are gathered first (arXiv:2407.21783, section 3.3.2). ``all-to-all``: each rank
    gets whole sequences of a part of the heads (arXiv:2309.14509).
    """

    method: str
    group: Group
    hop: Group  # one rank and the next on the ring

    def core(self, whole: Attention, parts: Parts) -> tuple[Work, ...]:
        """One rank's share of ``whole``, which is the attention of its heads over all of the sequence."""
        if self.method == RING:
            return self._ring(whole, parts)
        if self.method == ALL_GATHER:
            return self._gathered(whole, parts)
        return self._exchanged(whole, parts)

    def _gathered(self, whole: Attention, parts: Parts) -> tuple[Work, ...]:
        """Backward gathers again, and sums the gradients of keys and values where they belong."""
        size = self.group.size
        kinds = ("all_gather", "reduce_scatter") if whole.backward else ("all_gather",)
        exchange = tuple(Work(Collective(kind, parts.key_value * size, self.group), CAUSE) for kind in kinds)
        return (*exchange, Work(replace(whole, query_share=1.0 / size), "attention"))

    def _exchanged(self, whole: Attention, parts: Parts) -> tuple[Work, ...]:
        """Queries, keys and values to the ranks of their heads, outputs back; gradients likewise."""
        size = self.group.size
        inputs = Collective("all_to_all", parts.query + parts.key_value, self.group)
        outputs = Collective("all_to_all", parts.output, self.group)
        own = replace(whole, heads=whole.heads // size, kv_heads=max(1, whole.kv_heads // size))
        copies = Stream(_REORDER_PASSES * (parts.query + parts.key_value + parts.output))
        return (Work(inputs, CAUSE), Work(outputs, CAUSE), Work(copies, CAUSE), Work(own, "attention"))

    def _ring(self, whole: Attention, parts: Parts) -> tuple[Work, ...]:
        """The first block is the rank's own. In each other one a causal mask leaves half: all queries see the
        keys of an earlier rank's first chunk, or the second half of the queries sees all keys.

        Backward sends the gradients of keys and values along with them.
        """
        steps = self.group.size - 1
        own = replace(whole, sequence_length=whole.sequence_length // self.group.size)
        other = replace(own, causal=False, query_share=0.5 if whole.causal else 1.0)
        sent = parts.key_value * (2.0 if whole.backward else 1.0)
        merged = parts.key_value if whole.backward else parts.output
        extra: tuple[Op, ...] = (
            Shift(sent, self.hop, other, self.group),
            Stream(_MERGE_PASSES * merged),
            Launches(_KERNELS_PER_BLOCK),
        )
        return (
            Work(own, "attention"),
            Work(other, "attention", steps),
            *(Work(op, CAUSE, steps) for op in extra),
        )
