"""Spreads embedding tables over ranks: the greedy planner of published DLRM submissions, and fixed ways.

The planner of HugeCTR's MLPerf submissions (mlcommons/training_results_v3.1, NVIDIA, hugectr/sharding/planner.py),
in own words: a bucket costs its lookups plus ``exchange_cost`` per piece. Pieces are placed hottest first, each on the
cheapest bucket that has the memory and no piece of the same table yet. Then the hottest table that can be is cut in
half again, twenty times in all, and the plan whose dearest bucket is cheapest wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sim.parallel.table_pieces import COLUMNS, ROWS, Bucket, Piece, TablePlan
from sim.workload.tables import Table

ROUNDS = 20
MIN_COLUMNS = 32  # narrower pieces of a row are shorter than what a load fetches


class NoRoom(ValueError):
    """Tables that no plan of this kind can place: says which and how much room there is."""


@dataclass(frozen=True)
class TableRequest:
    """What is spread over ``buckets`` of ``room_bytes`` each.

    ``uses`` are (lookups, vectors) per sample and table; ``element_bytes`` those of a row's element with its optimizer
    state. Tables of less than ``replicate_below_bytes`` lie on every rank. ``exchange_cost`` is that of one piece in
    lookups.
    """

    tables: tuple[Table, ...]
    uses: Mapping[str, tuple[float, float]]
    buckets: int
    room_bytes: float
    element_bytes: float
    exchange_cost: float
    replicate_below_bytes: float = 0.0
    skew: float = 0.0
    hosted: frozenset[str] = frozenset()  # tables in host memory, which take no room here

    def needed_bytes(self, piece: Piece) -> float:
        """What a piece takes of its bucket's room."""
        return 0.0 if piece.table.name in self.hosted else piece.parameters * self.element_bytes

    @property
    def replicated(self) -> tuple[Table, ...]:
        return tuple(t for t in self.tables if self._bytes(t) < self.replicate_below_bytes)

    @property
    def spread(self) -> tuple[Table, ...]:
        return tuple(t for t in self.tables if not self._bytes(t) < self.replicate_below_bytes)

    @property
    def free_bytes(self) -> float:
        """Room of a bucket beside the replicated tables."""
        return self.room_bytes - sum(self._bytes(table) for table in self.replicated)

    def pieces(self, table: Table, count: int, cut: str = ROWS) -> tuple[Piece, ...]:
        """``table`` in ``count`` equal parts."""
        lookups, vectors = self.uses[table.name]
        one = Piece(table, lookups, vectors, count, cut, skew=self.skew)
        return tuple(replace(one, index=index) for index in range(count))

    def _bytes(self, table: Table) -> float:
        return table.parameters * self.element_bytes


def planned(request: TableRequest) -> TablePlan:
    """The greedy plan. Raises ``NoRoom``."""
    counts = {table.name: 1 for table in request.spread}
    uniform = rows_everywhere(request)
    found = [(_dearest(uniform.buckets, request.exchange_cost), uniform)]
    for _ in range(ROUNDS):
        shards = _shards(request, counts)
        buckets, unplaced = _placed(request, shards)
        if unplaced is None:
            found.append((_dearest(buckets, request.exchange_cost), TablePlan(buckets, request.replicated)))
            split = next((p.table for p in shards if counts[p.table.name] * 2 <= request.buckets), None)
        else:
            split = unplaced if counts[unplaced.name] * 2 <= request.buckets else None
        if split is None:
            break
        counts[split.name] *= 2
    return min(found, key=lambda candidate: candidate[0])[1]


def whole_tables(request: TableRequest) -> TablePlan:
    """Every table on one rank, the hottest first to the cheapest. Raises ``NoRoom``."""
    buckets, unplaced = _placed(request, _shards(request, {table.name: 1 for table in request.spread}))
    if unplaced is not None:
        raise NoRoom(f"table {unplaced.name} finds no rank with {_gigabytes(unplaced, 1, request)} left")
    return TablePlan(buckets, request.replicated)


def rows_everywhere(request: TableRequest) -> TablePlan:
    """Every table cut by rows over all buckets. Raises ``NoRoom``."""
    return _everywhere(request, {table.name: request.buckets for table in request.spread}, ROWS)


def columns_everywhere(request: TableRequest, pieces: int | None = None) -> TablePlan:
    """Every table cut by columns into ``pieces``, or as many as there are buckets and wide enough. Raises ``NoRoom``."""
    counts = {
        table.name: pieces or max(1, min(request.buckets, table.dim // MIN_COLUMNS))
        for table in request.spread
    }
    buckets, unplaced = _placed(request, _shards(request, counts, COLUMNS))
    if unplaced is not None:
        count = counts[unplaced.name]
        raise NoRoom(
            f"a piece of table {unplaced.name} finds no rank with {_gigabytes(unplaced, count, request)} left"
        )
    return TablePlan(buckets, request.replicated)


def _everywhere(request: TableRequest, counts: Mapping[str, int], cut: str) -> TablePlan:
    pieces = [request.pieces(table, counts[table.name], cut) for table in request.spread]
    # The hottest piece of each table lies on another bucket: hashes of different tables agree on nothing.
    buckets = tuple(
        tuple(parts[(bucket - turn) % request.buckets] for turn, parts in enumerate(pieces))
        for bucket in range(request.buckets)
    )
    used = max(sum(map(request.needed_bytes, bucket)) for bucket in buckets)
    if used > request.free_bytes:
        raise NoRoom(
            f"rows and optimizer state take {used / 1e9:.1f} GB per rank cut over all of them, there is room for "
            f"{max(0.0, request.free_bytes) / 1e9:.1f} GB"
        )
    return TablePlan(buckets, request.replicated)


def _shards(request: TableRequest, counts: Mapping[str, int], cut: str = ROWS) -> tuple[Piece, ...]:
    """All pieces, the hottest first; of equal ones those of later tables, as the published planner sorts."""
    pieces = [
        (place, p) for place, t in enumerate(request.spread) for p in request.pieces(t, counts[t.name], cut)
    ]
    return tuple(p for _, p in sorted(pieces, key=lambda entry: (-entry[1].lookups, -entry[0])))


def _placed(request: TableRequest, shards: tuple[Piece, ...]) -> tuple[tuple[Bucket, ...], Table | None]:
    """Buckets with all pieces, or the table of the first piece that fits nowhere."""
    cost = [0.0] * request.buckets
    left = [request.free_bytes] * request.buckets
    held: list[list[Piece]] = [[] for _ in cost]
    for piece in shards:
        needed = request.needed_bytes(piece)
        for bucket in sorted(range(request.buckets), key=cost.__getitem__):
            if needed <= left[bucket] and all(other.table is not piece.table for other in held[bucket]):
                held[bucket].append(piece)
                left[bucket] -= needed
                cost[bucket] += _cost(piece, request.exchange_cost)
                break
        else:
            return (), piece.table
    return tuple(map(tuple, held)), None


def _cost(piece: Piece, exchange_cost: float) -> float:
    return piece.lookups + exchange_cost * (piece.vectors if piece.table.sequence else 1.0)


def _dearest(buckets: tuple[Bucket, ...], exchange_cost: float) -> float:
    return max(sum(_cost(piece, exchange_cost) for piece in bucket) for bucket in buckets)


def _gigabytes(table: Table, pieces: int, request: TableRequest) -> str:
    return f"{table.parameters / pieces * request.element_bytes / 1e9:.1f} GB"
