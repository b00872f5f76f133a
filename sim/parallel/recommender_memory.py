"""Memory of a recommender's fullest rank: rows and their state first, then vectors on their way, then the layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum

from sim.parallel.memory import verdict
from sim.parallel.memory_facts import MemoryFacts
from sim.parallel.recommender_layout import ROW_ELEMENT_BYTES, ROW_STATE_BYTES, STATE_BYTES, RecommenderLayout
from sim.parallel.table_pieces import Piece
from sim.workload.recommender_workload import RecommenderWorkload

DENSE_STATE_BYTES = 14.0
"""Per dense parameter: 16-bit weight, fp32 master copy, two fp32 moments."""

CODEC_COPIES = 2.5
"""Sizes of a sequence exchange's fp32 input that live at once while it is clamped and cast to 16 bits."""


EXCHANGE, LAYERS, BETWEEN = "the exchange of vectors", "the layers over them", "nothing on its way"
"""What a rank holds beside its lasting state at different times of a step."""

MOMENT_OF: Mapping[str, str] = {
    "exchange of gradients": EXCHANGE,
    "update": EXCHANGE,
    "lookup": EXCHANGE,
    "exchange of vectors": EXCHANGE,
    "bottom layers": LAYERS,
    "layers": LAYERS,
    "layers back": LAYERS,
    "bottom back": LAYERS,
}
"""By task of the program; all others are between."""


@dataclass(frozen=True)
class RecommenderMemory:
    """Bytes of the fullest rank by part; ``moments`` are what comes to the ``lasting`` ones and goes again."""

    lasting: Mapping[str, float]
    moments: Mapping[str, Mapping[str, float]]
    capacity_bytes: float
    usable_bytes: float
    reserved_ratio: tuple[float, float]
    outside_bytes: float  # context and communicators

    @property
    def peak_name(self) -> str:
        return max(self.moments, key=lambda name: fsum(self.moments[name].values()))

    @property
    def parts_bytes(self) -> dict[str, float]:
        """At the peak; parts without bytes left out."""
        parts = {**self.lasting, **self.moments[self.peak_name]}
        return {name: size for name, size in parts.items() if size}

    @property
    def allocated_bytes(self) -> float:
        return fsum(self.parts_bytes.values())

    @property
    def reserved_bytes(self) -> tuple[float, float]:
        low, high = self.reserved_ratio
        return low * self.allocated_bytes, high * self.allocated_bytes

    @property
    def device_bytes(self) -> tuple[float, float]:
        low, high = self.reserved_bytes
        return low + self.outside_bytes, high + self.outside_bytes

    @property
    def verdict(self) -> str:
        return verdict(self.allocated_bytes, self.device_bytes[1], self.capacity_bytes, self.usable_bytes)


def recommender_memory(
    workload: RecommenderWorkload, layout: RecommenderLayout, facts: MemoryFacts
) -> RecommenderMemory:
    """The fullest rank. Not modelled: caches of tables in host memory."""
    return RecommenderMemory(
        lasting={**_tables(layout), **_ids(layout), **_weights(workload, layout)},
        moments={
            EXCHANGE: {"exchange_buffers": _sent(workload, layout), "vectors": _own(workload, layout)},
            LAYERS: {"vectors": 2.0 * _own(workload, layout), "activations": _saved(workload, layout)},
            BETWEEN: {},
        },
        capacity_bytes=facts.hbm_bytes,
        usable_bytes=facts.usable_bytes,
        reserved_ratio=facts.reserved_ratio,
        outside_bytes=facts.context_bytes + (facts.communicator_bytes_first if layout.gpus > 1 else 0.0),
    )


def _tables(layout: RecommenderLayout) -> dict[str, float]:
    here = layout.fullest
    elements = fsum(p.parameters / layout.sharers for p in here)
    rows = fsum(_rows(p, layout) for p in here)
    elements += sum(t.parameters for t in layout.plan.replicated)
    rows += sum(t.rows for t in layout.plan.replicated)
    return {
        "table_rows": elements * ROW_ELEMENT_BYTES,
        "table_state": elements * STATE_BYTES[layout.optimizer] + rows * ROW_STATE_BYTES[layout.optimizer],
    }


def _rows(piece: Piece, layout: RecommenderLayout) -> float:
    return piece.rows / layout.sharers


def _own(workload: RecommenderWorkload, layout: RecommenderLayout) -> float:
    """Vectors of a rank's own samples; their gradients take as much again."""
    vectors = sum(workload.vectors(t) * t.dim for t in workload.model.tables)
    return vectors * layout.samples_per_rank * layout.exchange_bytes


def _sent(workload: RecommenderWorkload, layout: RecommenderLayout) -> float:
    """Vectors at the owner of rows, with what their cast to the format of the wire holds at once."""
    if layout.gpus == 1:
        return 0.0
    sequences = any(t.sequence for t in workload.model.tables)
    held = CODEC_COPIES * ROW_ELEMENT_BYTES if sequences else layout.exchange_bytes
    return sum(p.vectors * p.width for p in layout.most_exchanged) * layout.samples * held * _kept(layout)


def _ids(layout: RecommenderLayout) -> dict[str, float]:
    """Ids of this batch and of the next."""
    asked = (
        max(sum(p.asked for p in bucket) for bucket in layout.plan.buckets) * layout.samples / layout.sharers
    )
    return {"ids": 2.0 * asked * layout.id_bytes * _kept(layout)}


def _kept(layout: RecommenderLayout) -> float:
    return layout.distinct if layout.deduplicated and layout.distinct is not None else 1.0


def _weights(workload: RecommenderWorkload, layout: RecommenderLayout) -> dict[str, float]:
    dense = workload.model.dense_parameters
    return {"parameters": DENSE_STATE_BYTES * dense, "gradients": layout.gradient_bytes * dense}


def _saved(workload: RecommenderWorkload, layout: RecommenderLayout) -> float:
    """Inputs of matrix products and what attention keeps."""
    model = workload.model
    saved = sum(inputs for inputs, _ in (*workload.before, *workload.after)) * layout.samples_per_rank
    if model.encoder is not None:
        e = model.encoder
        layer = e.hidden + e.projected + e.gathered + 2 * e.heads * e.value_dim
        width = e.layers * layer + sum(inputs for inputs, _ in workload.per_position)
        saved += width * workload.lengths.mean * layout.samples_per_rank
    return saved * workload.element_bytes
