"""Which links a flow takes, and what flows put on every link.

``route(fabric, flows, routing)`` turns pairs of GPUs into links: inside a scale-up domain over its links,
between domains through the NICs. How a flow picks among equal paths is the ``Routing``:

* ``ecmp``: a hash picks one path per queue pair; ``queue_pairs`` of them carry even shares. Flows collide.
* ``spray``: packets go over all equal paths evenly.
* ``adaptive``: flows, in the order given, each take the least loaded of the paths they see.

``pxn`` moves data to the GPU of the right rail before it leaves the node; rail-only networks need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwmodels.fabric import Fabric
from hwmodels.fabric_spec import FabricError
from hwmodels.maxmin import fair_rates
from hwmodels.topologies.links import NONE, Floats, Ints, ScaleOut

MODES = ("ecmp", "spray", "adaptive")


@dataclass(frozen=True, eq=False)
class Flows:
    """Transfers of ``size_bytes`` from GPU ``source`` to GPU ``target`` (shape: flows each).

    ``label`` tells flows of one pair apart (channels of one collective): equal labels of one pair hash to
    the same path, as the packets of one queue pair do.
    """

    source: Ints
    target: Ints
    size_bytes: Floats
    label: Ints

    @classmethod
    def of(
        cls, source: ArrayLike, target: ArrayLike, size_bytes: ArrayLike = 1.0, label: ArrayLike = 0
    ) -> Flows:
        """Flows from any arrays that broadcast together. Raises ValueError for sizes below 0 or not finite."""
        start, end, size, labels = np.broadcast_arrays(source, target, size_bytes, label)
        flows = cls(
            np.atleast_1d(start).astype(np.int64),
            np.atleast_1d(end).astype(np.int64),
            np.atleast_1d(size).astype(np.float64),
            np.atleast_1d(labels).astype(np.int64),
        )
        if not (np.isfinite(flows.size_bytes) & (flows.size_bytes >= 0.0)).all():
            raise ValueError("size_bytes must be finite and not negative")
        return flows

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Routing:
    """How flows choose among equal paths.

    ``seed`` moves every hash. ``spread``: most paths of one flow that spraying and adaptive routing look at
    where the network has no regular trunks. ``non_minimal``: dragonfly only; ecmp and spray take detours
    over a third group, adaptive weighs them against the minimal paths.
    """

    mode: str = "ecmp"
    queue_pairs: int = 1
    pxn: bool = False
    non_minimal: bool = False
    spread: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise FabricError(f"mode: {self.mode!r} is none of {', '.join(MODES)}")
        if self.queue_pairs < 1 or self.spread < 1:
            raise FabricError("queue_pairs and spread: at least 1")
        if self.queue_pairs > 1 and self.mode != "ecmp":
            raise FabricError(f"queue_pairs: hashed apart by ecmp, {self.mode} already shares paths")


@dataclass(frozen=True, eq=False)
class Routes:
    """Links of every flow in compressed rows, and what to do with them.

    Flow f uses entries ``start[f]`` to ``start[f + 1]``: ``share[e]`` of its bytes cross ``resource[e]``, a
    link id of ``fabric`` or, from ``fabric.links`` on, a trunk of parallel links. ``latency_s``: latency of
    the longest of its paths (shape: flows).
    """

    fabric: Fabric
    start: Ints
    resource: Ints
    share: Floats
    latency_s: Floats

    def __len__(self) -> int:
        return len(self.start) - 1

    def select(self, flows: Ints) -> Routes:
        """The routes of some flows, in the order of the given numbers: those still under way, say."""
        counts = np.diff(self.start)[flows]
        entries = _ranges(self.start[flows], counts)
        start = np.concatenate([[0], np.cumsum(counts)])
        return Routes(self.fabric, start, self.resource[entries], self.share[entries], self.latency_s[flows])

    @cached_property
    def _row(self) -> Ints:
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @cached_property
    def hops(self) -> Ints:
        """Links on the way of each flow (for several paths: of all of them together), trunks counting as one."""
        return np.diff(self.start)

    def loads(self, amount: Floats) -> Floats:
        """Sum of ``amount`` (bytes, rates or any weight per flow) on every link (shape: links)."""
        fabric = self.fabric
        carried: Floats = np.bincount(
            self.resource,
            self.share * np.asarray(amount, dtype=np.float64)[self._row],
            minlength=fabric.links + len(fabric.trunks),
        ).astype(np.float64)
        links, trunks = carried[: fabric.links], carried[fabric.links :]
        busy = np.flatnonzero(trunks)
        if len(busy):
            first, count = fabric.trunks.first[busy], fabric.trunks.count[busy]
            links[_ranges(first, count)] += np.repeat(trunks[busy] / count, count)
        return links

    def rates_Bps(self, weight: Floats | None = None, cap_Bps: Floats | None = None) -> Floats:
        """Max-min fair rate of each flow, bytes/s, over what background load leaves (shape: flows).

        A flow on several paths is one flow: its slowest path sets its pace, as each carries a fixed share.
        Flows from a GPU to itself get their cap, ``inf`` without one.
        """
        capacity = self.fabric.resource_Bps
        return fair_rates(self.start, self.resource, self.share, capacity, weight, cap_Bps)


def loads(fabric: Fabric, flows: Flows, routing: Routing | None = None) -> Floats:
    """Bytes that ``flows`` put on every link (shape: links)."""
    return route(fabric, flows, routing).loads(flows.size_bytes)


def route(fabric: Fabric, flows: Flows, routing: Routing | None = None) -> Routes:
    """The links of every flow. Same inputs and seed, same routes.

    Raises FabricError for GPUs that do not exist and for pairs that the network does not connect.
    """
    routing = Routing() if routing is None else routing
    for name, gpus in (("source", flows.source), ("target", flows.target)):
        if len(gpus) and (gpus.min() < 0 or gpus.max() >= fabric.gpus):
            raise FabricError(f"{name}: GPUs are numbered from 0 to {fabric.gpus - 1}")
    near = flows.source // fabric.domain_gpus == flows.target // fabric.domain_gpus
    inside, outside = np.flatnonzero(near), np.flatnonzero(~near)
    parts = []
    if len(inside):
        parts.append(_Paths(inside, fabric.scale_up.paths(flows.source[inside], flows.target[inside])))
    if len(outside):
        parts.append(_between_domains(fabric, flows, outside, routing))
    return _compress(fabric, len(flows), parts)


@dataclass(frozen=True, eq=False)
class _Paths:
    """One path per row: the flow it belongs to, its link ids padded with NONE, its share of the flow."""

    flow: Ints
    links: Ints
    share: Floats | float = 1.0


def _between_domains(fabric: Fabric, flows: Flows, rows: Ints, routing: Routing) -> _Paths:
    network = fabric.scale_out
    if network is None:
        raise FabricError(f"nothing connects GPUs of different domains: {fabric.node.name!r} has no NICs")
    start, end = flows.source[rows], flows.target[rows]
    exit_gpu = _exit_gpus(fabric, start, end, routing)
    nic_from, nic_to = fabric.nic_of(exit_gpu), fabric.nic_of(end)
    if not network.reachable(nic_from, nic_to).all():
        raise FabricError("rails do not meet in this network: route with pxn")
    middle = _network_paths(fabric, network, nic_from, nic_to, flows, rows, routing)
    at = middle.flow
    gpu_nic = fabric.first_gpu_nic
    links = np.column_stack(
        [
            fabric.scale_up.paths(start, exit_gpu)[at],
            (gpu_nic + exit_gpu)[at],
            middle.links,
            (gpu_nic + fabric.gpus + end)[at],
        ]
    )
    return _Paths(rows[at], links, middle.share)


def _exit_gpus(fabric: Fabric, start: Ints, end: Ints, routing: Routing) -> Ints:
    """The GPU through whose NIC each flow leaves: its own, or with PXN the one on its target's rail."""
    if not routing.pxn:
        return start
    per_node = fabric.node.gpus
    peer = start - start % per_node + end % per_node
    same_rail = fabric.nic_of(start) % fabric.rails == fabric.nic_of(end) % fabric.rails
    same_domain = start // fabric.domain_gpus == peer // fabric.domain_gpus
    return np.where(same_rail | ~same_domain, start, peer)


