"""Predicts measured runs and says how far off each prediction is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmodels import catalog
from sim.ledger.run import MeasuredRun
from sim.scenario import machine
from sim.scenario.yaml_document import plain

if TYPE_CHECKING:
    from sim.range import Case
    from sim.results import StepResult
    from sim.scenario import Scenario


@dataclass(frozen=True)
class ScoredRun:
    """One measured run beside its prediction.

    ``configuration`` is equal for runs of one configuration at several sites. Times are seconds per step whatever
    the source measured; memory is allocated bytes of the fullest rank, by stage. ``failure`` says why there is no
    prediction.
    """

    run: MeasuredRun
    configuration: str
    gpu: str
    stack: str
    model: str
    n_gpus: int
    lora: bool
    measured_step_s: float | None
    predicted_step_s: float | None
    predicted_allocated_bytes: tuple[float, ...]
    tokens_per_step: float
    global_batch: int
    failure: str = ""
    recommender: bool = False
    case: Case | None = None  # what decides how much the ledger says about it; None without a prediction

    @property
    def error(self) -> float | None:
        """Predicted step time over measured, minus one; for a run that measured only memory, that of memory."""
        if self.measured_step_s is not None:
            return _relative(self.predicted_step_s, self.measured_step_s)
        return _relative(self.predicted, self.run.measured.value)

    @property
    def memory_errors(self) -> tuple[float, ...]:
        """Allocated bytes predicted over measured, minus one, by stage; empty where the source does not say."""
        measured = self.run.measured.allocated_bytes_by_stage
        if (
            not measured
            and self.run.measured.memory_kind == "allocated"
            and self.run.measured.peak_memory_bytes
        ):
            measured = (self.run.measured.peak_memory_bytes,)
        predicted = self.predicted_allocated_bytes
        if len(measured) == 1 and predicted:
            predicted = (max(predicted),)
        if not measured or len(measured) != len(predicted):
            return ()
        return tuple(p / m - 1 for p, m in zip(predicted, measured, strict=True))

    @property
    def predicted(self) -> float | None:
        """The prediction in the unit of the run's metric."""
        if self.run.measured.metric in ("peak_memory_bytes", "allocated_bytes_by_stage"):
            return max(self.predicted_allocated_bytes, default=None)
        return None if self.predicted_step_s is None else self.in_metric(self.predicted_step_s)

    def in_metric(self, step_time_s: float) -> float | None:
        """A step time in the unit of the run's metric; None where that is no time."""
        metric = self.run.measured.metric
        if metric == "step_time_s":
            return step_time_s
        if metric == "samples_per_s":
            return self.global_batch / step_time_s
        return (
            self.tokens_per_step / (step_time_s * self.n_gpus) if metric == "tokens_per_s_per_gpu" else None
        )

    def to_dict(self) -> dict[str, Any]:
        """One entry of ``sim validate --json``; the report adds the range."""
        return {
            "id": self.run.id,
            "split": self.run.split,
            "gpu": self.gpu,
            "stack": self.stack,
            "model": self.model,
            "n_gpus": self.n_gpus,
            "metric": self.run.measured.metric,
            "measured": self.run.measured.value,
            "predicted": self.predicted,
            "error": self.error,
            "range_90": None,
            "inside_range": None,
            "note": self.note,
            "tuned": self.run.tuned,
            "lora": self.lora,
            "recommender": self.recommender,
            "configuration": self.configuration,
            "memory_errors": list(self.memory_errors),
            "confidence": self.run.confidence,
            "assumed": list(self.run.assumed),
            "source": self.run.source.url,
        }

    @property
    def note(self) -> str:
        """What a reader must know of this run: why there is no prediction, else why it misses, else its note."""
        if self.failure:
            return f"not predicted: {self.failure}"
        untuned = "" if self.run.tuned else f"untuned: {self.run.untuned_evidence}"
        parts = (untuned, self.run.known_reason, self.run.note)
        return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


