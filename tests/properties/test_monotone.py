"""A better machine is never slower: kernels, uncontended collectives, whole steps."""

from __future__ import annotations

import pytest
from fakes.machines import PAIRS, cluster, improved, with_gpu
from fakes.scenarios import changes, small
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hwmodels.cluster import Cluster
from hwmodels.collectives import PASSES, Ranks
from hwmodels.kernels import KernelModel, tile_utilisation
from sim.engine.events import run
from sim.ops import Attention, CrossEntropy, Gemm, Launches, Op, Optimizer, Stream
from sim.pricing import op_seconds, price
from sim.program import COMPUTE, Program
from sim.step import Step

ROUNDING = 1.0 + 1e-12
COMPUTE_FIGURES = ("hbm bandwidth", "achievable rate", "power cap", "kernel gap")
NETWORK_FIGURES = ("link bandwidth", "link latency", "nic bandwidth", "nic latency")

machines = st.sampled_from(PAIRS).map(lambda pair: cluster(*pair))
factors = st.floats(1.0, 8.0)
sizes = st.integers(1, 20_000)


@st.composite
def kernels(draw: st.DrawFn) -> Op:
    fused, backward = draw(st.booleans()), draw(st.booleans())
    return draw(
        st.one_of(
            st.builds(Gemm, sizes, sizes, sizes, st.just("bf16")),
            st.builds(
                Attention, st.integers(1, 8), st.integers(1, 64), st.just(1), st.integers(1, 32_768),
                st.sampled_from((64, 96, 128, 256)), st.booleans(), st.just(backward), st.just(fused),
            ),
            st.builds(Stream, st.floats(1.0, 1e11), st.booleans()),
            st.builds(CrossEntropy, st.floats(1.0, 1e10)),
            st.builds(Optimizer, st.floats(1.0, 1e11)),
            st.builds(Launches, st.floats(1.0, 1e4)),
        )
    )  # fmt: skip


def _has_kernel(machine: Cluster, kernel: Op) -> bool:
    return not (isinstance(kernel, Attention) and kernel.fused) or bool(machine.stack.attention_share)


@settings(deadline=None, max_examples=200)
@given(machine=machines, kernel=kernels(), figure=st.sampled_from(COMPUTE_FIGURES), factor=factors)
def test_no_kernel_is_slower_on_a_better_gpu(
    machine: Cluster, kernel: Op, figure: str, factor: float
) -> None:
    assume(_has_kernel(machine, kernel))
    assert (
        0.0 < op_seconds(kernel, improved(machine, figure, factor)) <= op_seconds(kernel, machine) * ROUNDING
    )


@settings(deadline=None, max_examples=100)
@given(machine=machines, kernel=kernels(), caps=st.tuples(st.floats(0.3, 1.0), st.floats(0.3, 1.0)))
def test_no_kernel_is_faster_under_a_lower_power_cap(
    machine: Cluster, kernel: Op, caps: tuple[float, float]
) -> None:
    assume(_has_kernel(machine, kernel))
    low, high = (
        op_seconds(kernel, Cluster(machine.node, 8, machine.stack, share * machine.gpu.power_cap_W))
        for share in sorted(caps)
    )
    assert low >= high / ROUNDING


@settings(deadline=None, max_examples=300)
@given(
    machine=machines,
    kind=st.sampled_from((*PASSES, "send")),
    size_bytes=st.floats(1.0, 1e12),
    domains=st.integers(1, 64),
    per_domain=st.sampled_from((1, 2, 4, 8)),
    figure=st.sampled_from(NETWORK_FIGURES),
    factor=factors,
)
def test_no_collective_is_slower_on_a_better_network(
    machine: Cluster,
    kind: str,
    size_bytes: float,
    domains: int,
    per_domain: int,
    figure: str,
    factor: float,
) -> None:
    group = (2, min(per_domain, 2)) if kind == "send" else (domains * per_domain, per_domain)
    before = machine.collectives.seconds(kind, size_bytes, *group)
    after = improved(machine, figure, factor).collectives.seconds(kind, size_bytes, *group)
    assert 0.0 <= after <= before * ROUNDING
    assert (before == 0.0) == (group[0] == 1)


