"""The machines of the micro-ledger: catalog entries with a plain stack, some of them exchanged for a test.

A kernel benchmark is no training step: its GEMMs run at the library's own rate and nothing of a framework
stands between them. So the newest stack of a GPU is used with a GEMM efficiency of 1 and the scale-up
bandwidth that the node's catalog entry gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from hwmodels import catalog
from hwmodels.collectives import CollectiveModel
from hwmodels.gpu import Gpu
from hwmodels.kernels import ATTENTION_RAMP, KernelModel
from hwmodels.node import Node
from hwmodels.protocol import Protocols
from hwmodels.stack import StackProfile

AttentionRamp = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Machines:
    """Catalog entries by name; ``gpus``, ``stacks`` and ``ramps`` (by GPU), ``nodes`` and ``protocols`` (by node) stand
    in for those they name.
    """

    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    stacks: Mapping[str, StackProfile] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    ramps: Mapping[str, AttentionRamp] = field(default_factory=dict)
    protocols: Mapping[str, Protocols] = field(default_factory=dict)

    def gpu(self, name: str) -> Gpu:
        return self.gpus.get(name) or catalog.gpu(name)

    def node(self, name: str) -> Node:
        return self.nodes.get(name) or catalog.node(name)

    def stack(self, gpu_name: str) -> StackProfile:
        return self.stacks.get(gpu_name) or plain_stack(gpu_name)

    def kernels(self, gpu_name: str, power_cap_W: float | None = None) -> KernelModel:
        ramp = self.ramps.get(gpu_name) or ATTENTION_RAMP
        return KernelModel(self.gpu(gpu_name), self.stack(gpu_name), power_cap_W, ramp)

    def collectives(self, node_name: str, stack_name: str | None = None) -> CollectiveModel:
        """Under the stack ``stack_name`` as it stands, or under the plain stack of the node's GPU."""
        node = self.node(node_name)
        stack = self.stack(node.gpu.name) if stack_name is None else catalog.stack(stack_name)
        return CollectiveModel(node, stack, protocols=self.protocols.get(node_name) or catalog.protocols())


@cache
def plain_stack(gpu_name: str) -> StackProfile:
    """The newest stack of the GPU without its framework. Raises ``UnknownName`` for a GPU without one."""
    stack = catalog.newest_stack(gpu_name)
    return replace(stack, gemm_efficiency=dict.fromkeys(stack.gemm_efficiency, 1.0), scale_up_efficiency=1.0)
