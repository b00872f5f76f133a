"""When every task of a program starts and ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.program import COLLECTIVE, COMPUTE, Program


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

    @cached_property
    def spans_s(self) -> tuple[tuple[float, float], ...]:
        """By role: when the step begins and ends for it, seconds.

        A staggered role begins with its first computation, and what its collectives did in time for that could
        have been done just before.
        """
        return tuple(self._span_s(role) for role in range(self.program.roles))

    @property
    def step_s(self) -> float:
        """From one step to the next, seconds: staggered roles repeat after the longest of their spans.

        Shifted by that much every role is free when its next step begins, and all that it waits for is shifted
        alike.
        """
        if not self.program.staggered:
            return self.makespan_s
        return max((end - start for start, end in self.spans_s), default=0.0)

    def _span_s(self, role: int) -> tuple[float, float]:
        streams = self.program.order[role]
        compute = streams.get(COMPUTE, ())
        end = max((self.end_s[i] for i in compute), default=0.0)
        if not self.program.staggered or not compute:
            return 0.0, end
        first = self.start_s[compute[0]]
        ahead = sum(
            self.end_s[i] - self.start_s[i] for i in streams.get(COLLECTIVE, ()) if self.start_s[i] < first
        )
        return max(0.0, first - ahead), end
