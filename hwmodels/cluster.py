"""The machine a scenario asks for: nodes of one type, a network between them, a software stack."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hwmodels.collectives import CollectiveModel
from hwmodels.embeddings import EmbeddingModel
from hwmodels.gpu import Gpu
from hwmodels.kernels import KernelModel
from hwmodels.network import Network
from hwmodels.node import Node
from hwmodels.stack import StackProfile


@dataclass(frozen=True)
class Cluster:
    """``gpus`` GPUs on ``node`` machines under ``stack``; ``power_cap_W`` lowers every GPU's cap.

    ``network`` None is non-blocking.
    """

    node: Node
    gpus: int
    stack: StackProfile
    power_cap_W: float | None = None
    network: Network | None = None

    @property
    def gpu(self) -> Gpu:
        return self.node.gpu

    @property
    def domain_gpus(self) -> int:
        """GPUs that reach each other over scale-up links."""
        return self.node.scale_up.domain_gpus

    @cached_property
    def kernels(self) -> KernelModel:
        return KernelModel(self.gpu, self.stack, self.power_cap_W)

    @cached_property
    def embeddings(self) -> EmbeddingModel:
        return EmbeddingModel(self.gpu, self.stack)

    @cached_property
    def collectives(self) -> CollectiveModel:
        return CollectiveModel(self.node, self.stack, self.network)
