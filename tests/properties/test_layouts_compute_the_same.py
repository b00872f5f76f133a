"""Total work does not depend on who does it: random legal layouts of one model and batch."""

from __future__ import annotations

import math
from functools import cache

import pytest
from fakes.scenarios import small
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.step import Step

LAYERS, BATCH = 12, 48


@cache
def work(*changes: str) -> float:
    """FLOPs of all ranks over the step."""
    step = Step(small(f"model.layers={LAYERS}", f"training.global_batch={BATCH}", *changes))
    flops = math.fsum(w.count * w.op.flops for task in step.program.tasks for w in task.work)
    return flops * (step.scenario.gpus // step.family.layout.pp)


@st.composite
def cuts(draw: st.DrawFn, parts: int) -> list[int]:
    """Layers of each part, at least one."""
    borders = sorted(draw(st.sets(st.integers(1, LAYERS - 1), min_size=parts - 1, max_size=parts - 1)))
    return [after - before for before, after in zip([0, *borders], [*borders, LAYERS], strict=True)]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, ...]:
    tp, pp = draw(st.sampled_from(((1, 1), (2, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4), (8, 1), (1, 8))))
    micro_batch = draw(st.sampled_from((1, 2, 3)))
    found = [f"parallelism.tp={tp}", f"parallelism.pp={pp}", f"training.micro_batch={micro_batch}"]
    if pp > 1:
        microbatches = BATCH * tp * pp // 8 // micro_batch
        known = ["1f1b", "gpipe", "zb-h1", "zb-h2"]
        known += ["zbv", "v-half", "v-min"] if 2 * pp <= LAYERS else []
        known += ["dualpipe-v"] if 2 * pp <= LAYERS and microbatches >= 2 * pp else []
        known += ["dualpipe"] if microbatches % 2 == 0 and microbatches >= 2 * pp else []
        known += (
            ["interleaved"] if 2 * pp <= LAYERS and microbatches % max(1, microbatches // pp) == 0 else []
        )
        schedule = draw(st.sampled_from(known))
        parts = pp * (2 if schedule in ("zbv", "v-half", "v-min", "dualpipe-v", "interleaved") else 1)
        found += [f"parallelism.schedule={schedule}", f"parallelism.layout={draw(cuts(parts))}"]
        if schedule == "interleaved":
            found.append("parallelism.virtual_stages=2")
    if tp * pp < 8:
        two_ways = any("dualpipe" in change for change in found)  # zero-2 and fsdp are refused beside it
        plain = ("ddp", "zero-1")
        sharding = draw(st.sampled_from(plain if two_ways else (*plain, "zero-2", "fsdp")))
        found.append(f"parallelism.data_sharding={sharding}")
        if sharding == "fsdp":
            found.append(f"parallelism.reshard={draw(st.booleans())}".lower())
            found.append(f"parallelism.gradient_sync={draw(st.sampled_from(('every', 'last')))}")
    return tuple(found)


@settings(deadline=None, max_examples=60)
@given(layouts(), st.sampled_from(("none", "full", "selective")))
def test_every_legal_layout_computes_the_same(layout: tuple[str, ...], recompute: str) -> None:
    again = f"training.recompute={recompute}"
    assert work(again, *layout) == pytest.approx(work(again), rel=1e-12)