@settings(deadline=None, max_examples=200)
@given(
    machine=machines,
    kind=st.sampled_from(tuple(PASSES)),
    size_bytes=st.floats(1.0, 1e12),
    more=factors,
    domains=st.integers(1, 64),
    per_domain=st.sampled_from((1, 2, 4, 8)),
)
def test_no_collective_is_faster_with_more_bytes(
    machine: Cluster, kind: str, size_bytes: float, more: float, domains: int, per_domain: int
) -> None:
    group = (domains * per_domain, per_domain)
    small_s = machine.collectives.seconds(kind, size_bytes, *group)
    assert machine.collectives.seconds(kind, size_bytes * more, *group) >= small_s / ROUNDING


@settings(deadline=None, max_examples=200)
@given(
    machine=machines,
    kind=st.sampled_from(tuple(PASSES)),
    size_bytes=st.floats(1.0, 1e12),
    more=st.integers(0, 64),
    domains=st.integers(2, 64),
    per_domain=st.sampled_from((1, 2, 8)),
)
def test_no_algorithm_is_faster_over_more_domains(
    machine: Cluster, kind: str, size_bytes: float, more: int, domains: int, per_domain: int
) -> None:
    model = machine.collectives
    for name in model.algorithms(kind, Ranks(domains * per_domain, per_domain)):
        few, many = (
            model.seconds(kind, size_bytes, count * per_domain, per_domain, name)
            for count in (domains, domains + more)
        )
        assert few <= many * ROUNDING, name


@settings(deadline=None, max_examples=200)
@given(
    machine=machines,
    lengths=st.tuples(st.integers(1, 2**20), st.integers(1, 2**20)),
    width=st.sampled_from((32, 64, 128, 256)),
    backward=st.booleans(),
)
def test_fused_attention_is_quicker_per_flop_when_longer_wider_and_unmasked(
    machine: Cluster, lengths: tuple[int, int], width: int, backward: bool
) -> None:
    assume(machine.stack.attention_share)
    short, long = sorted(lengths)
    rate = machine.kernels.attention_rate_flops
    own = rate(short, width, backward=backward)
    assert 0.0 < own <= rate(long, width, backward=backward) * ROUNDING
    assert own < rate(short, 2 * width, backward=backward)
    assert own < rate(short, width, backward=backward, causal=False)


# -- steps -----------------------------------------------------------------------------------------

STRICT_PLANS = (
    "data_sharding=ddp overlap.dp=false",
    "data_sharding=fsdp",
    "data_sharding=fsdp prefetch=2 cluster.nodes=2 training.recompute=full",
    "tp=8 cluster.nodes=2 overlap.dp=false",
    "tp=4 cluster.nodes=2 overlap.tp=true overlap.dp=false",
    "tp=2 pp=4 cluster.nodes=2 overlap.dp=false",
    "pp=4 schedule=gpipe cluster.nodes=2 overlap.dp=false overlap.pp=false training.recompute=selective",
    "training.attention=unfused cluster.gpus=1",
    "cp=4 overlap.dp=false",
    "cp=16 cluster.nodes=2 cp_method=all-gather overlap.dp=false",
    "cp=2 tp=4 cp_method=all-to-all overlap.dp=false training.recompute=full",
    "data_sharding=zero-2 overlap.dp=false",
    "data_sharding=fsdp tp=2 hsdp_replicas=2 cluster.nodes=2",
    "data_sharding=fsdp pp=2 cluster.nodes=2 reshard=true gradient_sync=every",
    "data_sharding=fsdp pp=4 schedule=zb-h1 reshard=true",
    "data_sharding=zero-2 pp=2 cluster.nodes=2 overlap.dp=false",
    "data_sharding=fsdp tp=2 cluster.nodes=2 overlap.one_stream=true",
    "tp=2 pp=2 order=tp-pp-dp cluster.nodes=2 overlap.dp=false",
    "tp=2 cp=2 pp=2 order=tp-cp-pp-dp cluster.nodes=2 overlap.dp=false",
)
"""Plans in which no window holds two compute tasks: then every task's time is monotone by itself, and with
the order of each stream fixed the step is the longest path over them."""

