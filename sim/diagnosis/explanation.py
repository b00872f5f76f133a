"""What the difference between a measured run and its prediction is worth, and which mechanisms could be behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sim.diagnosis import plausibility, reading, sign
from sim.diagnosis.cases import priors
from sim.diagnosis.errors import ExplainError
from sim.diagnosis.log_differences import differences
from sim.diagnosis.measurement import Measurement
from sim.diagnosis.mechanism import Mechanism, mechanisms
from sim.diagnosis.variant import Variant, slowed_to, variant
from sim.interop import TrainingLog, read_training_log
from sim.results import StageMemory, StepResult
from sim.scenario import Scenario
from sim.step import Step

LEAST_EFFECT = 0.003  # of the step: a mechanism that changes less is no candidate
RUN_DIFFERS = "run-differs"


@dataclass(frozen=True)
class Candidate:
    """One mechanism. ``effect_s`` is what it adds to the expected step, mild and severe, in seconds.

    ``plausibility`` is its share of all that could be behind the gap; ``changes`` the overrides of ``sim run --set``
    behind either effect, mild first; empty where only the counting differs.
    """

    key: str
    title: str
    area: str
    plausibility: float
    effect_s: tuple[float, float]
    explains: bool  # some degree of it, with the prediction's own error, gives the measured time
    changes: tuple[tuple[str, ...], ...]
    test: str
    size: str  # where the degrees come from
    certain: bool = False  # the log says so itself

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        return plain | {"effect_s": list(self.effect_s), "changes": [list(change) for change in self.changes]}


@dataclass(frozen=True)
class Explanation:
    """A measured step beside its prediction. ``candidates`` come most plausible first."""

    predicted: StepResult
    healthy_s: float | None  # a known good figure of the same run, where one was given
    measured_s: float
    measured_text: str
    verdict: str  # inside the range | as the healthy run | slower | faster | no range
    candidates: tuple[Candidate, ...]
    something_else: float  # plausibility of what is not listed
    signs: dict[str, str]
    log: TrainingLog | None = None
    warnings: tuple[str, ...] = ()

    @property
    def expected_s(self) -> float:
        """What the measured time is held against: a healthy run where one is known, else the prediction."""
        return self.predicted.step_time_s if self.healthy_s is None else self.healthy_s

    @property
    def difference_s(self) -> float:
        return self.measured_s - self.expected_s

    @property
    def nothing_to_explain(self) -> bool:
        """The measured time is one that a healthy run may have."""
        return self.verdict in ("inside the range", "as the healthy run")

    def to_dict(self) -> dict[str, Any]:
        """The documented keys of ``sim explain --json``."""
        found = self.predicted.range_90
        return {
            "scenario_name": self.predicted.scenario_name,
            "scenario_hash": self.predicted.scenario_hash,
            "version": self.predicted.version,
            "predicted_s": self.predicted.step_time_s,
            "range_90": None if found is None else found.to_dict(),
            "healthy_s": self.healthy_s,
            "measured_s": self.measured_s,
            "measured": self.measured_text,
            "difference_s": self.difference_s,
            "difference": self.measured_s / self.expected_s - 1.0,
            "verdict": self.verdict,
            "nothing_to_explain": self.nothing_to_explain,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "something_else": self.something_else,
            "signs": dict(self.signs),
            "log": None if self.log is None else _log_fields(self.log),
            "warnings": list(self.warnings),
        }


def _log_fields(log: TrainingLog) -> dict[str, Any]:
    return {
        "path": log.path,
        "format": log.format,
        "pace": asdict(log.pace),
        "memory": [asdict(memory) for memory in log.memory],
        "warnings": list(log.warnings),
    }


def explain(
    scenario: Scenario,
    measured: str | float | None = None,
    *,
    log: str | Path | Sequence[str | Path] | None = None,
    healthy: str | None = None,
    notes: Iterable[str] = (),
    without_case: str = "",
) -> Explanation:
    """Compares ``scenario`` with a measured step (``"1.43 s"``, ``"9600 tokens/s/GPU"``, …) or the log of a training run.

    ``healthy`` is a known good figure of the same run (last week's, a peer's): the gap is then measured against it, and
    only the effects of mechanisms are simulated. ``notes`` are signs such as ``one-node=normal``. ``without_case`` keeps one reported case out of the priors. Raises
    ``ExplainError`` or ``LogError`` for what cannot be read, and for a log of another number of GPUs.
    """
    if (measured is None) == (log is None):
        raise ExplainError("give either --measured or --log")
    step = Step(scenario)
    shown = sign.from_notes(notes)
    read = None if log is None else read_training_log(*([log] if isinstance(log, (str, Path)) else log))
    if read is not None:
        shown = sign.from_log(read) | shown
    figure = _of_log(read) if read is not None else _figure(measured)
    good = None if healthy is None else Measurement.read(healthy, "--healthy")
    return _Question(step, _as_healthy(step, good), figure, good, read, shown, without_case).answer()


def _as_healthy(step: Step, healthy: Measurement | None) -> Step:
    """The run that changes are made to: the prediction, slowed to what is known to be healthy here."""
    if healthy is None:
        return step
    return slowed_to(step, healthy.step_time_s(step.result, step.scenario.training.global_batch))


def _figure(measured: str | float | None) -> Measurement:
    if isinstance(measured, str):
        return Measurement.read(measured)
    return Measurement.read(f"{measured} s")


def _of_log(log: TrainingLog) -> Measurement:
    """Seconds where the log has them, else its rate: both are the median after warm-up."""
    if log.pace.seconds is not None:
        return Measurement(
            "seconds", log.pace.seconds, f"{log.pace.seconds:.6g} s, median of {log.pace.kept} lines"
        )
    rate = log.tokens_per_s_per_gpu
    if rate is None:
        raise ExplainError(f"{log.path}: no step time and no rate in this log")
    return Measurement("tokens/s/GPU", rate, f"{rate:.6g} tokens/s/GPU, median of {log.pace.kept} lines")


@dataclass(frozen=True)
class _Question:
    step: Step
    base: Step  # what changes are made to
    figure: Measurement
    healthy: Measurement | None
    log: TrainingLog | None
    shown: dict[str, str]
    without_case: str

    def answer(self) -> Explanation:
        result = self.step.result
        batch = self.step.scenario.training.global_batch
        measured_s = self.figure.step_time_s(result, batch)
        healthy_s = None if self.healthy is None else self.healthy.step_time_s(result, batch)
        expected_s = healthy_s or result.step_time_s
        error = self._error()
        candidates = self._ranked(math.log(measured_s / expected_s), expected_s, error)
        return Explanation(
            predicted=result,
            healthy_s=healthy_s,
            measured_s=measured_s,
            measured_text=self.figure.text,
            verdict=_verdict(result, measured_s)
            if healthy_s is None
            else _against(healthy_s, measured_s, error),
            candidates=tuple(candidate for candidate, _ in candidates),
            something_else=1.0
            - sum(candidate.plausibility for candidate, _ in candidates if not candidate.certain),
            signs=self.shown,
            log=self.log,
            warnings=tuple(self._warnings()),
        )

    def _error(self) -> plausibility.ErrorModel:
        if self.healthy is not None:
            return plausibility.ErrorModel.against_a_healthy_run()
        result = self.step.result
        extra = plausibility.slowness_of_untuned_runs()
        return plausibility.ErrorModel.of(result.step_time_s, result.range_90, extra)

    def _ranked(
        self, gap: float, expected_s: float, error: plausibility.ErrorModel
    ) -> list[tuple[Candidate, float]]:
        """Candidates and their weights, most plausible first; what the log itself says before all."""
        effects = [
            (mechanism, found) for mechanism in mechanisms().values() for found in self._effects(mechanism)
        ]
        prior = priors((mechanism.key for mechanism, _ in effects), self.figure.kind, self.without_case)
        weighed = []
        for mechanism, found in effects:
            weight = prior[mechanism.key] * found.share * error.density(gap, found.low, found.high)
            weight *= plausibility.sign_factor(self.shown, dict(mechanism.signs or {})) * found.memory
            weighed.append((mechanism, found, weight))
        other = (1.0 - sum(prior.values())) * plausibility.ANYTHING
        total = other + sum(weight for _, _, weight in weighed)
        ranked = [
            (_candidate(mechanism, found, weight / total, expected_s, found.explains(gap, error)), weight)
            for mechanism, found, weight in weighed
        ]
        ranked = _merged(sorted(ranked, key=lambda pair: -pair[1]))
        return [*((own, math.inf) for own in self._own_words(expected_s)), *ranked]

    def _effects(self, mechanism: Mechanism) -> Iterator[_Effect]:
        """Spans of ln(changed / predicted) that the mechanism can cause."""
        if mechanism.reading:
            if self.healthy is not None and self.healthy.kind == self.figure.kind:
                return  # both are counted in the same way
            peak = None if self.log is None else self.log.peak_flops
            factors = reading.factors(mechanism.reading, self.step, self.figure, peak)
            for factor in factors:
                yield _Effect(math.log(factor), math.log(factor), share=1.0 / len(factors))
            return
        usual = self._seconds(Variant((), self.base))
        tried = [v for change in mechanism.changes if (v := variant(self.base, change)) is not None]
        found = [v for v in tried if _is_meant(mechanism, self._seconds(v) - usual)]
        effects = [math.log(self._seconds(v) / usual) for v in found]
        if not effects or max(abs(effect) for effect in effects) < LEAST_EFFECT:
            return
        yield _Effect(
            min(effects),
            max(effects),
            tuple(
                v.changes for _, v in sorted(zip(effects, found, strict=True), key=lambda pair: abs(pair[0]))
            ),
            self._memory(found),
        )

    def _seconds(self, found: Variant) -> float:
        """What the figure compares: seconds are of a step whatever its batch, rates of a sequence."""
        whole = self.figure.kind == "seconds"
        return found.step.result.step_time_s if whole else found.seconds_per_sequence

    def _memory(self, found: Sequence[Variant]) -> float:
        """What the log's memory says for the best of the variants."""
        memory = None if self.log is None else self.log.peak_memory
        if memory is None:
            return 1.0
        usual = _bytes(self.step.result.worst_memory, memory.kind)
        return max(
            plausibility.memory_factor(
                memory.peak_bytes, usual, _bytes(v.step.result.worst_memory, memory.kind)
            )
            for v in found
        )

    def _own_words(self, expected_s: float) -> Iterator[Candidate]:
        """What the log says of itself that the scenario does not."""
        if self.log is None:
            return
        found = differences(self.step.scenario, self.log)
        if not found.changes:
            return
        changed = variant(self.step, found.changes)
        usual = Variant((), self.step)
        effect = 0.0
        if changed is not None:
            effect = expected_s * (self._seconds(changed) / self._seconds(usual) - 1.0)
        yield Candidate(
            key=RUN_DIFFERS,
            title="the log is of another run: " + "; ".join(found.words),
            area="plan",
            plausibility=1.0,
            effect_s=(effect, effect),
            explains=changed is not None,
            changes=(found.changes,),
            test="ask again with these settings: --set " + " --set ".join(found.changes),
            size="",
            certain=True,
        )

    def _warnings(self) -> Iterator[str]:
        if self.log is not None:
            yield from self.log.warnings
            if self.log.pace.within_warm_up:
                yield f"{self.log.path}: nothing but warm-up was logged: the figure is that of its last line"
            peak, used = self.step.result.mfu_peak_flops, self.log.peak_flops
            if used is not None and not math.isclose(used, peak, rel_tol=0.02):
                yield f"the log's MFU is over {used / 1e12:,.0f} TFLOP/s, the peak here is {peak / 1e12:,.0f}"
        if self.figure.kind == "MFU" and self.figure.value > 1.0:
            yield f"an MFU of {self.figure.value:.0%} cannot be: something is counted wrongly"


