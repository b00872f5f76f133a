"""The contract between planning, pricing and engines: what each kind of rank does, in which order.

A ``Task`` occupies one stream of one role from its start to its end. It is as coarse as its
dependencies permit: a whole pipeline chunk where only the pipeline waits on it, one layer where a
gradient bucket or a parameter gather does.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.ops import Op

COMPUTE, COLLECTIVE, SEND, INPUT = "compute", "collective", "send", "input"  # streams of a role
TO_HOST, FROM_HOST = "to host", "from host"  # copy engines, one per direction
IDS = "ids"  # what to look up next travels beside all else


@dataclass(frozen=True)
class Work:
    """``count`` repetitions of one op, charged to one cause."""

    op: Op
    cause: str
    count: float = 1.0


@dataclass(frozen=True)
class Task:
    """One block of work on one stream.

    ``waits`` are ids of tasks that must end first. ``window`` names the set of tasks that run side
    by side: compute tasks of a window are slowed by the collectives of the same window.
    ``wait_cause`` is what idle time ended by this task is charged to, beyond the task's own run.
    """

    id: int
    role: int  # pipeline stage
    stream: str
    kind: str  # "forward" | "backward" | "gather" | "reduce" | "send" | "optimizer" | ...
    name: str
    microbatch: int
    layers: tuple[int, int]  # [first, last) global layer ids; (0, 0) when none
    work: tuple[Work, ...]
    waits: tuple[int, ...] = ()
    window: str | None = None
    wait_cause: str = "bubble"
    peer: int | None = None  # role that a send goes to
    barrier: bool = False  # waits for all ranks of what it waits for, not for its own counterpart alone


@dataclass(frozen=True)
class Flow:
    """A transfer that shares links with others.

    Alone it takes ``latency_s + transfer_s``. ``demand`` lists (link, seconds): how much of a link's time
    the transfer needs at the link's full rate, at most ``transfer_s`` each. Links are named by pricing;
    engines only compare the names.
    """

    latency_s: float
    transfer_s: float
    demand: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Program:
    """All tasks of one step. ``order[role][stream]`` lists task ids in issue order.

    A role stands for as many GPUs as ``replica_of`` has entries: those with equal ones work on the same samples, the
    others do the same on other samples. Communicators within a role are strided groups of its ranks
    (``sim.ops.Group``). ``role_stride`` counts ranks of a role before those of the next role come (0: all of them).
    ``staggered`` roles need not start a step together: each begins its next one when it is through with this one.
    ``one_stream``: collectives inside compute tasks and those of the collective stream take turns.
    """

    tasks: tuple[Task, ...]
    order: tuple[dict[str, tuple[int, ...]], ...]
    replica_of: tuple[int, ...] = (0,)
    role_stride: int = 0
    staggered: bool = False
    one_stream: bool = False

    @property
    def ranks(self) -> int:
        """GPUs that one role stands for."""
        return len(self.replica_of)

    @property
    def roles(self) -> int:
        return len(self.order)