SHARED_PLANS = (
    "",
    "data_sharding=ddp cluster.nodes=2",
    "tp=2 pp=2 cluster.nodes=2",
    "data_sharding=zero-2 pp=2 cluster.nodes=2",
    "pp=4 cluster.nodes=2 training.recompute=full",
    "training.lora={rank:16}",
)
"""Plans in which several layers share the collectives of one window."""

STEPS = {plan: Step(small(*changes(plan))) for plan in STRICT_PLANS + SHARED_PLANS}


def _seconds(program: Program, machine: Cluster) -> tuple[float, float]:
    """Step time, and compute of all tasks before collectives slow it."""
    alone = Cluster(machine.node, machine.gpus, machine.stack, machine.power_cap_W)
    prices = price(program, alone)
    free = sum(
        part.seconds
        for task, p in zip(program.tasks, prices, strict=True)
        if task.stream == COMPUTE
        for part in p.parts
        if part.cause != "interference"
    )
    return run(program, [p.seconds for p in prices]).makespan_s, free


@settings(deadline=None, max_examples=80)
@given(
    plan=st.sampled_from(STRICT_PLANS),
    figure=st.sampled_from(COMPUTE_FIGURES + NETWORK_FIGURES),
    factor=factors,
)
def test_no_step_is_slower_on_a_better_machine(plan: str, figure: str, factor: float) -> None:
    step = STEPS[plan]
    before, _ = _seconds(step.program, step.cluster)
    after, _ = _seconds(step.program, improved(step.cluster, figure, factor))
    assert after <= before * ROUNDING


@settings(deadline=None, max_examples=60)
@given(plan=st.sampled_from(SHARED_PLANS), figure=st.sampled_from(NETWORK_FIGURES), factor=factors)
def test_no_step_with_shared_windows_is_slower_on_a_better_network(
    plan: str, figure: str, factor: float
) -> None:
    step = STEPS[plan]
    before, _ = _seconds(step.program, step.cluster)
    after, _ = _seconds(step.program, improved(step.cluster, figure, factor))
    assert after <= before * ROUNDING


@settings(deadline=None, max_examples=60)
@given(plan=st.sampled_from(SHARED_PLANS), figure=st.sampled_from(COMPUTE_FIGURES), factor=factors)
def test_steps_with_shared_windows_may_lose_only_interference_on_a_better_gpu(
    plan: str, figure: str, factor: float
) -> None:
    """Faster compute packs the same collectives beside less of it, so one layer of a window may be slowed more
    although the window as a whole gets shorter; what that can shift is (kappa - 1) of the compute saved."""
    step = STEPS[plan]
    before, free = _seconds(step.program, step.cluster)
    after, freed = _seconds(step.program, improved(step.cluster, figure, factor))
    shifted = (step.cluster.stack.overlap_slowdown - 1.0) * max(0.0, free - freed)
    assert after <= before * ROUNDING + shifted


NETWORK_PLANS = (
    "data_sharding=ddp overlap.dp=false",
    "data_sharding=zero-1",
    "data_sharding=fsdp",
    "tp=8",
    "tp=4 pp=2",
)


def _on_clos(plan: str, ratio: float, background: float = 0.0) -> float:
    """Step time on eight nodes, each on a leaf of its own (16 ports: eight NICs, up to 14 at 1:7)."""
    fabric = f"{{kind: clos, tiers: 2, radix: 16, oversubscription: [1, {ratio!r}]}}"
    load = f"cluster.background_load={{leaf_spine: {background!r}}}"
    return Step(
        small("cluster.nodes=8", "training.global_batch=64", f"cluster.fabric={fabric}", load, *changes(plan))
    ).timeline.makespan_s


@settings(deadline=None, max_examples=40)
@given(plan=st.sampled_from(NETWORK_PLANS), ratios=st.tuples(st.floats(1.0, 7.0), st.floats(1.0, 7.0)))
def test_no_step_is_faster_with_more_oversubscription(plan: str, ratios: tuple[float, float]) -> None:
    less, more = sorted(ratios)
    assert _on_clos(plan, less) <= _on_clos(plan, more) * ROUNDING


