"""Zero-bubble schedules: the backward is split, and weight gradients fill the waits.

Only the input gradient is waited for by the stage before. Weight gradients wait until their stage has
nothing else to run, or until it holds as many activations as it may.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.parallel.passes import FORWARD, WEIGHT, Order, Pass


def filled(orders: Sequence[Order], parts: int, most_held: int) -> tuple[Order, ...]:
    """``orders`` of forwards and input gradients, one per stage, with weight gradients put between.

    The order comes from a replay in which each pass takes one unit of time and messages none, as the
    published schedules assume. ``most_held`` bounds the passes a stage has run forward whose weight
    gradient is still due. Raises ValueError when the orders wait for each other in a circle.
    """
    desks = [_Desk(order, parts, most_held) for order in orders]
    done: set[Pass] = set()
    while any(desk.busy for desk in desks):
        ran = [chosen for desk in desks if (chosen := desk.choose(done)) is not None]
        if not ran:
            raise ValueError("the stages wait for each other")
        done.update(ran)
    return tuple(tuple(desk.ran) for desk in desks)


@dataclass
class _Desk:
    """One stage during the replay."""

    order: Order
    parts: int
    most_held: int
    place: int = 0
    due: deque[Pass] = field(default_factory=deque)  # weight gradients
    held: int = 0
    ran: list[Pass] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return self.place < len(self.order) or bool(self.due)

    def choose(self, done: set[Pass]) -> Pass | None:
        """Runs one pass for one unit of time: the next one of the order, else a weight gradient."""
        if self.place < len(self.order) and self._may_run(self.order[self.place], done):
            chosen = self.order[self.place]
            self.place += 1
            if chosen.kind == FORWARD:
                self.held += 1
            else:
                self.due.append(Pass(WEIGHT, chosen.part, chosen.microbatch))
        elif self.due:
            chosen = self.due.popleft()
            self.held -= 1
        else:
            return None
        self.ran.append(chosen)
        return chosen

    def _may_run(self, candidate: Pass, done: set[Pass]) -> bool:
        full = candidate.kind == FORWARD and self.held >= self.most_held and bool(self.due)
        needed = candidate.needs(self.parts)
        return not full and (needed is None or needed in done)
