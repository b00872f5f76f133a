"""What the plan may overlap and in which formats state travels: the scenario's choices, hardware-free."""

from __future__ import annotations

from dataclasses import dataclass

from sim.parallel.buckets import Buckets
from sim.parallel.feed import Feed
from sim.parallel.offload import ActivationOffload, OptimizerOffload

LAYER_BY_LAYER = Buckets()


@dataclass(frozen=True)
class Strategy:
    """Communication choices of a plan. ``blocking_p2p`` is a fact of the stack, the rest are the user's.

    ``prefetch`` is how many layers ahead FSDP gathers; ``reshard`` frees them after the forward pass
    so that the backward pass gathers them again. ``buckets`` are those of replicas that hold all parameters; FSDP's
    units are its layers. ``feed`` None: samples are always there. Without an
    ``optimizer_barrier`` no stage waits for the gradients of another.
    """

    overlap_dp: bool = True
    overlap_tp: bool = False
    overlap_ep: bool = False
    overlap_pp: bool = True
    one_stream: bool = False  # collectives inside layers and those beside them take turns
    gradient_bytes: float = 4.0  # per element, on the wire
    parameter_bytes: float = 2.0
    prefetch: int = 1
    reshard: bool = True
    feed: Feed | None = None
    optimizer_barrier: bool = True
    buckets: Buckets = LAYER_BY_LAYER
    offload: ActivationOffload | None = None
    optimizer_offload: OptimizerOffload | None = None
