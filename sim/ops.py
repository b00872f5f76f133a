"""The abstract operations a training step is made of: shapes and bytes, no hardware, no schedule.

Shapes are those of *one rank*: sharding has been applied. Every op knows its FLOPs and its bytes
over a network, so that conservation can be checked without pricing anything.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gemm:
    """C[m, n] += A[m, k] B[k, n] in ``dtype`` (a number format of the GPU catalog)."""

    m: int
    n: int
    k: int
    dtype: str

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


@dataclass(frozen=True)
class Attention:
    """Softmax(QKᵀ)V over ``batch`` sequences; ``heads`` are those of this rank."""

    batch: int
    heads: int
    kv_heads: int
    sequence_length: int
    head_dim: int
    causal: bool
    backward: bool
    fused: bool
    dtype: str = "bf16"

    @property
    def flops(self) -> float:
        """Forward 4·s²·h·d per sequence (half when causal *and* fused), backward 2.5 times that.

        An unfused kernel computes the masked half too (docs/models.md) and, keeping the
        probabilities, needs only 2 times the forward in its backward.
        """
        full = 4.0 * self.batch * self.heads * self.head_dim * float(self.sequence_length) ** 2
        if not self.fused:
            return full * (2.0 if self.backward else 1.0)
        return full * (0.5 if self.causal else 1.0) * (2.5 if self.backward else 1.0)


@dataclass(frozen=True)
class Stream:
    """A memory-bound kernel (norms, activations, casts, optimizer, …) that moves ``bytes``.

    ``fusible`` traffic grows with the stack's streaming factor (unfused kernels); the rest does not.
    """

    bytes: float
    fusible: bool = True

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class CrossEntropy:
    """Softmax cross-entropy over ``logits`` local logits, forward and backward.

    ``kernel``: ``default`` (what the software stack runs), ``fused`` or ``unfused``.
    """

    logits: float
    kernel: str = "default"

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Optimizer:
    """Optimizer step over ``parameters`` local parameters."""

    parameters: float

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class AccumulateGradients:
    """Adds one micro-batch's weight gradients of ``parameters`` into the main gradient buffer."""

    parameters: float

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Launches:
    """Host gaps between ``kernels`` dependent kernel launches."""

    kernels: float

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Host:
    """Time outside all kernels: data loader, logging, replica skew. Seconds come from the stack."""

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Group:
    """The ranks of one communicator, seen from one member.

    ``size`` ranks lie in scale-up domains (a node, or a rack-wide NVLink/UALink domain),
    ``per_domain`` in each; neighbours lie ``stride`` ranks apart.
    """

    axis: str  # "tp" | "dp" | "pp"
    size: int
    per_domain: int
    stride: int = 1


@dataclass(frozen=True)
class Collective:
    """``kind`` over ``group``; ``bytes`` is the size of the full (unsharded) buffer of one rank.

    ``overlapped`` marks an exchange inside a compute task that is cut into chunks and hidden under
    the matrix products around it.
    """

    kind: str  # "all_reduce" | "all_gather" | "reduce_scatter" | "send"
    bytes: float
    group: Group
    overlapped: bool = False
    algorithm: str = "auto"

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def wire_bytes(self) -> float:
        """Bytes this rank sends (equal to what it receives) with a bandwidth-optimal algorithm."""
        n = self.group.size
        if self.kind == "send":
            return self.bytes
        share = (n - 1) / n
        return self.bytes * share * (2.0 if self.kind == "all_reduce" else 1.0)


Op = Gemm | Attention | Stream | CrossEntropy | Optimizer | AccumulateGradients | Launches | Host | Collective
