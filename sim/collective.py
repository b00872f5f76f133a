"""What rccl-tests would print on a machine of the catalog: time and bandwidth of one collective by size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hwmodels import catalog
from hwmodels.catalog.errors import nearest_first
from hwmodels.collectives import CollectiveModel
from hwmodels.node import Node
from hwmodels.stack import StackProfile
from sim.interop.bus_bandwidth import COLLECTIVES, bus_factor

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send")

_NAMES = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter",
          "alltoall": "all_to_all", "alltoallv": "all_to_all", "all2all": "all_to_all", "bcast": "broadcast",
          "sendrecv": "send", "send_recv": "send", "p2p": "send"}  # fmt: skip

DEFAULT_SIZES = "8:16G*2"
MOST_SIZES = 1000
ELEMENT_BYTES = 4  # the table counts elements of rccl-tests' default format, float
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_SPAN = re.compile(r"([^:*+]+):([^:*+]+)(?:([*+])([^:*+]+))?")
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class CollectiveError(ValueError):
    """A collective that cannot be predicted: the message names the value and what would be right."""


@dataclass(frozen=True)
class CollectiveRow:
    """One message size. Bandwidths as rccl-tests defines them, bytes/s."""

    size_bytes: int
    count: int
    time_s: float
    algbw_Bps: float
    busbw_Bps: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "size_bytes": self.size_bytes,
            "count": self.count,
            "time_s": self.time_s,
            "algbw_Bps": self.algbw_Bps,
            "busbw_Bps": self.busbw_Bps,
        }


@dataclass(frozen=True)
class CollectiveMachine:
    """``ranks`` GPUs, one rank each, on ``nodes`` nodes under one software stack."""

    node: Node
    nodes: int
    ranks: int
    stack: StackProfile

    @property
    def per_domain(self) -> int:
        """Ranks that share one scale-up domain."""
        return min(self.ranks, self.node.scale_up.domain_gpus)

    @property
    def crosses_domains(self) -> bool:
        return self.ranks > self.node.scale_up.domain_gpus

    def seconds(self, kind: str, size_bytes: float) -> float:
        """Time of ``kind`` on a buffer of ``size_bytes``; a send goes to the next rank, over the slowest hop.

        The one place where this meets the hardware model. Raises ``CollectiveError`` for a kind that
        the model lacks.
        """
        model = CollectiveModel(self.node, self.stack)
        per_domain = 1 if kind == "send" and self.crosses_domains else self.per_domain
        try:
            return model.seconds(kind, size_bytes, self.ranks, per_domain)
        except KeyError:
            raise CollectiveError(f"{kind} is not modelled yet") from None


@dataclass(frozen=True)
class CollectiveTable:
    """The predicted table. ``to_dict`` is what ``sim collective --json`` prints."""

    kind: str
    machine: CollectiveMachine
    rows: tuple[CollectiveRow, ...]
    sources: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        machine = self.machine
        return {
            "collective": self.kind,
            "node": machine.node.name,
            "nodes": machine.nodes,
            "ranks": machine.ranks,
            "gpu": machine.node.gpu.title,
            "stack": machine.stack.name,
            "stack_date": machine.stack.date,
            "rows": [row.to_dict() for row in self.rows],
            "sources": list(self.sources),
            "warnings": list(self.warnings),
        }


def predict_collective(
    op: str,
    *,
    node: str,
    nodes: int = 1,
    gpus: int | None = None,
    stack: str | None = None,
    sizes: str = DEFAULT_SIZES,
) -> CollectiveTable:
    """The rccl-tests table of ``op`` on ``nodes`` nodes, one process per GPU.

    ``gpus`` is the number of ranks where they are fewer than the nodes have (one node only). ``stack``
    is a catalog name, a path to a profile, or None for the newest of this GPU. Raises
    ``CollectiveError``, ``UnknownName`` or ``CatalogError``.
    """
    kind = collective_kind(op)
    machine = collective_machine(node, nodes, gpus, stack)
    table = predict_sizes(kind, machine, parse_sizes(sizes))
    if stack is not None:
        return table
    profile = machine.stack
    note = f"no stack named: {profile.name} ({profile.date}), the newest for this GPU"
    return CollectiveTable(kind, machine, table.rows, table.sources, (*table.warnings, note))


def predict_sizes(kind: str, machine: CollectiveMachine, sizes: Sequence[int]) -> CollectiveTable:
    """The table of ``kind`` at ``sizes`` (bytes)."""
    return CollectiveTable(
        kind,
        machine,
        tuple(_row(kind, machine, size) for size in sizes),
        _sources(machine),
        _assumed(machine),
    )


def collective_kind(op: str) -> str:
    """``op`` in our names: ``allreduce``, ``all-reduce`` and ``all_reduce_perf`` are ``all_reduce``."""
    name = op.strip().lower().replace("-", "_").removesuffix("_perf")
    name = _NAMES.get(name, name)
    if name not in KINDS:
        nearest = ", ".join(nearest_first(name, KINDS))
        raise CollectiveError(f"unknown collective {op[:60]!r}; known: {nearest}")
    return name


def collective_machine(node: str, nodes: int, gpus: int | None, stack: str | None) -> CollectiveMachine:
    """Raises ``CollectiveError`` for ranks that the nodes do not have and a stack of another GPU."""
    found = catalog.node(node)
    if nodes < 1:
        raise CollectiveError(f"{nodes} nodes: 1 or more are due")
    whole = nodes * found.gpus
    ranks = whole if gpus is None else gpus
    if ranks > whole:
        raise CollectiveError(f"{ranks} GPUs: {nodes} x {found.name} have {whole}")
    if ranks < whole and nodes > 1:
        raise CollectiveError(f"{ranks} of {whole} GPUs: part of a node is modelled on one node only")
    if ranks < 2:
        raise CollectiveError(f"{ranks} GPU: a collective takes two or more")
    profile = catalog.newest_stack(found.gpu.name) if stack is None else catalog.stack_named(stack)
    if found.gpu.name not in profile.gpus:
        raise CollectiveError(
            f"stack {profile.name!r} is for {', '.join(profile.gpus)}, the node has {found.gpu.name}"
        )
    return CollectiveMachine(found, nodes, ranks, profile)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Message sizes in bytes: ``8:16G*2`` (from, to, factor), ``1M:4M+1M`` (step), ``1K,1M,1G``; K, M, G are binary."""
    sizes: list[int] = []
    for part in text.split(","):
        span = _SPAN.fullmatch(part.strip())
        sizes += _span(part.strip(), span) if span else [_size(part)]
        if len(sizes) > MOST_SIZES:
            raise CollectiveError(f"--sizes {text[:60]!r}: more than {MOST_SIZES} sizes")
    return tuple(dict.fromkeys(sizes))


