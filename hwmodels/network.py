"""What a network leaves of each NIC when every rank of a machine talks at once.

A collective is not one lonely flow: all its groups run at the same time. ``share`` lays the flows of all
ranks on the graph, takes max-min fair rates, and returns the slowest flow's rate over the NIC's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hwmodels.fabric_spec import FabricSpec
from hwmodels.node import Node

if TYPE_CHECKING:
    from hwmodels.fabric import Fabric


@dataclass(frozen=True)
class RoutingSpec:
    """How flows pick among equal paths: ``adaptive``, ``spray`` or ``ecmp`` with ``queue_pairs`` hashes."""

    mode: str = "adaptive"
    queue_pairs: int = 1
    pxn: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)  # hashed by identity: its graph is kept
class Network:
    """``nodes`` machines of type ``node`` on the fabric ``spec``; ``gpus`` of their GPUs are in use."""

    node: Node
    nodes: int
    gpus: int
    spec: FabricSpec
    routing: RoutingSpec

    def share(self, stride: int) -> float:
        """Rate of the slowest flow over a lone one's when every GPU sends to the one ``stride`` on.

        1 on a network that is never in the way. Flows inside a scale-up domain do not count; ranks
        near the end send to the beginning, as rings close.
        """
        return _share(self, stride)

    def check(self) -> None:
        """Lays out the graph. Raises FabricError for a network that the machines do not fit."""
        if not self.transparent:
            _graph(self)

    @property
    def transparent(self) -> bool:
        """Nothing on this network can slow a flow: no need for its graph."""
        return self.spec.kind == "non-blocking" and not self.spec.background

    @property
    def lone_Bps(self) -> float:
        """A flow that has the network to itself."""
        return self.node.nic_bandwidth_per_gpu_Bps


@lru_cache(maxsize=4)
def _graph(network: Network) -> Fabric:
    from hwmodels.fabric import build_fabric

    return build_fabric(network.node, network.nodes, network.spec)


@lru_cache(maxsize=512)
def _share(network: Network, stride: int) -> float:
    if network.transparent:
        return 1.0
    import numpy as np

    from hwmodels.routing import Flows, Routing, route

    fabric, asked = _graph(network), network.routing
    routing = Routing(asked.mode, asked.queue_pairs, asked.pxn, seed=asked.seed)
    source = np.arange(network.gpus)
    target = (source + stride) % network.gpus
    outside = source // fabric.domain_gpus != target // fabric.domain_gpus
    if not outside.any():
        return 1.0
    flows = Flows.of(source[outside], target[outside])
    rates = route(fabric, flows, routing).rates_Bps()
    return float(min(1.0, rates.min() / network.lone_Bps))
