"""The work of one rank for one layer, embedding or head: shapes after sharding, communication inserted."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from sim.parallel import context
from sim.parallel.attention_buffers import key_blocks
from sim.parallel.context import ContextParallel, Parts
from sim.parallel.expert_work import RoutedExperts
from sim.parallel.layer_work import LayerWork, Weights, total
from sim.parallel.layout import Layout
from sim.parallel.mesh import Mesh
from sim.program import Work
from sim.workload.architecture import LayerKind
from sim.workload.workload import Linear, Traffic, Workload

HEAD_KERNELS = 6  # norm, projection, softmax, loss, and their glue


@dataclass(frozen=True)
class Shard:
    """One tensor-parallel rank's view of a workload under a layout."""

    workload: Workload
    layout: Layout
    mesh: Mesh
    overlap_tp: bool = False
    overlap_ep: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on one context-parallel rank."""
        return self.layout.micro_batch * self.workload.sequence_length // self.layout.cp

    def layer(self, index: int) -> LayerWork:
        """Work of layer ``index`` of the model; layers that are alike share one object."""
        return self._by_kind[self.workload.architecture.kind(index)]

    @cached_property
    def _by_kind(self) -> dict[LayerKind, LayerWork]:
        return {kind: self._layer(kind) for kind in dict.fromkeys(self.workload.architecture.kinds)}

    def _layer(self, kind: LayerKind) -> LayerWork:
        forward = self._forward(kind)
        return LayerWork(
            forward=forward,
            backward=self._backward(kind),
            backward_input=self._backward_input(kind),
            backward_weight=self._backward_weight(kind),
            recompute=self._recompute(kind, forward),
            parameters=self._layer_weights(kind),
            gathered=self._gathered(kind),
        )

    def _forward(self, kind: LayerKind) -> tuple[Work, ...]:
        return (
            *self._gemms(self.workload.layer_linears(kind), self.workload.linear_dtype, ("output",)),
            *self._gemms(self.workload.adapters, self.workload.outer_dtype, ("output",)),
            *self._attention_core(kind, backward=False),
            *self._stream(self.workload.forward_traffic(kind)),
            *self._tensor_parallel(kind),
            *(self._routed.forward if kind.routed else ()),
            Work(Launches(self.workload.kernels_per_layer(kind)), "launch"),
        )

    def _backward(self, kind: LayerKind) -> tuple[Work, ...]:
        """Input gradients, and weight gradients unless the base is frozen."""
        products = ("input",) if self.workload.frozen_base else ("input", "weight")
        work = [
            *self._gemms(self.workload.layer_linears(kind), self.workload.linear_dtype, products),
            *self._gemms(self.workload.adapters, self.workload.outer_dtype, ("input", "weight")),
            *self._attention_core(kind, backward=True),
            *self._stream(self.workload.backward_traffic(kind)),
            *self._tensor_parallel(kind),
            *(self._routed.backward_input if kind.routed else ()),
            *(self._routed.backward_weight if kind.routed else ()),
            Work(Launches(2 * self.workload.kernels_per_layer(kind)), "launch"),
        ]
        return (*work, *self._accumulate(self._layer_weights(kind)))

    def _backward_input(self, kind: LayerKind) -> tuple[Work, ...]:
        """The part of the backward pass that the layer before waits for."""
        kernels = 2 * self.workload.kernels_per_layer(kind) - len(self._weight_products(kind))
        return (
            *self._gemms(self.workload.layer_linears(kind), self.workload.linear_dtype, ("input",)),
            *self._gemms(self.workload.adapters, self.workload.outer_dtype, ("input",)),
            *self._attention_core(kind, backward=True),
            *self._stream(self.workload.backward_traffic(kind)),
            *self._tensor_parallel(kind),
            *(self._routed.backward_input if kind.routed else ()),
            Work(Launches(kernels), "launch"),
        )

    def _backward_weight(self, kind: LayerKind) -> tuple[Work, ...]:
        """The rest of it: weight gradients and adding them up."""
        products = self._weight_products(kind)
        launches = Work(Launches(len(products)), "launch")
        return (*products, launches, *self._accumulate(self._layer_weights(kind)))

    def _weight_products(self, kind: LayerKind) -> tuple[Work, ...]:
        base = () if self.workload.frozen_base else self.workload.layer_linears(kind)
        return (
            *self._gemms(base, self.workload.linear_dtype, ("weight",)),
            *self._gemms(self.workload.adapters, self.workload.outer_dtype, ("weight",)),
            *(self._routed.backward_weight if kind.routed else ()),
        )

    @cached_property
    def _routed(self) -> RoutedExperts:
        return RoutedExperts(self.workload, self.layout, self.mesh, self.tokens, self.overlap_ep)

    @cached_property
    def head(self) -> LayerWork:
        """Final norm, output projection and loss, and what predicts further tokens."""
        alone, further = self._output, self._further
        if not further:
            return alone
        parts = (alone, *further)
        return LayerWork(
            forward=tuple(w for part in parts for w in part.forward),
            backward=tuple(w for part in parts for w in part.backward),
            backward_input=tuple(w for part in parts for w in part.backward_input),
            backward_weight=tuple(w for part in parts for w in part.backward_weight),
            recompute=(),
            parameters=total(part.parameters for part in parts),
            gathered=total(part.gathered for part in parts),
        )

    @property
    def _further(self) -> tuple[LayerWork, ...]:
        """For every further token: a projection of 2h to h, a layer, and the output projection once more."""
        a = self.workload.architecture
        if not a.mtp_layers:
            return ()
        linear, dtype = Linear("mtp_in", 2 * a.hidden, a.hidden, "column"), self.workload.linear_dtype
        norms = 3.0 * a.norm_parameters
        weights = Weights(linear.inputs * linear.outputs / self.layout.tp + norms)
        projection = LayerWork(
            forward=self._gemms((linear,), dtype, ("output",)),
            backward=(*self._gemms((linear,), dtype, ("input", "weight")), *self._accumulate(weights)),
            backward_input=self._gemms((linear,), dtype, ("input",)),
            backward_weight=(*self._gemms((linear,), dtype, ("weight",)), *self._accumulate(weights)),
            recompute=(),
            parameters=weights,
            gathered=weights,
        )
        shared = replace(self._output, parameters=Weights(0.0), gathered=Weights(0.0))
        return (projection, self.layer(a.layers - 1), shared) * a.mtp_layers

    @property
    def _output(self) -> LayerWork:
        return LayerWork(
            forward=self.head_forward,
            backward=self.head_backward,
            backward_input=self.head_backward_input,
            backward_weight=self.head_backward_weight,
            recompute=(),
            parameters=Weights(self.head_parameters),
            gathered=Weights(self._head_held),
        )

    def _accumulate(self, weights: Weights) -> tuple[Work, ...]:
        """Adding one micro-batch's gradients to the main buffer; a full-shard scheme adds shards only."""
        parameters = weights.shared + weights.experts
        if self.layout.shards_gradients or not parameters:
            return ()
        return (Work(AccumulateGradients(parameters), "streaming"),)

    def _recompute(self, kind: LayerKind, forward: tuple[Work, ...]) -> tuple[Work, ...]:
        """What a recomputed layer runs again before its backward."""
        asked = self.layout.recompute
        if asked.kind == "selective":
            chosen: tuple[Work, ...] = tuple(w for m in asked.modules for w in self._module(m, kind))
        elif asked.kind == "operator":
            chosen = self._by_operator(forward)
        elif asked.early_stop and not kind.routed:
            last = self._gemm(self.workload.linears[-1], "output", self.workload.linear_dtype)
            chosen = tuple(w for w in forward if w.op != last)
        else:
            chosen = forward
        return tuple(Work(w.op, "recompute", w.count) for w in chosen)

    def _module(self, module: str, kind: LayerKind) -> tuple[Work, ...]:
        """Forward of a part of a layer in Megatron-LM's words; nothing where the layer lacks it.

        An MLP block is taken to launch half of the layer's kernels.
        """
        a, w = self.workload.architecture, self.workload
        match module:
            case "core_attn":
                return self._attention_core(kind, backward=False)
            case "layernorm":  # each reads and writes a hidden state
                moved = Work(Launches(2), "launch")
                return (*self._stream(Traffic(4.0 * a.hidden * w.element_bytes, 0.0)), moved)
            case "mla_up_proj":  # and the rotation of queries and keys
                rotated = Traffic(0.0, 4.0 * a.q_width * w.element_bytes)
                return (
                    *self._named(kind, "q_up", "kv_up"),
                    *self._stream(rotated),
                    Work(Launches(3), "launch"),
                )
            case "moe_act" if kind.routed:
                return (self._routed.activation, Work(Launches(1), "launch"))
            case "mlp" if not kind.routed:
                return self._mlp_block(kind, a.ffn, "mlp_in", "mlp_out")
            case "moe" if kind.routed:
                return (
                    *self._routed.forward,
                    *self._mlp_block(kind, w.experts.shared_ffn, "shared_in", "shared_out"),
                )
        return ()

    def _mlp_block(self, kind: LayerKind, width: int, *names: str) -> tuple[Work, ...]:
        w = self.workload
        launches = Work(Launches(w.kernels_per_layer(kind) / 2), "launch")
        if not width:
            return (launches,)
        passes = Traffic(0.0, float(w.activation_passes(forward=True) * width * w.element_bytes))
        works = (*self._named(kind, *names), *self._stream(passes), launches)
        if self.layout.tp == 1:
            return works
        if not self.layout.sequence_parallel:
            return (*works, self._exchange("all_reduce"))
        return (*works, self._exchange("all_gather"), self._exchange("reduce_scatter"))

    def _named(self, kind: LayerKind, *names: str) -> tuple[Work, ...]:
        linears = tuple(x for x in self.workload.layer_linears(kind) if x.name in names)
        return self._gemms(linears, self.workload.linear_dtype, ("output",))

    def _by_operator(self, forward: tuple[Work, ...]) -> tuple[Work, ...]:
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
        others = tuple(
            w for w in forward if not isinstance(w.op, Gemm | Attention) and w.cause != context.CAUSE
        )
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
        work = [
            Work(Stream(moved, False), "streaming"),
            *self._accumulate(Weights(self.embedding_parameters)),
        ]
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
            *self._accumulate(Weights(self.head_parameters)),
        ]
        if self.layout.tp > 1:
            work.append(self._exchange("reduce_scatter" if self.layout.sequence_parallel else "all_reduce"))
        return tuple(work)

    @cached_property
    def head_backward_input(self) -> tuple[Work, ...]:
        """The part of ``head_backward`` that the last layer waits for."""
        weights = len(self.head_backward_weight) > 0
        work = [
            *self._gemms((self._head,), self.workload.outer_dtype, ("input",)),
            self._half_loss,
            Work(Launches(2 * HEAD_KERNELS - weights), "launch"),
        ]
        if self.layout.tp > 1:
            work.append(self._exchange("reduce_scatter" if self.layout.sequence_parallel else "all_reduce"))
        return tuple(work)

    @cached_property
    def head_backward_weight(self) -> tuple[Work, ...]:
        """The rest of ``head_backward``; nothing where the base is frozen."""
        if self.workload.frozen_base:
            return ()
        product = self._gemms((self._head,), self.workload.outer_dtype, ("weight",))
        return (*product, Work(Launches(1), "launch"), *self._accumulate(Weights(self.head_parameters)))

    def _layer_weights(self, kind: LayerKind) -> Weights:
        """Trainable parameters of one layer on this rank (norms and biases of row layers replicated)."""
        if self.workload.frozen_base:
            return Weights(self.workload.trainable_layer_parameters / self.layout.tp)
        return self._gathered(kind)

    def _gathered(self, kind: LayerKind) -> Weights:
        """All parameters of one layer on this rank, trainable or not."""
        a = self.workload.architecture
        whole = a.routed_layer_replicated if kind.routed else a.layer_parameters
        split = sum(x.inputs * x.outputs for x in self.workload.layer_linears(kind) if x.shard != "sequence")
        return Weights(
            split / self.layout.tp + (whole - split), self._routed.parameters if kind.routed else 0.0
        )

    @property
    def embedding_parameters(self) -> float:
        return (
            0.0
            if self.workload.frozen_base
            else self.workload.architecture.embedding_parameters / self.layout.tp
        )

    @property
    def head_parameters(self) -> float:
        """Trainable ones of output projection and final norm."""
        return 0.0 if self.workload.frozen_base else self._head_held

    @property
    def _head_held(self) -> float:
        """Output projection (zero when tied on one stage) and final norm."""
        a = self.workload.architecture
        untied = a.head_parameters
        if a.tied_embeddings and self.layout.head_stage > 0:
            untied = a.vocab * a.hidden
        return untied / self.layout.tp + a.norm_parameters

    @property
    def activation_bytes(self) -> float:
        """What a part of the model sends on: each tensor-parallel rank sends its share of the hidden states."""
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
        tokens = self.tokens
        if linear.shard == "sequence" and self.layout.sequence_parallel:
            tokens = _ceil_div(tokens, self.layout.tp)
        if product == "output":
            return Gemm(tokens, outputs, inputs, dtype)
        if product == "input":
            return Gemm(tokens, inputs, outputs, dtype)
        return Gemm(outputs, inputs, tokens, dtype)

    def _attention_core(self, kind: LayerKind, *, backward: bool) -> tuple[Work, ...]:
        """Attention, and what context parallelism adds to it."""
        ordered = self._ordered_sum if backward else ()
        whole = self._attention(kind, backward=backward)
        if self.layout.cp == 1 or not isinstance(whole.op, Attention):
            return (whole, *ordered)
        a = self.workload.architecture
        row = self.tokens * self.workload.element_bytes / self.layout.tp
        ranks = ContextParallel(self.layout.cp_method, self.mesh.cp, self.mesh.cp_hop)
        key_value = a.kv_heads * (a.head_dim + a.value_dim)
        parts = Parts(row * a.q_width, row * key_value, row * a.heads * a.value_dim)
        return (*ranks.core(whole.op, parts), *ordered)

    @property
    def _ordered_sum(self) -> tuple[Work, ...]:
        """A deterministic backward: the query gradients of every block of keys are written and read, in fp32."""
        w = self.workload
        if not w.deterministic_keys:
            return ()
        blocks = key_blocks(w.sequence_length, w.architecture.head_dim, w.deterministic_keys)
        moved = 2.0 * 4.0 * blocks * self.tokens * w.architecture.q_width / self.layout.tp
        return (Work(Stream(moved, fusible=False), "attention"),)

    def _attention(self, kind: LayerKind, *, backward: bool) -> Work:
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
            value_dim=a.value_dim,
            window=kind.window,
        )
        return Work(op, "attention")

    def _stream(self, traffic: Traffic) -> tuple[Work, ...]:
        hidden = traffic.hidden / (self.layout.tp if self.layout.sequence_parallel else 1)
        rows = Work(Stream(self.tokens * (hidden + traffic.sharded / self.layout.tp)), "streaming")
        if not traffic.heads:
            return (rows,)
        heads = Stream(self.tokens * traffic.heads / self.layout.tp, by_head=True)
        return (rows, Work(heads, "streaming"))

    def _tensor_parallel(self, kind: LayerKind) -> tuple[Work, ...]:
        """Two exchanges per direction and layer, around attention and around the MLP.

        Routed rows have their own (``expert_work``); shared experts need the second one.
        """
        if self.layout.tp == 1:
            return ()
        count = 1 if kind.routed and not self.workload.experts.shared_ffn else 2
        if not self.layout.sequence_parallel:
            return (self._exchange("all_reduce", count),)
        return (self._exchange("all_gather", count), self._exchange("reduce_scatter", count))

    def _exchange(self, kind: str, count: int = 1) -> Work:
        hidden = self.workload.architecture.hidden
        size = self.tokens * hidden * self.workload.element_bytes
        return Work(Collective(kind, size, self.mesh.tp, self.overlap_tp), "tensor_parallel", count)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
