"""A pass: what a stage does with one part of the model and one micro-batch, without interruption."""

from __future__ import annotations

from typing import NamedTuple

FORWARD, BACKWARD, WEIGHT = "forward", "backward", "weight"
"""Kinds. ``backward`` is the whole backward where no ``weight`` pass follows, else input gradients only."""


class Pass(NamedTuple):
    """``part`` counts the parts of the model from the embedding on (one per stage without virtual stages).

    A second copy of the model has the next numbers.
    """

    kind: str
    part: int
    microbatch: int

    def needs(self, depth: int) -> Pass | None:
        """The pass whose result this one takes up; None for the first part's forward.

        ``depth``: parts of one copy of the model.
        """
        place = self.part % depth
        if self.kind == WEIGHT:
            return Pass(BACKWARD, self.part, self.microbatch)
        if self.kind == FORWARD:
            return Pass(FORWARD, self.part - 1, self.microbatch) if place else None
        if place == depth - 1:
            return Pass(FORWARD, self.part, self.microbatch)
        return Pass(BACKWARD, self.part + 1, self.microbatch)

    def passes_on(self, depth: int) -> int | None:
        """The part that takes up the result of this pass; None where the way through the model ends."""
        target = self.part + (1 if self.kind == FORWARD else -1)
        ends = self.kind == WEIGHT or target < 0 or target // depth != self.part // depth
        return None if ends else target


Order = tuple[Pass, ...]
"""Passes of one stage in issue order."""

Slot = tuple[Pass, ...]
"""Passes that a stage runs as one: they start together, and their results leave together."""
