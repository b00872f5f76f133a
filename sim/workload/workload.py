"""What one training step of a model must compute: shapes and traffic per token, before any sharding.

Traffic counts follow findings on published single-node runs: every tensor that a fused kernel reads
or writes once per token. Widths that tensor parallelism divides are kept apart from the hidden width,
which only sequence parallelism divides.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.ops import visible_share
from sim.workload.architecture import Architecture, LayerKind
from sim.workload.experts import Experts
from sim.workload.routing import BALANCED, Routing

LOW_PRECISION = ("fp8", "mxfp8", "mxfp4", "nvfp4")
"""Formats whose operands are quantised on the fly; everything outside the linear layers stays bf16."""


@dataclass(frozen=True)
class Linear:
    """One linear layer. Tensor parallelism cuts ``column`` layers by output, ``row`` by input.

    ``replicated`` ones are whole on every rank; ``sequence`` ones too, but sequence parallelism divides
    the tokens that they see.
    """

    name: str
    inputs: int
    outputs: int
    shard: str  # "column" | "row" | "replicated" | "sequence"


@dataclass(frozen=True)
class Traffic:
    """Bytes per token: ``hidden`` scales with the sequence-parallel shard, the others with 1/tp.

    ``heads`` are those of kernels that work head by head: rotary embedding, norms of queries and keys.
    """

    hidden: float
    sharded: float
    heads: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.hidden + other.hidden, self.sharded + other.sharded, self.heads + other.heads)

    def scaled(self, factor: float) -> Traffic:
        return Traffic(self.hidden * factor, self.sharded * factor, self.heads * factor)


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters of ``rank`` on ``targets`` ("qkv", "proj") over a frozen base."""

    rank: int
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """A model and the numerics it is trained with."""

    architecture: Architecture
    sequence_length: int
    precision: str
    fused_attention: bool = True
    lora: Lora | None = None
    loss_kernel: str = "default"  # of the cross-entropy: default (the stack's), fused, unfused
    dropout: float = 0.0
    routing: Routing = BALANCED
    activation_store: str = "computed"  # | "fp8": format in which the activation function's input is kept
    deterministic_keys: float = (
        0.0  # per block of an attention backward that adds in a fixed order; 0: any order
    )

    @property
    def frozen_base(self) -> bool:
        return self.lora is not None

    @property
    def linear_dtype(self) -> str:
        """Number format of the linear layers inside the blocks."""
        return self.precision

    @property
    def outer_dtype(self) -> str:
        """Number format of the output projection and of everything that is not quantised."""
        return "bf16" if self.precision in LOW_PRECISION else self.precision

    @property
    def element_bytes(self) -> float:
        """Bytes of one activation element outside quantised operands."""
        return 4.0 if self.precision == "fp32" else 2.0

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Linear layers of one dense block."""
        return self.layer_linears(LayerKind())

    def layer_linears(self, kind: LayerKind) -> tuple[Linear, ...]:
        """Linear layers that every token visits in a layer of ``kind``: routed experts and router apart."""
        return (*self.attention_linears, *self._mlp_linears(kind))

    @property
    def attention_linears(self) -> tuple[Linear, ...]:
        a = self.architecture
        if a.latent is None:
            return (
                Linear("qkv", a.hidden, a.q_width + 2 * a.kv_width, "column"),
                Linear("proj", a.q_width, a.hidden, "row"),
            )
        latent = a.latent
        narrow = latent.query_rank or a.hidden
        down = (Linear("q_down", a.hidden, narrow, "sequence"),) if latent.query_rank else ()
        return (
            *down,
            Linear("q_up", narrow, a.q_width, "column"),
            Linear("kv_down", a.hidden, latent.kv_rank + latent.rope_dim, "sequence"),
            Linear("kv_up", latent.kv_rank, a.heads * (latent.plain_dim + latent.value_dim), "column"),
            Linear("proj", a.heads * latent.value_dim, a.hidden, "row"),
        )

    def _mlp_linears(self, kind: LayerKind) -> tuple[Linear, ...]:
        a = self.architecture
        if not kind.routed:
            return (
                Linear("mlp_in", a.hidden, a.ffn_in_width, "column"),
                Linear("mlp_out", a.ffn, a.hidden, "row"),
            )
        shared = self.experts.shared_ffn
        if not shared:
            return ()
        return (
            Linear("shared_in", a.hidden, self.mlp_in_factor * shared, "column"),
            Linear("shared_out", shared, a.hidden, "row"),
        )

    @property
    def experts(self) -> Experts:
        """The routed experts. Raises ``ValueError`` for a dense model."""
        if self.architecture.experts is None:
            raise ValueError(f"{self.architecture.name} has no experts")
        return self.architecture.experts

    @property
    def router(self) -> Linear:
        return Linear("router", self.architecture.hidden, self.experts.count, "sequence")

    @property
    def expert_linears(self) -> tuple[Linear, ...]:
        """The two matrix products of one routed expert."""
        h, f = self.architecture.hidden, self.experts.ffn
        return (
            Linear("expert_in", h, self.mlp_in_factor * f, "column"),
            Linear("expert_out", f, h, "row"),
        )

    @property
    def mlp_in_factor(self) -> int:
        """Gate and up side by side for SwiGLU."""
        return 2 if self.architecture.mlp == "swiglu" else 1

    @property
    def adapters(self) -> tuple[Linear, ...]:
        """The low-rank pairs A (in -> rank) and B (rank -> out) of each target."""
        if self.lora is None:
            return ()
        pairs: list[Linear] = []
        for linear in self.linears:
            if linear.name in self.lora.targets:
                first, second = (
                    ("replicated", "column") if linear.shard == "column" else ("row", "replicated")
                )
                pairs.append(Linear(f"{linear.name}.lora_a", linear.inputs, self.lora.rank, first))
                pairs.append(Linear(f"{linear.name}.lora_b", self.lora.rank, linear.outputs, second))
        return tuple(pairs)

    @property
    def trainable_layer_parameters(self) -> int:
        if self.lora is None:
            return self.architecture.layer_parameters
        return sum(a.inputs * a.outputs for a in self.adapters)

    @property
    def trainable_parameters(self) -> int:
        """Parameters that get a gradient and an optimizer state."""
        if self.lora is None:
            return self.architecture.parameters
        return self.trainable_layer_parameters * self.architecture.layers

    def forward_traffic(self, kind: LayerKind) -> Traffic:
        """Norms, residuals, RoPE, activation function and casts of one layer, forward, bytes per token.

        What routed experts read and write is not among it (``sim.parallel.expert_work``).
        """
        a = self.architecture
        base = self._widths(10, kind, forward=True)
        total = base.scaled(self.element_bytes) + self._masks
        if self.precision in LOW_PRECISION:
            casts = Traffic(
                4 * a.hidden + 2 * self._latent_width, 2 * self._output_width + 2 * self._mlp_width(kind)
            )
            total += self._transposed(casts.scaled(2.0))
        if self.lora is not None:
            total += self._adapter_traffic
        return total + self._stored_input(kind)

    def backward_traffic(self, kind: LayerKind) -> Traffic:
        """The same for the backward pass."""
        a = self.architecture
        base = self._widths(8, kind, forward=False)
        total = base.scaled(self.element_bytes) + self._masks
        if self.precision in LOW_PRECISION:
            inner = 2 * (a.q_width + 2 * a.kv_width)
            if a.latent is not None:
                inner = 2 * (a.q_width + a.heads * (a.latent.plain_dim + a.latent.value_dim))
            casts = Traffic(4 * a.hidden + 2 * self._latent_width, inner + 4 * self._mlp_width(kind))
            total += self._transposed(casts.scaled(2.0))
        if self.lora is not None:
            total += self._adapter_traffic.scaled(4 / 3)
        return total + self._stored_input(kind)

    def _stored_input(self, kind: LayerKind) -> Traffic:
        """Casting the activation function's input to one byte, or back: a kernel of its own each way."""
        return Traffic(0.0, self.stored_input_casts * self.mlp_in_factor * self._mlp_width(kind))

    @property
    def stored_input_casts(self) -> float:
        """Bytes per element that casting to one byte reads and writes (casting back moves as many)."""
        return self.element_bytes + 1.0 if self.activation_store == "fp8" else 0.0

    def _widths(self, hidden_passes: int, kind: LayerKind, *, forward: bool) -> Traffic:
        """Elements read or written per token by norms, residuals, RoPE and the activation function.

        Latent attention adds its latents' norms (read, write, twice for the split) and builds keys and
        values of all heads.
        """
        a = self.architecture
        activation = self._activation_widths(kind, forward=forward)
        hidden = hidden_passes * a.hidden + 4 * self._latent_width
        rotated = 2 * (a.q_width + a.kv_width)
        if a.latent is not None:
            return Traffic(hidden, rotated + 2 * a.heads * a.latent.value_dim + activation)
        if a.position != "rope":
            return Traffic(hidden, rotated + activation)
        return Traffic(hidden, activation, rotated + self._normed_heads(forward=forward))

    def _normed_heads(self, *, forward: bool) -> int:
        """Elements that norms of queries and keys add: split off (joined), then normed.

        Forward reads and writes all three parts to make rows contiguous, then reads and writes queries
        and keys; backward reads two and writes one of the latter.
        """
        a = self.architecture
        if not a.qk_norm:
            return 0
        split, normed = 2 * (a.q_width + 2 * a.kv_width), a.q_width + a.kv_width
        return split + (2 if forward else 3) * normed

    @property
    def _latent_width(self) -> int:
        latent = self.architecture.latent
        return 0 if latent is None else latent.query_rank + latent.kv_rank + latent.rope_dim

    @property
    def _output_width(self) -> int:
        """Width of what attention hands to its output projection."""
        return self.architecture.heads * self.architecture.value_dim

    def _mlp_width(self, kind: LayerKind) -> int:
        """Inner width of the MLP that every token visits."""
        return self.experts.shared_ffn if kind.routed else self.architecture.ffn

    @property
    def _masks(self) -> Traffic:
        """Two one-byte dropout masks per hidden element, written forward and read backward."""
        return Traffic(2.0 * self.architecture.hidden if self.dropout else 0.0, 0.0)

    def _activation_widths(self, kind: LayerKind, *, forward: bool) -> float:
        return self.activation_passes(forward=forward) * self._mlp_width(kind)

    def activation_passes(self, *, forward: bool) -> int:
        """SwiGLU reads gate and up and writes the product; its backward reads and writes one more pair."""
        passes = 3 if forward else 5
        if self.architecture.mlp != "swiglu":
            passes -= 1 if forward else 2
        return passes

    def _transposed(self, traffic: Traffic) -> Traffic:
        """A quarter of the quantise traffic is the transposed copy only a weight gradient needs."""
        return traffic.scaled(0.75) if self.frozen_base else traffic

    @property
    def _adapter_traffic(self) -> Traffic:
        """Unfused adapters read their input, write and re-read their output, and add it."""
        total = Traffic(0.0, 0.0)
        if self.lora is None:
            return total
        a = self.architecture
        if "qkv" in self.lora.targets:
            total += Traffic(3 * a.hidden, 3 * (a.q_width + 2 * a.kv_width))
        if "proj" in self.lora.targets:
            total += Traffic(3 * a.hidden, 3 * a.q_width)
        return total.scaled(2.0)

    def kernels_per_layer(self, kind: LayerKind) -> int:
        """Dependent kernel launches of one layer's forward pass in a fused implementation.

        Latents and routing add to them (assumed): norms and splits; router, top-k, sort, permute, dispatch,
        two products, activation, combine, unpermute, with the bookkeeping between them.
        """
        count = 14
        if self.architecture.latent is not None:
            count += 6
        if kind.routed:
            count += 16
        if self.precision in LOW_PRECISION:
            count += 6
        if self.lora is not None:
            count += 8 * len(self.lora.targets)
        return count

    def model_flops_per_token(self, convention: str = "megatron") -> float:
        """Forward and backward FLOPs per token of the full model, without recomputation.

        ``megatron``: 6 per weight of every linear layer that a token meets and of the output projection,
        plus attention with the masked part left out, 6·L·s·q when causal (what Megatron-LM and Primus
        print: 51.5 GFLOP per token for Llama 3.1 8B at 8,192). ``palm``: 6 per parameter that a token
        meets outside the input embedding, plus attention in full, 12·L·s·q (PaLM, arXiv:2204.02311,
        appendix B). A LoRA run is counted as the work it does: 4 per frozen weight.
        """
        a = self.architecture
        per_weight = 4.0 if self.frozen_base else 6.0
        head = a.vocab * a.hidden
        if convention == "palm":
            weights = float(a.active_parameters - a.embedding_parameters + (head if a.tied_embeddings else 0))
            weights += a.mtp_layers * head
        else:
            weights = float(self._active_linear_weights + head)
            weights += a.mtp_layers * (head + 2 * a.hidden * a.hidden)
        attention = self._attention_flops_per_token(masked=convention != "palm")
        return per_weight * weights + attention + self._adapter_flops_per_token

    def layer_weight(self, kind: LayerKind) -> float:
        """What a token costs in one layer, in weights that it would meet once: FLOPs over two, forward."""
        a = self.architecture
        linear = float(sum(x.inputs * x.outputs for x in self.layer_linears(kind)))
        if kind.routed:
            linear += self.router.inputs * self.router.outputs + self.experts.top_k * a.expert_parameters
        seen = self.sequence_length * (visible_share(self.sequence_length, kind.window) if a.causal else 1.0)
        return linear + seen * a.heads * (a.head_dim + a.value_dim)

    @property
    def head_weight(self) -> float:
        """The same of the output layer, and of what predicts further tokens."""
        a = self.architecture
        further = self.layer_weight(a.kind(a.layers - 1)) + a.vocab * a.hidden + 2.0 * a.hidden**2
        return float(a.vocab * a.hidden) + (a.mtp_layers * further if a.mtp_layers else 0.0)

    @property
    def _active_linear_weights(self) -> int:
        """Linear weights that a token meets in all layers, those of further tokens' prediction included."""
        a = self.architecture
        if a.experts is None:
            return (a.layers + a.mtp_layers) * a.layer_linear_parameters
        mlp = self.mlp_in_factor + 1
        visited = a.experts.top_k * a.experts.ffn + a.experts.shared_ffn
        routed = a.attention_parameters + mlp * a.hidden * visited + a.hidden * a.experts.count
        layers = a.routed_layers + a.mtp_layers
        return layers * routed + (a.layers - a.routed_layers) * a.layer_linear_parameters

    def _attention_flops_per_token(self, *, masked: bool) -> float:
        """6·s·(d_key + d_value) per head and layer of what the mask leaves; ``masked`` False counts all."""
        a, s = self.architecture, self.sequence_length
        full = 6.0 * s * a.heads * (a.head_dim + a.value_dim)
        if not masked or not a.causal:
            return full * (a.layers + a.mtp_layers)
        further = [a.kind(a.layers - 1)] * a.mtp_layers
        return full * sum(visible_share(s, kind.window) for kind in (*a.kinds, *further))

    @property
    def _adapter_flops_per_token(self) -> float:
        return 6.0 * self.architecture.layers * sum(a.inputs * a.outputs for a in self.adapters)
