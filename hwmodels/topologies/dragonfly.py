"""Dragonfly (Slingshot): groups of fully connected switches, and every two groups joined by some cables.

Switch radix R splits into R/4 NICs, R/2 - 1 links to the rest of its group and the rest to other groups
(Rosetta with 64 ports: 16, 31, 17), unless sizes are given. Cable number k between two groups starts at a
switch that follows from the pair and k, so that the cables of a group spread evenly over its switches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwmodels.fabric_spec import GLOBAL, LOCAL, NIC_LEAF, FabricError
from hwmodels.topologies.links import NONE, Ints, LinkBlock, Trunks


@dataclass(frozen=True)
class DragonflyShape:
    """Sizes of a dragonfly and what each of its links carries (bytes/s)."""

    endpoints: int
    switch_nics: int
    group_switches: int
    groups: int
    global_links: int  # cables between each two groups
    nic_Bps: float
    local_Bps: float
    global_Bps: float


def dragonfly_shape(
    endpoints: int,
    radix: int,
    nic_Bps: float,
    oversubscription: tuple[float, ...] | None = None,
    switch_nics: int | None = None,
    group_switches: int | None = None,
    global_links: int | None = None,
) -> DragonflyShape:
    """Sizes a dragonfly for ``endpoints`` NICs on switches of ``radix`` ports.

    Links between switches run at the port rate. A ratio above 1 for local or global links instead makes all
    of them together carry what the NICs below inject, divided by it. Raises FabricError when it does not fit.
    """
    nics = switch_nics or max(1, radix // 4)
    size = group_switches or max(1, radix // 2)
    groups = math.ceil(endpoints / (nics * size))
    global_ports = radix - nics - (size - 1)
    cables = global_links or (size * global_ports // (groups - 1) if groups > 1 else 1)
    if global_ports < 0:
        raise FabricError(
            f"radix: {radix} ports do not hold {nics} NICs and links to {size - 1} switches of the group"
        )
    if groups > 1 and not 1 <= cables * (groups - 1) <= size * global_ports:
        raise FabricError(
            f"{groups} groups of {size} switches with {global_ports} global ports each: "
            f"{max(cables, 1)} cables between every two groups do not fit; take fewer nodes, fewer global_links "
            "or a larger radix"
        )
    host, local, far = oversubscription or (1.0, 1.0, 1.0)
    host_Bps = nic_Bps / host
    local_Bps = host_Bps if local == 1.0 or size == 1 else nics * host_Bps / (local * (size - 1))
    global_Bps = host_Bps
    if far > 1.0 and groups > 1:
        global_Bps = size * nics * host_Bps / (far * cables * (groups - 1))
    return DragonflyShape(endpoints, nics, size, groups, cables, host_Bps, local_Bps, global_Bps)


@dataclass(frozen=True)
class Dragonfly:
    """Links and routes of a ``DragonflyShape``.

    Minimal paths take at most one global link; a detour (``non_minimal``) visits one other group on the way.
    """

    shape: DragonflyShape
    first_link: int
    nic_latency_s: float
    hop_latency_s: float

    @property
    def _first_local(self) -> int:
        return self.first_link + 2 * self.shape.endpoints

    @property
    def _first_global(self) -> int:
        s = self.shape
        return self._first_local + s.groups * s.group_switches * (s.group_switches - 1)

    def switches(self) -> tuple[tuple[str, int], ...]:
        return (("router", self.shape.groups * self.shape.group_switches),)

    def access_switches(self, endpoints: Ints) -> Ints:
        return endpoints // self.shape.switch_nics

    def reachable(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        del target  # everyone reaches everyone
        return np.ones(len(source), dtype=bool)

    def blocks(self, first_nic: int, first_switch: int) -> Iterator[LinkBlock]:
        s = self.shape
        nic = np.arange(s.endpoints)
        router = first_switch + self.access_switches(nic)
        yield LinkBlock(NIC_LEAF, first_nic + nic, router, s.nic_Bps, self.nic_latency_s)
        yield LinkBlock(NIC_LEAF, router, first_nic + nic, s.nic_Bps, self.nic_latency_s)
        size = s.group_switches
        group, pair = np.divmod(np.arange(s.groups * size * (size - 1)), max(1, size * (size - 1)))
        start, other = np.divmod(pair, max(1, size - 1))
        low, high = group * size + start, group * size + other + (other >= start)
        yield LinkBlock(LOCAL, first_switch + low, first_switch + high, s.local_Bps, self.hop_latency_s)
        cables = s.global_links if s.groups > 1 else 0
        group, cable = np.divmod(
            np.arange(s.groups * (s.groups - 1) * cables), max(1, (s.groups - 1) * cables)
        )
        peer, number = np.divmod(cable, max(1, cables))
        peer = peer + (peer >= group)
        low = first_switch + group * size + self._gateway(group, peer, number)
        high = first_switch + peer * size + self._gateway(peer, group, number)
        yield LinkBlock(GLOBAL, low, high, s.global_Bps, self.hop_latency_s)

    def _gateway(self, group: Ints, peer: Ints, cable: Ints) -> Ints:
        """Switch of ``group`` (from 0 inside it) that holds cable number ``cable`` to ``peer``."""
        return ((peer - (peer > group)) * self.shape.global_links + cable) % self.shape.group_switches

    def _local(self, group: Ints, start: Ints, end: Ints) -> Ints:
        """Link between two switches of a group, ``NONE`` where they are the same."""
        size = self.shape.group_switches
        link = self._first_local + (group * size + start) * (size - 1) + end - (end > start)
        return np.where(start == end, NONE, link)

    def _global(self, group: Ints, peer: Ints, cable: Ints) -> Ints:
        s = self.shape
        return self._first_global + (group * (s.groups - 1) + peer - (peer > group)) * s.global_links + cable

    def path_counts(self, source: Ints, target: Ints, *, non_minimal: bool) -> Ints:
        """Cables between the two groups; detours: intermediate groups x cables into and out of them."""
        s = self.shape
        group_from, _, group_to, _ = self._places(source, target)
        ways = s.global_links
        if non_minimal:
            if s.groups < 3:
                raise FabricError(f"non_minimal: a detour needs a third group, this dragonfly has {s.groups}")
            ways = (s.groups - 2) * s.global_links**2
        return np.where(group_from == group_to, 1, ways)

    def _places(self, source: Ints, target: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        group_from, switch_from = np.divmod(self.access_switches(source), self.shape.group_switches)
        group_to, switch_to = np.divmod(self.access_switches(target), self.shape.group_switches)
        return group_from, switch_from, group_to, switch_to

    def paths(self, source: Ints, target: Ints, choice: Ints, *, non_minimal: bool) -> Ints:
        links = np.full((len(source), 7 if non_minimal else 5), NONE)
        links[:, 0] = self.first_link + source
        links[:, -1] = self.first_link + self.shape.endpoints + target
        group_from, start, group_to, end = self._places(source, target)
        near = group_from == group_to
        links[near, 1] = self._local(group_from, start, end)[near]
        far = np.flatnonzero(~near)
        cable, rest = choice[far] % self.shape.global_links, choice[far] // self.shape.global_links
        here, there = group_from[far], group_to[far]
        if not non_minimal:
            links[far, 1:4] = self._leap(here, start[far], there, end[far], cable)
            return links
        second, rest = rest % self.shape.global_links, rest // self.shape.global_links
        # The detour is one of the groups other than the two ends: skip both in order.
        low, high = np.minimum(here, there), np.maximum(here, there)
        middle = rest + (rest >= low)
        middle = middle + (middle >= high)
        arrival = self._gateway(middle, here, cable)
        links[far, 1:4] = self._leap(here, start[far], middle, arrival, cable)
        links[far, 3:6] = self._leap(middle, arrival, there, end[far], second)
        return links

    def _leap(self, group: Ints, start: Ints, peer: Ints, end: Ints, cable: Ints) -> Ints:
        """Local, global, local: from a switch of one group to a switch of another over one cable."""
        out = self._local(group, start, self._gateway(group, peer, cable))
        into = self._local(peer, self._gateway(peer, group, cable), end)
        return np.stack([out, self._global(group, peer, cable), into], axis=1)

    def trunks(self) -> Trunks:
        return Trunks(np.empty(0, np.int64), np.empty(0, np.int64))

    def trunk_paths(self, source: Ints, target: Ints, first_trunk: int) -> Ints:
        raise NotImplementedError("the cables of a dragonfly carry different loads")