@dataclass(frozen=True)
class _Effect:
    """ln(changed / predicted) from ``low`` to ``high``; ``memory`` is what measured memory says for it."""

    low: float
    high: float
    changes: tuple[tuple[str, ...], ...] = ()
    memory: float = 1.0
    share: float = 1.0  # of the mechanism's prior, where it can be one thing or another

    def explains(self, gap: float, error: plausibility.ErrorModel) -> bool:
        """Whether ``gap`` lies within nine tenths of the error of some degree of it."""
        gap -= error.centre
        nearest = min(max(gap, self.low), self.high)
        return abs(gap - nearest) <= math.log(19.0) * error.spread(nearest)


def _is_meant(mechanism: Mechanism, added_s: float) -> bool:
    return not mechanism.makes or (added_s > 0.0) == (mechanism.makes == "slower")


def _candidate(
    mechanism: Mechanism, found: _Effect, share: float, expected_s: float, explains: bool
) -> Candidate:
    mild, severe = sorted((math.expm1(found.low) * expected_s, math.expm1(found.high) * expected_s), key=abs)
    return Candidate(
        key=mechanism.key,
        title=mechanism.title,
        area=mechanism.area,
        plausibility=share,
        effect_s=(mild, severe),
        explains=explains,
        changes=found.changes,
        test=mechanism.test,
        size=mechanism.size,
    )


