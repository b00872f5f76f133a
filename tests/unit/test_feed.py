"""The input pipeline: hidden while it keeps up, waited for when it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.scenarios import changes, small

from sim.parallel.feed import Feed
from sim.parallel.mesh import Mesh
from sim.results import StepResult
from sim.step import Step, simulate

STEP_S = simulate(small()).step_time_s


def fed(how: str, plan: str = "") -> StepResult:
    return simulate(small(f"training.input={{{how}}}", *changes(plan)))


def test_a_fast_loader_costs_nothing() -> None:
    result = fed("samples_per_s: 1000, workers: 8")
    assert result.step_time_s == pytest.approx(STEP_S, rel=1e-12)
    assert "data" not in result.breakdown_s
    assert result.hidden_s["data"] > 0.0


def test_a_slow_loader_decides_the_step() -> None:
    """4 of 32 sequences per rank, two workers of 1 sequence per second: 2 s."""
    result = fed("samples_per_s: 1, workers: 2")
    assert result.step_time_s == pytest.approx(2.0, rel=1e-12)
    assert result.breakdown_s["data"] == pytest.approx(2.0 - STEP_S, rel=1e-9)
    assert "input pipeline" in result.bottleneck


def test_without_workers_loading_precedes_the_step() -> None:
    """Additive, as measured runs that load in line show: 4 sequences at 8 per second, 4 MB x 8 ranks at 64 MB/s."""
    result = fed("samples_per_s: 8, workers: 0, bytes_per_sample: 1 MB, host_bandwidth: 64 MB/s")
    assert result.breakdown_s["data"] == pytest.approx(0.5 + 0.5, rel=1e-12)
    assert result.step_time_s > 1.0 + 0.9 * STEP_S


def test_every_stage_waits_for_a_load_in_line() -> None:
    """Where the last stage ends last, its wait for the first one's 8 sequences at 1 per second is no bubble."""
    result = fed("samples_per_s: 1, workers: 0", "pp=2")
    assert result.breakdown_s["data"] == pytest.approx(8.0, rel=1e-9)
    assert result.breakdown_s["bubble"] < STEP_S


def test_the_host_path_is_shared_by_the_ranks_of_a_node() -> None:
    """32 sequences of 1 MB through 16 MB/s: 2 s. Two nodes have two paths; TP ranks share a batch."""
    path = "bytes_per_sample: 1 MB, host_bandwidth: 16 MB/s"
    assert fed(path).step_time_s == pytest.approx(2.0, rel=1e-12)
    assert fed(path, "cluster.nodes=2").step_time_s == pytest.approx(1.0, rel=1e-12)
    assert fed(path, "tp=8").step_time_s == pytest.approx(2.0, rel=1e-12)  # one rank loads all 32
    assert fed(path, "cp=2").step_time_s == pytest.approx(4.0, rel=1e-12)  # both load whole sequences


def test_a_published_host_limited_recommender_run() -> None:
    """DLRM-DCNv2 on four H100 (MLPerf 3.1): 32,768 samples of 912 B through 5.4 GB/s take 5.5 ms; a step took
    5.61 ms where the same machine without the limit took 4.58 ms."""
    batch = Feed(sample_bytes=912.0, host_Bps=5.4e9, loaders_per_host=4).batch(32768 // 4)
    assert batch.seconds == pytest.approx(5.61e-3, rel=0.02)


@pytest.mark.parametrize(
    ("tp", "stage_ranks", "whole_pipeline", "loaders"),
    [
        (1, 64, False, 8),
        (8, 64, False, 1),
        (4, 64, False, 2),
        (1, 4, True, 8),
        (2, 2, True, 2),
        (16, 64, False, 1),
    ],
)
def test_ranks_that_load(tp: int, stage_ranks: int, whole_pipeline: bool, loaders: int) -> None:
    pp = 8 // stage_ranks if whole_pipeline else 1
    one_stage = Step(small()).family.layout
    layout = replace(
        one_stage, tp=tp, dp=stage_ranks // tp, pp=pp, stage_layers=(1,) * pp, part_layers=(1,) * pp
    )
    assert Mesh(layout, 8).loaders(8) == loaders


def test_a_pipeline_waits_on_its_first_stage() -> None:
    result = fed("samples_per_s: 1, workers: 4", "pp=4")
    assert result.step_time_s == pytest.approx(16 / 4, rel=1e-12)  # 32 sequences over two replicas
    assert result.breakdown_s["data"] > 0.9 * result.step_time_s
