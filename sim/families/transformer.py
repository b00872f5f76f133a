"""Transformers: tokens through layers, divided over tensor, context, expert, pipeline and data parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from hwmodels.cluster import Cluster
from sim.axes import AXES
from sim.engine.timeline import Timeline
from sim.families.memory_series import memory_records
from sim.parallel.activations import layer_activations
from sim.parallel.buckets import Buckets
from sim.parallel.cuts import balanced, even, with_ends
from sim.parallel.feed import Feed
from sim.parallel.layout import Layout, Recompute
from sim.parallel.memory import MemoryFacts, MemoryRequest, memory_by_stage, stage_contexts
from sim.parallel.mesh import Mesh
from sim.parallel.moments import StageContext
from sim.parallel.offload import ActivationOffload, OptimizerOffload
from sim.parallel.placement import Placement
from sim.parallel.plan import build_program
from sim.parallel.schedule import placement
from sim.parallel.strategy import Strategy
from sim.program import Program
from sim.results import MemoryRecord, StageMemory
from sim.scenario import Scenario, machine
from sim.workload.architecture import Architecture
from sim.workload.routing import Routing
from sim.workload.workload import Lora, Workload


@dataclass(frozen=True)
class Transformer:
    """One scenario of a transformer on its machine: a ``Family`` (sim/families/family.py)."""

    scenario: Scenario
    cluster: Cluster

    @cached_property
    def model(self) -> Architecture:
        return machine.architecture(self.scenario)

    @cached_property
    def workload(self) -> Workload:
        training = self.scenario.training
        lora = training.lora
        return Workload(
            architecture=self.model,
            sequence_length=training.sequence_length,
            precision=training.precision,
            fused_attention=training.attention == "fused",
            lora=None if lora is None else Lora(lora.rank, lora.targets),
            loss_kernel=training.cross_entropy or "default",
            dropout=training.dropout,
            routing=Routing(**training.moe.model_dump()),
            activation_store=training.activation_store,
            deterministic_keys=(
                self.cluster.stack.memory["deterministic_keys"] if training.deterministic_attention else 0.0
            ),
        )

    @cached_property
    def layout(self) -> Layout:
        asked, training = self.scenario.parallelism, self.scenario.training
        place = placement(asked.schedule, asked.pp, asked.virtual_stages)
        parts = self._cuts(place) * place.copies
        recomputed = self._recomputed(parts[: place.depth]) * place.copies
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
            recomputed_ids=self._recomputed_ids,
            cp_method=asked.cp_method,
            ep=asked.ep,
            hsdp_replicas=asked.hsdp_replicas,
            offloaded=training.offload.activation_layers,
            gradient_sync=asked.gradient_sync,
            etp=asked.etp,
            order=self.scenario.axis_order,
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
            one_stream=asked.overlap.one_stream,
            gradient_bytes=self._gradient_bytes,
            parameter_bytes=4.0 if wide else kept,
            prefetch=asked.prefetch,
            reshard=asked.reshard,
            feed=self._feed,
            optimizer_barrier=asked.optimizer_barrier,
            buckets=self._buckets,
            offload=self._activation_offload,
            optimizer_offload=self._optimizer_offload,
        )

    @property
    def _activation_offload(self) -> ActivationOffload | None:
        """Copies of what layers keep, as the memory model counts it."""
        layers = self.scenario.training.offload.activation_layers
        if not layers:
            return None
        request, facts = self._memory_question
        dense, routed = (
            layer_activations(self.model, self.layout, request, facts, routed=routed).recomputed
            for routed in (False, self.experts)
        )
        return ActivationOffload(layers, (dense, routed))

    @property
    def _optimizer_offload(self) -> OptimizerOffload | None:
        asked = self.scenario.training.offload
        if asked.optimizer == "none":
            return None
        request, facts = self._memory_question
        return OptimizerOffload(
            kind=asked.optimizer,
            state_bytes=request.optimizer_bytes(facts),
            gradient_bytes=request.gradient_bytes,
            parameter_bytes=request.parameter_bytes,
            host_Bps=asked.host_update_bandwidth_Bps or 0.0,
        )

    @property
    def _buckets(self) -> Buckets:
        asked = self.scenario.parallelism
        if asked.bucket == "megatron":
            return Buckets.megatron(self.scenario.dp)
        if asked.bucket_size_bytes is None:
            return Buckets(None if asked.bucket_parameters is None else float(asked.bucket_parameters))
        return Buckets(asked.bucket_size_bytes / self._gradient_bytes)

    @property
    def _gradient_bytes(self) -> float:
        """Of one element on the wire and in a bucket."""
        training = self.scenario.training
        return 4.0 if "fp32" in (training.precision, training.gradient_dtype) else 2.0

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
            loaders_per_host=Mesh(layout, self.cluster.domain_gpus).loaders(host),
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
    def memory_contexts(self) -> tuple[StageContext, ...]:
        """What the memory of every stage is computed from."""
        return stage_contexts(self.model, self.layout, *self._memory_question)

    def memory_over_time(self, timeline: Timeline) -> tuple[MemoryRecord, ...]:
        return memory_records(self.memory_contexts, timeline)

    @property
    def _memory_question(self) -> tuple[MemoryRequest, MemoryFacts]:
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
            bucket_parameters=self._buckets.parameters,
            activation_store=training.activation_store,
            deterministic=training.deterministic_attention,
            optimizer_on_host=training.offload.optimizer != "none",
        )
        return request, facts

    @cached_property
    def memory(self) -> tuple[StageMemory, ...]:
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
            for m in memory_by_stage(self.model, self.layout, *self._memory_question)
        )

    @property
    def name(self) -> str:
        return "transformer"

    @property
    def experts(self) -> bool:
        return self.model.experts is not None

    @property
    def sharding(self) -> str:
        return self.scenario.parallelism.data_sharding

    @property
    def counted(self) -> str:
        return "tokens"

    @property
    def items_per_step(self) -> float:
        return float(self.scenario.training.global_batch * self.scenario.training.sequence_length)

    def model_flops(self, convention: str) -> float:
        return self.workload.model_flops_per_token(convention) * self.items_per_step

    @property
    def ranks_per_role(self) -> int:
        return self.layout.axes.stride("pp")

    @property
    def stack_figures(self) -> tuple[str, ...]:
        workload = self.workload
        names = ["kernel_gap", "streaming_factor", "optimizer_bytes_per_parameter"]
        names.append(f"cross_entropy_bytes_per_logit.{workload.loss_kernel}")
        if workload.fused_attention:
            names += ["attention_share.forward", "attention_share.backward"]
        else:
            names.append("attention_unfused_passes")
        if self.model.position == "rope" and self.model.latent is None:
            names.append("head_kernel_share")
        if self.model.experts is not None:
            names.append("grouped_gemm_efficiency")
            if workload.routing.dispatch_units is not None:
                names.append("dispatch_full_rate_units")
        return tuple(names)

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(sorted({self.workload.linear_dtype, self.workload.outer_dtype}))

    def _cuts(self, place: Placement) -> tuple[int, ...]:
        """Layers of each part of one copy of the model, in model order."""
        asked, layers = self.scenario.parallelism, self.model.layers
        if asked.first_stage_layers is not None or asked.last_stage_layers is not None:
            return with_ends(layers, place, asked.first_stage_layers, asked.last_stage_layers)
        if asked.layout == "balanced":
            costs = [self.workload.layer_weight(kind) for kind in self.model.kinds]
            return balanced(costs, self.workload.head_weight, place.depth)
        return part_layers(layers, place.depth, asked.layout)

    def _recomputed(self, parts: tuple[int, ...]) -> tuple[int, ...]:
        """Recomputed layers of each part of the model."""
        asked = self.scenario.training.recompute
        if asked.kind == "none":
            return tuple(0 for _ in parts)
        if isinstance(asked.layers, tuple):
            starts = [0, *accumulate(parts)]
            return tuple(
                sum(first <= layer < last for layer in asked.layers) for first, last in pairwise(starts)
            )
        return tuple(n if asked.layers is None else min(n, asked.layers) for n in parts)

    @property
    def _recomputed_ids(self) -> frozenset[int] | None:
        asked = self.scenario.training.recompute.layers
        return frozenset(asked) if isinstance(asked, tuple) else None

    def _recompute(self, by_stage: tuple[int, ...]) -> Recompute:
        kind = self.scenario.training.recompute.kind
        if kind == "none":
            return Recompute(kind, by_stage)
        modules = self.scenario.training.recompute.modules
        return Recompute(kind, by_stage, self.cluster.stack.recompute_early_stop, modules)

    def layout_in_words(self) -> dict[str, object]:
        """Degrees and choices, by the names that results show."""
        layout = self.layout
        unusual: dict[str, object] = {} if layout.experts_tp == layout.tp else {"etp": layout.experts_tp}
        if layout.order != AXES:
            unusual["order"] = "-".join(layout.order)
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
            **unusual,
        }


def part_layers(layers: int, parts: int, asked: str | tuple[int, ...]) -> tuple[int, ...]:
    """Layers of each stage, or of each virtual one in model order; ``auto``: as even as they go."""
    return even(layers, parts) if isinstance(asked, str) else asked
