"""One training step, end to end. Read this file first.

    scenario -> workload -> plan -> program -> priced program -> timeline -> result

Each arrow is one function of another room; this one only hands things on. Up to the program the model's
family decides (``sim/families``); from there on all steps are made alike. Heavy imports live here, so
nothing that only parses a command line imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from hwmodels.cluster import Cluster
from hwmodels.sharing import fair_progress
from sim import __version__, attribution
from sim.bottleneck import bottleneck
from sim.citations import assumed_figures, cited_sources
from sim.engine import events, maxplus
from sim.engine.timeline import Timeline
from sim.families import Family, family_of
from sim.pricing import Price, price
from sim.program import Program
from sim.range import Case, prediction_range
from sim.results import PredictionRange, RecordTable, StepResult, StepSpread
from sim.scenario import Scenario, machine, scenario_hash
from sim.spread import step_spread
from sim.spread.durations import Base
from sim.spread.places import Places
from sim.transfers import flows
from sim.workload.workload import LOW_PRECISION

HASHES = 16  # ways of hashing flows onto paths that a spread is drawn from

Engine = Literal["auto", "events", "maxplus"]
"""``events`` shares links among transfers that meet; ``maxplus`` knows no contention and is faster; ``auto``
takes events where transfers can meet, and max-plus where both give the same bits."""


def simulate(scenario: Scenario, engine: Engine = "auto") -> StepResult:
    """Predicts one training step: time by cause, memory by stage, sources.

    Deterministic: equal scenarios give equal results to the last bit, whichever engine may play them. Raises
    ValueError for ``maxplus`` where transfers share links.
    """
    return Step(scenario, engine).result


@dataclass(frozen=True)
class Step:
    """The chain for one scenario, every link kept for those who want to look inside."""

    scenario: Scenario
    engine: Engine = "auto"

    @cached_property
    def cluster(self) -> Cluster:
        asked = self.scenario.cluster
        return Cluster(
            machine.node(self.scenario),
            self.scenario.gpus,
            machine.stack(self.scenario),
            asked.power_cap_W,
            machine.network(self.scenario),
        )

    @cached_property
    def family(self) -> Family:
        """What the kind of model makes of the scenario: workload, plan, memory."""
        return family_of(self.scenario, self.cluster)

    @cached_property
    def program(self) -> Program:
        return self.family.program

    @cached_property
    def prices(self) -> tuple[Price, ...]:
        return price(self.program, self.cluster)

    @cached_property
    def timeline(self) -> Timeline:
        """Contention included: transfers that meet on a link slow each other."""
        shared = flows(self.program, self.prices, self.cluster)
        seconds = [p.seconds for p in self.prices]
        if self.engine == "maxplus" and shared:
            raise ValueError("transfers of this scenario share links: the max-plus engine does not see that")
        if self.engine == "events" or shared:
            return events.run(self.program, seconds, shared, fair_progress)
        return maxplus.run(self.program, seconds)

    @cached_property
    def case(self) -> Case:
        """What decides how much published runs say about this one."""
        node, family = machine.catalog_node(self.scenario), self.family
        return Case.of(
            self.scenario,
            node.gpu.name,
            self.cluster.stack,
            family=family.name,
            model=family.model.name,
            experts=family.experts,
            sharding=family.sharding,
        )

    @cached_property
    def range_90(self) -> PredictionRange | None:
        return prediction_range(self.case, self.timeline.step_s)

    @cached_property
    def spread(self) -> StepSpread | None:
        """Many steps instead of one, where the scenario says what differs between them."""
        asked = self.scenario.variability
        if asked is None:
            return None
        bases = [Base(step.timeline, step.prices) for step in self._by_chance(asked.trials)]
        program, node = self.program, self.cluster.node
        stride = program.role_stride or program.ranks
        places = Places(program.roles, program.ranks, stride, node.gpus, max(1, node.nics))
        return step_spread(program, bases, places, asked, self.scenario.seed)

    def _by_chance(self, trials: int) -> Iterator[Step]:
        """This step, and others whose flows the network hashes onto other paths."""
        yield self
        if self.cluster.network is None or self.scenario.cluster.fabric.routing != "ecmp":
            return
        for number in range(1, min(trials, HASHES)):
            yield Step(self.scenario.model_copy(update={"seed": self.scenario.seed + number}), self.engine)

    @cached_property
    def result(self) -> StepResult:
        scenario, cluster = self.scenario, self.cluster
        step_time_s = self.timeline.step_s
        family, items = self.family, self.family.items_per_step
        convention = scenario.metrics.mfu_convention
        flops_per_gpu = family.model_flops(convention) / scenario.gpus
        peak_dtype = scenario.training.precision
        peak = cluster.gpu.peak_flops[peak_dtype]
        causes = attribution.breakdown(self.timeline, self.prices)
        return StepResult(
            scenario_name=scenario.name,
            scenario_hash=scenario_hash(scenario),
            version=__version__,
            gpu=cluster.gpu.title,
            stack=cluster.stack.name,
            stack_date=cluster.stack.date,
            model_title=family.model.title,
            gpus=scenario.gpus,
            layout=family.layout_in_words(),
            step_time_s=step_time_s,
            tokens_per_step=items,
            tokens_per_s=items / step_time_s,
            tokens_per_s_per_gpu=items / step_time_s / scenario.gpus,
            tflops_per_gpu=flops_per_gpu / step_time_s / 1e12,
            mfu=flops_per_gpu / step_time_s / peak,
            mfu_convention=convention,
            mfu_peak_flops=peak,
            mfu_peak_name=f"dense {peak_dtype} peak of {cluster.gpu.title}",
            breakdown_s=causes,
            hidden_s=attribution.hidden(self.timeline, self.prices),
            memory=family.memory,
            bottleneck=bottleneck(causes, cluster, scenario),
            records=RecordTable(
                partial(attribution.records, self.timeline, self.prices, family.ranks_per_role)
            ),
            memory_records=RecordTable(partial(family.memory_over_time, self.timeline)),
            sources=cited_sources(cluster, family),
            assumed=assumed_figures(cluster, family),
            warnings=self._warnings(),
            range_90=self.range_90,
            counted=family.counted,
            spread=self.spread,
        )

    def _warnings(self) -> tuple[str, ...]:
        found = list(self.scenario.warnings)
        stack = self.cluster.stack
        if self.scenario.cluster.stack is None:
            found.append(f"no stack named: {stack.name} ({stack.date}), the newest for this GPU")
        if not stack.tuned:
            found.append(f"{stack.name} is an untuned stack: expect the real step to be slower")
        if self.scenario.training.precision in LOW_PRECISION:
            found.append(
                f"MFU counts all FLOPs over the {self.scenario.training.precision} peak, bf16 ones too"
            )
        if self.range_90 is not None and self.range_90.outside:
            found.append(
                "outside the validated range, so the 90 % range is a guess: "
                + "; ".join(self.range_90.outside)
            )
        return tuple(found)
