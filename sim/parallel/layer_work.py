"""What one rank does for one layer or the head: the tuples that stages are assembled from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sim.program import Work


@dataclass(frozen=True)
class Weights:
    """Parameters of one rank, counted by who holds the same ones.

    ``shared`` ones lie on every replica. ``experts`` are those of routed experts: expert parallelism
    spreads them over replicas, so that fewer ranks exchange their gradients.
    """

    shared: float
    experts: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.shared or self.experts)


def total(weights: Iterable[Weights]) -> Weights:
    listed = tuple(weights)
    return Weights(sum(w.shared for w in listed), sum(w.experts for w in listed))


@dataclass(frozen=True)
class LayerWork:
    """Work of one layer (or the head) and the parameters behind it, on one rank.

    ``backward`` is what a schedule that does not split it runs: ``backward_input`` and
    ``backward_weight`` together, in the order of execution. The input gradient is what the stage before
    waits for; the weight gradient may run later. ``recompute`` comes before either of them.

    ``parameters`` are the trainable ones; ``gathered`` are all that a full-shard scheme must gather.
    """

    forward: tuple[Work, ...]
    backward: tuple[Work, ...]
    backward_input: tuple[Work, ...]
    backward_weight: tuple[Work, ...]
    recompute: tuple[Work, ...]
    parameters: Weights
    gathered: Weights
