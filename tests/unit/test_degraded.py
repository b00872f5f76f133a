"""A machine below par: each share slows what it names, and nothing else."""

from __future__ import annotations

import pytest

import sim
from sim.results import StepResult
from sim.scenario import to_yaml

TEXT = """
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 2}
training: {sequence_length: 4096, global_batch: 32, micro_batch: 1, precision: bf16}
parallelism: {tp: 2, data_sharding: zero-1}
"""


def step(*overrides: str) -> StepResult:
    return sim.simulate(sim.loads(TEXT, overrides))


def test_healthy_shares_change_nothing() -> None:
    healthy = step(
        "cluster.degraded={compute: 1, gemm: 1, attention: 1, memory: 1, scale_up: 1, scale_out: 1}"
    )
    assert healthy.step_time_s == step().step_time_s
    assert healthy.breakdown_s == step().breakdown_s


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ("compute=0.5", {"gemm", "attention"}),
        ("gemm=0.5", {"gemm"}),
        ("attention=0.5", {"attention"}),
        ("scale_up=0.5", {"tensor_parallel"}),
        ("scale_out=0.1", {"data_parallel"}),
        ("kernel_gap=100 us", {"host"}),
        ("step_overhead=1 s", {"host"}),
    ],
)
def test_each_share_slows_what_it_names(change: str, causes: set[str]) -> None:
    slow, usual = step(f"cluster.degraded.{change}"), step()
    assert slow.step_time_s > usual.step_time_s
    for cause in causes & set(usual.breakdown_s):
        assert slow.breakdown_s[cause] > usual.breakdown_s[cause], cause


def test_half_the_rate_of_products_takes_twice_the_time() -> None:
    slow, usual = step("cluster.degraded.gemm=0.5"), step()
    assert slow.breakdown_s["gemm"] == pytest.approx(2 * usual.breakdown_s["gemm"], rel=0.02)


def test_overhead_is_added_whole() -> None:
    assert step("cluster.degraded.step_overhead=2 s").step_time_s == pytest.approx(step().step_time_s + 2.0)


def test_shares_without_effect_are_said() -> None:
    alone = sim.loads(TEXT, ["cluster.nodes=1", "cluster.degraded.scale_out=0.5"])
    assert any("cluster.degraded.scale_out: has no effect" in warning for warning in alone.warnings)


@pytest.mark.parametrize("share", ["0", "1.2", "-1", "fast"])
def test_shares_are_shares(share: str) -> None:
    with pytest.raises(sim.ScenarioError, match=r"cluster\.degraded\.gemm"):
        sim.loads(TEXT, [f"cluster.degraded.gemm={share}"])


def test_a_degraded_machine_is_written_and_judged_as_such() -> None:
    scenario = sim.loads(TEXT, ["cluster.degraded={scale_up: 0.5, kernel_gap: 20 us}"])
    assert sim.loads(to_yaml(scenario)) == scenario
    found = sim.simulate(scenario).range_90
    assert found is not None
    assert found.kind == "new stack"  # published runs are of healthy machines