def _merged(ranked: list[tuple[Candidate, float]]) -> list[tuple[Candidate, float]]:
    """One candidate per mechanism: its likeliest form, with the plausibility of all."""
    found: dict[str, tuple[Candidate, float]] = {}
    for candidate, weight in ranked:
        first, so_far = found.get(candidate.key, (candidate, 0.0))
        share = candidate.plausibility + (first.plausibility if so_far else 0.0)
        found[candidate.key] = (replace(first, plausibility=share), so_far + weight)
    return sorted(found.values(), key=lambda pair: -pair[1])


def _bytes(memory: StageMemory, kind: str) -> float:
    if kind == "allocated":
        return memory.allocated_bytes
    low, high = memory.reserved_bytes if kind == "reserved" else memory.device_bytes
    return (low + high) / 2.0


def _verdict(result: StepResult, measured_s: float) -> str:
    found = result.range_90
    if found is None:
        return "no range"
    if measured_s > found.high_s:
        return "slower"
    return "faster" if measured_s < found.low_s else "inside the range"


def _against(healthy_s: float, measured_s: float, error: plausibility.ErrorModel) -> str:
    gap = math.log(measured_s / healthy_s)
    if abs(gap) <= math.log(19.0) * error.scale:
        return "as the healthy run"
    return "slower" if gap > 0 else "faster"
