"""Links inside scale-up domains: a mesh with so many links per pair, or a switch.

A domain is a run of consecutive GPUs; it may span several nodes (NVL72: 18 trays of 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hwmodels.fabric_spec import SCALE_UP, FabricError
from hwmodels.node import ScaleUp
from hwmodels.topologies.links import NONE, Floats, Ints, LinkBlock

# An empty all-reduce crosses a domain twice, so that one way is half of its measured floor.
ONE_WAY = 0.5


@dataclass(frozen=True)
class SwitchDomains:
    """Every GPU has one link up to its domain's switch and one down, each its full usable rate."""

    gpus: int
    domain_gpus: int
    link_Bps: float
    latency_s: float  # of one of the two links
    first_link: int = 0

    @property
    def switches(self) -> int:
        return -(-self.gpus // self.domain_gpus)

    def blocks(self, first_switch: int) -> Iterator[LinkBlock]:
        gpu = np.arange(self.gpus)
        switch = first_switch + gpu // self.domain_gpus
        yield LinkBlock(SCALE_UP, gpu, switch, self.link_Bps, self.latency_s)
        yield LinkBlock(SCALE_UP, switch, gpu, self.link_Bps, self.latency_s)

    def paths(self, source: Ints, target: Ints) -> Ints:
        """Links from GPU to GPU of one domain, padded; a GPU needs none to itself."""
        links = np.stack([source, self.gpus + target], axis=1) + self.first_link
        return np.where((source == target)[:, None], NONE, links)


@dataclass(frozen=True)
class MeshDomains:
    """Direct links between GPUs: one edge per connected pair and direction, as wide as its link count.

    ``edge``: id of the edge from GPU i to j inside a domain, ``NONE`` where there is none. ``table``: the
    edges of the shortest path of each pair (widest first, then lowest numbers), padded.
    """

    gpus: int
    domain_gpus: int
    edge: Ints  # (domain, domain)
    table: Ints  # (domain, domain, hops)
    edge_Bps: Floats
    latency_s: float
    first_link: int = 0

    switches = 0

    def blocks(self, first_switch: int) -> Iterator[LinkBlock]:
        del first_switch  # meshes have none
        start, end = np.nonzero(self.edge != NONE)
        base = np.arange(self.gpus // self.domain_gpus)[:, None] * self.domain_gpus
        capacity = np.tile(self.edge_Bps, len(base))
        yield LinkBlock(SCALE_UP, (base + start).ravel(), (base + end).ravel(), capacity, self.latency_s)

    def paths(self, source: Ints, target: Ints) -> Ints:
        """Links from GPU to GPU of one domain, padded; a GPU needs none to itself."""
        domain, start = np.divmod(source, self.domain_gpus)
        links = self.table[start, target % self.domain_gpus]
        first = self.first_link + domain * len(self.edge_Bps)
        return np.where(links == NONE, NONE, links + first[:, None])


def scale_up_domains(scale_up: ScaleUp, gpus: int) -> SwitchDomains | MeshDomains:
    """The scale-up links of ``gpus`` GPUs.

    Usable rates: of a mesh link ``usable_bandwidth_Bps``, of a switch port the same. Links of an uneven mesh
    take the share of their nominal rate that the measured bus bandwidth of its first pair shows, because
    its ``usable_bandwidth_Bps`` is that of a whole node. Raises FabricError for an unknown kind, a mesh whose
    domains do not divide the GPUs, an uneven mesh without a table of links, or one with unreachable GPUs.
    """
    domain = min(scale_up.domain_gpus, gpus)
    if scale_up.kind in ("switch", "bus"):
        return SwitchDomains(gpus, domain, scale_up.usable_bandwidth_Bps, ONE_WAY * scale_up.latency_s / 2.0)
    if gpus % domain:
        raise FabricError(f"scale_up.domain_gpus: meshes of {domain} do not divide {gpus} GPUs")
    if scale_up.kind == "mesh":
        widths, link_Bps = 1 - np.eye(domain, dtype=np.int64), scale_up.usable_bandwidth_Bps
    elif scale_up.kind == "uneven-mesh":
        widths, link_Bps = _uneven(scale_up, domain)
    else:
        raise FabricError(f"scale_up.kind: {scale_up.kind!r} is none of mesh, uneven-mesh, switch")
    edge = np.full(widths.shape, NONE)
    edge[widths > 0] = np.arange(np.count_nonzero(widths))
    edge_Bps: Floats = (widths[widths > 0] * link_Bps).astype(np.float64)
    return MeshDomains(gpus, domain, edge, _table(widths, edge), edge_Bps, ONE_WAY * scale_up.latency_s)


def _uneven(scale_up: ScaleUp, domain: int) -> tuple[Ints, float]:
    if not scale_up.pair_links or domain != scale_up.domain_gpus:
        raise FabricError(
            "scale_up: an uneven mesh needs the number of links of each pair (pair_links) and whole domains"
        )
    widths = np.zeros((domain, domain), dtype=np.int64)
    for (start, end), links in scale_up.pair_links.items():
        widths[start, end] = widths[end, start] = links
    pair_Bps = scale_up.bus_bandwidth_Bps.get(2)
    if pair_Bps is None:
        return widths, scale_up.link_bandwidth_Bps
    return widths, min(scale_up.link_bandwidth_Bps, pair_Bps / max(scale_up.pair_links.values()))


def _table(widths: Ints, edge: Ints) -> Ints:
    """Shortest paths of all pairs as edge ids: breadth first, the widest bottleneck wins, then low numbers."""
    size = len(widths)
    best: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {(i, i): (0, ()) for i in range(size)}
    frontier = dict(best)
    while len(best) < size * size:
        found: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        for (start, via), (narrowest, path) in sorted(frontier.items()):
            for end in np.flatnonzero(widths[via]).tolist():
                width = int(widths[via, end]) if not path else min(narrowest, int(widths[via, end]))
                known = found.get((start, end))
                if (start, end) not in best and (known is None or width > known[0]):
                    found[start, end] = (width, (*path, int(edge[via, end])))
        if not found:
            raise FabricError("scale_up.pair_links: no path of links between some GPUs of a domain")
        best |= found
        frontier = found
    hops = max(len(path) for _, path in best.values())
    table = np.full((size, size, max(1, hops)), NONE)
    for (start, end), (_, path) in best.items():
        table[start, end, : len(path)] = path
    return table
