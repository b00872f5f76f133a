"""Links that live transfers share: rates change only when one begins or ends.

Incremental: a transfer that begins or ends moves those it meets on some link, directly or through others,
and nobody else. Nothing is per packet.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import simpy

from sim.program import Flow

Solver = Callable[[Sequence[Mapping[str, float]]], list[float]]
"""Fraction of the links that each transfer takes at full speed -> speed of each, 0 to 1."""


@dataclass
class _Transfer:
    """One live flow: how much of it is left, how fast it runs, and since when."""

    use: Mapping[str, float]
    left_s: float  # at full speed
    done: simpy.Event
    speed: float = 1.0
    since_s: float = 0.0
    alarm: int = field(default=0)  # only the newest alarm counts


class SharedLinks:
    """Carries flows at the speeds that ``solver`` gives the ones that meet."""

    def __init__(self, environment: simpy.Environment, solver: Solver) -> None:
        self._environment = environment
        self._solver = solver
        self._live: dict[int, _Transfer] = {}
        self._on: dict[str, set[int]] = {}
        self._alarms = 0

    def carry(self, key: int, flow: Flow) -> Generator[Any, Any, None]:
        """Process: ends when ``flow`` is through. ``key`` orders simultaneous flows."""
        if flow.latency_s > 0.0:
            yield self._environment.timeout(flow.latency_s)
        if flow.transfer_s <= 0.0:
            return
        use = {link: seconds / flow.transfer_s for link, seconds in flow.demand if seconds > 0.0}
        now = self._environment.now
        transfer = _Transfer(use, flow.transfer_s, self._environment.event(), since_s=now)
        self._live[key] = transfer
        for link in use:
            self._on.setdefault(link, set()).add(key)
        self._settle(self._meeting(key))
        yield transfer.done

    def _meeting(self, key: int) -> list[int]:
        """``key`` and all that it shares a link with, directly or through others, in order."""
        found, todo = {key}, [key]
        while todo:
            for link in self._live[todo.pop()].use:
                new = self._on[link] - found
                found |= new
                todo += sorted(new)
        return sorted(found)

    def _settle(self, keys: Sequence[int]) -> None:
        """Brings ``keys`` up to now, gives them new speeds, and sets their alarms."""
        now = self._environment.now
        alone = len(keys) == 1  # no solver needed to know that nothing slows it
        speeds = [1.0] if alone else self._solver([self._live[key].use for key in keys])
        for key, speed in zip(keys, speeds, strict=True):
            transfer = self._live[key]
            transfer.left_s = max(0.0, transfer.left_s - (now - transfer.since_s) * transfer.speed)
            transfer.since_s, transfer.speed = now, speed
            self._alarms += 1
            transfer.alarm = self._alarms
            alarm = self._environment.timeout(transfer.left_s / speed)
            alarm.callbacks.append(partial(self._wake, key, self._alarms))

    def _wake(self, key: int, alarm: int, _: simpy.Event) -> None:
        transfer = self._live.get(key)
        if transfer is None or transfer.alarm != alarm:
            return  # speeds changed meanwhile: a newer alarm is set
        neighbours = [other for other in self._meeting(key) if other != key]
        del self._live[key]
        for link in transfer.use:
            self._on[link].discard(key)
        if neighbours:
            self._settle(neighbours)
        transfer.done.succeed()
