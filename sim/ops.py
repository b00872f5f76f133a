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
class GroupedGemm:
    """``groups`` GEMMs of the same m, n, k: one per expert of a rank, tokens spread evenly over them.

    ``pooled``: one kernel whose tiles share the compute units; otherwise one launch after the other.
    """

    groups: int
    m: int
    n: int
    k: int
    dtype: str
    pooled: bool = True

    @property
    def flops(self) -> float:
        return 2.0 * self.groups * self.m * self.n * self.k


@dataclass(frozen=True)
class Attention:
    """Softmax(QKᵀ)V over ``batch`` sequences; ``heads`` are those of this rank.

    ``query_share``: the part of all (query, key) pairs that this rank computes. ``value_dim``: width of
    values where it is not that of queries and keys. ``window``: a causal mask that leaves only that many
    positions before each one; 0 leaves all.
    """

    batch: int
    heads: int
    kv_heads: int
    sequence_length: int
    head_dim: int
    causal: bool
    backward: bool
    fused: bool
    dtype: str = "bf16"
    query_share: float = 1.0
    value_dim: int = 0
    window: int = 0

    @property
    def flops(self) -> float:
        """Forward 2·s²·h·(d_k + d_v) per sequence (what the mask leaves when fused), backward 2.5 times that.


        An unfused kernel computes the masked half too (docs/models.md) and, keeping the
        probabilities, needs only 2 times the forward in its backward.
        """
        full = 4.0 * self.batch * self.heads * self.head_dim * float(self.sequence_length) ** 2
        full *= self.query_share
        if self.value_dim and self.value_dim != self.head_dim:
            full *= (self.head_dim + self.value_dim) / (2.0 * self.head_dim)
        if not self.fused:
            return full * (2.0 if self.backward else 1.0)
        return full * self.visible * (2.5 if self.backward else 1.0)

    @property
    def visible(self) -> float:
        """Part of all pairs of positions that the mask leaves."""
        return visible_share(self.sequence_length, self.window) if self.causal else 1.0


def visible_share(sequence_length: int, window: int = 0) -> float:
    """Part of all pairs of positions that a causal mask with ``window`` (0: none) leaves.

    Position i sees min(i, w) ones: w·(1 − w/2s) on average, s/2 without a window.
    """
    if not window or window >= sequence_length:
        return 0.5
    return window / sequence_length * (1.0 - window / (2.0 * sequence_length))


@dataclass(frozen=True)
class Stream:
    """A memory-bound kernel (norms, activations, casts, optimizer, …) that moves ``bytes``.

    ``fusible`` traffic grows with the stack's streaming factor (unfused kernels); the rest does not.
    ``by_head``: kernels over rows of one attention head's width, slower than others.
    """

    bytes: float
    fusible: bool = True
    by_head: bool = False

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
class RowSet:
    """``lookups`` rows of ``row_bytes`` out of one table or piece of it, which is ``table_bytes`` in all."""

    lookups: float
    row_bytes: float
    table_bytes: float

    @property
    def bytes(self) -> float:
        return self.lookups * self.row_bytes


