"""One training step, end to end. Read this file first.

    scenario -> workload -> plan -> program -> priced program -> timeline -> result

Each arrow is one function of another room; this one only hands things on. Heavy imports live here, so
nothing that only parses a command line imports it.
"""

from __future__ import annotations

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
from sim.parallel.feed import Feed, loaders_per_host
from sim.parallel.layout import Layout, Recompute
from sim.parallel.memory import MemoryFacts, MemoryRequest, memory_by_stage
from sim.parallel.plan import build_program
from sim.parallel.schedule import placement
from sim.parallel.strategy import Strategy
from sim.pricing import Price, price
from sim.program import Program
from sim.range import Case, prediction_range
from sim.results import PredictionRange, RecordTable, StageMemory, StepResult
from sim.scenario import Scenario, machine, scenario_hash
from sim.transfers import flows
from sim.workload.architecture import Architecture
from sim.workload.routing import Routing
from sim.workload.workload import LOW_PRECISION, Lora, Workload

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
    def architecture(self) -> Architecture:
        return machine.architecture(self.scenario)

    @cached_property
    def workload(self) -> Workload:
        training = self.scenario.training
        lora = training.lora
        return Workload(
            architecture=self.architecture,
            sequence_length=training.sequence_length,
            precision=training.precision,
            fused_attention=training.attention == "fused",
            lora=None if lora is None else Lora(lora.rank, lora.targets),
            loss_kernel=training.cross_entropy or "default",
            dropout=training.dropout,
            routing=Routing(**training.moe.model_dump()),
        )

    @cached_property
    def layout(self) -> Layout:
        asked, training = self.scenario.parallelism, self.scenario.training
        place = placement(asked.schedule, asked.pp, asked.virtual_stages)
        parts = part_layers(self.architecture.layers, place.parts, asked.layout)
        recomputed = self._recomputed(parts)
        return Layout(
            tp=asked.tp,
            cp=asked.cp,
            pp=asked.pp,
            dp=self.scenario.dp,
            stage_layers=place.by_stage(parts),
            micro_batch=training.micro_batch,
            microbatches=self.scenario.microbatches,
            sequence_parallel=asked.sequence_parallel and asked.tp > 1,
            data_sharding=asked.data_sharding,
            schedule=asked.schedule,
            recompute=self._recompute(place.by_stage(recomputed)),
            part_layers=parts,
            part_recomputed=recomputed,
            cp_method=asked.cp_method,
            ep=asked.ep,
            hsdp_replicas=asked.hsdp_replicas,
        )

    @cached_property
    def strategy(self) -> Strategy:
        asked, training = self.scenario.parallelism, self.scenario.training
        kept = 4.0 if training.parameter_dtype == "fp32" else 2.0
        if asked.data_sharding == "fsdp":  # shards are cast before they are gathered
            kept = 1.0 if asked.gather_dtype == "fp8" else 2.0
        wide = training.precision == "fp32"
        return Strategy(
            overlap_dp=asked.overlap.dp,
            overlap_tp=asked.overlap.tp,
            overlap_ep=asked.overlap.ep,
            overlap_pp=asked.overlap.pp,
            gradient_bytes=4.0 if wide or training.gradient_dtype == "fp32" else 2.0,
            parameter_bytes=4.0 if wide else kept,
            prefetch=asked.prefetch,
            reshard=asked.reshard,
            feed=self._feed,
        )

    @property
    def _feed(self) -> Feed | None:
        """How samples arrive; None where the scenario says nothing of it."""
        asked, layout = self.scenario.training.input, self.layout
        if asked is None:
            return None
        host = min(self.cluster.node.gpus, layout.gpus)
        return Feed(
            sample_bytes=asked.sample_bytes or 0.0,
            host_Bps=asked.host_bandwidth_Bps,
            samples_per_s=asked.samples_per_s,
            workers=asked.workers,
            loaders_per_host=loaders_per_host(
                host,
                tp=layout.tp,
                stage_ranks=layout.gpus // layout.pp,
                whole_pipeline=layout.pp > 1 and layout.gpus <= host,
            ),
        )

    @cached_property
    def program(self) -> Program:
        return build_program(
            self.workload,
            self.layout,
            self.strategy,
            domain_gpus=self.cluster.domain_gpus,
            blocking_p2p=self.cluster.stack.blocking_p2p,
        )

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
    def memory(self) -> tuple[StageMemory, ...]:
        training, asked = self.scenario.training, self.scenario.parallelism
        facts = MemoryFacts.from_mapping(self.cluster.gpu.hbm_bytes, self.cluster.stack.memory)
        request = MemoryRequest(
            sequence_length=training.sequence_length,
            precision=training.precision,
            attention=training.attention,
            parameter_dtype=training.parameter_dtype,
            gradient_dtype=training.gradient_dtype,
            dropout=training.dropout,
            cross_entropy=training.cross_entropy,
            lora_rank=0 if training.lora is None else training.lora.rank,
            lora_targets=() if training.lora is None else training.lora.targets,
            reshard=asked.reshard,
            prefetch=asked.prefetch,
            context_exchange=asked.cp_method,
            routing=self.workload.routing,
        )
        return tuple(
            StageMemory(
                stage=m.stage,
                rank=m.rank,
                verdict=m.verdict,
                allocated_bytes=m.allocated_bytes,
                reserved_bytes=m.reserved_bytes,
                device_bytes=m.device_bytes,
                parts_bytes={k: v for k, v in m.parts_bytes.items() if v},
                peak_name=m.peak_when,
                capacity_bytes=m.capacity_bytes,
            )
            for m in memory_by_stage(self.architecture, self.layout, request, facts)
        )

    @cached_property
    def case(self) -> Case:
        """What decides how much published runs say about this one."""
        node = machine.catalog_node(self.scenario)
        return Case.of(self.scenario, node.gpu.name, self.cluster.stack, self.architecture)

    @cached_property
    def range_90(self) -> PredictionRange | None:
        return prediction_range(self.case, self.timeline.makespan_s)

    @cached_property
    def result(self) -> StepResult:
        scenario, cluster = self.scenario, self.cluster
        step_time_s = self.timeline.makespan_s
        tokens = float(scenario.training.global_batch * scenario.training.sequence_length)
        convention = scenario.metrics.mfu_convention
        flops_per_gpu = self.workload.model_flops_per_token(convention) * tokens / scenario.gpus
        peak_dtype = scenario.training.precision
        peak = cluster.gpu.peak_flops[peak_dtype]
        causes = attribution.breakdown(self.timeline, self.prices)
        ranks_per_role = scenario.gpus // self.layout.pp
        return StepResult(
            scenario_name=scenario.name,
            scenario_hash=scenario_hash(scenario),
            version=__version__,
            gpu=cluster.gpu.title,
            stack=cluster.stack.name,
            stack_date=cluster.stack.date,
            model_title=self.architecture.title,
            gpus=scenario.gpus,
            layout=self._layout_in_words(),
            step_time_s=step_time_s,
            tokens_per_step=tokens,
            tokens_per_s=tokens / step_time_s,
            tokens_per_s_per_gpu=tokens / step_time_s / scenario.gpus,
            tflops_per_gpu=flops_per_gpu / step_time_s / 1e12,
            mfu=flops_per_gpu / step_time_s / peak,
            mfu_convention=convention,
            mfu_peak_flops=peak,
            mfu_peak_name=f"dense {peak_dtype} peak of {cluster.gpu.title}",
            breakdown_s=causes,
            hidden_s=attribution.hidden(self.timeline, self.prices),
            memory=self.memory,
            bottleneck=bottleneck(causes, cluster, scenario),
            records=RecordTable(partial(attribution.records, self.timeline, self.prices, ranks_per_role)),
            sources=cited_sources(cluster, self.workload),
            assumed=assumed_figures(cluster, self.workload),
            warnings=self._warnings(),
            range_90=self.range_90,
        )

    def _recomputed(self, parts: tuple[int, ...]) -> tuple[int, ...]:
        """Recomputed layers of each part of the model."""
        asked = self.scenario.training.recompute
        if asked.kind == "none":
            return tuple(0 for _ in parts)
        return tuple(n if asked.layers is None else min(n, asked.layers) for n in parts)

    def _recompute(self, by_stage: tuple[int, ...]) -> Recompute:
        kind = self.scenario.training.recompute.kind
        if kind == "none":
            return Recompute(kind, by_stage)
        return Recompute(kind, by_stage, self.cluster.stack.recompute_early_stop)

    def _layout_in_words(self) -> dict[str, object]:
        layout = self.layout
        return {
            "tp": layout.tp,
            "cp": layout.cp,
            "ep": layout.ep,
            "pp": layout.pp,
            "dp": layout.dp,
            "micro_batch": layout.micro_batch,
            "microbatches": layout.microbatches,
            "stage_layers": list(layout.stage_layers),
            "virtual_stages": layout.placement.chunks,
            "sequence_parallel": layout.sequence_parallel,
            "data_sharding": layout.data_sharding,
            "schedule": layout.schedule,
            "recompute": layout.recompute.kind,
        }

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


def part_layers(layers: int, parts: int, asked: str | tuple[int, ...]) -> tuple[int, ...]:
    """Layers of each stage, or of each virtual one in model order.

    ``auto``: as even as they go, the extra ones first. The last part carries the output projection, so it
    is the last to get an extra layer.
    """
    if not isinstance(asked, str):
        return asked
    share, extra = divmod(layers, parts)
    return tuple(share + (1 if part < extra else 0) for part in range(parts))
