"""Peak memory of one model under six schedules on eight MI300X: linear in what each keeps in flight.

Published by AMD (Primus pipeline blog, "Llama2-7B verification" table): 16 layers, pp 8, two parts per stage for all
but 1F1B and ZB-H1; micro-batch and batch are not stated. So two of the six fix what a micro-batch and all the
rest take; a third fixes what a folded model adds to stage 0, the output layer. The others are predictions.
"""

from __future__ import annotations

import pytest

from sim.parallel.layout import Layout, Recompute
from sim.parallel.schedule import placement

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
