"""Folded Clos networks of 1, 2 or 3 switch tiers: plain, rail-optimised, rail-only, and the ideal switch.

Leaves of a pod reach every spine of the pod by one cable each. With three tiers, spine s of every pod
reaches the cores of plane s. A path between leaves is therefore a pair (spine, core): everything else
follows. Real networks merge lightly used spines and cores into fewer boxes; the cables stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwmodels.fabric_spec import LEAF_SPINE, NIC_LEAF, SPINE_CORE, FabricError
from hwmodels.topologies.links import NONE, Ints, LinkBlock, Trunks


@dataclass(frozen=True)
class ClosShape:
    """Sizes of a Clos with ``rails`` NICs per node, and what each of its links carries (bytes/s)."""

    endpoints: int
    rails: int
    by_rail: bool  # leaves serve one rail of many nodes, not whole nodes
    planes: int  # networks that never meet: the rails of a rail-only fabric
    tiers: int
    leaf_hosts: int
    leaves: int  # per plane
    uplinks: int  # spines of a pod
    pod_leaves: int
    core_links: int  # cables of a spine to the cores
    nic_Bps: float
    leaf_Bps: float
    spine_Bps: float

    @property
    def pods(self) -> int:
        """Pods per plane."""
        return math.ceil(self.leaves / self.pod_leaves)


def single_switch(endpoints: int, nic_Bps: float) -> ClosShape:
    """One ideal switch for all endpoints: any pattern runs at the NICs' rate."""
    return ClosShape(endpoints, 1, False, 1, 1, endpoints, 1, 1, 1, 1, nic_Bps, nic_Bps, nic_Bps)


def clos_shape(
    kind: str,
    nodes: int,
    rails: int,
    radix: int,
    nic_Bps: float,
    tiers: int | None,
    oversubscription: tuple[float, ...] | None,
) -> ClosShape:
    """Sizes a Clos of ``kind`` (clos, rail-clos, rail-only) for ``nodes`` with ``rails`` NICs each.

    ``radix`` counts ports of one switch at the NICs' rate. Ports are split down:up as the tier's ratio;
    what whole cables cannot express goes into their capacity, so that the ratio holds exactly. Raises
    FabricError when the cluster does not fit, with the number of nodes that would.
    """
    if oversubscription is not None:
        tiers = len(oversubscription)
    fewest = 2 if kind == "rail-clos" and rails > 1 else 1
    if tiers is not None and tiers < fewest:
        raise FabricError(f"tiers: {tiers}: rails meet at the spines, so {kind} has at least {fewest}")
    fits = 0
    for depth in range(fewest, 4) if tiers is None else (tiers,):
        ratios = oversubscription or (1.0,) * depth
        fits = _nodes_that_fit(kind, depth, rails, radix, ratios)
        if nodes <= fits:
            return _shape(kind, depth, nodes, rails, radix, nic_Bps, ratios)
    raise FabricError(
        f"{nodes} nodes with {rails} NICs do not fit a {kind} of {tiers or 3} tiers of {radix}-port switches: "
        f"{fits} do; take a larger radix" + ("" if tiers in {None, 3} else " or one more tier")
    )


def _split(radix: int, ratio: float) -> int:
    """Ports of a switch that face down when ``ratio`` times as much enters from below as leaves upwards."""
    return max(1, min(radix - 1, math.floor(radix * ratio / (1.0 + ratio))))


def _leaf_hosts(kind: str, depth: int, rails: int, radix: int, ratios: tuple[float, ...]) -> int:
    down = radix if depth == 1 else _split(radix, ratios[1])
    # Plain leaves take whole nodes as long as one fits.
    return down // rails * rails if kind == "clos" and rails <= down else down


def _pod_leaves(kind: str, depth: int, rails: int, radix: int, ratios: tuple[float, ...]) -> int:
    if depth == 1:
        return 1
    down = radix if depth == 2 else _split(radix, ratios[2])
    return down // rails * rails if kind == "rail-clos" and rails <= down else down


def _nodes_that_fit(kind: str, depth: int, rails: int, radix: int, ratios: tuple[float, ...]) -> int:
    leaves = _pod_leaves(kind, depth, rails, radix, ratios) * (radix if depth == 3 else 1)
    hosts = _leaf_hosts(kind, depth, rails, radix, ratios)
    if kind == "rail-only":
        return leaves * hosts
    if kind == "rail-clos":
        return leaves // rails * hosts
    return leaves * hosts // rails