@dataclass
class Predictor:
    """Simulates scenarios, each distinct one once."""

    results: dict[str, StepResult | ValueError] = field(default_factory=dict)

    def score(self, run: MeasuredRun) -> ScoredRun:
        """The run beside its prediction; an input error becomes its ``failure``."""
        try:
            scenario = read_scenario(run)
        except ValueError as error:
            return _unread(run, error)
        outcome = self._outcome(scenario)
        if isinstance(outcome, ValueError):
            failure, result = _one_line(outcome), None
        else:
            failure, result = "", outcome
        training, gpus = scenario.training, scenario.gpus
        tokens = float(training.global_batch) * training.sequence_length
        return ScoredRun(
            run=run,
            configuration=configuration(scenario),
            gpu=catalog.node(scenario.cluster.node).gpu.name,
            stack=result.stack if result else scenario.cluster.stack or "",
            model=scenario.model if isinstance(scenario.model, str) else scenario.model.name,
            n_gpus=gpus,
            lora=training.lora is not None,
            measured_step_s=run.measured.step_time(training.global_batch, tokens, gpus),
            predicted_step_s=result.step_time_s if result else None,
            predicted_allocated_bytes=tuple(m.allocated_bytes for m in result.memory) if result else (),
            tokens_per_step=tokens,
            global_batch=training.global_batch,
            failure=failure,
            recommender=machine.recommender(scenario) is not None,
            case=_case(scenario, run) if result else None,
        )

    def _outcome(self, scenario: Scenario) -> StepResult | ValueError:
        key = configuration(scenario)
        if key not in self.results:
            from sim.step import simulate  # heavy: only a run that is scored needs it

            try:
                self.results[key] = replace(simulate(scenario), records=())  # nobody scores a timeline
            except ValueError as error:
                self.results[key] = error
        return self.results[key]


def read_scenario(run: MeasuredRun) -> Scenario:
    """The run's scenario, called after the run. Raises ``ScenarioError`` located in the ledger file."""
    from sim.scenario import load_node

    path = run.document.position.source
    scenario = load_node(run.document, source=path, folder=Path(path).parent)
    return scenario if "name" in run.document.entries else scenario.model_copy(update={"name": run.id})


def configuration(scenario: Scenario) -> str:
    """Digest of everything but the words: equal for the same run at two sites."""
    from sim.scenario import scenario_hash

    return scenario_hash(scenario.model_copy(update={"name": "", "notes": None}))


def _case(scenario: Scenario, run: MeasuredRun) -> Case:
    """Software is untuned where its profile or the source of the run says so."""
    from sim.step import Step

    case = Step(scenario).case
    return case if run.tuned else replace(case, tuned=False)


def _unread(run: MeasuredRun, error: ValueError) -> ScoredRun:
    """A run whose scenario this version refuses: named as far as its document says, scored not at all."""
    written = plain(run.document)
    model, cluster = written.get("model"), written.get("cluster")
    cluster = cluster if isinstance(cluster, dict) else {}
    gpu, gpus = _machine(cluster)
    return ScoredRun(
        run=run,
        configuration=f"unread {run.id}",
        gpu=gpu,
        stack=str(cluster.get("stack") or ""),
        model=model if isinstance(model, str) else "inline",
        n_gpus=gpus,
        lora=False,
        measured_step_s=run.measured.step_time_s,
        predicted_step_s=None,
        predicted_allocated_bytes=(),
        tokens_per_step=0.0,
        global_batch=0,
        failure=_one_line(error),
    )


def _machine(cluster: dict[str, Any]) -> tuple[str, int]:
    """GPU and number of GPUs of a cluster section that may be wrong: as much as can be told."""
    name, nodes, gpus = str(cluster.get("node") or ""), cluster.get("nodes"), cluster.get("gpus")
    try:
        node = catalog.node(name)
    except ValueError:
        return name, gpus if isinstance(gpus, int) else 0
    whole = nodes * node.gpus if isinstance(nodes, int) else 0
    return node.gpu.name, gpus if isinstance(gpus, int) else whole


def _one_line(error: ValueError) -> str:
    return " ".join(str(error).split())


def _relative(predicted: float | None, measured: float) -> float | None:
    return None if predicted is None else predicted / measured - 1
