"""Recommenders: samples through tables that lie spread over the ranks, and through small dense layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hwmodels.cluster import Cluster
from hwmodels.embeddings import FIGURES
from sim.engine.timeline import Timeline
from sim.families.recommender_series import recommender_series
from sim.parallel.feed import Feed
from sim.parallel.memory_facts import MemoryFacts
from sim.parallel.recommender_layout import STATE_BYTES, RecommenderLayout
from sim.parallel.recommender_memory import RecommenderMemory, recommender_memory
from sim.parallel.recommender_plan import build_recommender_program
from sim.parallel.table_pieces import TablePlan
from sim.parallel.table_planner import (
    NoRoom,
    TableRequest,
    columns_everywhere,
    planned,
    rows_everywhere,
    whole_tables,
)
from sim.program import Program
from sim.results import MemoryRecord, StageMemory
from sim.scenario import Scenario
from sim.workload.recommender import Recommender as Model
from sim.workload.recommender_workload import Lengths, RecommenderWorkload

WIRE_BYTES: Mapping[str, float] = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0}
ROOM_SHARE = 0.75  # of HBM, for rows and their state: 60 of 80 GB in published submissions
EXCHANGE_WORK = (
    4.0  # a lookup moves this many times the bytes of a vector on the wire, says the published planner
)

PLANNERS: Mapping[str, Callable[[TableRequest], TablePlan]] = {
    "planned": planned,
    "two-level": planned,
    "table": whole_tables,
    "row": rows_everywhere,
}


@dataclass(frozen=True)
class Recommender:
    """One scenario of a recommender on its machine: a ``Family`` (sim/families/family.py)."""

    scenario: Scenario
    cluster: Cluster
    model: Model

    @cached_property
    def workload(self) -> RecommenderWorkload:
        training = self.scenario.training
        lengths = Lengths(
            float(training.sequence_length), training.lengths.variation, training.lengths.balanced
        )
        return RecommenderWorkload(self.model, training.precision, lengths)

    @cached_property
    def plan(self) -> TablePlan:
        """Raises ``NoRoom`` where the tables do not fit."""
        asked = self.scenario.parallelism.tables
        try:
            if asked.sharding == "column":
                return columns_everywhere(self._request, asked.pieces)
            return PLANNERS[asked.sharding](self._request)
        except NoRoom as error:
            raise NoRoom(
                f"parallelism.tables: {error}: use more GPUs, raise room, or move tables to host_tables"
            ) from None

    @cached_property
    def layout(self) -> RecommenderLayout:
        training, tables = self.scenario.training, self.scenario.parallelism.tables
        figures = self.cluster.stack.embedding
        pipelined = tables.pipelined_ids
        return RecommenderLayout(
            gpus=self.scenario.gpus,
            domain_gpus=self.cluster.domain_gpus,
            samples=training.global_batch,
            plan=self.plan,
            two_level=tables.sharding == "two-level",
            exchange_bytes=WIRE_BYTES[training.embeddings.exchange_dtype],
            id_bytes=figures["id_bytes"],
            gradient_bytes=4.0 if "fp32" in (training.precision, training.gradient_dtype) else 2.0,
            optimizer=training.embeddings.optimizer,
            distinct=training.embeddings.distinct,
            skew=training.embeddings.skew,
            deduplicated=training.embeddings.deduplicate,
            pipelined_ids=bool(figures["pipelined_ids"]) if pipelined is None else pipelined,
            overlaps_iterations=bool(figures["overlaps_iterations"]),
            host_tables=frozenset(tables.host_tables),
            host_link_Bps=tables.host_bandwidth_Bps or 0.0,
            feed=self._feed,
        )

    @property
    def _request(self) -> TableRequest:
        """What the planner is asked: buckets are ranks, or scale-up domains whose ranks share them."""
        asked, training, cluster = self.scenario.parallelism.tables, self.scenario.training, self.cluster
        sharers = cluster.domain_gpus if asked.sharding == "two-level" else 1
        room = asked.room_bytes or ROOM_SHARE * cluster.gpu.hbm_bytes
        return TableRequest(
            tables=self.model.tables,
            uses={t.name: (self.workload.rows(t), self.workload.vectors(t)) for t in self.model.tables},
            buckets=self.scenario.gpus // sharers,
            room_bytes=room * sharers,
            element_bytes=4.0 + STATE_BYTES[training.embeddings.optimizer],
            exchange_cost=self._exchange_cost if asked.exchange_cost is None else asked.exchange_cost,
            replicate_below_bytes=asked.replicate_below_bytes,
            skew=training.embeddings.skew,
            hosted=frozenset(asked.host_tables),
        )

    @property
    def _exchange_cost(self) -> float:
        """HBM over the slowest link that an exchange takes, per byte that a lookup moves more than a vector."""
        node = self.cluster.node
        crosses = self.scenario.gpus > self.cluster.domain_gpus
        links = min(self.scenario.gpus, node.scale_up.domain_gpus) - 1 if node.scale_up.kind == "mesh" else 1
        port = node.scale_up.link_bandwidth_Bps * (
            node.scale_up.links_per_gpu if links == 1 else max(1, links)
        )
        link = node.nic.line_rate_Bps * node.nics / node.gpus if crosses else port
        return node.gpu.hbm_bandwidth_Bps / link / EXCHANGE_WORK

    @property
    def _feed(self) -> Feed | None:
        asked = self.scenario.training.input
        if asked is None:
            return None
        return Feed(
            sample_bytes=asked.sample_bytes or 0.0,
            host_Bps=asked.host_bandwidth_Bps,
            samples_per_s=asked.samples_per_s,
            workers=asked.workers,
            loaders_per_host=min(self.cluster.node.gpus, self.scenario.gpus),
        )

    @cached_property
    def program(self) -> Program:
        codec = self.cluster.stack.embedding["codec_bytes"]
        return build_recommender_program(self.workload, self.layout, codec)

    @cached_property
    def _memory(self) -> RecommenderMemory:
        facts = MemoryFacts.from_mapping(self.cluster.gpu.hbm_bytes, self.cluster.stack.memory)
        return recommender_memory(self.workload, self.layout, facts)

    @property
    def memory(self) -> tuple[StageMemory, ...]:
        found = self._memory
        return (
            StageMemory(
                stage=0,
                rank=0,
                verdict=found.verdict,
                allocated_bytes=found.allocated_bytes,
                reserved_bytes=found.reserved_bytes,
                device_bytes=found.device_bytes,
                parts_bytes=found.parts_bytes,
                peak_name=found.peak_name,
                capacity_bytes=found.capacity_bytes,
            ),
        )

    def memory_over_time(self, timeline: Timeline) -> tuple[MemoryRecord, ...]:
        return recommender_series(self._memory, timeline)

    @property
    def name(self) -> str:
        """Boxes without links of their own are judged apart: their topology decides."""
        return "recommender on a host bus" if self.cluster.node.scale_up.kind == "bus" else "recommender"

    @property
    def experts(self) -> bool:
        return False

    @property
    def sharding(self) -> str:
        return self.scenario.parallelism.tables.sharding

    @property
    def counted(self) -> str:
        return "samples"

    @property
    def items_per_step(self) -> float:
        return float(self.scenario.training.global_batch)

    def model_flops(self, convention: str) -> float:  # noqa: ARG002 (recommenders are counted in one way)
        return self.workload.flops_per_sample() * self.items_per_step

    @property
    def ranks_per_role(self) -> int:
        return self.scenario.gpus

    @property
    def formats(self) -> tuple[str, ...]:
        return (self.scenario.training.precision,)

    @property
    def stack_figures(self) -> tuple[str, ...]:
        names = ["streaming_factor", "optimizer_bytes_per_parameter"]
        if self.model.encoder is not None:
            names += ["attention_share.forward", "attention_share.backward"]
        return (*names, *(f"embedding.{figure}" for figure in FIGURES))

    def layout_in_words(self) -> dict[str, object]:
        plan, layout = self.plan, self.layout
        share = layout.sharers
        return {
            "dp": layout.gpus,
            "samples_per_rank": layout.samples_per_rank,
            "data_sharding": f"{self.sharding} tables",
            "replicated_tables": len(plan.replicated),
            "pieces_of_the_fullest": max(len(bucket) for bucket in plan.buckets),
            "lookups_of_the_hottest": max(sum(p.asked for p in b) for b in plan.buckets) / share,
            "lookups_on_average": sum(p.asked for b in plan.buckets for p in b) / len(plan.buckets) / share,
            "pipelined_ids": layout.pipelined_ids,
        }