def _shape(
    kind: str, depth: int, nodes: int, rails: int, radix: int, nic_Bps: float, ratios: tuple[float, ...]
) -> ClosShape:
    hosts = _leaf_hosts(kind, depth, rails, radix, ratios)
    by_rail = kind != "clos"
    # A cluster smaller than one leaf or pod gets a smaller one: ratios hold for what is plugged in.
    hosts = min(hosts, nodes if by_rail else nodes * rails)
    planes = rails if kind == "rail-only" else 1
    leaves = math.ceil(nodes / hosts) * (rails // planes) if by_rail else math.ceil(nodes * rails / hosts)
    pod_leaves = min(_pod_leaves(kind, depth, rails, radix, ratios), leaves)
    host_Bps = nic_Bps / ratios[0]
    uplinks, leaf_Bps = _upwards(hosts, host_Bps, ratios[1]) if depth > 1 else (1, host_Bps)
    cores, spine_Bps = _upwards(pod_leaves, leaf_Bps, ratios[2]) if depth > 2 else (1, leaf_Bps)
    return ClosShape(
        nodes * rails,
        rails,
        by_rail,
        planes,
        depth,
        hosts,
        leaves,
        uplinks,
        pod_leaves,
        cores,
        host_Bps,
        leaf_Bps,
        spine_Bps,
    )


def _upwards(down: int, down_Bps: float, ratio: float) -> tuple[int, float]:
    """Cables upwards and the capacity of each, for ``down`` cables of ``down_Bps`` below."""
    up = max(1, round(down / ratio))
    return up, down * down_Bps / (ratio * up)


@dataclass(frozen=True)
class Clos:
    """Links and routes of a ``ClosShape``. Endpoint ids are node-major: node x rails + rail."""

    shape: ClosShape
    first_link: int
    nic_latency_s: float  # each of the first and last link
    hop_latency_s: float  # each link between switches

    # Counts over all planes.
    @property
    def leaves(self) -> int:
        return self.shape.leaves * self.shape.planes

    @property
    def pods(self) -> int:
        return self.shape.pods * self.shape.planes

    @property
    def leaf_cables(self) -> int:
        return self.leaves * self.shape.uplinks if self.shape.tiers > 1 else 0

    @property
    def spine_cables(self) -> int:
        return self.pods * self.shape.uplinks * self.shape.core_links if self.shape.tiers > 2 else 0

    def switches(self) -> tuple[tuple[str, int], ...]:
        s = self.shape
        spines = self.pods * s.uplinks if s.tiers > 1 else 0
        cores = s.planes * s.uplinks * s.core_links if s.tiers > 2 else 0
        return ("leaf", self.leaves), ("spine", spines), ("core", cores)

    def access_switches(self, endpoints: Ints) -> Ints:
        s = self.shape
        if not s.by_rail:
            return endpoints // s.leaf_hosts
        node, rail = np.divmod(endpoints, s.rails)
        unit = node // s.leaf_hosts
        return rail * s.leaves + unit if s.planes > 1 else unit * s.rails + rail

    def _pod(self, leaf: Ints) -> Ints:
        plane, local = np.divmod(leaf, self.shape.leaves)
        pod: Ints = plane * self.shape.pods + local // self.shape.pod_leaves
        return pod

    def blocks(self, first_nic: int, first_switch: int) -> Iterator[LinkBlock]:
        s = self.shape
        nic = np.arange(s.endpoints)
        leaf_node = first_switch + self.access_switches(nic)
        latency = self.nic_latency_s
        yield LinkBlock(NIC_LEAF, first_nic + nic, leaf_node, s.nic_Bps, latency)
        yield LinkBlock(NIC_LEAF, leaf_node, first_nic + nic, s.nic_Bps, latency)
        if s.tiers == 1:
            return
        first_spine = first_switch + self.leaves
        leaf, up = np.divmod(np.arange(self.leaf_cables), s.uplinks)
        low, high = first_switch + leaf, first_spine + self._pod(leaf) * s.uplinks + up
        yield LinkBlock(LEAF_SPINE, low, high, s.leaf_Bps, self.hop_latency_s)
        yield LinkBlock(LEAF_SPINE, high, low, s.leaf_Bps, self.hop_latency_s)
        if s.tiers == 2:
            return
        first_core = first_spine + self.pods * s.uplinks
        spine, core = np.divmod(np.arange(self.spine_cables), s.core_links)
        pod, number = np.divmod(spine, s.uplinks)
        low = first_spine + spine
        high = first_core + (pod // s.pods * s.uplinks + number) * s.core_links + core
        yield LinkBlock(SPINE_CORE, low, high, s.spine_Bps, self.hop_latency_s)
        yield LinkBlock(SPINE_CORE, high, low, s.spine_Bps, self.hop_latency_s)

    def reachable(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        leaf_from, leaf_to = self.access_switches(source), self.access_switches(target)
        # Planes never meet; one tier has one leaf per plane.
        same_plane: NDArray[np.bool_] = leaf_from // self.shape.leaves == leaf_to // self.shape.leaves
        return same_plane

    def _levels(self, source: Ints, target: Ints) -> tuple[Ints, Ints, NDArray[np.bool_], NDArray[np.bool_]]:
        """Leaves of both ends, and which pairs climb to the spines and to the cores."""
        leaf_from, leaf_to = self.access_switches(source), self.access_switches(target)
        spines = leaf_from != leaf_to
        cores = self._pod(leaf_from) != self._pod(leaf_to)
        return leaf_from, leaf_to, spines, cores

    def path_counts(self, source: Ints, target: Ints, *, non_minimal: bool) -> Ints:
        if non_minimal:
            raise FabricError("detours exist in a dragonfly only: leave out non_minimal")
        _, _, spines, cores = self._levels(source, target)
        s = self.shape
        return np.where(cores, s.uplinks * s.core_links, np.where(spines, s.uplinks, 1))

    def paths(self, source: Ints, target: Ints, choice: Ints, *, non_minimal: bool) -> Ints:
        del non_minimal  # path_counts refuses it
        s = self.shape
        leaf_from, leaf_to, spines, cores = self._levels(source, target)
        core, spine = np.divmod(choice, s.uplinks)
        leaf_up, leaf_down, spine_up, spine_down = self._firsts()
        links = self._ends(source, target)
        links[:, 1] = np.where(spines, leaf_up + leaf_from * s.uplinks + spine, NONE)
        links[:, 4] = np.where(spines, leaf_down + leaf_to * s.uplinks + spine, NONE)
        cable = spine * s.core_links + core
        pod_cables = s.uplinks * s.core_links
        links[:, 2] = np.where(cores, spine_up + self._pod(leaf_from) * pod_cables + cable, NONE)
        links[:, 3] = np.where(cores, spine_down + self._pod(leaf_to) * pod_cables + cable, NONE)
        return links

    def _ends(self, source: Ints, target: Ints) -> Ints:
        links = np.full((len(source), 6), NONE)
        links[:, 0] = self.first_link + source
        links[:, 5] = self.first_link + self.shape.endpoints + target
        return links

    def _firsts(self) -> tuple[int, int, int, int]:
        """Ids of the first link leaf to spine, spine to leaf, spine to core, core to spine."""
        leaf_up = self.first_link + 2 * self.shape.endpoints
        leaf_down = leaf_up + self.leaf_cables
        spine_up = leaf_down + self.leaf_cables
        return leaf_up, leaf_down, spine_up, spine_up + self.spine_cables

    def trunks(self) -> Trunks:
        """Up and down bundles of every leaf, then up and down bundles of every pod."""
        if self.shape.tiers == 1:
            return Trunks(np.empty(0, np.int64), np.empty(0, np.int64))
        width = self.shape.uplinks
        leaf_up, leaf_down, spine_up, spine_down = self._firsts()
        leaves = np.arange(self.leaves) * width
        first = [leaf_up + leaves, leaf_down + leaves]
        count = [np.full(2 * self.leaves, width)]
        if self.shape.tiers > 2:
            pod_cables = width * self.shape.core_links
            pods = np.arange(self.pods) * pod_cables
            first += [spine_up + pods, spine_down + pods]
            count.append(np.full(2 * self.pods, pod_cables))
        return Trunks(np.concatenate(first), np.concatenate(count))

    def trunk_paths(self, source: Ints, target: Ints, first_trunk: int) -> Ints:
        leaf_from, leaf_to, spines, cores = self._levels(source, target)
        first_pod = first_trunk + 2 * self.leaves
        links = self._ends(source, target)
        links[:, 1] = np.where(spines, first_trunk + leaf_from, NONE)
        links[:, 4] = np.where(spines, first_trunk + self.leaves + leaf_to, NONE)
        links[:, 2] = np.where(cores, first_pod + self._pod(leaf_from), NONE)
        links[:, 3] = np.where(cores, first_pod + self.pods + self._pod(leaf_to), NONE)
        return links
