"""The nouns of the micro-ledger: one published micro-benchmark figure, and what was benchmarked."""

from __future__ import annotations

from dataclasses import dataclass

from sim.interop.bus_bandwidth import bus_factor
from sim.ledger.run import Source

KINDS = ("measured", "best-of-sweep", "floor", "peak")
CONFIDENCES = ("high", "medium", "low", "derived", "assumed")
FASTER_WHEN_LARGER = {"FLOP/s": True, "B/s": True, "Hz": True, "s": False, "x": False}
"""Units of measured figures. ``x`` is a slow-down."""

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Gemm:
    """Products (m, n, k) run one after the other. ``clock_Hz`` where it was locked."""

    gpu: str
    dtype: str
    shapes: tuple[Shape, ...]
    batch: int = 1
    clock_Hz: float | None = None
    power_cap_W: float | None = None

    kernel = "GEMM"

    @property
    def flops(self) -> float:
        return sum(2.0 * m * n * k for m, n, k in self.shapes) * self.batch

    def __str__(self) -> str:
        words = f"{len(self.shapes)} shapes" if len(self.shapes) > 1 else "x".join(map(str, self.shapes[0]))
        return f"{self.gpu} {self.dtype} {words}"


@dataclass(frozen=True)
class Attention:
    """One fused attention call. ``batch`` and ``heads`` are nominal where the source does not state them."""

    gpu: str
    direction: str  # forward | backward
    mask: str  # causal | full
    sequence: int
    head_dim: int
    batch: int
    heads: int
    kv_heads: int

    @property
    def kernel(self) -> str:
        return f"attention {self.direction}"

    @property
    def score_elements(self) -> float:
        """batch x heads x s², both triangles."""
        return float(self.batch) * self.heads * self.sequence**2

    @property
    def flops(self) -> float:
        """4 b h s² d forward, half under a causal mask, 2.5 times backward: as the sources count."""
        passes = (0.5 if self.mask == "causal" else 1.0) * (2.5 if self.direction == "backward" else 1.0)
        return 4.0 * self.score_elements * self.head_dim * passes

    def __str__(self) -> str:
        heads = f"{self.heads}/{self.kv_heads}"
        return f"{self.gpu} {self.direction} {self.mask} s={self.sequence} d={self.head_dim} heads {heads}"


@dataclass(frozen=True)
class Stream:
    """A memory-bound kernel; ``bytes_moved`` where the source gives a time instead of a bandwidth."""

    gpu: str
    op: str
    bytes_moved: float | None = None

    @property
    def kernel(self) -> str:
        return "HBM stream" if self.bytes_moved is None else "streaming kernel"

    def __str__(self) -> str:
        traffic = "" if self.bytes_moved is None else f" {self.bytes_moved / 1e6:.0f} MB"
        return f"{self.gpu} {self.op}{traffic}"


@dataclass(frozen=True)
class Clock:
    """The clock held under a GEMM of ``dtype`` at a power cap."""

    gpu: str
    dtype: str
    power_cap_W: float

    kernel = "clock under load"

    def __str__(self) -> str:
        return f"{self.gpu} {self.dtype} at {self.power_cap_W:.0f} W"


@dataclass(frozen=True)
class Overlap:
    """How much longer a GEMM takes beside a collective."""

    gpu: str
    gemm: str

    kernel = "GEMM beside a collective"

    def __str__(self) -> str:
        return f"{self.gpu} {self.gemm}"


@dataclass(frozen=True)
class Collective:
    """One collective of ``size_bytes`` (the whole buffer) over ``ranks`` spread evenly over ``nodes``.

    ``rings_per_node`` such groups run side by side in each node. ``algorithm``: auto, ring or
    in-switch. ``stack`` names the software where it is not the newest of the GPU.
    """

    node: str
    op: str
    ranks: int
    nodes: int
    size_bytes: float
    algorithm: str = "auto"
    rings_per_node: int = 1
    stack: str | None = None

    @property
    def ranks_per_node(self) -> int:
        return self.ranks // self.nodes

    @property
    def kernel(self) -> str:
        op = self.op.replace("_", "-")
        if self.nodes == 1:
            return f"{op}, one node"
        if self.ranks_per_node == 1:
            return f"{op}, one rank per node"
        return f"{op}, {'two' if self.nodes == 2 else self.nodes} nodes"

    @property
    def bus_factor(self) -> float:
        """Bus over algorithm bandwidth, as rccl-tests define it."""
        return bus_factor(self.op, self.ranks)

    def __str__(self) -> str:
        group = f"{self.ranks} ranks on {self.nodes} node{'s' if self.nodes > 1 else ''}"
        return f"{self.node} {self.op} {size_words(self.size_bytes)}, {group}"


@dataclass(frozen=True)
class Message:
    """``batch`` RDMA writes of ``size_bytes`` by one NIC, posted together."""

    nic: str
    size_bytes: float
    batch: int

    kernel = "RDMA write"

    def __str__(self) -> str:
        return f"{self.nic} write {self.batch} x {size_words(self.size_bytes)}"


Subject = Gemm | Attention | Stream | Clock | Overlap | Collective | Message


@dataclass(frozen=True)
class MicroRow:
    """One published figure. ``value`` is in ``unit``, a key of ``FASTER_WHEN_LARGER``.

    ``overhead_s`` is what the harness adds to each call and ``issue_s`` the shortest time between two
    calls of its host: facts about the benchmark, not about the kernel. Rows that must not be used have no
    subject and say why in ``set_aside``.
    """

    benchmark: str
    subject: Subject | None
    value: float
    unit: str
    kind: str
    confidence: str
    split: str  # fit | check
    source: Source
    location: str  # file:line
    library: str = ""
    overhead_s: float = 0.0
    issue_s: float = 0.0
    in_place: bool = False
    set_aside: str = ""
    note: str = ""

    @property
    def scored(self) -> bool:
        """Whether the row counts as a measurement: no floor, no peak, not set aside."""
        return self.subject is not None and self.kind in ("measured", "best-of-sweep")

    @property
    def label(self) -> str:
        words = [str(self.subject)] if self.subject else []
        words += [self.library] if self.library else []
        words += ["in place"] if self.in_place else []
        return ", ".join(words)


@dataclass(frozen=True)
class MicroFile:
    """One file of ``validation/micro/``."""

    path: str
    benchmark: str
    rows: tuple[MicroRow, ...]


def size_words(count: float) -> str:
    """Bytes as 8 B, 64 KiB, 5.75 MiB, 1 GiB: the sizes that benchmarks step through."""
    for scale, unit in ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count:.4g} B"
