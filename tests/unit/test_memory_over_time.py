"""Memory on the clock: what stages hold from the start of the step to its end."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import sim
from sim.results import StepResult
from tests.fakes.scenarios import changes, small

PLANS = (
    "tp=1",
    "tp=2 pp=2",
    "pp=4",
    "pp=4 schedule=gpipe",
    "pp=2 schedule=interleaved virtual_stages=2",
    "pp=2 schedule=zb-h1",
    "pp=2 schedule=zbv",
    "pp=2 schedule=v-half",
    "pp=2 schedule=dualpipe",
    "pp=2 schedule=dualpipe-v",
    "pp=2 data_sharding=fsdp",
    "data_sharding=fsdp",
    "data_sharding=fsdp reshard=false",
    "data_sharding=zero-2",
    "cp=2",
    "training.recompute=full pp=2",
    "training.recompute={layers:1} pp=2",
    "training.recompute=selective training.attention=unfused",
    "pp=2 layout=[3,1]",
    "training.lora={rank:16} data_sharding=ddp",
    "training.dropout=0.1 pp=2",
)


def result(plan: str) -> StepResult:
    return sim.simulate(small(*changes(plan)))


@pytest.mark.parametrize("plan", PLANS)
def test_the_most_over_time_is_the_peak_of_every_stage(plan: str) -> None:
    """One is a replay of passes without a clock, the other follows the tasks of the timeline."""
    step = result(plan)
    for memory in step.memory:
        most = step.memory_peak(memory.stage)
        assert most is not None
        assert most.allocated_bytes == pytest.approx(memory.allocated_bytes, rel=1e-12)
        assert most.transient_bytes == pytest.approx(memory.parts_bytes.get("transient", 0.0))
        assert most.activations_bytes == pytest.approx(memory.parts_bytes.get("activations", 0.0), abs=1.0)


@pytest.mark.parametrize("plan", PLANS)
def test_rows_of_a_stage_cover_the_step_and_their_parts_sum(plan: str) -> None:
    step = result(plan)
    for memory in step.memory:
        rows = step.memory_over_time(memory.stage)
        assert (rows[0].start_s, rows[-1].end_s) == (0.0, step.step_time_s)
        assert all(before.end_s == after.start_s for before, after in pairwise(rows))
        for row in rows:
            assert row.allocated_bytes == pytest.approx(
                row.lasting_bytes
                + row.activations_bytes
                + row.gathered_bytes
                + row.reduction_bytes
                + row.transient_bytes
            )
            assert row.activations_bytes >= -1.0


@pytest.mark.parametrize("plan", PLANS)
def test_no_activation_outlives_the_step(plan: str) -> None:
    step = result(plan)
    for memory in step.memory:
        last = step.memory_over_time(memory.stage)[-1]
        assert last.activations_bytes == pytest.approx(0.0, abs=1.0)


def test_later_stages_peak_later() -> None:
    step = result("pp=4")
    starts = [step.memory_peak(stage).start_s for stage in range(3)]  # type: ignore[union-attr]
    assert starts[0] > 0.0
    assert sorted(starts, reverse=True) == starts  # the last to begin is the first with all that it holds


def test_the_default_json_leaves_the_series_out_and_a_flag_adds_it() -> None:
    step = result("pp=2")
    assert "memory_records" not in step.to_dict()
    json.dumps([row._asdict() for row in step.memory_over_time()])
