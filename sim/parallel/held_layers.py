"""Which layers a stage holds, as far as memory tells them apart."""

from __future__ import annotations

from dataclasses import dataclass

from sim.parallel.layout import Layout
from sim.workload.architecture import Architecture


@dataclass(frozen=True)
class HeldLayer:
    """``routed``: its MLP is one of experts. ``recomputed``: its activations are made again. ``offloaded``: they
    wait in host memory."""

    routed: bool = False
    recomputed: bool = False
    offloaded: bool = False


def held_layers(architecture: Architecture, layout: Layout, stage: int) -> tuple[HeldLayer, ...]:
    """Layers of ``stage`` in model order; those that predict further tokens last, beside the output layer."""
    held: list[HeldLayer] = []
    for part in layout.placement.on_stage(stage):
        first = layout.first_layer(part)
        held += [
            HeldLayer(
                architecture.kind(layer).routed, layout.recomputes(part, layer), layer < layout.offloaded
            )
            for layer in range(first, first + layout.layers_of_part(part))
        ]
    if layout.has_head(stage):
        ids = layout.recomputed_ids or ()
        further = range(architecture.layers, architecture.layers + architecture.mtp_layers)
        routed = architecture.kind(architecture.layers - 1).routed
        held += [HeldLayer(routed, layer in ids) for layer in further]
    return tuple(held)
