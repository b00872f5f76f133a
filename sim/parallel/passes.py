"""A pass: what a stage does with one part of the model and one micro-batch, without interruption."""

from __future__ import annotations

from typing import NamedTuple

FORWARD, BACKWARD, WEIGHT = "forward", "backward", "weight"
"""Kinds. ``backward`` is the whole backward where no ``weight`` pass follows, else input gradients only."""


class Pass(NamedTuple):
    """``part`` counts the parts of the model from the embedding on (one per stage without virtual stages)."""

    kind: str
    part: int
    microbatch: int

    def needs(self, parts: int) -> Pass | None:
        """The pass whose result this one takes up; None for the first part's forward."""
        if self.kind == WEIGHT:
            return Pass(BACKWARD, self.part, self.microbatch)
        if self.kind == FORWARD:
            return Pass(FORWARD, self.part - 1, self.microbatch) if self.part else None
        if self.part == parts - 1:
            return Pass(FORWARD, self.part, self.microbatch)
        return Pass(BACKWARD, self.part + 1, self.microbatch)


Order = tuple[Pass, ...]
"""Passes of one stage in issue order."""