def _network_paths(
    fabric: Fabric, network: ScaleOut, source: Ints, target: Ints, flows: Flows, rows: Ints, routing: Routing
) -> _Paths:
    """Paths between NICs. ``flow`` counts within ``rows``; the paths of a flow lie together."""
    if routing.mode == "spray" and len(fabric.trunks) and not routing.non_minimal:
        return _Paths(np.arange(len(rows)), network.trunk_paths(source, target, fabric.links))
    counts = network.path_counts(source, target, non_minimal=routing.non_minimal)
    key = _hash(flows.source[rows], flows.target[rows], flows.label[rows], routing.seed)
    if routing.mode == "adaptive":
        return _adaptive(fabric, network, source, target, counts, key, flows.size_bytes[rows], routing)
    if routing.mode == "spray":
        copies = np.minimum(counts, routing.spread)
        flow = np.repeat(np.arange(len(rows)), copies)
        number = _ranges(np.zeros_like(copies), copies)
        # A window of paths that begins anywhere; all of them where they are few.
        choice = ((key % counts.astype(np.uint64)).astype(np.int64)[flow] + number) % counts[flow]
    else:
        copies = np.where(counts == 1, 1, routing.queue_pairs)
        flow = np.repeat(np.arange(len(rows)), copies)
        pair = _ranges(np.zeros_like(copies), copies)
        choice = (_mix(key[flow] + pair.astype(np.uint64)) % counts[flow].astype(np.uint64)).astype(np.int64)
    links = network.paths(source[flow], target[flow], choice, non_minimal=routing.non_minimal)
    return _Paths(flow, links, 1.0 / copies[flow])