def _span(text: str, span: re.Match[str]) -> list[int]:
    low, high, sign = _size(span[1]), _size(span[2]), span[3] or "*"
    if low > high:
        raise CollectiveError(f"--sizes {text!r}: {span[1]} is above {span[2]}")
    if sign == "*":
        factor = _factor(text, span[4] or "2")
        steps = (round(low * factor**i) for i in range(MOST_SIZES + 1))
    else:
        step = _size(span[4])
        steps = (low + step * i for i in range(MOST_SIZES + 1))
    found = []
    for size in steps:
        if size > high:
            break
        found.append(size)
    return found


def _factor(text: str, word: str) -> float:
    try:
        factor = float(word)
    except ValueError:
        factor = 0.0
    if not 1.01 <= factor <= 1e6:
        raise CollectiveError(f"--sizes {text!r}: {word!r}: a factor such as 2 (1.01 or more) is due")
    return factor


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = 0 if match is None else int(float(match[1]) * 2.0 ** _POWERS[match[2].upper()])
    if not 1 <= size <= 2**50:
        raise CollectiveError(
            f"--sizes: {text.strip()[:60]!r} is no size; sizes are written like 8, 64K, 16G, 8:16G*2 or 1M,1G"
        )
    return size


def _row(kind: str, machine: CollectiveMachine, size_bytes: int) -> CollectiveRow:
    seconds = machine.seconds(kind, size_bytes)
    algbw = size_bytes / seconds
    parts = machine.ranks if COLLECTIVES[kind] == 1 else 1
    return CollectiveRow(
        size_bytes=size_bytes,
        count=size_bytes // (ELEMENT_BYTES * parts),
        time_s=seconds,
        algbw_Bps=algbw,
        busbw_Bps=algbw * bus_factor(kind, machine.ranks),
    )


def _used(machine: CollectiveMachine) -> list[tuple[str, str, Any]]:
    """(entry, figure name, figure) behind a prediction."""
    node, found = machine.node, []
    for key in ("usable_bandwidth", "bus_bandwidth", "latency", "half_bandwidth_size"):
        found += [(node.name, k, f) for k, f in node.figures.items() if k.startswith(f"scale_up.{key}")]
    names = ["scale_up_efficiency"]
    if machine.crosses_domains:
        found += [
            (node.nic.name, k, f) for k, f in node.nic.figures.items() if k in ("usable_bandwidth", "latency")
        ]
        names += ["scale_out_efficiency"]
    stack = machine.stack
    return found + [(stack.name, k, f) for k, f in stack.figures.items() if k in names]


def _sources(machine: CollectiveMachine) -> tuple[str, ...]:
    return tuple(
        f"{entry}: {name} = {f.text} [{f.confidence}]: {f.source}" for entry, name, f in _used(machine)
    )


def _assumed(machine: CollectiveMachine) -> tuple[str, ...]:
    return tuple(
        f"assumed: {entry}: {name} = {f.text}" + (f" ({f.note})" if f.note else "")
        for entry, name, f in _used(machine)
        if f.confidence == "assumed"
    )
