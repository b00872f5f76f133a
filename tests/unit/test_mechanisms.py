"""Mechanisms are facts: complete, tested by a command, and each moves some scenario."""

from __future__ import annotations

import pytest

import sim
from sim.diagnosis import Explanation
from sim.diagnosis.mechanism import Mechanism, mechanisms
from sim.diagnosis.sign import SIGNS
from sim.diagnosis.variant import slowed_to, variant
from sim.step import Step

DENSE = """
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 8}
training: {sequence_length: 4096, global_batch: 256, micro_batch: 2, precision: fp8}
parallelism: {tp: 2, pp: 4, schedule: interleaved, virtual_stages: 2, overlap: {tp: true}}
"""
SHARDED = """
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 8}
training: {sequence_length: 4096, global_batch: 256, micro_batch: 2, precision: bf16, recompute: full}
parallelism: {data_sharding: fsdp, hsdp_replicas: 8, overlap: {dp: false}}
"""
EXPERTS = """
model: mixtral-8x7b
cluster: {node: mi300x-8x400g, nodes: 8}
training: {sequence_length: 4096, global_batch: 256, micro_batch: 1, precision: bf16, moe: {dispatch: deduplicated}}
parallelism: {ep: 4, pp: 2, overlap: {ep: true}}
"""


BARE = EXPERTS.replace("overlap: {ep: true}", "overlap: {ep: false}")
WIDE = """
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 64}
training: {sequence_length: 4096, global_batch: 512, micro_batch: 1, precision: bf16}
parallelism: {data_sharding: fsdp, overlap: {dp: false}}
"""
PIPED = """
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 8}
training: {sequence_length: 4096, global_batch: 128, micro_batch: 1, precision: bf16}
parallelism: {tp: 8, pp: 8, overlap: {pp: false}}
"""


LEAVES = """
model: mixtral-8x7b
cluster: {node: mi300x-8x400g, nodes: 8, fabric: {kind: clos, radix: 32}}
training: {sequence_length: 4096, global_batch: 256, micro_batch: 1, precision: bf16}
parallelism: {tp: 8, ep: 8}
"""


def steps() -> tuple[Step, ...]:
    return tuple(Step(sim.loads(text)) for text in (DENSE, SHARDED, EXPERTS, BARE, WIDE, PIPED, LEAVES))


def test_every_mechanism_can_be_tested_and_has_words() -> None:
    assert len(mechanisms()) > 30
    for mechanism in mechanisms().values():
        assert len(mechanism.test) > 20, mechanism.key
        assert mechanism.title[0].islower() or mechanism.title.startswith(("GPU", "MFU", "FLOP")), (
            mechanism.key
        )
        assert set(mechanism.signs or {}) <= set(SIGNS)
        several = len(mechanism.changes) > 1 and any(
            "degraded" in c for change in mechanism.changes for c in change
        )
        assert mechanism.size or not several, f"{mechanism.key}: degrees without a word where they come from"


@pytest.mark.slow
def test_every_change_moves_some_scenario() -> None:
    """A change that no scenario takes would be a dead entry."""
    moved: set[tuple[str, ...]] = set()
    for step in steps():
        for mechanism in mechanisms().values():
            for change in mechanism.changes:
                found = variant(step, change)
                if found is not None and found.step.result.step_time_s != step.result.step_time_s:
                    moved.add(change)
    dead = [
        change for mechanism in mechanisms().values() for change in mechanism.changes if change not in moved
    ]
    assert dead == []


def test_refused_changes_and_changes_of_nothing_are_no_variants() -> None:
    step = Step(sim.loads(SHARDED))
    assert variant(step, ["training.recompute=full"]) is None  # as it is
    assert variant(step, ["training.moe.grouped_gemm=loop"]) is None  # no experts
    assert variant(step, ["parallelism.tp=3"]) is None


def test_shares_are_of_what_the_scenario_has() -> None:
    step = Step(sim.loads(SHARDED, ["cluster.degraded.gemm=0.5"]))
    found = variant(step, ["cluster.degraded.gemm=0.8"])
    assert found is not None
    assert found.changes == ("cluster.degraded.gemm=0.4",)


def test_a_prediction_slowed_to_a_healthy_run() -> None:
    step = Step(sim.loads(SHARDED))
    usual = step.result.step_time_s
    assert slowed_to(step, 1.7 * usual).result.step_time_s == pytest.approx(1.7 * usual, rel=0.006)
    assert slowed_to(step, 0.9 * usual) is step  # kernels faster than the stack's are none that it has


@pytest.mark.parametrize("kind", ["DENSE", "SHARDED", "EXPERTS"])
@pytest.mark.slow
def test_any_plan_can_be_explained(kind: str) -> None:
    scenario = sim.loads(globals()[kind])
    found: Explanation = sim.explain(scenario, f"{1.3 * sim.simulate(scenario).step_time_s!r} s")
    assert found.candidates
    assert found.something_else < 0.5


def test_a_mechanism_is_immutable() -> None:
    some: Mechanism = mechanisms()["slow-gemm"]
    with pytest.raises(AttributeError):
        some.title = "other"  # type: ignore[misc]
