"""What one training step of a model must compute: shapes and traffic per token, before any sharding.

Traffic counts follow findings on published single-node runs: every tensor that a fused kernel reads
or writes once per token. Widths that tensor parallelism divides are kept apart from the hidden width,
which only sequence parallelism divides.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.workload.architecture import Architecture

LOW_PRECISION = ("fp8", "mxfp8", "mxfp4", "nvfp4")
"""Formats whose operands are quantised on the fly; everything outside the linear layers stays bf16."""


@dataclass(frozen=True)
class Linear:
    """One linear layer. Tensor parallelism cuts ``column`` layers by output, ``row`` by input."""

    name: str
    inputs: int
    outputs: int
    shard: str  # "column" | "row"


@dataclass(frozen=True)
class Traffic:
    """Bytes per token: ``hidden`` scales with the sequence-parallel shard, ``sharded`` with 1/tp."""

    hidden: float
    sharded: float

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.hidden + other.hidden, self.sharded + other.sharded)

    def scaled(self, factor: float) -> Traffic:
        return Traffic(self.hidden * factor, self.sharded * factor)


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
        a = self.architecture
        return (
            Linear("qkv", a.hidden, a.q_width + 2 * a.kv_width, "column"),
            Linear("proj", a.q_width, a.hidden, "row"),
            Linear("mlp_in", a.hidden, a.ffn_in_width, "column"),
            Linear("mlp_out", a.ffn, a.hidden, "row"),
        )

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

    @property
    def forward_traffic(self) -> Traffic:
        """Norms, residuals, RoPE, activation function and casts of one layer, forward, bytes per token."""
        a = self.architecture
        base = Traffic(10 * a.hidden, 2 * (a.q_width + a.kv_width) + self._activation_widths(forward=True))
        total = base.scaled(self.element_bytes) + self._masks
        if self.precision in LOW_PRECISION:
            total += self._transposed(Traffic(4 * a.hidden, 2 * a.q_width + 2 * a.ffn).scaled(2.0))
        if self.lora is not None:
            total += self._adapter_traffic
        return total

    @property
    def backward_traffic(self) -> Traffic:
        """The same for the backward pass."""
        a = self.architecture
        base = Traffic(8 * a.hidden, 2 * (a.q_width + a.kv_width) + self._activation_widths(forward=False))
        total = base.scaled(self.element_bytes) + self._masks
        if self.precision in LOW_PRECISION:
            widths = Traffic(4 * a.hidden, 2 * (a.q_width + 2 * a.kv_width) + 4 * a.ffn)
            total += self._transposed(widths.scaled(2.0))
        if self.lora is not None:
            total += self._adapter_traffic.scaled(4 / 3)
        return total

    @property
    def _masks(self) -> Traffic:
        """Two one-byte dropout masks per hidden element, written forward and read backward."""
        return Traffic(2.0 * self.architecture.hidden if self.dropout else 0.0, 0.0)

    def _activation_widths(self, *, forward: bool) -> float:
        """SwiGLU reads gate and up and writes the product; its backward reads and writes one more pair."""
        widths = 3 if forward else 5
        if self.architecture.mlp != "swiglu":
            widths -= 1 if forward else 2
        return widths * self.architecture.ffn

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

    @property
    def kernels_per_layer(self) -> int:
        """Dependent kernel launches of one layer's forward pass in a fused implementation."""
        count = 14
        if self.precision in LOW_PRECISION:
            count += 6
        if self.lora is not None:
            count += 8 * len(self.lora.targets)
        return count

    def model_flops_per_token(self, convention: str = "megatron") -> float:
        """Forward and backward FLOPs per token of the full model, without recomputation.

        ``megatron``: 6 per weight of every linear layer and of the output projection, plus attention
        with the masked half left out, 6·L·s·q when causal (what Megatron-LM and Primus print: 51.5
        GFLOP per token for Llama 3.1 8B at 8,192). ``palm``: 6 per parameter outside the input
        embedding, plus attention in full, 12·L·s·q (PaLM, arXiv:2204.02311, appendix B).
        A LoRA run is counted as the work it does: 4 per frozen weight.
        """
        a = self.architecture
        attention = 12.0 * a.layers * self.sequence_length * a.q_width
        per_weight = 4.0 if self.frozen_base else 6.0
        head = a.vocab * a.hidden
        if convention == "palm":
            weights = a.parameters - a.embedding_parameters + (head if a.tied_embeddings else 0)
        else:
            weights = a.layers * a.layer_linear_parameters + head
            attention *= 0.5 if a.causal else 1.0
        return per_weight * weights + attention + self._adapter_flops_per_token

    @property
    def _adapter_flops_per_token(self) -> float:
        return 6.0 * self.architecture.layers * sum(a.inputs * a.outputs for a in self.adapters)