def _adaptive(
    fabric: Fabric,
    network: ScaleOut,
    source: Ints,
    target: Ints,
    counts: Ints,
    key: NDArray[np.uint64],
    size_bytes: Floats,
    routing: Routing,
) -> _Paths:
    """One path per flow, the least loaded among candidates, greedily.

    Flows of one access switch choose one after the other; flows of different switches that are equally far
    down their queues choose together. Load is the time that the flows placed so far need on the links of a
    path, summed over them, so that a detour must be worth its extra hops. Ties go to the first candidate.
    """
    candidates = _candidates(network, source, target, counts, key, routing)
    choices = candidates[:, :, 1:-1]  # first and last link are the NICs', the same on every path
    seconds = np.zeros(fabric.links + 1)  # time that what is placed takes on each link; the last is padding
    speed = np.append(1.0 / np.maximum(fabric.available_Bps, 1e-300), 0.0)
    chosen = np.zeros(len(source), dtype=np.int64)
    for batch in _turns(network.access_switches(source)):
        links = choices[batch]
        wait = seconds[links] + size_bytes[batch, None, None] * speed[links]
        chosen[batch] = wait.sum(axis=2).argmin(axis=1)
        taken = links[np.arange(len(batch)), chosen[batch]]
        np.add.at(seconds, taken, size_bytes[batch, None] * speed[taken])
        seconds[-1] = 0.0
    rows = np.arange(len(source))
    return _Paths(rows, candidates[rows, chosen])


def _candidates(
    network: ScaleOut, source: Ints, target: Ints, counts: Ints, key: NDArray[np.uint64], routing: Routing
) -> Ints:
    """Link ids of the paths each flow weighs (shape: flows, candidates, links), padded with NONE."""
    width = min(routing.spread, int(counts.max(initial=1)))
    minimal = counts
    if routing.non_minimal:
        minimal = network.path_counts(source, target, non_minimal=False)
        shortest = _candidate_paths(network, source, target, minimal, key, width, non_minimal=False)
        detours = _candidate_paths(network, source, target, counts, key, width, non_minimal=True)
        shape = (*shortest.shape[:2], detours.shape[2] - shortest.shape[2])
        return np.concatenate([np.concatenate([shortest, np.full(shape, NONE)], axis=2), detours], axis=1)
    return _candidate_paths(network, source, target, minimal, key, width, non_minimal=False)


