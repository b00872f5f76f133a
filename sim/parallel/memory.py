"""Memory per rank of every pipeline stage over one step of a transformer, dense or with experts.

States, saved activations, lasting framework buffers and the transients of the moment that peaks;
then the allocator's slack and what lives outside it. Allocated, reserved and device-used are told
apart: the first is computed exactly, the others are ranges.

Not modelled: low-precision weight copies (see ``MemoryRequest``), autocast's weight cache under
plain DDP, input token buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

from sim.parallel.activations import layer_activations, micro_batch_slice
from sim.parallel.held_layers import held_layers
from sim.parallel.holdings import peak
from sim.parallel.layout import Layout
from sim.parallel.memory_facts import KEYS, MemoryFacts, MemoryRequest
from sim.parallel.moments import Moment, StageContext
from sim.parallel.offload import BUFFERS
from sim.parallel.states import (
    padded_vocabulary,
    stage_parameters,
    state_bytes,
    weight_gradient_buffer_bytes,
)
from sim.workload.architecture import Architecture

__all__ = ["KEYS", "MemoryFacts", "MemoryRequest", "StageMemory", "memory_by_stage", "worst"]

GROUPED_GEMM_STREAMS = 4
"""Streams of a grouped GEMM over experts, each with a workspace (Transformer Engine; docs/models.md)."""

FITS, AT_RISK, DOES_NOT_FIT = "fits", "at risk", "does not fit"
VERDICTS = (FITS, AT_RISK, DOES_NOT_FIT)

PARTS = (
    "parameters",
    "gradients",
    "optimizer",
    "gathered_parameters",
    "gradient_reduction",
    "activations",
    "weight_gradient_buffers",
    "gather_buffer",
    "offload_buffers",
    "rope_table",
    "workspaces",
    "transient",
)


@dataclass(frozen=True)
class StageMemory:
    """Memory of one rank of a stage (all ranks of a stage are alike) at its peak, in bytes.

    ``allocated_bytes`` is what tensors hold and the sum of ``parts_bytes`` (keys: ``PARTS``).
    ``reserved_bytes`` adds the allocator's slack, ``device_bytes`` also context and communicators;
    both are (low, high). ``rank`` is the stage's first global rank.
    """

    stage: int
    rank: int
    rank_label: str
    parts_bytes: Mapping[str, float]
    peak_name: str
    peak_when: str
    allocated_bytes: float
    reserved_bytes: tuple[float, float]
    device_bytes: tuple[float, float]
    capacity_bytes: float
    verdict: str

    @property
    def margin_bytes(self) -> float:
        """Capacity left at the high end of device-used; negative when over."""
        return self.capacity_bytes - self.device_bytes[1]


def memory_by_stage(
    architecture: Architecture, layout: Layout, request: MemoryRequest, facts: MemoryFacts
) -> tuple[StageMemory, ...]:
    """Memory of every stage, first to last.

    Raises ``ValueError`` when the layout's stages or recomputed layers contradict each other.
    """
    return tuple(_stage_memory(context) for context in stage_contexts(architecture, layout, request, facts))


def stage_contexts(
    architecture: Architecture, layout: Layout, request: MemoryRequest, facts: MemoryFacts
) -> tuple[StageContext, ...]:
    """What the memory of each stage is computed from. Raises as ``memory_by_stage`` does."""
    _check(layout)
    vocab = padded_vocabulary(
        architecture.vocab, layout.tp, facts.vocab_padding_multiple, request.extra_vocab_tokens
    )
    part = micro_batch_slice(architecture, layout, request)
    layers = {
        routed: layer_activations(architecture, layout, request, facts, routed=routed)
        for routed in {kind.routed for kind in architecture.kinds}
    }
    return tuple(
        StageContext(
            architecture=architecture,
            layout=layout,
            request=request,
            facts=facts,
            stage=stage,
            vocab=vocab,
            part=part,
            layers=layers,
            held=held_layers(architecture, layout, stage),
            parameters=stage_parameters(architecture, layout, request, stage, vocab),
        )
        for stage in range(layout.pp)
    )


def lasting_bytes(context: StageContext) -> float:
    """States and buffers that a rank holds through the whole step."""
    states = state_bytes(context.parameters, context.layout, context.request, context.facts)
    return fsum((*states.values(), *_lasting_buffers(context).values()))


def worst(stages: Iterable[StageMemory]) -> StageMemory:
    """The stage nearest to not fitting; the first of equals.

    Raises ``ValueError`` when there is none.
    """
    listed = tuple(stages)
    if not listed:
        raise ValueError("memory: no stage to choose the worst of")
    return max(listed, key=lambda m: (VERDICTS.index(m.verdict), m.allocated_bytes, -m.stage))


def communicator_bytes(layout: Layout, facts: MemoryFacts) -> float:
    """Communicators of a rank: one per axis that it exchanges along (tp, cp, pp, dp, ep, etp)."""
    own_etp = layout.experts_tp if layout.experts_tp != layout.tp else 1
    degrees = (layout.tp, layout.cp, layout.pp, layout.dp, layout.ep, own_etp)
    axes = sum(degree > 1 for degree in degrees)
    if not axes:
        return 0.0
    return facts.communicator_bytes_first + (axes - 1) * facts.communicator_bytes_further


def verdict(
    allocated_bytes: float, device_high_bytes: float, capacity_bytes: float, usable_bytes: float
) -> str:
    """``does not fit``: tensors alone exceed what they may have. ``at risk``: slack or communicators may."""
    if allocated_bytes > usable_bytes:
        return DOES_NOT_FIT
    return AT_RISK if device_high_bytes > capacity_bytes else FITS


def _stage_memory(context: StageContext) -> StageMemory:
    moment = peak(context)
    parts = _parts(context, moment)
    layout, facts = context.layout, context.facts
    allocated = fsum(parts.values())
    low, high = (ratio * allocated for ratio in facts.reserved_ratio)
    outside = facts.context_bytes + communicator_bytes(layout, facts)
    ranks = layout.gpus // layout.pp
    stride = layout.axes.stride("pp")
    first = context.stage * stride
    return StageMemory(
        stage=context.stage,
        rank=first,
        rank_label=f"stage {context.stage}, {_rank_range(first, ranks, together=stride == ranks)}",
        parts_bytes=parts,
        peak_name=moment.name,
        peak_when=moment.when,
        allocated_bytes=allocated,
        reserved_bytes=(low, high),
        device_bytes=(low + outside, high + outside),
        capacity_bytes=facts.hbm_bytes,
        verdict=verdict(allocated, high + outside, facts.hbm_bytes, facts.usable_bytes),
    )


def _rank_range(first: int, count: int, *, together: bool) -> str:
    if count == 1:
        return f"rank {first}"
    return f"ranks {first}-{first + count - 1}" if together else f"rank {first} and {count - 1} more"


def _parts(context: StageContext, moment: Moment) -> dict[str, float]:
    parts = dict.fromkeys(PARTS, 0.0)
    parts |= state_bytes(context.parameters, context.layout, context.request, context.facts)
    parts |= _lasting_buffers(context)
    parts["gathered_parameters"] = moment.gathered_bytes
    parts["gradient_reduction"] = moment.reduction_bytes
    parts["activations"] = moment.activations_bytes
    parts["transient"] = moment.transient_bytes
    return parts


def _lasting_buffers(context: StageContext) -> dict[str, float]:
    """What the framework allocates once and never frees."""
    layout, facts, part = context.layout, context.facts, context.part
    last = layout.has_head(context.stage)
    rope = context.architecture.position == "rope"
    positions = context.request.sequence_length / layout.cp
    streams = 1 + (GROUPED_GEMM_STREAMS if any(layer.routed for layer in context.held) else 0)
    return {
        "weight_gradient_buffers": weight_gradient_buffer_bytes(
            context.architecture, layout, context.request, facts, context.stage, context.vocab
        ),
        # The output layer's input, gathered over tp, stays until its weight gradient and is reused.
        "gather_buffer": part.gathered_hidden_bytes if last and part.sequence_shards > 1 else 0.0,
        "offload_buffers": BUFFERS
        * max((context.layers[h.routed].recomputed for h in context.held if h.offloaded), default=0.0),
        "rope_table": 4.0 * positions * _rotated(context.architecture) if rope else 0.0,
        "workspaces": facts.gemm_workspace_bytes * streams + (facts.library_handle_bytes if last else 0.0),
    }


def _rotated(architecture: Architecture) -> int:
    """Width of a head that rotary positions turn."""
    return architecture.head_dim if architecture.latent is None else architecture.latent.rope_dim


def _check(layout: Layout) -> None:
    if len(layout.stage_layers) != layout.pp:
        raise ValueError(f"layout: {len(layout.stage_layers)} stages are given for pp = {layout.pp}")
    kind, layers = layout.recompute.kind, layout.recompute.layers
    if kind not in ("none", "selective", "operator", "full"):
        raise ValueError(f"recompute: unknown kind {kind!r}; known: none, selective, operator, full")
    if kind == "none":
        return
    if len(layers) != layout.pp:
        raise ValueError(f"recompute: {len(layers)} layer counts are given for pp = {layout.pp}")
    for stage, (recomputed, held) in enumerate(zip(layers, layout.stage_layers, strict=True)):
        if not 0 <= recomputed <= held:
            raise ValueError(f"recompute: stage {stage} holds {held} layers, cannot recompute {recomputed}")
