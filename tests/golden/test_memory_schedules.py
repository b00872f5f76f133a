"""Peak memory of one model under six schedules on eight MI300X: linear in what each keeps in flight.

Published by AMD (Primus pipeline blog, "Llama2-7B verification" table): 16 layers, pp 8, two parts per stage for all
but 1F1B and ZB-H1; micro-batch and batch are not stated. So two of the six fix what a micro-batch and all the
rest take; a third fixes what a folded model adds to stage 0, the output layer. The others are predictions.
"""

from __future__ import annotations

import pytest

import sim
from sim.parallel.layout import Layout, Recompute
from sim.parallel.schedule import placement
from sim.step import Step

MEASURED_GB = {
    "1f1b": 16.26, "interleaved": 21.4, "zb-h1": 16.59, "zbv": 18.11, "v-half": 14.06, "v-min": 11.9,
}  # fmt: skip


def in_flight(schedule: str) -> float:
    """Micro-batches on stage 0; 64 of them, more than any schedule keeps."""
    place = placement(schedule, 8, 2)
    layers = (16 // place.parts,) * place.parts
    plan = Layout(
        tp=1, cp=1, pp=8, dp=1, stage_layers=place.by_stage(layers), micro_batch=1, microbatches=64,
        sequence_parallel=False, data_sharding="zero-1", schedule=schedule,
        recompute=Recompute("none", (0,) * 8), part_layers=layers,
    )  # fmt: skip
    return plan.in_flight(0)


MICRO_BATCH_GB = (MEASURED_GB["interleaved"] - MEASURED_GB["1f1b"]) / (
    in_flight("interleaved") - in_flight("1f1b")
)
REST_GB = MEASURED_GB["1f1b"] - in_flight("1f1b") * MICRO_BATCH_GB
OUTPUT_LAYER_GB = MEASURED_GB["zbv"] - REST_GB - in_flight("zbv") * MICRO_BATCH_GB


def test_the_fixed_figures_are_plausible() -> None:
    """Two layers of 4,096 tokens, hidden 4,096, keep 34 to 45 h bytes per token each; nothing is below zero."""
    assert pytest.approx(2 * 4096 * 4096 * 40e-9, rel=0.15) == MICRO_BATCH_GB
    assert REST_GB > 0.0
    assert OUTPUT_LAYER_GB > 0.0


@pytest.mark.parametrize(
    ("schedule", "extra_gb"), [("zb-h1", 0.0), ("v-half", OUTPUT_LAYER_GB), ("v-min", OUTPUT_LAYER_GB)]
)
def test_other_schedules_take_what_they_keep_in_flight(schedule: str, extra_gb: float) -> None:
    predicted = REST_GB + extra_gb + in_flight(schedule) * MICRO_BATCH_GB
    assert predicted == pytest.approx(MEASURED_GB[schedule], rel=0.04)


# -- by stage: 64 layers on eight stages (AMD-AGI/Primus, pipeline visualisation), reserved GiB ---------------

STAGE_GIB = {0: 104.3, 1: 95.6, 2: 88.1, 3: 80.3, 4: 73.1, 5: 65.9, 6: 58.1}
"""Stage 0 also holds the embedding. The model is not stated, so two stages fix a micro-batch and the rest."""

INTERLEAVED_STAGE_0_GIB = 130.6


def held(schedule: str, stage: int, chunks: int = 1) -> float:
    place = placement(schedule, 8, chunks)
    layers = (64 // place.parts,) * place.parts
    plan = Layout(
        tp=1, cp=1, pp=8, dp=1, stage_layers=place.by_stage(layers), micro_batch=1, microbatches=64,
        sequence_parallel=False, data_sharding="zero-1", schedule=schedule,
        recompute=Recompute("none", (0,) * 8), part_layers=layers,
    )  # fmt: skip
    return plan.in_flight(stage)


ONE_GIB = (STAGE_GIB[1] - STAGE_GIB[6]) / (held("1f1b", 1) - held("1f1b", 6))


@pytest.mark.parametrize("stage", [2, 3, 4, 5])
def test_stages_differ_by_what_they_hold(stage: int) -> None:
    predicted = STAGE_GIB[1] + (held("1f1b", stage) - held("1f1b", 1)) * ONE_GIB
    assert predicted == pytest.approx(STAGE_GIB[stage], rel=0.005)


def test_two_parts_per_stage_hold_three_and_a_half_micro_batches_more() -> None:
    more = held("interleaved", 0, 2) - held("1f1b", 0)
    assert more == 3.5
    assert STAGE_GIB[0] + more * ONE_GIB == pytest.approx(INTERLEAVED_STAGE_0_GIB, rel=0.02)


# -- by recomputed layer: 20 layers, one further token, two stages, on eight MI355X (AMD-AGI/Primus PR 965), GB --

RECOMPUTED_GB = {
    "none": (152.7, 139.3),
    "{layers: 2}": (141.2, 133.5),
    "{layers: [0, 1]}": (141.2, 139.3),
    "{layers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}": (97.8, 139.3),
    "{layers: [20]}": (152.7, 139.3),
    "{layers: [0, 1, 20]}": (141.2, 139.3),
    "{layers: [10, 11]}": (152.7, 133.5),
}
"""Stages 0 and 1. DeepSeek-V4 is not in the catalog, so a stand-in of as many layers says how many layers' worth of
activations are saved where; what one is worth comes from the first two rows."""

STAND_IN = (
    "{name: stand-in, layers: 20, hidden: 4096, ffn: 18432, heads: 64, kv_heads: 1, head_dim: 128, vocab: 32000, "
    "mtp_layers: 1, experts: {count: 128, top_k: 6, ffn: 2048, shared_ffn: 2048}}"
)


def stand_in(recompute: str) -> tuple[float, ...]:
    scenario = sim.loads(
        f"model: {STAND_IN}\n"
        "cluster: {node: mi355x-8x400g, nodes: 1}\n"
        "training: {sequence_length: 4096, global_batch: 128, precision: bf16, recompute: "
        + recompute
        + "}\n"
        "parallelism: {pp: 2, ep: 4}\n"
    )
    return tuple(stage.allocated_bytes for stage in Step(scenario).result.memory)


@pytest.mark.parametrize("recompute", RECOMPUTED_GB)
def test_recomputed_layers_save_what_their_stage_holds_of_them(recompute: str) -> None:
    """Twice a layer on stage 0, once on stage 1; all ten of a stage keep one working set; the layer that predicts a
    further token, whose backward comes first, saves nothing."""
    none, two = stand_in("none"), stand_in("{layers: 2}")
    one_GB = (RECOMPUTED_GB["none"][0] - RECOMPUTED_GB["{layers: 2}"][0]) / (none[0] - two[0])
    for stage, bytes_ in enumerate(stand_in(recompute)):
        predicted = RECOMPUTED_GB["none"][stage] - (none[stage] - bytes_) * one_GB
        assert predicted == pytest.approx(RECOMPUTED_GB[recompute][stage], rel=0.005)