def _candidate_paths(
    network: ScaleOut,
    source: Ints,
    target: Ints,
    counts: Ints,
    key: NDArray[np.uint64],
    width: int,
    *,
    non_minimal: bool,
) -> Ints:
    """All paths where they fit into ``width``, otherwise hashed ones."""
    number = np.arange(width)
    hashed = _mix(key[:, None] + number.astype(np.uint64)) % counts[:, None].astype(np.uint64)
    choice = np.where(counts[:, None] <= width, number % counts[:, None], hashed.astype(np.int64))
    flow = np.repeat(np.arange(len(source)), width)
    links = network.paths(source[flow], target[flow], choice.ravel(), non_minimal=non_minimal)
    return links.reshape(len(source), width, -1)


def _turns(switch: Ints) -> list[Ints]:
    """Rows in batches: the first row of every switch, then the second of every switch, and so on."""
    order = np.argsort(switch, kind="stable")
    counts = np.bincount(switch)
    turn = _ranges(np.zeros_like(counts), counts)
    by_turn = order[np.argsort(turn, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _compress(fabric: Fabric, flows: int, parts: list[_Paths]) -> Routes:
    """Paths as compressed rows in the order of the flows; repeated links of one flow become one entry."""
    latency = np.append(fabric.resource_latency_s, 0.0)  # the last one is padding
    longest, counts = np.zeros(flows), np.zeros(flows, np.int64)
    used = [part.links != NONE for part in parts]
    entries = [mask.sum(axis=1) for mask in used]
    for part, count in zip(parts, entries, strict=True):
        np.maximum.at(longest, part.flow, latency[part.links].sum(axis=1))
        counts += np.bincount(part.flow, count, minlength=flows).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(counts)])
    resource, share = np.empty(start[-1], np.int64), np.ones(start[-1])
    for part, mask, count in zip(parts, used, entries, strict=True):
        # Entries of a part lie in the order of its flows: shift each flow's run to where it belongs.
        run = np.bincount(part.flow, count, minlength=flows).astype(np.int64)
        at = _ranges(start[:-1][run > 0], run[run > 0])
        resource[at] = part.links[mask]
        share[at] = np.repeat(np.broadcast_to(part.share, len(part.flow)), count)
    if (share < 1.0).any():
        start, resource, share = _merge(start, resource, share)
    return Routes(fabric, start, resource, share, longest)


def _merge(start: Ints, resource: Ints, share: Floats) -> tuple[Ints, Ints, Floats]:
    """Compressed rows with each resource once per flow, its shares added up."""
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    order = np.argsort(row * (int(resource.max(initial=0)) + 1) + resource)
    row, resource, share = row[order], resource[order], share[order]
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(resource, prepend=-1) != 0))
    counts = np.bincount(row[first], minlength=len(start) - 1)
    return np.concatenate([[0], np.cumsum(counts)]), resource[first], np.add.reduceat(share, first)


def _ranges(first: Ints, count: Ints) -> Ints:
    """The runs ``first[i]``, ``first[i] + 1``, … of lengths ``count[i]``, one after the other."""
    begin = np.cumsum(count) - count
    return np.repeat(first - begin, count) + np.arange(int(count.sum()))


def _hash(source: Ints, target: Ints, label: Ints, seed: int) -> NDArray[np.uint64]:
    """A 64-bit key per flow, the same on every machine."""
    key = _mix(np.full(len(source), seed % 2**64, dtype=np.uint64))
    for part in (source, target, label):
        key = _mix(key + part.astype(np.uint64))
    return key


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scrambles 64-bit numbers (the finalizer of SplitMix64, Steele et al. 2014)."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
