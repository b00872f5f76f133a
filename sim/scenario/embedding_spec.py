"""What a scenario says of embedding tables and of the sequences of recommenders."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sim.scenario.fields import Number, Quantity, Text, Whole
from sim.scenario.section import Section

Flag = Annotated[bool, Field(strict=True)]


class EmbeddingSpec(Section):
    """How a recommender's tables are trained, and what its ids are like."""

    optimizer: Literal["adagrad", "rowwise-adagrad", "sgd"] = Field(
        default="adagrad",
        description="Optimizer of the tables: adagrad keeps a state per element, rowwise-adagrad per row, sgd none",
    )
    distinct: Annotated[float, Number(1e-6, 1)] | None = Field(
        default=None,
        description="Part of the rows looked up in a step that differ; default: follows from skew",
    )
    skew: Annotated[float, Number(0, 5)] = Field(
        default=0.0,
        description="Zipf exponent of the ids: 0 is uniform; popular rows load the rank that has them",
    )
    deduplicate: Flag = Field(
        default=False, description="Each rank looks up and exchanges a row once, whatever its samples repeat"
    )
    exchange_dtype: Literal["fp16", "bf16", "fp32"] = Field(
        default="fp16", description="Format in which vectors and their gradients travel"
    )


class LengthSpec(Section):
    """How the lengths of sequences spread around training.sequence_length, their mean."""

    variation: Annotated[float, Number(0, 10)] = Field(
        default=0.0, description="Standard deviation of lengths over their mean"
    )
    balanced: Flag = Field(
        default=True, description="Samples are dealt so that all ranks have equal work, not as they come"
    )


class TableShardingSpec(Section):
    """Where the rows of a recommender's tables lie."""

    sharding: Literal["planned", "table", "row", "column", "two-level"] = Field(
        default="planned",
        description="planned: a greedy planner cuts tables by rows as needed; table: whole; row, column: all "
        "tables over all ranks; two-level: planned over scale-up domains, by rows inside",
    )
    pieces: Annotated[int, Whole(1, 4096)] | None = Field(
        default=None,
        description="column: parts of each table; default: as many as ranks, at least 32 wide",
    )
    replicate_below_bytes: Annotated[float, Quantity("bytes", "0 B", "1 TB")] = Field(
        default=0.0,
        alias="replicate_below",
        description="Tables that take less, rows and optimizer state, lie on every rank (data-parallel)",
        json_schema_extra={"unit": "bytes"},
    )
    room_bytes: Annotated[float, Quantity("bytes", "1 MB", "100 TB")] | None = Field(
        default=None,
        alias="room",
        description="What rows and optimizer state may take of one GPU; default: three quarters of its HBM",
        json_schema_extra={"unit": "bytes"},
    )
    exchange_cost: Annotated[float, Number(0, 1e6)] | None = Field(
        default=None,
        description="planned, two-level: what the planner thinks a piece costs, in lookups per sample; default: a "
        "quarter of HBM bandwidth over link bandwidth",
    )
    pipelined_ids: Flag | None = Field(
        default=None,
        description="Ids of the next batch travel beside this step; default: what the stack does",
    )
    host_tables: tuple[Annotated[str, Text(100)], ...] = Field(
        default=(), description="Tables that lie in host memory", max_length=10_000
    )
    host_bandwidth_Bps: Annotated[float, Quantity("bandwidth", "1 MB/s", "100 TB/s")] | None = Field(
        default=None,
        alias="host_bandwidth",
        description="host_tables: what the link between one GPU and its host carries; default: the GPU's own",
        json_schema_extra={"unit": "bytes/s"},
    )
