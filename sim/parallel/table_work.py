"""What the tables ask of the busiest rank: rows, vectors, updates, and their way between ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.ops import Collective, EmbeddingLookup, EmbeddingUpdate, HostCopy, Op, Permute, RowSet, Stream
from sim.parallel.recommender_layout import ROW_ELEMENT_BYTES, RecommenderLayout
from sim.parallel.table_pieces import Bucket, Piece
from sim.program import Work
from sim.workload.recommender_workload import RecommenderWorkload
from sim.workload.skew import distinct
from sim.workload.tables import Table

KERNEL, EXCHANGE = "embedding", "embedding_exchange"  # causes


@dataclass(frozen=True)
class TableWork:
    """Work of one rank: lookups are those of the rank with most of them, vectors those of the rank that sends most.

    The two may differ; an exchange ends when its largest sender is done, and begins when the slowest lookup is.
    ``load`` is how much more positions the busiest rank has than the mean. ``codec_bytes`` per element bring vectors
    of sequences into the format of the wire and back (kernels that pool write it themselves).
    """

    workload: RecommenderWorkload
    layout: RecommenderLayout
    codec_bytes: float = 0.0
    load: float = 1.0

    # -- lookups -----------------------------------------------------------------------------------

    @cached_property
    def lookup(self) -> tuple[Work, ...]:
        """Rows of all samples from this rank's pieces, those of its own samples from replicated tables."""
        rows = tuple(
            RowSet(self._asked(piece), piece.width * ROW_ELEMENT_BYTES, self._table_bytes(piece))
            for piece in self.layout.busiest
        )
        rows += tuple(
            RowSet(self._own(table), table.dim * ROW_ELEMENT_BYTES, table.parameters * ROW_ELEMENT_BYTES)
            for table in self.layout.plan.replicated
        )
        written = self._sent(self.layout.busiest) * self._samples * self._wire
        written += sum(
            self.workload.vectors(t) * t.dim * self.layout.samples_per_rank * self._wire
            for t in self.layout.plan.replicated
        )
        return (Work(EmbeddingLookup(rows, written), KERNEL), *self._from_host)

    @cached_property
    def update(self) -> tuple[Work, ...]:
        """Gradients back to rows: one kernel over all pieces."""
        lookups = gradients = rows = moved = 0.0
        for piece in self.layout.busiest:
            count = self._asked(piece)
            different = self._distinct(piece, count)
            lookups += count
            gradients += count * piece.width * self._wire
            rows += different
            moved += different * self._update_bytes(piece.width)
        for table in self.layout.plan.replicated:
            count = self._own(table)
            lookups += count
            gradients += count * table.dim * self._wire
        works = []
        if lookups:
            op = EmbeddingUpdate(lookups, gradients / lookups, rows, moved / rows if rows else 0.0)
            works.append(Work(op, KERNEL))
        whole = sum(t.parameters for t in self.layout.plan.replicated)
        if whole:  # replicated rows are updated as a whole, after their gradients were added up
            works.append(
                Work(Stream(whole * (ROW_ELEMENT_BYTES + self._update_bytes(1.0)), fusible=False), KERNEL)
            )
        return (*works, *self._from_host)

    @property
    def _from_host(self) -> tuple[Work, ...]:
        """Rows of tables in host memory: they cross the link once per direction of the step."""
        size = sum(
            self._asked(piece) * piece.width * ROW_ELEMENT_BYTES for piece in self.layout.busiest_of_hosts
        )
        return (Work(HostCopy(size, self.layout.host_link_Bps), KERNEL),) if size else ()

    def _asked(self, piece: Piece) -> float:
        """Rows of ``piece`` that this rank reads in a step."""
        return piece.asked * self._samples / self.layout.sharers * self._kept(piece.table)

    def _own(self, table: Table) -> float:
        """Rows of a replicated table that a rank reads for its own samples."""
        return self.workload.rows(table) * self.layout.samples_per_rank * self.load

    @property
    def _samples(self) -> float:
        return float(self.layout.samples)

    def _table_bytes(self, piece: Piece) -> float:
        return piece.parameters / self.layout.sharers * ROW_ELEMENT_BYTES

    def _update_bytes(self, width: float) -> float:
        return width * self.layout.update_bytes_per_element + self.layout.update_bytes_per_row

    def _distinct(self, piece: Piece, count: float) -> float:
        """Different ones among ``count`` rows that arrive at a piece."""
        rows = piece.rows / self.layout.sharers
        if self.layout.distinct is not None:
            return min(count if self.layout.deduplicated else self.layout.distinct * count, rows)
        return distinct(count, max(1, round(rows)), self.layout.skew)

    def _kept(self, table: Table) -> float:
        """What deduplication leaves of a rank's rows."""
        if not self.layout.deduplicated:
            return 1.0
        if self.layout.distinct is not None:
            return self.layout.distinct
        own = self.workload.rows(table) * self.layout.samples_per_rank
        return distinct(own, table.rows, self.layout.skew) / own

    # -- exchange ----------------------------------------------------------------------------------

    @cached_property
    def vectors_out(self) -> tuple[Work, ...]:
        """From the owners of rows to the owners of samples."""
        if self.layout.gpus == 1:
            return ()
        if not self.layout.two_level:
            return (self._all_to_all(self._vector_bytes),)
        shared = Collective("reduce_scatter", self._vector_bytes, self.layout.inside)
        return (Work(shared, EXCHANGE), self._across)

    @cached_property
    def gradients_back(self) -> tuple[Work, ...]:
        """The same way back."""
        if self.layout.gpus == 1:
            return ()
        if not self.layout.two_level:
            return (self._all_to_all(self._vector_bytes),)
        shared = Collective("all_gather", self._vector_bytes, self.layout.inside)
        return (self._across, Work(shared, EXCHANGE))

    @cached_property
    def ids(self) -> tuple[Work, ...]:
        """Ids of the rows to look up, from the owners of samples to the owners of rows."""
        if self.layout.gpus == 1:
            return ()
        plan = self.layout.plan
        asked = max(sum(p.asked * self._kept(p.table) for p in bucket) for bucket in plan.buckets)
        return (self._all_to_all(asked * self._samples / self.layout.sharers * self.layout.id_bytes),)

    @cached_property
    def arrange(self) -> tuple[Work, ...]:
        """Vectors of positions: into the format of the wire and back, into the order of samples, copies of shared ones.

        One direction of the step; the other one costs the same. Pooled vectors need none of it.
        """
        sequences = [t for t in self.workload.model.tables if t.sequence]
        wide = sum(self.workload.vectors(t) * t.dim for t in sequences)
        kept = sum(self.workload.vectors(t) * t.dim * self._kept(t) for t in sequences)
        own = self.layout.samples_per_rank * self.load
        if not wide:
            return ()
        works: list[tuple[Op, str]] = [(Permute(2.0 * kept * own * self._wire), KERNEL)]
        if self.layout.gpus > 1 and self.codec_bytes:
            works.append((Stream(kept * own * self.codec_bytes, fusible=False), KERNEL))
        if self.layout.deduplicated:
            works.append((Stream((wide + kept) * own * self._wire, fusible=False), KERNEL))
        return tuple(Work(op, cause) for op, cause in works)

    @property
    def _across(self) -> Work:
        part = self._vector_bytes / self.layout.inside.size
        return Work(Collective("all_to_all", part, self.layout.across, algorithm="grouped"), EXCHANGE)

    @property
    def _vector_bytes(self) -> float:
        """What the rank that sends most sends to all others and itself; of a node that is divided, each of its ranks."""
        return self._sent(self.layout.most_exchanged) * self._samples * self._wire

    def _sent(self, bucket: Bucket) -> float:
        """Elements of vectors per sample."""
        return sum(p.vectors * p.width * (self._kept(p.table) if p.table.sequence else 1.0) for p in bucket)

    @property
    def _wire(self) -> float:
        return self.layout.exchange_bytes

    def _all_to_all(self, size: float) -> Work:
        return Work(Collective("all_to_all", size, self.layout.everyone, algorithm="grouped"), EXCHANGE)
