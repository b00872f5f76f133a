"""What compute and collectives that run side by side do to each other: docs/adr/003."""

from __future__ import annotations

from dataclasses import dataclass


def stretch(beside_s: float, compute_s: float, slowdown: float) -> float:
    """How much longer ``compute_s`` of compute takes while ``beside_s`` of collectives run.

    Compute proceeds at 1/slowdown while a collective runs: T compute and C communication seconds side
    by side stretch the compute by min(slowdown, 1 + (1 - 1/slowdown)·C/T)
    (docs/models.md section 1: exposed = (1 - 1/kappa)·t_comm + what does not fit).
    """
    if compute_s <= 0.0:
        return 1.0
    return min(slowdown, 1.0 + (1.0 - 1.0 / slowdown) * beside_s / compute_s)


@dataclass
class Window:
    """Seconds of tasks that run side by side.

    ``compute_s``: compute tasks, ``beside_s``: collectives of the collective stream. Of the compute tasks
    ``exposed_s`` are collectives that nothing hides, and ``hidden_s`` of collectives run under the rest;
    both count only where they share one stream with those beside.
    """

    compute_s: float = 0.0
    beside_s: float = 0.0
    exposed_s: float = 0.0
    hidden_s: float = 0.0

    def factor(self, slowdown: float) -> float:
        """What stretches compute; exposed collectives are none."""
        return stretch(self.beside_s, self.compute_s - self.exposed_s, slowdown)

    def delay_s(self, slowdown: float) -> float:
        """What collectives beside wait for those inside: the stream is theirs by turns.

        Spread evenly over the window, C seconds beside T of free stream and X of taken meet X·C/T of
        the latter, and all of it where they are longer than the window. So a gather and an all-to-all take
        C + X together, and compute hides the gather only.
        """
        inside = self.exposed_s + self.hidden_s
        free = (self.compute_s - self.exposed_s) * self.factor(slowdown) - self.hidden_s
        return inside if free <= self.beside_s else inside * self.beside_s / free
