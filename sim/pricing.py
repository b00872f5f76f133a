"""Where abstract tasks meet a machine: each distinct piece of work gets its seconds once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
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
from sim.program import COMPUTE, Program, Work
from sim.windows import Window, stretch


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


@dataclass(frozen=True)
class StreamTime:
    """Seconds that collectives inside a compute task take of the collective stream: shown, or hidden by it."""

    exposed_s: float = 0.0
    hidden_s: float = 0.0


NOTHING = StreamTime()


def price(program: Program, cluster: Cluster) -> tuple[Price, ...]:
    """One price per task id, windows applied."""
    pricer = _Pricer(cluster)
    base = [pricer.work(task.work) for task in program.tasks]
    inside = [pricer.inside(task.work) if program.one_stream else NOTHING for task in program.tasks]
    return tuple(_stretched(program, base, cluster.stack.overlap_slowdown, inside))


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
            slowdown, alone = self._slowdown(works, beside, routed), sum(seconds.values())
            together = beside + routed
            stretched = alone * stretch(together, alone, slowdown)
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

    def _slowdown(self, works: tuple[Work, ...], beside: float, routed: float) -> float:
        """Of compute beside collectives inside a task; a dispatch that says on how many units it runs takes those."""
        usual, units = self._cluster.stack.overlap_slowdown, self._cluster.gpu.compute_units
        beside_compute = (w.op for w in works if isinstance(w.op, TokenExchange) and w.op.beside == "compute")
        taken = next((op.units for op in beside_compute if op.units), 0)
        if not taken or not routed:
            return usual
        left = (beside / usual + routed * (1.0 - taken / units)) / (beside + routed)
        return 1.0 / left

    def inside(self, works: tuple[Work, ...]) -> StreamTime:
        """What a compute task's own collectives take of the collective stream; rings send beside it."""
        exposed = hidden = 0.0
        for work in works:
            if not isinstance(work.op, Collective | TokenExchange):
                continue
            seconds = work.count * self.op(work.op)
            if work.op.overlapped if isinstance(work.op, Collective) else work.op.beside:
                hidden += seconds
            else:
                exposed += seconds
        return StreamTime(exposed, hidden)

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
    stretched = alone * stretch(moving, alone, cluster.stack.overlap_slowdown)
    return max(stretched, moving) - alone


def _stretched(
    program: Program, base: list[Price], slowdown: float, inside: list[StreamTime]
) -> Iterator[Price]:
    """Slows compute tasks that run beside the collectives of their window, and these where they take turns."""
    windows: dict[str, Window] = defaultdict(Window)
    for task, p, taken in zip(program.tasks, base, inside, strict=True):
        if task.window is None:
            continue
        window = windows[task.window]
        if task.stream == COMPUTE:
            window.compute_s += p.seconds
            window.exposed_s += taken.exposed_s
            window.hidden_s += taken.hidden_s
        else:
            window.beside_s += p.seconds
    for task, p, taken in zip(program.tasks, base, inside, strict=True):
        found = windows.get(task.window or "")
        if found is None or p.seconds == 0.0 or not found.beside_s:
            yield p
        elif task.stream == COMPUTE:
            extra = (p.seconds - taken.exposed_s) * (found.factor(slowdown) - 1.0)
            yield Price(p.seconds + extra, (*p.parts, Part("interference", extra, 0.0, 0.0)))
        else:
            yield _delayed(p, found.delay_s(slowdown) * p.seconds / found.beside_s)


def _delayed(p: Price, delay_s: float) -> Price:
    """A collective that waits for its stream: time of its own cause, without bytes."""
    if delay_s == 0.0:
        return p
    return Price(p.seconds + delay_s, (*p.parts, Part(p.parts[0].cause, delay_s, 0.0, 0.0)))
