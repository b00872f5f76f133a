"""When every task of a program starts and ends."""

from __future__ import annotations

from dataclasses import dataclass

from sim.program import Program


@dataclass(frozen=True)
class Timeline:
    """Start and end of each task in seconds, indexed by task id."""

    program: Program
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]

    @property
    def makespan_s(self) -> float:
        """End of the last task, seconds."""
        return max(self.end_s, default=0.0)
