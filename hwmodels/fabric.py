"""The machine as a graph: GPUs, NICs and switches, and directed links with capacity and latency.

``build_fabric(node, nodes, spec)`` lays out every link of ``nodes`` machines as numpy arrays. Routes are
arithmetic on link ids (``hwmodels.routing``), so that 131,072 GPUs need no stored paths.

What a link carries: scale-up links their usable rate (``ScaleUp.usable_bandwidth_Bps``), every link of the
scale-out network the NIC's measured payload rate, scaled by the tier's oversubscription. A NIC's measured
latency is that of one message through one switch: half of it lies on each end, every further switch adds
``hop_latency_s``. Half of a domain's small all-reduce is one way through it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwmodels import catalog
from hwmodels.fabric_spec import GPU_NIC, LINK_TIERS, FabricError, FabricSpec
from hwmodels.node import Node
from hwmodels.switch import Switch
from hwmodels.topologies.clos import Clos, clos_shape, single_switch
from hwmodels.topologies.dragonfly import Dragonfly, dragonfly_shape
from hwmodels.topologies.links import Floats, Ints, LinkBlock, ScaleOut, Trunks
from hwmodels.topologies.scale_up import MeshDomains, SwitchDomains, scale_up_domains
from hwmodels.topologies.torus import Torus

ASSUMED_SWITCH = "tomahawk-5"
ONLY_PUBLISHED_HOP = "slingshot-rosetta"


@dataclass(frozen=True, eq=False)
class Fabric:
    """All links of ``nodes`` machines. Arrays have one entry per directed link; treat them as read-only.

    ``source``, ``target``: node ids, numbered GPUs first, then NICs, then the switches of ``node_counts``.
    ``capacity_Bps``: bytes/s before background load. ``latency_s``: seconds. ``tier``: index into
    ``LINK_TIERS``. ``assumptions``: what nobody stated and the layout rests on.

    GPU g sits in node g // node.gpus. Its NIC is ``nic_of(g)``: of fewer NICs than GPUs, neighbours share
    one (2 GCDs per NIC); of more, the GPU's NICs act as one of their joint bandwidth.
    """

    node: Node
    nodes: int
    spec: FabricSpec
    scale_up: SwitchDomains | MeshDomains
    scale_out: ScaleOut | None
    rails: int  # NICs of a node that differ: at most one per GPU
    node_counts: tuple[tuple[str, int], ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    capacity_Bps: Floats
    latency_s: Floats
    tier: NDArray[np.uint8]
    trunks: Trunks
    assumptions: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return self.node.gpus * self.nodes

    @property
    def nics(self) -> int:
        return self.rails * self.nodes

    @property
    def links(self) -> int:
        """Directed links."""
        return len(self.capacity_Bps)

    @property
    def domain_gpus(self) -> int:
        """GPUs of one scale-up domain."""
        return self.scale_up.domain_gpus

    @cached_property
    def first_gpu_nic(self) -> int:
        """Id of the link from GPU 0 to its NIC; the links back follow all of those."""
        return int(np.argmax(self.tier == LINK_TIERS.index(GPU_NIC)))

    @cached_property
    def available_Bps(self) -> Floats:
        """What background load leaves of each link, bytes/s."""
        taken = np.array([self.spec.background.get(tier, 0.0) for tier in LINK_TIERS])
        left: Floats = self.capacity_Bps * (1.0 - taken[self.tier])
        return left

    @cached_property
    def resource_Bps(self) -> Floats:
        """``available_Bps`` of all links, then of all trunks: what routes index (shape links + trunks)."""
        # Links of a trunk are alike, so that the first stands for all.
        trunks = self.available_Bps[self.trunks.first] * self.trunks.count
        return np.concatenate([self.available_Bps, trunks])

    @cached_property
    def resource_latency_s(self) -> Floats:
        """Latency of all links, then of one link of each trunk, seconds (shape links + trunks)."""
        return np.concatenate([self.latency_s, self.latency_s[self.trunks.first]])

    def nic_of(self, gpu: Ints) -> Ints:
        """The NIC that each GPU owns or shares."""
        node, local = np.divmod(gpu, self.node.gpus)
        nic: Ints = node * self.rails + local * self.rails // self.node.gpus
        return nic

    def on_tier(self, tier: str) -> NDArray[np.bool_]:
        """Which links are of ``tier``. Raises FabricError for an unknown name."""
        if tier not in LINK_TIERS:
            raise FabricError(f"no tier of links {tier!r}: {', '.join(LINK_TIERS)}")
        found: NDArray[np.bool_] = self.tier == LINK_TIERS.index(tier)
        return found

    def node_name(self, node: int) -> str:
        """A node of the graph in words, such as ``gpu 12`` or ``spine 3``."""
        number = node
        for kind, count in self.node_counts:
            if number < count:
                return f"{kind} {number}"
            number -= count
        raise FabricError(f"node {node}: nodes of this graph are numbered from 0 to {node - number - 1}")

    def link_name(self, link: int) -> str:
        """A link in words, such as ``nic 12 -> leaf 0``."""
        return f"{self.node_name(int(self.source[link]))} -> {self.node_name(int(self.target[link]))}"


def build_fabric(node: Node, nodes: int, spec: FabricSpec | None = None) -> Fabric:
    """The graph of ``nodes`` machines of type ``node`` on the network ``spec`` (default: non-blocking).

    Raises FabricError for networks that the machines do not fit and for nodes that nothing connects.
    """
    if nodes < 1:
        raise FabricError(f"nodes: {nodes} is less than 1")
    return _Builder(node, nodes, FabricSpec() if spec is None else spec).build()


class _Builder:
    """Sizes the parts in turn and collects what had to be assumed."""

    def __init__(self, node: Node, nodes: int, spec: FabricSpec) -> None:
        self.node, self.nodes, self.spec = node, nodes, spec
        self.gpus = node.gpus * nodes
        self.rails = min(node.nics, node.gpus)
        self.assumptions: list[str] = []
        if node.nics > node.gpus and node.nics % node.gpus:
            raise FabricError(f"nics: {node.nics} NICs do not share out to {node.gpus} GPUs")
        if not self.rails and self.gpus > node.scale_up.domain_gpus:
            raise FabricError(f"{nodes} nodes {node.name!r} have no NICs to connect them: set nic and nics")

    @property
    def ports_per_rail(self) -> int:
        """Switch ports of one GPU's NICs where it has several."""
        return max(1, self.node.nics // self.node.gpus)

    @property
    def nic_Bps(self) -> float:
        return self.node.nic.usable_bandwidth_Bps * self.ports_per_rail

    def build(self) -> Fabric:
        scale_up = scale_up_domains(self.node.scale_up, self.gpus)
        counts = [
            ("gpu", self.gpus),
            ("nic", self.rails * self.nodes),
            ("scale-up switch", scale_up.switches),
        ]
        blocks = list(scale_up.blocks(self.gpus + self.rails * self.nodes))
        scale_out: ScaleOut | None = None
        if self.rails:
            blocks += self._gpu_nic()
            scale_out = self._scale_out(sum(len(block.source) for block in blocks))
            first_switch = sum(count for _, count in counts)
            counts += scale_out.switches()
            blocks += scale_out.blocks(self.gpus, first_switch)
        none = np.empty(0, np.int64)
        return Fabric(
            self.node,
            self.nodes,
            self.spec,
            scale_up,
            scale_out,
            self.rails,
            tuple(counts),
            np.concatenate([block.source.astype(np.int32) for block in blocks]),
            np.concatenate([block.target.astype(np.int32) for block in blocks]),
            _spread(blocks, (block.capacity_Bps for block in blocks)),
            _spread(blocks, (block.latency_s for block in blocks)),
            np.repeat(
                np.array([LINK_TIERS.index(block.tier) for block in blocks], np.uint8),
                [len(block.source) for block in blocks],
            ),
            Trunks(none, none) if scale_out is None else scale_out.trunks(),
            tuple(self.assumptions),
        )

    def _gpu_nic(self) -> Iterator[LinkBlock]:
        gpu = np.arange(self.gpus)
        nic = (
            self.gpus
            + gpu // self.node.gpus * self.rails
            + gpu % self.node.gpus * self.rails // self.node.gpus
        )
        yield LinkBlock(GPU_NIC, gpu, nic, self.nic_Bps, 0.0)
        yield LinkBlock(GPU_NIC, nic, gpu, self.nic_Bps, 0.0)

    def _scale_out(self, first_link: int) -> ScaleOut:
        spec, end_s = self.spec, self.node.nic.latency_s / 2.0
        if spec.kind == "non-blocking":
            return Clos(single_switch(self.rails * self.nodes, self.nic_Bps), first_link, end_s, 0.0)
        if spec.kind == "torus":
            return self._torus(first_link, end_s)
        radix = self._radix() // self.ports_per_rail
        if spec.kind == "dragonfly":
            shape = dragonfly_shape(
                self.rails * self.nodes,
                radix,
                self.nic_Bps,
                spec.oversubscription,
                spec.switch_nics,
                spec.group_switches,
                spec.global_links,
            )
            return Dragonfly(shape, first_link, end_s, self._hop_s())
        clos = clos_shape(
            spec.kind, self.nodes, self.rails, radix, self.nic_Bps, spec.tiers, spec.oversubscription
        )
        return Clos(clos, first_link, end_s, self._hop_s() if clos.tiers > 1 else 0.0)

    def _torus(self, first_link: int, end_s: float) -> Torus:
        dims = self.spec.dims or ()
        if math.prod(dims) != self.nodes:
            raise FabricError(
                f"dims: {list(dims)} make {math.prod(dims)} nodes, the cluster has {self.nodes}"
            )
        # A node's NICs share out over its cables: two neighbours along each dimension that has any.
        cable_Bps = self.rails * self.nic_Bps / max(1, 2 * sum(size > 1 for size in dims))
        return Torus(dims, self.rails, self.nic_Bps, cable_Bps, first_link, end_s, self._hop_s())

    @cached_property
    def _switch(self) -> Switch | None:
        """The switch named, or an assumed one where no radix is given either."""
        if self.spec.switch is not None or self.spec.radix is not None:
            return self.spec.switch
        name = ONLY_PUBLISHED_HOP if self.spec.kind == "dragonfly" else ASSUMED_SWITCH
        self.assumptions.append(f"switches: {name}, as neither switch nor radix is given")
        return catalog.switch(name)

    def _radix(self) -> int:
        """Ports of one switch at the NIC's line rate; faster ports are broken out into whole parts."""
        if self.spec.radix is not None or self._switch is None:
            return self.spec.radix or 0
        rate = self.node.nic.line_rate_Bps
        radix = max(
            (count * int(port / rate + 1e-9) for port, count in self._switch.ports.items()),
            default=0,
        )
        if radix < 2:
            raise FabricError(
                f"switch: {self._switch.name} has no ports for NICs of {rate * 8e-9:g} Gbps: name another switch, "
                "or give a radix"
            )
        return radix

    def _hop_s(self) -> float:
        if self.spec.hop_latency_s is not None:
            return self.spec.hop_latency_s
        if self.spec.kind != "torus" and self._switch is not None and self._switch.latency_s is not None:
            return self._switch.latency_s
        published = catalog.switch(ONLY_PUBLISHED_HOP).latency_s
        if published is None:
            raise FabricError("hop_latency_s: give the latency of a switch, no catalog entry has one")
        self.assumptions.append(
            f"hop_latency_s: {published * 1e9:.0f} ns, the figure of {ONLY_PUBLISHED_HOP}, the only one published"
        )
        return published


def _spread(blocks: list[LinkBlock], values: Iterable[float | Floats]) -> Floats:
    """One value per link from one value or one array per block."""
    return np.concatenate(
        [np.broadcast_to(value, len(block.source)) for block, value in zip(blocks, values, strict=True)]
    ).astype(np.float64)
