"""Messages between pipeline stages: what a pass waits for from elsewhere, and what it sends on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from sim.ops import Collective
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.schedule import Pass
from sim.parallel.sharding import Shard
from sim.parallel.stage import Part
from sim.program import SEND, Work


@dataclass(frozen=True)
class Messages:
    """Keys: ``("S", kind, part, micro-batch)``."""

    shard: Shard

    def arrival(self, part: Part, one: Pass) -> Key | None:
        """The message that brings what the pass takes up; None where its own stage made it."""
        layout = self.shard.layout
        needed = one.needs(layout.depth)
        if needed is None or layout.placement.stage(needed.part) == part.stage:
            return None
        return ("S", needed.kind, needed.part, needed.microbatch)

    def send(self, builder: ProgramBuilder, part: Part, one: Pass, after: Key) -> Key:
        """Adds the message that follows ``after``, if any; its key either way."""
        layout = self.shard.layout
        key: Key = ("S", one.kind, part.index, one.microbatch)
        target = one.passes_on(layout.depth)
        if target is None:
            return key
        peer = layout.placement.stage(target)
        if peer != part.stage:
            builder.add(
                key,
                part.stage,
                SEND,
                "send",
                f"send {one.kind} to stage {peer}",
                self._between[part.stage, peer],
                waits=(after,),
                microbatch=one.microbatch,
                peer=peer,
            )
        return key

    @cached_property
    def _between(self) -> dict[tuple[int, int], tuple[Work, ...]]:
        """One message from a stage to another: all of them share one tuple, which is priced once."""
        layout, mesh = self.shard.layout, self.shard.mesh
        stages = [layout.placement.stage(part) for part in range(layout.parts)]
        pairs = {pair for near, far in pairwise(stages) for pair in ((near, far), (far, near)) if near != far}
        return {
            (a, b): (Work(Collective("send", self.shard.activation_bytes, mesh.hop(a, b)), "pipeline"),)
            for a, b in sorted(pairs)
        }
