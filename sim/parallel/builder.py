"""Collects tasks under readable keys and turns the keys into ids once all exist."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from sim.program import Program, Task, Work

Key = tuple[object, ...]


@dataclass(frozen=True)
class Draft:
    key: Key
    role: int
    stream: str
    kind: str
    name: str
    microbatch: int
    layers: tuple[int, int]
    work: tuple[Work, ...]
    waits: tuple[Key, ...]
    window: str | None
    wait_cause: str
    peer: int | None
    barrier: bool


class ProgramBuilder:
    """Tasks run on their stream in the order they are added."""

    def __init__(self, roles: int, replica_of: tuple[int, ...] = (0,), role_stride: int = 0) -> None:
        self._roles, self._replica_of, self._role_stride = roles, replica_of, role_stride
        self._drafts: list[Draft] = []
        self._ids: dict[Key, int] = {}

    def add(
        self,
        key: Key,
        role: int,
        stream: str,
        kind: str,
        name: str,
        work: tuple[Work, ...],
        *,
        waits: tuple[Key, ...] = (),
        microbatch: int = 0,
        layers: tuple[int, int] = (0, 0),
        window: str | None = None,
        wait_cause: str = "bubble",
        peer: int | None = None,
        barrier: bool = False,
    ) -> Key:
        if key in self._ids:
            raise ValueError(f"task {key} added twice")
        self._ids[key] = len(self._drafts)
        self._drafts.append(
            Draft(
                key,
                role,
                stream,
                kind,
                name,
                microbatch,
                layers,
                work,
                waits,
                window,
                wait_cause,
                peer,
                barrier,
            )
        )
        return key

    def also(self, key: Key, other: Key) -> None:
        """``other`` is a further name of the task ``key``."""
        if other in self._ids:
            raise ValueError(f"task {other} added twice")
        self._ids[other] = self._ids[key]

    def has(self, key: Key) -> bool:
        return key in self._ids

    def build(self, *, staggered: bool = False) -> Program:
        """Resolves keys. Raises KeyError for a wait on a task that was never added."""
        order: list[dict[str, list[int]]] = [defaultdict(list) for _ in range(self._roles)]
        tasks = []
        for task_id, d in enumerate(self._drafts):
            waits = tuple(self._ids[k] for k in d.waits)
            order[d.role][d.stream].append(task_id)
            tasks.append(
                Task(
                    task_id,
                    d.role,
                    d.stream,
                    d.kind,
                    d.name,
                    d.microbatch,
                    d.layers,
                    d.work,
                    waits,
                    d.window,
                    d.wait_cause,
                    d.peer,
                    d.barrier,
                )
            )
        frozen = tuple({stream: tuple(ids) for stream, ids in streams.items()} for streams in order)
        return Program(tuple(tasks), frozen, self._replica_of, self._role_stride, staggered)
