"""What each task of a stage takes, holds and frees: the memory model told task by task, without a clock.

A stage runs its passes in one order whatever they take, so its peak is known before any time is
(``peak``); a timeline says when it happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sim.parallel.held_layers import HeldLayer, held_layers
from sim.parallel.moments import (
    Moment,
    StageContext,
    dispatch,
    embedding_backward,
    layer_backward,
    optimizer_step,
    output_layer_backward,
    waiting_bytes,
)
from sim.parallel.passes import BACKWARD, FORWARD, WEIGHT, Pass
from sim.parallel.schedule import SPLIT


@dataclass(frozen=True)
class Effect:
    """What a task changes: ``kept_bytes`` more (or fewer) activations at its end, and its own largest moment.

    None: nothing stands out.
    """

    kept_bytes: float
    moment: Moment | None = None


NOTHING = Effect(0.0)


class Holdings:
    """Effects of the tasks of one stage, each computed once."""

    def __init__(self, context: StageContext) -> None:
        self.context = context
        self._known: dict[tuple[str, int, int, bool, bool], Effect] = {}

    def of_part(self, kind: str, part: int) -> Effect:
        """A whole pass over one part of the model."""
        layout, first = self.context.layout, self.context.layout.first_layer(part)
        place = part % layout.depth
        return self._of(
            kind, first, first + layout.layers_of_part(part), place == 0, place == layout.depth - 1
        )

    def of_piece(self, kind: str, piece: str, layers: tuple[int, int]) -> Effect:
        """A task by the name of its piece (``sim.parallel.stage``: ``embedding``, ``layer 3``, ``head``); ``layers``
        are global, [first, last)."""
        if kind == "optimizer":
            return Effect(0.0, optimizer_step(self.context))
        if kind not in (FORWARD, BACKWARD, WEIGHT):
            return NOTHING
        return self._of(kind, *layers, piece == "embedding", piece == "head")

    def of_slot(self, passes: Sequence[Pass]) -> Effect:
        """Passes that run as one task."""
        kept, peak = 0.0, None
        for one in passes:
            effect = self.of_part(one.kind, one.part)
            if effect.moment is not None:
                peak = _larger(peak, [effect.moment.above(kept)])
            kept += effect.kept_bytes
        return Effect(kept, peak)

    def _of(self, kind: str, first: int, last: int, embedding: bool, head: bool) -> Effect:
        key = (kind, first, last, embedding, head)
        effect = self._known.get(key)
        if effect is None:
            cut = range(first, last)
            if kind == FORWARD:
                effect = self._forward(cut, embedding=embedding, head=head)
            elif kind == BACKWARD:
                effect = self._backward(cut, embedding=embedding, head=head)
            else:
                effect = Effect(-sum(self._kept(layer) for layer in cut) - embedding * self._mask)
            self._known[key] = effect
        return effect

    def _forward(self, cut: range, *, embedding: bool, head: bool) -> Effect:
        context, kept, peak = self.context, embedding * self._mask, None
        for layer in cut:
            kept += self._kept(layer)
            if self._held[layer].routed:
                peak = _larger(peak, [dispatch(context, self._held[layer], self._place(layer)).above(kept)])
        if head:
            for further in self._further:
                kept += context.kept(further)
                if further.routed:
                    peak = _larger(peak, [dispatch(context, further, "further layer").above(kept)])
            kept += waiting_bytes(context)
        return Effect(kept, peak)

    def _backward(self, cut: range, *, embedding: bool, head: bool) -> Effect:
        """Layers from the last to the first; a schedule that splits the backward frees them with the weights."""
        context, split = self.context, self.context.layout.schedule in SPLIT
        kept, peak = 0.0, None
        if head:
            peak = output_layer_backward(context)
            kept -= waiting_bytes(context)
            for further in self._further:
                moments = layer_backward(context, further, "further layer")
                peak = _larger(peak, (moment.above(kept) for moment in moments))
                kept -= context.kept(further)
        for layer in reversed(cut):
            moments = layer_backward(context, self._held[layer], self._place(layer))
            peak = _larger(peak, (moment.above(kept) for moment in moments))
            kept -= 0.0 if split else self._kept(layer)
        if embedding:
            if not context.request.frozen:
                peak = _larger(peak, [embedding_backward(context).above(kept)])
            kept -= 0.0 if split else self._mask
        return Effect(kept, peak)

    @cached_property
    def _held(self) -> dict[int, HeldLayer]:
        """By global id; layers that predict further tokens have none."""
        layout, ids = self.context.layout, list[int]()
        for part in layout.placement.on_stage(self.context.stage):
            first = layout.first_layer(part)
            ids += range(first, first + layout.layers_of_part(part))
        return dict(
            zip(ids, held_layers(self.context.architecture, layout, self.context.stage), strict=False)
        )

    def _place(self, layer: int) -> str:
        """In words that are equal on equal stages."""
        return f"layer {list(self._held).index(layer) + 1} of {len(self._held)}"

    def _kept(self, layer: int) -> float:
        return self.context.kept(self._held[layer])

    @property
    def _further(self) -> tuple[HeldLayer, ...]:
        """Layers that predict further tokens, beside the output layer."""
        context = self.context
        count = context.architecture.mtp_layers if context.layout.has_head(context.stage) else 0
        return context.held[len(context.held) - count :]

    @property
    def _mask(self) -> float:
        return self.context.embedding_mask_bytes


def peak(context: StageContext) -> Moment:
    """The largest moment of a stage's passes in their order and of the optimizer step; the first of equals."""
    holdings, held = Holdings(context), 0.0
    most, before, when = optimizer_step(context), 0.0, ""
    most_bytes = most.total_bytes
    for kind, part, microbatch in context.layout.orders[context.stage]:
        effect = holdings.of_part(kind, part)
        moment = effect.moment
        if moment is not None and held + moment.total_bytes > most_bytes:
            most, before, most_bytes = moment, held, held + moment.total_bytes
            when = f", micro-batch {microbatch + 1}"
        held += effect.kept_bytes
    return replace(most.above(before), when=most.when + when)


def _larger(peak: Moment | None, others: Iterable[Moment]) -> Moment | None:
    for other in others:
        if peak is None or other.total_bytes > peak.total_bytes:
            peak = other
    return peak