@dataclass(frozen=True)
class EmbeddingLookup:
    """Reads rows at random, sums those of a sample where they are pooled, writes ``written_bytes`` of vectors."""

    rows: tuple[RowSet, ...]
    written_bytes: float

    @property
    def bytes(self) -> float:
        return sum(rows.bytes for rows in self.rows) + self.written_bytes

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class EmbeddingUpdate:
    """Brings gradients of vectors back to rows and updates them.

    Keys of all lookups are sorted, each lookup gathers ``gradient_bytes`` of its vector's gradient, and each
    distinct row (``distinct`` of the lookups) moves ``update_bytes``: row and optimizer state, read and written.
    """

    lookups: float
    gradient_bytes: float
    distinct: float
    update_bytes: float

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Permute:
    """Reorders vectors between the order of their owners and that of samples: ``bytes`` read and written."""

    bytes: float

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
class HostCopy:
    """``bytes`` between HBM and host memory, one way; or moved in host memory at ``host_Bps`` where that is given."""

    bytes: float
    host_Bps: float = 0.0

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class LoadBatch:
    """One rank's samples of one step, from storage into HBM. Rates are the user's: no catalog knows them.

    Loader workers prepare ``samples`` at ``samples_per_s`` together (infinite: not a limit). The host path
    carries ``host_bytes`` (those of all ranks that load on this host) at ``host_Bps``. In the
    ``background`` preparing and copying are two stages of a pipeline and the slower one decides; a
    training process that loads by itself does one after the other.
    """

    samples: float
    samples_per_s: float
    host_bytes: float
    host_Bps: float
    background: bool = True

    @property
    def seconds(self) -> float:
        prepare_s, copy_s = self.samples / self.samples_per_s, self.host_bytes / self.host_Bps
        return max(prepare_s, copy_s) if self.background else prepare_s + copy_s

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Group:
    """The ranks of one communicator, seen from one member.

    ``size`` ranks lie in scale-up domains (a node, or a rack-wide NVLink/UALink domain),
    ``per_domain`` in each; neighbours lie ``stride`` ranks apart. Where other pipeline stages lie between
    them, ``within`` is their distance among the ranks of their own stage (0: the same).
    """

    axis: str  # "tp" | "cp" | "dp" | "pp"
    size: int
    per_domain: int
    stride: int = 1
    within: int = 0

    @property
    def stage_stride(self) -> int:
        """Distance of neighbours among the ranks of one stage."""
        return self.within or self.stride


@dataclass(frozen=True)
class Collective:
    """``kind`` over ``group``; ``bytes`` is the size of the full (unsharded) buffer of one rank.

    ``overlapped`` marks an exchange inside a compute task that is cut into chunks and hidden under
    the matrix products around it.
    """

    kind: (
        str  # "all_reduce" | "all_gather" | "reduce_scatter" | "all_to_all" | "broadcast" | "reduce" | "send"
    )
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


@dataclass(frozen=True)
class Shift:
    """Passing ``bytes`` to the next rank of a ring while ``beside`` runs: what of it shows.

    ``group`` is the rank and the next one; ``per_domain`` is 1 when any hop of the ``ring`` leaves the domain.
    """

    bytes: float
    group: Group
    beside: Attention
    ring: Group | None = None

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def wire_bytes(self) -> float:
        return self.bytes


@dataclass(frozen=True)
class TokenExchange:
    """Sending tokens to the ranks of ``group`` that hold their experts, or results back.

    ``token_bytes`` are those of all tokens of one rank. Each goes to ``copies`` places on average;
    ``domain_copies`` 0 is a plain all-to-all, otherwise a token crosses the network once per domain that it
    goes to. ``beside``: what hides it: nothing, the ``experts``' matrix products, or all ``compute``.
    ``units``: compute units that its kernel runs on, and that it takes from what runs beside it; 0: as many as it
    needs, and it slows that like any collective.
    """

    token_bytes: float
    copies: float
    domain_copies: float
    group: Group
    beside: str = ""
    units: int = 0

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def wire_bytes(self) -> float:
        """Bytes this rank sends over scale-up links, or over the network where that is all there is."""
        return self.token_bytes * self.copies * (self.group.size - 1) / self.group.size


EmbeddingKernel = EmbeddingLookup | EmbeddingUpdate | Permute
"""What a recommender's tables ask of the compute units."""

DenseKernel = (
    Gemm | GroupedGemm | Attention | Stream | CrossEntropy | Optimizer | AccumulateGradients | Launches
)
"""All else that the compute units run, or the gaps between."""

Kernel = DenseKernel | EmbeddingKernel

Op = Kernel | HostCopy | LoadBatch | Host | Collective | Shift | TokenExchange
