"""Constants that were fitted on the rows of the micro-ledger, fitted again on some of them.

Attention: the share of the best rate and the two lengths of its ramp, by direction. Collectives inside a
domain: the bandwidth of LL and of LL128 and the latencies of LL128 and of Simple. The other constants of the
protocols hold by definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hwmodels import catalog
from hwmodels.kernels import ATTENTION_RAMP
from hwmodels.protocol import InsideProtocol, Protocols
from sim.ledger.least_squares import fitted
from sim.ledger.micro_machines import Machines, plain_stack
from sim.ledger.micro_predict import predict
from sim.ledger.micro_row import Attention, Collective, MicroRow

DIRECTIONS = ("forward", "backward")
START_SHARE = 0.8


@dataclass(frozen=True)
class AttentionConstants:
    """``share`` and ``ramp`` by direction, as ``KernelModel`` takes them."""

    share: dict[str, float]
    ramp: dict[str, tuple[float, float]]

    def machines(self, gpus: Iterable[str]) -> Machines:
        """The catalog with these constants on ``gpus``."""
        names = tuple(gpus)
        stacks = {gpu: replace(plain_stack(gpu), attention_share=self.share) for gpu in names}
        return Machines(stacks=stacks, ramps=dict.fromkeys(names, self.ramp))


def attention_constants(rows: Sequence[MicroRow]) -> AttentionConstants:
    """What fits the attention ``rows`` best: squares of ln(predicted rate / measured rate).

    A direction without rows has no constants.
    """
    share: dict[str, float] = {}
    ramp: dict[str, tuple[float, float]] = {}
    for direction in DIRECTIONS:
        own = [row for row in rows if _direction(row) == direction]
        if own:
            share[direction], *lengths = _attention_fit(own, direction)
            ramp[direction] = (lengths[0], lengths[1])
    return AttentionConstants(share, ramp)


def protocols(rows: Sequence[MicroRow]) -> Protocols:
    """The catalog's protocols with what fits the all-reduce ``rows`` of whole single nodes best."""
    names = {row.subject.node for row in rows if isinstance(row.subject, Collective)}
    known = catalog.protocols()
    ll, ll128, simple = known.inside

    def made(parameters: Sequence[float]) -> Protocols:
        low, middle, middle_halves, full_halves = parameters
        inside: tuple[InsideProtocol, ...] = (
            replace(ll, bandwidth=low),
            replace(ll128, bandwidth=middle, halves=middle_halves),
            replace(simple, halves=full_halves),
        )
        return replace(known, inside=inside)

    start = (ll.bandwidth, ll128.bandwidth, ll128.halves, simple.halves)
    return made(fitted(lambda p: _residuals(rows, Machines(protocols=dict.fromkeys(names, made(p)))), start))


def _attention_fit(rows: Sequence[MicroRow], direction: str) -> tuple[float, ...]:
    gpus = {row.subject.gpu for row in rows if isinstance(row.subject, Attention)}

    def residuals(parameters: tuple[float, ...]) -> list[float]:
        share, short, masked = parameters
        constants = AttentionConstants({direction: share}, {direction: (short, masked)})
        return _residuals(rows, constants.machines(gpus))

    return fitted(residuals, (START_SHARE, *ATTENTION_RAMP[direction]))


def _residuals(rows: Sequence[MicroRow], machines: Machines) -> list[float]:
    """Signs do not matter to squares: rates and times alike."""
    return [math.log(predict(row, machines) / row.value) for row in rows]


def _direction(row: MicroRow) -> str:
    return row.subject.direction if isinstance(row.subject, Attention) else ""
