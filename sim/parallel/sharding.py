"""The work of one rank for one layer, embedding or head: shapes after sharding, communication inserted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.ops import (
    AccumulateGradients,
    Attention,
    Collective,
    CrossEntropy,
    Gemm,
    Launches,
    Stream,
)
from sim.parallel.layout import Layout
from sim.parallel.mesh import Mesh
from sim.program import Work
from sim.workload.workload import Linear, Traffic, Workload

HEAD_KERNELS = 6  # norm, projection, softmax, loss, and their glue


@dataclass(frozen=True)
class Shard:
    """One tensor-parallel rank's view of a workload under a layout."""

    workload: Workload
    layout: Layout
    mesh: Mesh
    overlap_tp: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on one context-parallel rank."""
        return self.layout.micro_batch * self.workload.sequence_length // self.layout.cp

    @cached_property
    def forward(self) -> tuple[Work, ...]:
        """One layer, forward."""
        return (
            *self._gemms(self.workload.linears, self.workload.linear_dtype, ("output",)),
            *self._gemms(self.workload.adapters, self.workload.outer_dtype, ("output",)),
            self._attention(backward=False),
            self._stream(self.workload.forward_traffic),
            *self._tensor_parallel(),
            Work(Launches(self.workload.kernels_per_layer), "launch"),
        )

    @cached_property
    def backward(self) -> tuple[Work, ...]:
        """One layer, backward: input gradients, and weight gradients unless the base is frozen."""
        products = ("input",) if self.workload.frozen_base else ("input", "weight")
        work = [
            *self._gemms(self.workload.linears, self.workload.linear_dtype, products),
            *self._gemms(self.workload.adapters, self.workload.outer_dtype, ("input", "weight")),
            self._attention(backward=True),
            self._stream(self.workload.backward_traffic),
            *self._tensor_parallel(),
            Work(Launches(2 * self.workload.kernels_per_layer), "launch"),
        ]
        return (*work, *self._accumulate(self.layer_parameters))

    def _accumulate(self, parameters: float) -> tuple[Work, ...]:
        """Adding one micro-batch's gradients to the main buffer; a full-shard scheme adds shards only."""
        if self.layout.data_sharding == "fsdp" or not parameters:
            return ()
        return (Work(AccumulateGradients(parameters), "streaming"),)

    @cached_property
    def recompute(self) -> tuple[Work, ...]:
        """What a recomputed layer runs again before its backward."""
        kind = self.layout.recompute.kind
        if kind == "selective":
            chosen: tuple[Work, ...] = (self._attention(backward=False),)
        elif kind == "operator":
            chosen = self._by_operator
        elif self.layout.recompute.early_stop:
            last = self._gemm(self.workload.linears[-1], "output", self.workload.linear_dtype)
            chosen = tuple(w for w in self.forward if w.op != last)
        else:
            chosen = self.forward
        return tuple(Work(w.op, "recompute", w.count) for w in chosen)

    @property
    def _by_operator(self) -> tuple[Work, ...]:
        """Operator-level checkpointing keeps attention and every second matrix product, in the order
        q, k, v, projection, gate, up, down (torchtitan); streaming kernels run again."""
        a = self.workload.architecture
        gated = a.mlp == "swiglu"
        again = {
            "qkv": a.kv_width / (a.q_width + 2 * a.kv_width),
            "proj": 1.0,
            "mlp_in": 0.5 if gated else 0.0,
            "mlp_out": 0.0 if gated or self.layout.recompute.early_stop else 1.0,
        }
        products = tuple(
            Work(self._gemm(linear, "output", self.workload.linear_dtype), "gemm", again[linear.name])
            for linear in self.workload.linears
            if again[linear.name]
        )
        others = tuple(w for w in self.forward if not isinstance(w.op, Gemm | Attention))
        return products + others

    @cached_property
    def embedding_forward(self) -> tuple[Work, ...]:
        """Table lookup; tensor-parallel ranks hold parts of the table and add their results."""
        a = self.workload.architecture
        passes = 2.0 + (1.0 if a.position == "learned" else 0.0)
        moved = passes * self.tokens * a.hidden * self.workload.element_bytes
        work = [Work(Stream(moved, False), "streaming")]
        if self.layout.tp > 1:
            work.append(self._exchange("reduce_scatter" if self.layout.sequence_parallel else "all_reduce"))
        return tuple(work)

    @cached_property
    def embedding_backward(self) -> tuple[Work, ...]:
        if self.workload.frozen_base:
            return ()
        a = self.workload.architecture
        moved = 3.0 * self.tokens * a.hidden * self.workload.element_bytes
        work = [Work(Stream(moved, False), "streaming"), *self._accumulate(self.embedding_parameters)]
        if self.layout.tp > 1 and self.layout.sequence_parallel:
            work.append(self._exchange("all_gather"))
        return tuple(work)

    @cached_property
    def head_forward(self) -> tuple[Work, ...]:
        """Final norm, output projection, half of the loss."""
        work = [
            *self._gemms((self._head,), self.workload.outer_dtype, ("output",)),
            self._half_loss,
            Work(Launches(HEAD_KERNELS), "launch"),
        ]
        if self.layout.tp > 1 and self.layout.sequence_parallel:
            work.append(self._exchange("all_gather"))
        return tuple(work)

    @cached_property
    def head_backward(self) -> tuple[Work, ...]:
        products = ("input",) if self.workload.frozen_base else ("input", "weight")
        work = [
            *self._gemms((self._head,), self.workload.outer_dtype, products),
            self._half_loss,
            Work(Launches(2 * HEAD_KERNELS), "launch"),
            *self._accumulate(self.head_parameters),
        ]
        if self.layout.tp > 1:
            work.append(self._exchange("reduce_scatter" if self.layout.sequence_parallel else "all_reduce"))
        return tuple(work)

    @property
    def layer_parameters(self) -> float:
        """Trainable parameters of one layer on this rank (norms and biases of row layers replicated)."""
        if self.workload.frozen_base:
            return self.workload.trainable_layer_parameters / self.layout.tp
        a = self.workload.architecture
        linear = a.layer_linear_parameters
        return linear / self.layout.tp + (a.layer_parameters - linear)

    @property
    def embedding_parameters(self) -> float:
        return (
            0.0
            if self.workload.frozen_base
            else self.workload.architecture.embedding_parameters / self.layout.tp
        )

    @property
    def head_parameters(self) -> float:
        """Output projection (zero when tied on one stage) and final norm."""
        if self.workload.frozen_base:
            return 0.0
        a = self.workload.architecture
        untied = a.head_parameters
        if a.tied_embeddings and self.layout.pp > 1:
            untied = a.vocab * a.hidden
        return untied / self.layout.tp + a.norm_parameters

    @property
    def activation_bytes(self) -> float:
        """What a stage sends on: each tensor-parallel rank sends its share of the hidden states."""
        hidden = self.workload.architecture.hidden
        return self.tokens * hidden * self.workload.element_bytes / self.layout.tp

    @property
    def _half_loss(self) -> Work:
        logits = self.tokens * self.workload.architecture.vocab / self.layout.tp
        return Work(CrossEntropy(logits, self.workload.loss_kernel), "streaming", 0.5)

    @property
    def _head(self) -> Linear:
        a = self.workload.architecture
        return Linear("head", a.hidden, a.vocab, "column")

    def _gemms(self, linears: tuple[Linear, ...], dtype: str, products: tuple[str, ...]) -> tuple[Work, ...]:
        return tuple(
            Work(self._gemm(linear, product, dtype), "gemm") for linear in linears for product in products
        )

    def _gemm(self, linear: Linear, product: str, dtype: str) -> Gemm:
        outputs = _ceil_div(linear.outputs, self.layout.tp) if linear.shard == "column" else linear.outputs
        inputs = _ceil_div(linear.inputs, self.layout.tp) if linear.shard == "row" else linear.inputs
        if product == "output":
            return Gemm(self.tokens, outputs, inputs, dtype)
        if product == "input":
            return Gemm(self.tokens, inputs, outputs, dtype)
        return Gemm(outputs, inputs, self.tokens, dtype)

    def _attention(self, *, backward: bool) -> Work:
        a = self.workload.architecture
        op = Attention(
            batch=self.layout.micro_batch,
            heads=a.heads // self.layout.tp,
            kv_heads=max(1, a.kv_heads // self.layout.tp),
            sequence_length=self.workload.sequence_length,
            head_dim=a.head_dim,
            causal=a.causal,
            backward=backward,
            fused=self.workload.fused_attention,
            dtype=self.workload.outer_dtype,
        )
        return Work(op, "attention")

    def _stream(self, traffic: Traffic) -> Work:
        hidden = traffic.hidden / (self.layout.tp if self.layout.sequence_parallel else 1)
        return Work(Stream(self.tokens * (hidden + traffic.sharded / self.layout.tp)), "streaming")

    def _tensor_parallel(self) -> tuple[Work, ...]:
        """Two exchanges per direction and layer, around attention and around the MLP."""
        if self.layout.tp == 1:
            return ()
        if not self.layout.sequence_parallel:
            return (self._exchange("all_reduce", 2),)
        return (self._exchange("all_gather", 2), self._exchange("reduce_scatter", 2))

    def _exchange(self, kind: str, count: int = 1) -> Work:
        hidden = self.workload.architecture.hidden
        size = self.tokens * hidden * self.workload.element_bytes
        return Work(Collective(kind, size, self.mesh.tp, self.overlap_tp), "tensor_parallel", count)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
