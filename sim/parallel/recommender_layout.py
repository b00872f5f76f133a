"""How a recommender is divided: tables over ranks or nodes, samples over all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from sim.ops import Group
from sim.parallel.feed import Feed
from sim.parallel.table_pieces import Bucket, TablePlan, lookup_width, parameters, vector_width

STATE_BYTES = {"adagrad": 4.0, "rowwise-adagrad": 0.0, "sgd": 0.0}
"""Optimizer state per element of a table."""

ROW_STATE_BYTES = {"adagrad": 0.0, "rowwise-adagrad": 4.0, "sgd": 0.0}
"""Optimizer state per row of a table."""

ROW_ELEMENT_BYTES = 4.0  # tables are kept in fp32


@dataclass(frozen=True)
class RecommenderLayout:
    """``samples`` per step over ``gpus`` ranks in scale-up domains of ``domain_gpus``.

    ``two_level``: buckets of ``plan`` are domains, whose ranks share the rows of each piece. ``distinct`` is the part of
    looked-up rows that differ (None: follows from ``skew``); with ``deduplicated`` each rank asks for a row once.
    ``pipelined_ids``: ids of the next batch travel beside this step.
    """

    gpus: int
    domain_gpus: int
    samples: int
    plan: TablePlan
    two_level: bool
    exchange_bytes: float  # per element of a vector on the wire
    id_bytes: float
    gradient_bytes: float  # per element of a dense gradient
    optimizer: str  # of the tables: a key of STATE_BYTES
    distinct: float | None
    skew: float
    deduplicated: bool
    pipelined_ids: bool
    overlaps_iterations: bool  # lookup of the next batch before the dense layers are updated
    host_tables: frozenset[str] = frozenset()
    host_link_Bps: float = 0.0
    feed: Feed | None = None

    @property
    def resident(self) -> tuple[Bucket, ...]:
        """Pieces in the GPUs' own memory."""
        return tuple(
            tuple(p for p in bucket if p.table.name not in self.host_tables) for bucket in self.plan.buckets
        )

    @property
    def hosted(self) -> tuple[Bucket, ...]:
        """Pieces in host memory."""
        return tuple(
            tuple(p for p in bucket if p.table.name in self.host_tables) for bucket in self.plan.buckets
        )

    @cached_property
    def busiest(self) -> Bucket:
        """The resident pieces whose lookups move most bytes."""
        return max(self.resident, key=lookup_width)

    @cached_property
    def busiest_of_hosts(self) -> Bucket:
        return max(self.hosted, key=lookup_width)

    @cached_property
    def most_exchanged(self) -> Bucket:
        """The bucket that sends most: it need not be the busiest, and all others wait for both."""
        return max(self.plan.buckets, key=vector_width)

    @cached_property
    def fullest(self) -> Bucket:
        return max(self.resident, key=parameters)

    @property
    def samples_per_rank(self) -> float:
        return self.samples / self.gpus

    @property
    def sharers(self) -> int:
        """Ranks that share each piece of a bucket by rows."""
        return self.everyone.per_domain if self.two_level else 1

    @property
    def everyone(self) -> Group:
        """All ranks; domains that they do not fill evenly count by the part that all share."""
        inside = self.gpus if self.gpus <= self.domain_gpus else gcd(self.gpus, self.domain_gpus)
        return Group("embedding", self.gpus, inside)

    @property
    def inside(self) -> Group:
        """Ranks of one domain."""
        return Group("embedding", self.everyone.per_domain, self.everyone.per_domain)

    @property
    def across(self) -> Group:
        """The ranks of the same place in all domains."""
        inside = self.everyone.per_domain
        return Group("embedding", self.gpus // inside, 1, inside)

    @property
    def update_bytes_per_element(self) -> float:
        """Reading and writing a row and its element-wise state."""
        return 2.0 * (ROW_ELEMENT_BYTES + STATE_BYTES[self.optimizer])

    @property
    def update_bytes_per_row(self) -> float:
        return 2.0 * ROW_STATE_BYTES[self.optimizer]
