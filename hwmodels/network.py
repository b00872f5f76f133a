"""What a network leaves of each NIC when every rank of a machine talks at once.

A collective is not one lonely flow: all its groups run at the same time. ``use`` lays the flows of all
ranks on the graph and returns how busy the busiest link of each tier is; ``share`` is what that leaves the
slowest flow (the flows on the busiest link have no tighter one, so max-min fairness gives each
capacity / load).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hwmodels.fabric_spec import GPU_NIC, LINK_TIERS, NIC_LEAF, SCALE_UP, FabricSpec
from hwmodels.node import Node

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwmodels.fabric import Fabric


SAMPLED_SHIFTS = 16


@dataclass(frozen=True)
class RoutingSpec:
    """How flows pick among equal paths: ``spray``, ``adaptive`` or ``ecmp`` with ``queue_pairs`` hashes."""

    mode: str = "spray"
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
    scattered: bool = (
        False  # neighbours of the machine are anywhere on the fabric, moved by the routing's seed
    )

    def share(self, stride: int) -> float:
        """Rate of the slowest flow over a lone one's when every GPU sends to the one ``stride`` on.

        1 on a network that is never in the way. Flows inside a scale-up domain do not count; ranks
        near the end send to the beginning, as rings close.
        """
        return 1.0 / max(1.0, *self.use(stride).values())

    def exchange_share(self, stride: int, size: int) -> float:
        """The same where every rank exchanges with all others of its group, one partner after the other.

        Groups are ``size`` ranks ``stride`` apart, all of them at the same time. The k-th exchange goes k
        ranks on, around the group; of more than ``SAMPLED_SHIFTS`` evenly spread ones stand for all.
        """
        shifts = range(1, size, max(1, (size - 1) // SAMPLED_SHIFTS))
        span = None if self.gpus % (stride * size) else stride * size
        uses = [max(_use(self, k * stride, span).values()) for k in shifts]
        crossing = [max(1.0, use) for use in uses if use > 0.0]
        return len(crossing) / sum(crossing) if crossing else 1.0

    def use(self, stride: int) -> Mapping[str, float]:
        """By tier of links between domains: load of its busiest link over its capacity, same pattern.

        Every GPU sends at its lone rate; above 1 the tier cannot carry that.
        """
        return _use(self, stride, None)

    def check(self) -> None:
        """Lays out the graph. Raises FabricError for a network that the machines do not fit."""
        if not self.transparent:
            _graph(self)

    @property
    def transparent(self) -> bool:
        """Nothing on this network can slow a flow: no need for its graph."""
        return self.spec.kind == "non-blocking" and not self.spec.background

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What nobody stated and the layout rests on."""
        return () if self.transparent else _graph(self).assumptions

    @property
    def lone_Bps(self) -> float:
        """A flow that has the network to itself."""
        return self.node.nic_bandwidth_per_gpu_Bps


@lru_cache(maxsize=4)
def _graph(network: Network) -> Fabric:
    from hwmodels.fabric import build_fabric

    return build_fabric(network.node, network.nodes, network.spec)


def _seats(network: Network, domain_gpus: int) -> NDArray[np.int64]:
    """The GPU of the fabric that each rank of the machine sits on; whole scale-up domains change places."""
    import numpy as np

    rank = np.arange(network.gpus)
    if not network.scattered:
        return rank
    domains = network.gpus // domain_gpus  # a last one that is not whole stays
    places = np.arange(domains + 1)
    places[:domains] = np.random.default_rng(network.routing.seed).permutation(domains)
    seats: NDArray[np.int64] = places[rank // domain_gpus] * domain_gpus + rank % domain_gpus
    return seats


@lru_cache(maxsize=4096)
def _use(network: Network, stride: int, span: int | None) -> Mapping[str, float]:
    """``span``: GPUs of a block that the pattern closes in; None is the whole machine."""
    if network.transparent:
        return {NIC_LEAF: 1.0}
    import numpy as np

    from hwmodels.routing import Flows, Routing, route

    fabric, asked = _graph(network), network.routing
    routing = Routing(asked.mode, asked.queue_pairs, asked.pxn, seed=asked.seed)
    source = np.arange(network.gpus)
    block = span or network.gpus
    first = source // block * block
    target = first + (source - first + stride) % block
    outside = source // fabric.domain_gpus != target // fabric.domain_gpus
    if not outside.any():
        return {NIC_LEAF: 0.0}
    seat = _seats(network, fabric.domain_gpus)
    flows = Flows.of(seat[source[outside]], seat[target[outside]])
    load = route(fabric, flows, routing).loads(np.full(len(flows), network.lone_Bps))
    with np.errstate(invalid="ignore"):
        busy = np.where(fabric.available_Bps > 0.0, load / fabric.available_Bps, 0.0)
    return {
        tier: float(busy[on].max())
        for tier in LINK_TIERS
        if tier not in (SCALE_UP, GPU_NIC) and (on := fabric.on_tier(tier)).any()
    }
