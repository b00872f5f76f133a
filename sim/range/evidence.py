"""How well cases of each kind were predicted, and what that says about a new one.

A case is as hard as the first of its tags that no measured run shares: GPU, stack, number format, plan, model, scale. For
each kind, every check run of the ledger is put into that position: the runs that share the tag are hidden, those left
(its *kin*) say what error to expect, and what the true error differs from that is a *surprise*. Nine of ten
surprises of a kind give the half-width of the range around what the case's own kin suggest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from sim.range.case import Case
from sim.range.residual import Residual

SAME, SCALE, MODEL, PLAN, PRECISION, STACK, GPU = TUNED_KINDS = (
    "same stack",
    "new scale",
    "new model",
    "new plan",
    "new precision",
    "new stack",
    "new GPU",
)  # from best to least known
UNTUNED = "untuned stack"
KINDS = (*TUNED_KINDS, UNTUNED)
NEEDED = 9  # surprises: with fewer, a new one exceeds even the largest more often than one time in ten

# The tags that a case of a kind shares with its kin, and the one that it does not.
KEPT: Mapping[str, tuple[tuple[str, ...], str]] = {
    SAME: (("stack", "precision", "plan", "model"), ""),
    SCALE: (("stack", "precision", "plan", "model"), "gpus"),
    MODEL: (("stack", "precision", "plan"), "model"),
    PLAN: (("stack", "precision"), "plan"),
    PRECISION: (("stack",), "precision"),
    STACK: (("gpu",), "stack"),
    GPU: ((), "gpu"),
    UNTUNED: ((), "stack"),
}
# What runs that differ in nothing but scale share.
SERIES = ("stack", "precision", "plan", "model", "sequence_length")
# What a run's group is when it must not judge itself: its neighbours err alike.
GROUP: Mapping[str, tuple[str, ...]] = {
    SAME: ("stack", "model"),
    SCALE: ("stack", "model"),
    MODEL: ("stack", "model"),
    PLAN: ("stack", "plan"),
    PRECISION: ("stack", "precision"),
    STACK: ("stack",),
    GPU: ("gpu",),
    UNTUNED: ("stack",),
}
_SIZES = {
    "gpus": "{:,} GPUs",
    "tp": "tp {}",
    "cp": "cp {}",
    "pp": "pp {}",
    "ep": "ep {}",
    "sequence_length": "sequences of {:,} tokens",
}
_LABELS = {"gpu": "on {}", "precision": "in {}", "schedule": "with schedule {}", "data_sharding": "with {}"}


@dataclass(frozen=True)
class LogRange:
    """Where ln(predicted / measured) lies nine times in ten: ``bias`` ± ``half_width``."""

    kind: str
    bias: float
    half_width: float
    cases: int  # surprises that the half-width comes from

    def around(self, predicted: float) -> tuple[float, float]:
        """Low and high of what is measured where ``predicted`` is predicted, in its unit; holds ``predicted``."""
        low = predicted * math.exp(-self.bias - self.half_width)
        high = predicted * math.exp(-self.bias + self.half_width)
        return min(low, predicted), max(high, predicted)

    def holds(self, residual: float) -> bool:
        """Whether a run with ln(predicted / measured) = ``residual`` lies inside."""
        low, high = self.around(1.0)
        return low <= math.exp(-residual) <= high

    @property
    def words(self) -> str:
        return f"{self.kind}: published runs put in this position lie inside nine times in ten ({self.cases} cases)"


@dataclass(frozen=True)
class Block:
    """Kinds of cases that are judged together."""

    kinds: tuple[str, ...]
    surprises: tuple[float, ...]

    def may_precede(self, harder: Block) -> bool:
        """Whether this one has enough surprises, and no larger ones than ``harder``, as far as that can be told."""
        if len(self.surprises) < NEEDED:
            return False
        return len(harder.surprises) < NEEDED or nine_tenths(self.surprises) <= nine_tenths(harder.surprises)

    def joined(self, harder: Block) -> Block:
        return Block(self.kinds + harder.kinds, self.surprises + harder.surprises)


@dataclass(frozen=True)
class Evidence:
    """Measured configurations with their residuals, ``fit`` ones included: they are kin, but surprise nobody."""

    rows: tuple[Residual, ...]

    def without(self, drop: Callable[[Residual], bool]) -> Evidence:
        """The evidence less the rows that ``drop`` is true for."""
        return Evidence(tuple(row for row in self.rows if not drop(row)))

    def judge(self, case: Case, widths: Evidence | None = None) -> LogRange | None:
        """The range of ``case``; None without evidence. ``widths``: where surprises come from, here by default."""
        near, kind = self.alike(case), self.kind(case)
        measured = (self if widths is None else widths).alike(case).half_width(kind)
        if measured is None:
            return None
        half_width, cases = measured
        return LogRange(
            kind, expected(near.kin(kind, case)), half_width + self.of_family(case).drift(case), cases
        )

    def alike(self, case: Case) -> Evidence:
        """Models with experts are judged by such models, dense by dense, once there are enough of them.

        Another family's models say nothing.
        """
        family = self.of_family(case)
        some = family._with_experts if case.experts else family._dense  # noqa: SLF001 (the same noun)
        checks = sum(row.split == "check" and row.case.tuned == case.tuned for row in some.rows)
        return some if checks >= NEEDED else family

    def of_family(self, case: Case) -> Evidence:
        """The evidence of the family that ``case`` belongs to."""
        return self._families.get(case.family, Evidence(()))

    @cached_property
    def _families(self) -> Mapping[str, Evidence]:
        names = dict.fromkeys(row.case.family for row in self.rows)
        if len(names) == 1:
            return dict.fromkeys(names, self)
        return {name: Evidence(tuple(row for row in self.rows if row.case.family == name)) for name in names}

    def kind(self, case: Case) -> str:
        """The least known thing about ``case``, one of ``KINDS``."""
        if not case.tuned:
            return UNTUNED
        tuned = [row for row in self.alike(case).rows if row.case.tuned]
        shared: tuple[str, ...] = ()
        for tag, kind in (
            ("gpu", GPU),
            ("stack", STACK),
            ("precision", PRECISION),
            ("plan", PLAN),
            ("model", MODEL),
        ):
            shared = (*shared, tag)
            if not any(row.case.shares(case, *shared) for row in tuned):
                return kind
        sizes = [row.case.gpus for row in tuned if row.case.shares(case, *shared)]
        return SAME if min(sizes) <= case.gpus <= max(sizes) else SCALE

    def kin(self, kind: str, case: Case) -> list[Residual]:
        """The rows that a case of ``kind`` can be judged by: like it in all but what is new."""
        kept, new = KEPT[kind]
        rows = self._index[kept].get((kind != UNTUNED, *case.values(kept)), [])
        if kind == SAME:
            return rows
        if kind == SCALE:  # extrapolate, never interpolate
            smaller = [row for row in rows if row.case.gpus < case.gpus]
            return smaller or [row for row in rows if row.case.gpus > case.gpus]
        return [row for row in rows if not row.case.shares(case, new)]

    @cached_property
    def _index(self) -> Mapping[tuple[str, ...], Mapping[tuple[object, ...], list[Residual]]]:
        """Rows by the tags that some kind of case shares with its kin; tuned and untuned apart."""
        index: dict[tuple[str, ...], dict[tuple[object, ...], list[Residual]]] = {}
        for tags in {kept for kept, _ in KEPT.values()}:
            found = index.setdefault(tags, {})
            for row in self.rows:
                found.setdefault((row.case.tuned, *row.case.values(tags)), []).append(row)
        return index

    @cached_property
    def _with_experts(self) -> Evidence:
        return self.without(lambda row: not row.case.experts)

    @cached_property
    def _dense(self) -> Evidence:
        return self.without(lambda row: row.case.experts)

    @cached_property
    def surprises(self) -> Mapping[str, tuple[float, ...]]:
        """By kind: residual less what its kin suggest, of every check run that has kin, largest last."""
        found: dict[str, list[float]] = {kind: [] for kind in KINDS}
        biases: dict[tuple[object, ...], float | None] = {}
        for row in self.rows:
            if row.split != "check":
                continue
            for kind in TUNED_KINDS if row.case.tuned else (UNTUNED,):
                kept, new = KEPT[kind]
                key = (kind, row.runs) if kind == SAME else (kind, *row.case.values((*kept, new)))
                if key not in biases:  # rows that share these tags have the same kin
                    kin = [each for each in self.kin(kind, row.case) if each is not row]
                    biases[key] = expected(kin) if kin else None
                bias = biases[key]
                if bias is not None:
                    found[kind].append(row.value - bias)
        return {kind: tuple(sorted(values, key=abs)) for kind, values in found.items()}

    def half_width(self, kind: str) -> tuple[float, int] | None:
        """Half-width of 90 % ranges of ``kind`` and the number of surprises behind it; None with too few.

        Untuned stacks have no harder kind to join: their largest surprise has to do.
        """
        if kind == UNTUNED:
            behind, needed = self.surprises[UNTUNED], 1
        else:
            behind, needed = next(b.surprises for b in self._blocks if kind in b.kinds), NEEDED
        return (nine_tenths(behind), len(behind)) if len(behind) >= needed else None

    @cached_property
    def _blocks(self) -> Sequence[Block]:
        return blocks({kind: self.surprises[kind] for kind in TUNED_KINDS})

    def drift(self, case: Case) -> float:
        """What the half-width grows by for a job larger than every measured one."""
        largest = max((row.case.gpus for row in self.rows), default=case.gpus)
        return self.drift_per_doubling * max(0.0, math.log2(case.gpus / largest))

    @cached_property
    def drift_per_doubling(self) -> float:
        """How fast residuals drift with the number of GPUs: nine of ten series over a factor of four drift less."""
        series: dict[tuple[object, ...], dict[int, list[float]]] = {}
        for row in self.rows:
            if row.case.tuned:
                sizes = series.setdefault(row.case.values(SERIES), {})
                sizes.setdefault(row.case.gpus, []).append(row.value)
        slopes = [
            (fmean(sizes[high]) - fmean(sizes[low])) / math.log2(high / low)
            for sizes in series.values()
            for low, high in [(min(sizes), max(sizes))]
            if high >= 4 * low
        ]
        return nine_tenths(slopes) if slopes else 0.0

    def beyond(self, case: Case) -> tuple[str, ...]:
        """What about ``case`` no published run has, in words: there the range itself is a guess."""
        rows = [row.case for row in self.rows]
        found = [
            "no measured run " + words.format(getattr(case, tag))
            for tag, words in _LABELS.items()
            if not any(other.shares(case, tag) for other in rows)
        ]
        if case.experts and not any(other.experts for other in rows):
            found.append("no measured run of a model with experts")
        for tag, words in _SIZES.items():
            asked, largest = getattr(case, tag), max((getattr(other, tag) for other in rows), default=0)
            if asked > largest:
                found.append(f"{words.format(asked)}, measured up to {largest:,}")
        return tuple(found)


def blocks(surprises: Mapping[str, Sequence[float]]) -> list[Block]:
    """Kinds from best to least known, those judged together that are few or would come out of order.

    A kind with too few surprises joins the next harder one, and so does one whose surprises are larger: a harder
    case is never given a narrower range (the pooling of isotonic regression, on quantiles).
    """
    found: list[Block] = []
    for kind, values in surprises.items():
        found.append(Block((kind,), tuple(values)))
        while len(found) > 1 and not found[-2].may_precede(found[-1]):
            found[-2:] = [found[-2].joined(found[-1])]
    while len(found) > 1 and (len(found[-1].surprises) < NEEDED or not found[-2].may_precede(found[-1])):
        found[-2:] = [found[-2].joined(found[-1])]
    return found


def expected(kin: Sequence[Residual]) -> float:
    """The residual that ``kin`` suggest: the mean of their stacks' means, drawn to zero when they are few."""
    by_stack: dict[str, list[float]] = {}
    for row in kin:
        by_stack.setdefault(row.case.stack, []).append(row.value)
    mean = fmean(fmean(values) for values in by_stack.values()) if by_stack else 0.0
    return mean * len(kin) / (len(kin) + 1)


def nine_tenths(surprises: Sequence[float]) -> float:
    """The size that a new surprise stays below nine times in ten: the ⌈0.9·(n + 1)⌉-th smallest, at most the largest.

    Split conformal prediction, e.g. Lei et al., https://arxiv.org/abs/1604.04173, section 2.
    """
    sizes = sorted(map(abs, surprises))
    rank = -(-9 * (len(sizes) + 1) // 10)
    return sizes[min(rank, len(sizes)) - 1]
