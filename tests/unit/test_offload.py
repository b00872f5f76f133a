"""What waits in host memory: bytes, and what of the copies shows."""

from __future__ import annotations

import pytest

from sim.ops import HostCopy
from sim.program import FROM_HOST, TO_HOST
from sim.results import StepResult
from sim.step import Step, simulate
from tests.fakes.scenarios import changes, small


def step(plan: str) -> StepResult:
    return simulate(small(*changes(plan)))


def copied_bytes(plan: str) -> dict[str, float]:
    """Over the host link, by direction."""
    moved = {TO_HOST: 0.0, FROM_HOST: 0.0}
    for task in Step(small(*changes(plan))).program.tasks:
        if task.stream in moved:
            moved[task.stream] += sum(w.count * w.op.bytes for w in task.work if isinstance(w.op, HostCopy))
    return moved


ACTIVATIONS = "training.offload={activation_layers:2}"
PLANS = ("tp=1", "tp=2", "data_sharding=fsdp", "data_sharding=zero-2")


@pytest.mark.parametrize("plan", PLANS)
def test_activations_of_the_first_layers_leave_hbm_but_for_two_buffers(plan: str) -> None:
    whole, less = (step(f"{plan}{more}").worst_memory.parts_bytes for more in ("", f" {ACTIVATIONS}"))
    assert less["activations"] == pytest.approx(whole["activations"] / 2)  # two of four layers
    assert less["offload_buffers"] == pytest.approx(2.0 * whole["activations"] / 4)


@pytest.mark.parametrize("plan", PLANS)
def test_what_is_kept_goes_out_once_and_comes_back_once(plan: str) -> None:
    scenario = small(*changes(f"{plan} {ACTIVATIONS}"))
    kept = step(plan).worst_memory.parts_bytes["activations"] / 2 * scenario.microbatches
    moved = copied_bytes(f"{plan} {ACTIVATIONS}")
    assert moved[TO_HOST] == moved[FROM_HOST] == pytest.approx(kept)


@pytest.mark.parametrize("plan", PLANS)
def test_a_link_without_limit_hides_everything(plan: str) -> None:
    fast = "cluster.gpu={host_link:'99 TB/s'}"
    copied = simulate(small(*changes(f"{plan} {ACTIVATIONS}"), fast.replace(":", ": ")))
    assert copied.step_time_s == pytest.approx(step(plan).step_time_s, rel=1e-3)
    assert copied.hidden_s["host"] > 0.0


def test_a_slow_link_is_what_the_step_waits_for() -> None:
    rate = 2e8
    slow = simulate(small(*changes(ACTIVATIONS), "cluster.gpu={host_link: 0.2 GB/s}"))
    out = copied_bytes(ACTIVATIONS)[TO_HOST] / rate
    assert out < slow.step_time_s < 2.0 * out + step("tp=1").step_time_s
    assert slow.breakdown_s["host"] > 0.9 * out


def test_a_faster_link_is_never_slower() -> None:
    times = [
        simulate(small(*changes(ACTIVATIONS), f"cluster.gpu={{host_link: {gb} GB/s}}")).step_time_s
        for gb in (1, 4, 16, 64, 256)
    ]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("plan", PLANS)
def test_memory_over_time_agrees(plan: str) -> None:
    result = step(f"{plan} {ACTIVATIONS}")
    most = result.memory_peak(0)
    assert most is not None
    assert most.allocated_bytes == pytest.approx(result.worst_memory.allocated_bytes, rel=1e-12)


@pytest.mark.parametrize("sharding", ["ddp", "zero-1", "fsdp"])
@pytest.mark.parametrize("pp", [1, 2])
def test_streamed_states_pass_once_each_way_beside_the_update(sharding: str, pp: int) -> None:
    plan = f"pp={pp} data_sharding={sharding}"
    held, streamed = step(plan), step(f"{plan} training.offload={{optimizer:streamed}}")
    assert "optimizer" not in streamed.worst_memory.parts_bytes
    states = [m.parts_bytes["optimizer"] for m in held.memory]
    shown = max(states) / 54.4e9 - held.breakdown_s["optimizer"]
    assert streamed.step_time_s - held.step_time_s == pytest.approx(shown, rel=0.1)


def test_an_update_on_the_host_is_three_legs() -> None:
    host = "training.offload={optimizer:host,host_update_bandwidth:'100 GB/s'}"
    held = step("tp=1")
    updated = simulate(small(host.replace(":", ": ").replace(",", ", ")))
    states = held.worst_memory.parts_bytes["optimizer"]
    shard = states / 12.0
    legs = shard * (4.0 + 2.0) / 54.4e9 + shard * (24.0 + 4.0 + 2.0) / 100e9
    assert updated.breakdown_s["host"] - held.breakdown_s.get("host", 0.0) == pytest.approx(legs, rel=0.01)
