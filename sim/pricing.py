"""Where abstract tasks meet a machine: each distinct piece of work gets its seconds once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from hwmodels.cluster import Cluster
from hwmodels.expert_exchange import token_exchange_s
from hwmodels.kernels import KernelModel
from sim.ops import (
    AccumulateGradients,
    Attention,
    Collective,
    CrossEntropy,
    DenseKernel,
    EmbeddingLookup,
    EmbeddingUpdate,
    Gemm,
    GroupedGemm,
    Host,
    HostCopy,
    Launches,
    LoadBatch,
    Op,
    Optimizer,
    Permute,
    Shift,
    Stream,
    TokenExchange,
)
from sim.program import COMPUTE, Program, Task, Work


@dataclass(frozen=True)
class Part:
    """What one cause takes of a task. ``bytes`` are those sent over links."""

    cause: str
    seconds: float
    flops: float
    bytes: float


@dataclass(frozen=True)
class Price:
    """Duration of one task and its parts, which sum to it."""

    seconds: float
    parts: tuple[Part, ...]


def price(program: Program, cluster: Cluster) -> tuple[Price, ...]:
    """One price per task id, windows applied."""
    pricer = _Pricer(cluster)
    base = [pricer.work(task.work) for task in program.tasks]
    return tuple(_stretched(program, base, cluster.stack.overlap_slowdown))


class _Pricer:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ops: dict[Op, float] = {}
        self._works: dict[int, Price] = {}

    def work(self, works: tuple[Work, ...]) -> Price:
        """Memoised by identity: micro-batches share their work tuples."""
        known = self._works.get(id(works))
        if known is None:
            known = self._works[id(works)] = self._sum(works)
        return known

    def _sum(self, works: tuple[Work, ...]) -> Price:
        seconds: dict[str, float] = defaultdict(float)
        flops: dict[str, float] = defaultdict(float)
        sent: dict[str, float] = defaultdict(float)
        beside = routed = fused = experts = 0.0
        for work in works:
            spent = work.count * self.op(work.op)
            if isinstance(work.op, Collective) and work.op.overlapped:
                beside += spent
                seconds[work.cause] += 0.0  # a part that carries its bytes
            elif isinstance(work.op, TokenExchange) and work.op.beside:
                fused += spent if work.op.beside == "experts" else 0.0
                routed += spent if work.op.beside == "compute" else 0.0
                seconds[work.cause] += 0.0
            else:
                seconds[work.cause] += spent
            flops[work.cause] += work.count * work.op.flops
            if isinstance(work.op, GroupedGemm):
                experts += spent
            if isinstance(work.op, Collective | Shift | TokenExchange):
                sent[work.cause] += work.count * work.op.wire_bytes
        if fused:  # a kernel that computes on what has arrived: the slower of the two counts
            seconds["expert_parallel"] += max(0.0, fused - experts)
        if beside or routed:
            slowdown, alone = self._cluster.stack.overlap_slowdown, sum(seconds.values())
            together = beside + routed
            stretched = alone * _stretch(together, alone, slowdown)
            seconds["interference"] += stretched - alone
            left = max(0.0, together - stretched)
            seconds["tensor_parallel"] += left * (beside / together)
            if routed:
                seconds["expert_parallel"] += left * (routed / together)
        self._launch(works, seconds)
        parts = tuple(Part(c, s, flops[c], sent[c]) for c, s in seconds.items())
        return Price(sum(p.seconds for p in parts), parts)

    def _launch(self, works: tuple[Work, ...], seconds: dict[str, float]) -> None:
        """The device cannot be done before the host has launched all that it runs."""
        each = self._cluster.stack.host_launch_s
        if not each:
            return
        kernels = sum(work.count * work.op.kernels for work in works if isinstance(work.op, Launches))
        seconds["host"] += max(0.0, kernels * each - sum(seconds.values()))

    def op(self, op: Op) -> float:
        known = self._ops.get(op)
        if known is None:
            known = self._ops[op] = op_seconds(op, self._cluster)
        return known


def op_seconds(op: Op, cluster: Cluster) -> float:
    """Seconds of one op on one rank of ``cluster``, uncontended."""
    match op:
        case TokenExchange(size, copies, domain_copies, group):
            alone = token_exchange_s(
                cluster.collectives, size, copies, domain_copies, group.size, group.per_domain, group.stride
            )
            return alone / cluster.stack.dispatch_share(op.units)
        case Shift():
            return _showing_s(op, cluster)
        case HostCopy(moved, rate):
            return moved / (rate or cluster.gpu.host_link_Bps)
        case LoadBatch():
            return op.seconds
        case Host():
            return cluster.stack.fixed_step_s
        case Collective(kind, size, group, _, algorithm):
            return cluster.collectives.seconds(
                kind, size, group.size, group.per_domain, algorithm, group.stride
            )
        case EmbeddingLookup(rows, written):
            reads = [(r.lookups, r.bytes, r.table_bytes) for r in rows]
            return cluster.embeddings.lookup_s(reads, written)
        case EmbeddingUpdate(lookups, gradient, distinct, update):
            return cluster.embeddings.update_s(lookups, gradient, distinct, update)
        case Permute(size):
            return cluster.embeddings.permute_s(size)
    return _kernel_s(op, cluster.kernels)


def _kernel_s(op: DenseKernel, kernels: KernelModel) -> float:
    match op:
        case Gemm(m, n, k, dtype):
            return kernels.gemm_s(m, n, k, dtype)
        case GroupedGemm(groups, m, n, k, dtype, pooled):
            return kernels.grouped_gemm_s((m,) * groups, n, k, dtype, pooled=pooled)
        case Attention():
            scores = op.batch * op.heads * float(op.sequence_length) ** 2 * op.query_share
            return kernels.attention_s(
                op.flops,
                scores,
                op.sequence_length,
                backward=op.backward,
                fused=op.fused,
                causal=op.causal,
                head_dim=op.head_dim,
                dtype=op.dtype,
                value_dim=op.value_dim or op.head_dim,
                window=op.window,
                blocks=op.batch * op.heads,
            )
        case Stream(moved, fusible, by_head):
            return kernels.stream_s(moved, fusible=fusible, by_head=by_head)
        case CrossEntropy(logits, kernel):
            return kernels.cross_entropy_s(logits, kernel)
        case Optimizer(parameters):
            return kernels.optimizer_s(parameters)
        case AccumulateGradients(parameters):
            return kernels.accumulate_s(parameters)
        case Launches(count):
            return kernels.launch_s(count)


def _showing_s(shift: Shift, cluster: Cluster) -> float:
    """What a transfer adds to the attention beside it: slower compute, or what does not fit."""
    group = shift.group
    moving = cluster.collectives.seconds(
        "send", shift.bytes, group.size, group.per_domain, stride=group.stride
    )
    alone = op_seconds(shift.beside, cluster)
    stretched = alone * _stretch(moving, alone, cluster.stack.overlap_slowdown)
    return max(stretched, moving) - alone


def _stretched(program: Program, base: list[Price], slowdown: float) -> list[Price]:
    """Slows compute tasks that run beside the collectives of their window."""
    compute: dict[str, float] = defaultdict(float)
    beside: dict[str, float] = defaultdict(float)
    for task, p in zip(program.tasks, base, strict=True):
        if task.window is not None:
            (compute if task.stream == COMPUTE else beside)[task.window] += p.seconds
    return [_slowed(task, p, compute, beside, slowdown) for task, p in zip(program.tasks, base, strict=True)]


def _slowed(
    task: Task, p: Price, compute: dict[str, float], beside: dict[str, float], slowdown: float
) -> Price:
    if task.window is None or task.stream != COMPUTE or not beside.get(task.window) or p.seconds == 0.0:
        return p
    factor = _stretch(beside[task.window], compute[task.window], slowdown)
    extra = p.seconds * (factor - 1.0)
    return Price(p.seconds + extra, (*p.parts, Part("interference", extra, 0.0, 0.0)))


def _stretch(beside_s: float, compute_s: float, slowdown: float) -> float:
    """How much longer ``compute_s`` of compute takes while ``beside_s`` of collectives run.

    Compute proceeds at 1/slowdown while a collective runs: T compute and C communication seconds side
    by side stretch the compute by min(slowdown, 1 + (1 - 1/slowdown)·C/T)
    (docs/models.md section 1: exposed = (1 - 1/kappa)·t_comm + what does not fit).
    """
    if compute_s <= 0.0:
        return 1.0
    return min(slowdown, 1.0 + (1.0 - 1.0 / slowdown) * beside_s / compute_s)
