"""Routed experts on one rank: router, the way to the experts and back, their matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil

from sim.ops import Collective, Gemm, GroupedGemm, Stream, TokenExchange
from sim.parallel.layout import Layout
from sim.parallel.mesh import Mesh
from sim.program import Work
from sim.workload.workload import LOW_PRECISION, Linear, Workload

CAUSE = "expert_parallel"

# Per token and expert: fp32 logits written and read, probabilities, the choice and its map (assumed; the
# same count holds for what a router keeps in memory, docs/models.md).
ROUTER_BYTES = 20.0

# Passes over the routed rows: gathered and scattered on the way out, and again on the way back.
PERMUTE_PASSES = 4.0

# Further passes over the inner width where gate, product and weighting are kernels of their own: forward 7 instead of
# 3 (silu 2, product 3, weighting 2), backward 11 instead of 5 (3, 5, 3).
UNFUSED_PASSES = {True: 4.0, False: 6.0}

KEPT_IN_8_BITS = ("fp8", "mxfp8")
"""Formats in which frozen weights stay (``MemoryRequest.linear_bytes``)."""

# Weights of routed experts are cast anew for every micro-batch: read in 16 bits, written twice in 8.
CAST_BYTES_PER_WEIGHT = 4.0


@dataclass(frozen=True)
class RoutedExperts:
    """What ``tokens`` of one micro-batch and rank meet in the routed part of a layer.

    Expert tensor parallelism splits the inner width of every expert over etp ranks, each of which brings
    the tokens that it routes: rows are gathered over them before and added up after. ``hidden_beside``: the exchange runs beside other micro-batches' compute.
    """

    workload: Workload
    layout: Layout
    mesh: Mesh
    tokens: int
    hidden_beside: bool = False

    @cached_property
    def forward(self) -> tuple[Work, ...]:
        return (
            *self._router(("output",)),
            *self._products("output"),
            *self._masks(2),
            self._stream(forward=True),
            *self._exchanges,
        )

    @cached_property
    def backward_input(self) -> tuple[Work, ...]:
        """Gradients that the layer's input needs: the same way once more, in the opposite direction."""
        return (
            *self._router(("input",)),
            *self._products("input"),
            *self._masks(3),
            self._stream(forward=False),
            *self._exchanges,
        )

    @cached_property
    def backward_weight(self) -> tuple[Work, ...]:
        """Nothing where router and experts are frozen."""
        if self.workload.frozen_base:
            return ()
        return (*self._router(("weight",)), *self._products("weight"))

    @property
    def experts_here(self) -> int:
        return self.workload.experts.count // self.layout.ep

    @property
    def parameters(self) -> float:
        """Parameters of routed experts on this rank."""
        return self.experts_here * self.workload.architecture.expert_parameters / self.layout.experts_tp

    @property
    def rows(self) -> float:
        """Rows that the experts of this rank compute: those of the hottest rank."""
        tokens = self.tokens * self.layout.experts_tp / self.layout.tp
        return tokens * self.workload.routing.rows_per_token(self.workload.experts)

    @property
    def _rows_per_expert(self) -> int:
        return max(1, ceil(self.rows / self.experts_here))

    @property
    def _own_tokens(self) -> float:
        """Tokens that this tensor-parallel rank routes."""
        return self.tokens / (self.layout.tp if self.layout.sequence_parallel else 1)

    def _router(self, products: tuple[str, ...]) -> tuple[Work, ...]:
        router, m = self.workload.router, ceil(self._own_tokens)
        shapes = {
            "output": (m, router.outputs, router.inputs),
            "input": (m, router.inputs, router.outputs),
            "weight": (router.outputs, router.inputs, m),
        }
        dtype = self.workload.outer_dtype
        return tuple(Work(Gemm(*shapes[product], dtype), "gemm") for product in products)

    def _products(self, product: str) -> tuple[Work, ...]:
        return tuple(Work(self._grouped(linear, product), "gemm") for linear in self.workload.expert_linears)

    def _grouped(self, linear: Linear, product: str) -> GroupedGemm:
        tp, rows = self.layout.experts_tp, self._rows_per_expert
        outputs = ceil(linear.outputs / tp) if linear.shard == "column" else linear.outputs
        inputs = ceil(linear.inputs / tp) if linear.shard == "row" else linear.inputs
        m, n, k = {
            "output": (rows, outputs, inputs),
            "input": (rows, inputs, outputs),
            "weight": (outputs, inputs, rows),
        }[product]
        pooled = self.workload.routing.grouped_gemm == "pooled"
        return GroupedGemm(self.experts_here, m, n, k, self.workload.linear_dtype, pooled)

    def _masks(self, products: int) -> tuple[Work, ...]:
        """One-hot dispatch and combine: matrix products of tokens with a mask of sequence x capacity.

        2·c·k·s·h FLOPs per token each; backward has one more, as combine's mask carries a gradient and
        dispatch's does not.
        """
        routing = self.workload.routing
        if not routing.one_hot:
            return ()
        s, h = self.workload.sequence_length, self.workload.architecture.hidden
        slots = ceil(routing.rows_per_token(self.workload.experts) * s)
        op = Gemm(slots, h, s, self.workload.outer_dtype)
        return (Work(op, "gemm", float(products * self.layout.micro_batch)),)

    def _stream(self, *, forward: bool) -> Work:
        """Router, permutation, activation function and casts of the routed rows."""
        w, experts = self.workload, self.workload.experts
        hidden, inner = float(w.architecture.hidden), experts.ffn / self.layout.experts_tp
        passes = w.activation_passes(forward=forward) * inner
        if w.routing.grouped_gemm == "legacy":
            passes += UNFUSED_PASSES[forward] * inner
        if w.routing.dispatch != "fused":
            passes += PERMUTE_PASSES * hidden
        swept = self.rows * (self.layout.ep if w.routing.static_buffer else 1)
        casts = swept * w.stored_input_casts * w.mlp_in_factor * inner
        moved = swept * passes * w.element_bytes + casts + ROUTER_BYTES * self._own_tokens * experts.count
        if w.precision in LOW_PRECISION:
            moved += self.rows * (2.0 * hidden + (2.0 if forward else 4.0) * inner) * 2.0
            kept = w.frozen_base and w.precision in KEPT_IN_8_BITS  # cast once, before training
            moved += CAST_BYTES_PER_WEIGHT * self.parameters if forward and not kept else 0.0
        return Work(Stream(moved), "streaming")

    @property
    def activation(self) -> Work:
        """The activation function of the routed rows, forward."""
        w = self.workload
        width = w.activation_passes(forward=True) * w.experts.ffn / self.layout.tp
        return Work(Stream(self.rows * width * w.element_bytes), "streaming")

    @property
    def _exchanges(self) -> tuple[Work, ...]:
        """To the experts and back."""
        works: list[Work] = []
        if self.layout.ep > 1:
            works.append(Work(self._exchange, CAUSE, 2.0))
        if self.layout.experts_tp > 1:
            works += self._over_tensor_ranks
        return tuple(works)

    @property
    def _over_tensor_ranks(self) -> tuple[Work, ...]:
        """Rows gathered over the ranks that share an expert before the experts and summed after.

        Without a capacity every rank has received a different number of rows. Libraries gather such parts
        as one broadcast per rank in one launch, one after the other, and scatter sums as one reduction per
        rank (torch ProcessGroupNCCL: ``_broadcast_oop``, ``_reduce_oop``): together a broadcast of all of
        them, S over the bus instead of S·(n-1)/n.
        """
        size = self.rows * self.workload.architecture.hidden * self.workload.element_bytes
        even = self.workload.routing.capacity_factor is not None
        kinds = ("all_gather", "reduce_scatter") if even else ("broadcast", "reduce")
        return tuple(Work(Collective(kind, size, self.mesh.etp), CAUSE) for kind in kinds)

    @property
    def _exchange(self) -> TokenExchange:
        w, group = self.workload, self.mesh.ep
        routing, experts = w.routing, w.experts
        plain = routing.dispatch == "plain"
        per_token = routing.rows_per_token(experts)
        hottest = per_token / experts.top_k
        domains = ceil(group.size / group.per_domain)
        return TokenExchange(
            token_bytes=self.tokens / self.layout.tp * w.architecture.hidden * w.element_bytes,
            copies=per_token if plain else hottest * routing.copies(experts, group.size),
            domain_copies=0.0 if plain else hottest * routing.copies(experts, domains),
            group=group,
            units=0 if plain else routing.dispatch_units or 0,
            beside="experts" if routing.dispatch == "fused" else ("compute" if self.hidden_beside else ""),
        )