@settings(deadline=None, max_examples=30)
@given(plan=st.sampled_from(NETWORK_PLANS), loads=st.tuples(st.floats(0.0, 0.9), st.floats(0.0, 0.9)))
def test_no_step_is_faster_beside_more_of_other_jobs(plan: str, loads: tuple[float, float]) -> None:
    less, more = sorted(loads)
    assert _on_clos(plan, 2.0, less) <= _on_clos(plan, 2.0, more) * ROUNDING


@pytest.mark.parametrize("plan", NETWORK_PLANS)
def test_a_network_that_never_blocks_changes_no_step(plan: str) -> None:
    ideal = Step(small("cluster.nodes=8", "training.global_batch=64", *changes(plan))).timeline.makespan_s
    assert _on_clos(plan, 1.0) == pytest.approx(ideal, rel=1e-12)


def test_an_exchange_that_nothing_hides_takes_seven_times_its_wire_time() -> None:
    """Gradients after the backward pass, rings over eight nodes: a node's traffic to the next one is 1/7."""
    plan = NETWORK_PLANS[0]
    ideal = _on_clos(plan, 1.0)
    first, second = (_on_clos(plan, ratio) - ideal for ratio in (4.0, 7.0))
    assert first > 0.05 * ideal
    assert second == pytest.approx(2.0 * first, rel=0.05)  # (7 - 1) / (4 - 1)


# -- tiles -----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(
    m=st.integers(1, 100_000),
    n=st.integers(1, 100_000),
    k=st.integers(1, 100_000),
    units=st.integers(1, 1024),
)
def test_tile_utilisation_is_a_share(m: int, n: int, k: int, units: int) -> None:
    assert 0.0 < tile_utilisation(m, n, k, units) <= 1.0


@settings(deadline=None, max_examples=300)
@given(m=sizes, n=sizes, k=sizes, units=st.integers(1, 512), more=st.integers(0, 512))
def test_more_compute_units_at_the_same_clock_never_slow_a_gemm(
    m: int, n: int, k: int, units: int, more: int
) -> None:
    """The rate is units x utilisation x a constant: fewer or as many waves, whatever the share that idles."""
    few, many = units, units + more
    assert many * tile_utilisation(m, n, k, many) >= few * tile_utilisation(m, n, k, few) / ROUNDING


@settings(deadline=None, max_examples=200)
@given(m=sizes, n=sizes, k=sizes, more=st.floats(1.0, 2.0))
def test_more_compute_units_under_one_power_cap_lose_at_most_their_clock(
    m: int, n: int, k: int, more: float
) -> None:
    """Wider at the same watts clocks lower by wider^0.6; a GEMM whose waves do not drop pays that and no more."""
    machine = cluster()
    units = round(machine.gpu.compute_units * more)
    wider = units / machine.gpu.compute_units
    rates = {k: v * wider**0.4 for k, v in machine.gpu.achievable_flops.items()}
    peaks = {k: v * wider for k, v in machine.gpu.peak_flops.items()}
    clocks = {k: v * wider**-0.6 for k, v in machine.gpu.sustained_clock_Hz.items()}
    wide = with_gpu(
        machine, compute_units=units, achievable_flops=rates, peak_flops=peaks, sustained_clock_Hz=clocks
    )
    before, after = (KernelModel(x.gpu, x.stack).gemm_s(m, n, k, "bf16") for x in (machine, wide))
    assert after <= before * wider**0.6 * (1 + 1e-9)


@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (16384, 6144, 4096), (8192, 53248, 16384)])
def test_longer_gemms_are_never_shorter(shape: tuple[int, int, int]) -> None:
    """In K, work grows and the loop fills better; the library picks the tiles again, so this bounds the search."""
    model = cluster().kernels
    m, n, k = shape
    times = [model.gemm_s(m, n, k + step, "bf16") for step in range(0, 4096, 256)]
    assert times == sorted(times)
