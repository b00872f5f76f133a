"""From a divided recommender to ordered tasks of its busiest rank.

All ranks run the same tasks, and every exchange waits for the slowest, so one role with the largest share of each
kind of work stands for all. Read ``build_recommender_program`` first.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.ops import Attention, Collective, Gemm, Host, Optimizer, Stream
from sim.parallel import feed
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.recommender_layout import RecommenderLayout
from sim.parallel.table_work import EXCHANGE, TableWork
from sim.program import COLLECTIVE, COMPUTE, IDS, Program, Work
from sim.workload.recommender_workload import BACKWARD_SHARE, RecommenderWorkload

WINDOW = "tables"  # dense gradients travel beside the update and the lookup of rows


def build_recommender_program(
    workload: RecommenderWorkload, layout: RecommenderLayout, codec_bytes: float
) -> Program:
    """All tasks of one training step, cut where the gradients of vectors are known.

    A step then begins with their exchange and the update of rows, goes on with lookup, exchange of vectors and the
    layers over them, and ends with the layers' backward pass: the same period as from lookup to update, and work that
    reaches into the next step lies inside it. Nothing hides the exchange of vectors: it stands between lookup and
    interaction. Dense gradients travel beside the update; with ``overlaps_iterations`` beside the next lookup too.
    """
    return RecommenderPlanner(workload, layout, codec_bytes).build()


@dataclass(frozen=True)
class RecommenderPlanner:
    workload: RecommenderWorkload
    layout: RecommenderLayout
    codec_bytes: float

    @property
    def samples(self) -> float:
        return self.layout.samples_per_rank

    @property
    def load(self) -> float:
        """Positions of the busiest rank over the mean."""
        return self.workload.lengths.hottest(self.samples, self.layout.gpus)

    @property
    def tables(self) -> TableWork:
        return TableWork(self.workload, self.layout, self.codec_bytes, self.load)

    def build(self) -> Program:
        builder, tables = ProgramBuilder(1), self.tables
        feed.start(builder, self.layout.feed, round(self.samples))
        returned = self._exchange(builder, "gradients", tables.gradients_back, ())
        self._reduce(builder)
        self._compute(builder, "backward", "update", (*tables.arrange, *tables.update), returned, WINDOW)
        self._compute(builder, "host", "host", (Work(Host(), "host"),), ())
        if not self.layout.overlaps_iterations:
            self._update_layers(builder)
        waits = self._ids(builder, tables)
        self._compute(builder, "forward", "lookup", (*tables.lookup, *tables.arrange), waits, WINDOW)
        if self.layout.overlaps_iterations:
            self._update_layers(builder)
        self._compute(builder, "forward", "bottom layers", self._dense_forward(self.workload.before), ())
        arrived = self._exchange(builder, "vectors", tables.vectors_out, (("bottom layers",),))
        self._compute(builder, "forward", "layers", self._forward(), arrived)
        self._compute(builder, "backward", "layers back", self._backward(), ())
        last = self._dense_backward(self.workload.before, first=True)
        self._compute(builder, "backward", "bottom back", last, ())
        if builder.has(("ids",)) and self.layout.pipelined_ids:
            self._compute(builder, "ids", "next ids are there", (), (("ids",),))
        feed.finish(builder, self.layout.feed)
        return builder.build()

    def _ids(self, builder: ProgramBuilder, tables: TableWork) -> tuple[Key, ...]:
        """Ids of the next batch beside this step, or of this one before its lookup."""
        if not tables.ids:
            return ()
        pipelined = self.layout.pipelined_ids
        stream = IDS if pipelined else COLLECTIVE
        waits: tuple[Key, ...] = () if pipelined else (("host",),)
        builder.add(
            ("ids",), 0, stream, "ids", "exchange of ids", tables.ids, waits=waits, wait_cause=EXCHANGE
        )
        return () if pipelined else (("ids",),)

    def _exchange(
        self, builder: ProgramBuilder, name: str, works: tuple[Work, ...], after: tuple[Key, ...]
    ) -> tuple[Key, ...]:
        if not works:
            return ()
        return (
            builder.add(
                (name,),
                0,
                COLLECTIVE,
                "exchange",
                f"exchange of {name}",
                works,
                waits=after,
                wait_cause=EXCHANGE,
            ),
        )

    def _compute(
        self,
        builder: ProgramBuilder,
        kind: str,
        name: str,
        works: tuple[Work, ...],
        waits: tuple[Key, ...],
        window: str | None = None,
    ) -> None:
        builder.add((name,), 0, COMPUTE, kind, name, works, waits=waits, window=window)

    def _reduce(self, builder: ProgramBuilder) -> None:
        """Gradients of the dense layers and of replicated tables, after those of vectors."""
        whole = sum(table.parameters for table in self.layout.plan.replicated)
        size = (self.workload.model.dense_parameters + whole) * self.layout.gradient_bytes
        if self.layout.gpus == 1:
            return
        work = (Work(Collective("all_reduce", size, self.layout.everyone), "data_parallel"),)
        builder.add(
            ("reduce",),
            0,
            COLLECTIVE,
            "reduce",
            "reduce dense gradients",
            work,
            window=WINDOW,
            wait_cause="data_parallel",
        )

    def _update_layers(self, builder: ProgramBuilder) -> None:
        waits: tuple[Key, ...] = (("reduce",),) if builder.has(("reduce",)) else ()
        update = (Work(Optimizer(float(self.workload.model.dense_parameters)), "optimizer"),)
        self._compute(builder, "optimizer", "optimizer step", update, waits)

    # -- layers over the vectors ------------------------------------------------------------------

    def _forward(self) -> tuple[Work, ...]:
        works = self._dense_forward(self.workload.after)
        if traffic := self.workload.forward_traffic():
            works += (Work(Stream(self.samples * traffic), "streaming"),)
        return works + self._encoder(backward=False)

    def _backward(self) -> tuple[Work, ...]:
        works = self._encoder(backward=True) + self._dense_backward(self.workload.after)
        if traffic := self.workload.backward_traffic():
            works += (Work(Stream(self.samples * traffic), "streaming"),)
        return works

    def _encoder(self, *, backward: bool) -> tuple[Work, ...]:
        """All layers over the positions, and what brings vectors to their width."""
        if self.workload.model.encoder is None:
            return ()
        positions = self.samples * self.workload.lengths.mean * self.load
        layers = self.workload.encoder.layers
        products = _forward if not backward else _backward
        works = products(self.workload.model.encoder_layer, positions, self.workload.precision, float(layers))
        works += products(self.workload.per_position, positions, self.workload.precision, 1.0)
        share = BACKWARD_SHARE if backward else 1.0 - BACKWARD_SHARE
        traffic = layers * self.workload.encoder_traffic + self.workload.content_traffic
        return (
            *works,
            Work(self._attention(backward=backward), "attention", layers),
            Work(Stream(positions * traffic * share), "streaming"),
        )

    def _attention(self, *, backward: bool) -> Attention:
        """Attention over jagged sequences as one over even ones with as many pairs."""
        e, lengths = self.workload.encoder, self.workload.lengths
        pairs = lengths.pairs_factor * lengths.hottest_pairs(self.samples, self.layout.gpus)
        return Attention(
            batch=max(1, round(self.samples)),
            heads=e.heads,
            kv_heads=e.heads,
            sequence_length=max(1, round(lengths.mean)),
            head_dim=e.key_dim,
            causal=True,
            backward=backward,
            fused=True,
            dtype=self.workload.precision,
            query_share=pairs,
            value_dim=e.value_dim,
        )

    def _dense_forward(self, layers: tuple[tuple[int, int], ...]) -> tuple[Work, ...]:
        return _forward(layers, self.samples, self.workload.precision, 1.0)

    def _dense_backward(
        self, layers: tuple[tuple[int, int], ...], *, first: bool = False
    ) -> tuple[Work, ...]:
        """``first``: the first layer's input is data, nobody wants its gradient."""
        return _backward(layers, self.samples, self.workload.precision, 1.0, first=first)


def _forward(layers: tuple[tuple[int, int], ...], items: float, dtype: str, count: float) -> tuple[Work, ...]:
    m = max(1, round(items))
    return tuple(Work(Gemm(m, outputs, inputs, dtype), "gemm", count) for inputs, outputs in layers)


def _backward(
    layers: tuple[tuple[int, int], ...], items: float, dtype: str, count: float, *, first: bool = False
) -> tuple[Work, ...]:
    """Gradients of inputs and of weights, from the last layer to the first."""
    m, works = max(1, round(items)), []
    for place, (inputs, outputs) in reversed(list(enumerate(layers))):
        if place or not first:
            works.append(Work(Gemm(m, inputs, outputs, dtype), "gemm", count))
        works.append(Work(Gemm(outputs, inputs, m, dtype), "gemm", count))
    return tuple(works)
