"""What waits in host memory: activations of the first layers, and the optimizer's states."""

from __future__ import annotations

from dataclasses import dataclass

from sim.ops import HostCopy
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.passes import BACKWARD, FORWARD, Pass
from sim.program import FROM_HOST, TO_HOST, Work

BUFFERS = 2
"""Layers whose activations are in HBM while others are copied (Transformer Engine's double buffering)."""

CAUSE = "host"


@dataclass(frozen=True)
class ActivationOffload:
    """Activations of the first ``layers`` layers, ``layer_bytes`` of each: dense ones, and those with experts.

    A layer is copied out once its forward is over; compute goes on unless ``BUFFERS`` layers have not left.
    In the backward a layer comes back while the ``BUFFERS`` layers after it run. The copy engines take no
    compute units.
    """

    layers: int
    layer_bytes: tuple[float, float]

    def waits(self, one: Pass, layers: tuple[int, int]) -> tuple[Key, ...]:
        """What the compute of a layer (``layers``: [first, last), global) waits for besides its own inputs."""
        layer = layers[0]
        if layers[1] == layer:
            return ()
        if one.kind == FORWARD:
            return (self._out(one, layer - BUFFERS),) if BUFFERS <= layer < self.layers + BUFFERS else ()
        return (self._in(one, layer),) if one.kind == BACKWARD and layer < self.layers else ()

    def copy(
        self,
        builder: ProgramBuilder,
        one: Pass,
        layers: tuple[int, int],
        task: Key,
        before: Key | None,
        *,
        routed: bool,
    ) -> None:
        """The copy that belongs to a layer's ``task``; ``before``: the end of what ran ``BUFFERS`` + 1 tasks
        earlier in this pass."""
        layer = layers[0]
        if layers[1] == layer or layer >= self.layers or one.kind not in (FORWARD, BACKWARD):
            return
        if one.kind == FORWARD:
            key, stream, waits, way = self._out(one, layer), TO_HOST, (task,), "out"
        else:
            waits = (self._out(one, layer), *(() if before is None else (before,)))
            key, stream, way = self._in(one, layer), FROM_HOST, "in"
        builder.add(
            key,
            0,
            stream,
            "copy",
            f"layer {layer} {way}",
            (Work(HostCopy(self.layer_bytes[routed]), CAUSE),),
            waits=waits,
            microbatch=one.microbatch,
            layers=layers,
            wait_cause=CAUSE,
        )

    def _out(self, one: Pass, layer: int) -> Key:
        return ("OUT", one.microbatch, layer)

    def _in(self, one: Pass, layer: int) -> Key:
        return ("IN", one.microbatch, layer)


@dataclass(frozen=True)
class OptimizerOffload:
    """States of the optimizer in host memory.

    ``streamed``: they pass through the GPU, which updates them meanwhile. ``host``: gradients go down, the
    host updates at ``host_Bps``, parameters come up (ZeRO-Offload, arXiv:2101.06840), one after the other.
    Bytes are those of one parameter.
    """

    kind: str  # "streamed" | "host"
    state_bytes: float
    gradient_bytes: float
    parameter_bytes: float
    host_Bps: float = 0.0

    def add(
        self,
        builder: ProgramBuilder,
        stage: int,
        parameters: float,
        after: tuple[Key, ...],
        *,
        barrier: bool,
    ) -> Key:
        """The copies of ``stage`` once its gradients are final (``after``, on all ranks with a ``barrier``); the key
        of the last one."""
        if self.kind == "streamed":
            moved = parameters * self.state_bytes
            self._add(builder, stage, FROM_HOST, "states in", HostCopy(moved), after, barrier)
            return self._add(builder, stage, TO_HOST, "states out", HostCopy(moved), after, barrier)
        down = HostCopy(parameters * self.gradient_bytes)
        key = self._add(builder, stage, TO_HOST, "gradients out", down, after, barrier)
        # Both moments and the master copy are read and written, the gradient read, the parameter written.
        moved = parameters * (2.0 * self.state_bytes + self.gradient_bytes + self.parameter_bytes)
        key = self._add(builder, stage, TO_HOST, "host update", HostCopy(moved, self.host_Bps), (key,))
        up = HostCopy(parameters * self.parameter_bytes)
        return self._add(builder, stage, FROM_HOST, "parameters in", up, (key,))

    def _add(
        self,
        builder: ProgramBuilder,
        stage: int,
        stream: str,
        name: str,
        op: HostCopy,
        after: tuple[Key, ...],
        barrier: bool = False,
    ) -> Key:
        return builder.add(
            (name, stage),
            stage,
            stream,
            "copy",
            name,
            (Work(op, CAUSE),),
            waits=after,
            wait_cause=CAUSE,
            barrier=barrier,
        )
