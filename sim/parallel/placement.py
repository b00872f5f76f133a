"""Which stage holds which part of the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """``stages`` stages with ``chunks`` parts each.

    Round: part k lies on stage k modulo ``stages``, so the model goes round the stages ``chunks`` times.
    Folded (two chunks): down and up again, stage r holds parts r and 2·stages-1-r; first and last part
    share stage 0. With two ``copies`` the turn is the start of a second model that runs the other way: parts
    ``depth`` + k are its parts k, and every stage holds a part of each.
    """

    stages: int
    chunks: int = 1
    folded: bool = False
    copies: int = 1

    @property
    def parts(self) -> int:
        return self.stages * self.chunks

    @property
    def depth(self) -> int:
        """Parts of one copy of the model."""
        return self.parts // self.copies

    def stage(self, part: int) -> int:
        turn, place = divmod(part, self.stages)
        return self.stages - 1 - place if self.folded and turn % 2 else place

    def by_stage(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Sums per stage of something counted per part."""
        return tuple(sum(counts[part] for part in self.on_stage(stage)) for stage in range(self.stages))

    def on_stage(self, stage: int) -> tuple[int, ...]:
        """Parts of ``stage`` in model order."""
        return tuple(part for part in range(self.parts) if self.stage(part) == stage)
