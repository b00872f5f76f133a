"""Rules of recommenders: what tables and sequences need, and fields of transformers that mean nothing here."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.later import NOT_YET
from sim.scenario.schema import Scenario
from sim.workload.recommender import Recommender

TRAINING_FIELDS = (
    "sequence_length",
    "global_batch",
    "precision",
    "gradient_dtype",
    "embeddings",
    "lengths",
    "input",
)
PRECISIONS = ("bf16", "fp16", "fp32")
GREEDY = ("planned", "two-level")


def tables_have_a_recommender(scenario: Scenario) -> Iterator[Finding]:
    """What only recommenders have, asked of a transformer."""
    training, parallelism, name = scenario.training, scenario.parallelism, machine.architecture(scenario).name
    for section, field in ((training, "embeddings"), (training, "lengths"), (parallelism, "tables")):
        if given(section, field):
            where = "training" if section is training else "parallelism"
            yield finding(f"has no effect: {name} is no recommender: remove it", f"{where}.{field}")
    if scenario.cluster.stack is not None and machine.stack(scenario).embedding:
        yield finding(
            f"stack {scenario.cluster.stack!r} trains recommenders, {name} is none", "cluster.stack"
        )


def stack_trains_recommenders(scenario: Scenario) -> Iterator[Finding]:
    from hwmodels import catalog

    if scenario.cluster.stack is None or machine.stack(scenario).embedding:
        return
    gpu = machine.catalog_node(scenario).gpu.name
    fitting = [n for n in catalog.names("stack") if (p := catalog.stack(n)).embedding and gpu in p.gpus]
    yield finding(
        f"stack {scenario.cluster.stack!r} has no embedding figures; for {gpu}: {', '.join(fitting) or 'none yet'}",
        "cluster.stack",
    )


def fields_mean_something(scenario: Scenario) -> Iterator[Finding]:
    """Degrees, recomputation, attention and the rest belong to transformers."""
    name, training, parallelism = _model(scenario).name, scenario.training, scenario.parallelism
    for field in sorted(training.model_fields_set - set(TRAINING_FIELDS)):
        yield finding(f"has no effect: {name} is a recommender: remove it", f"training.{field}")
    for field in sorted(parallelism.model_fields_set - {"tables"}):
        yield finding(
            f"has no effect: {name} is a recommender, its samples are divided over all GPUs: remove it",
            f"parallelism.{field}",
        )
    degraded, encoder = scenario.cluster.degraded, _model(scenario).encoder
    if degraded is not None and given(degraded, "kernel_gap_s"):
        yield finding(f"has no effect: gaps of {name} are inside fixed_step", "cluster.degraded.kernel_gap")
    if degraded is not None and given(degraded, "attention") and encoder is None:
        yield finding(f"has no effect: {name} has no attention", "cluster.degraded.attention")
    if given(scenario.metrics, "mfu_convention"):
        yield finding(
            f"has no effect: FLOPs of {name} are counted in one way: remove it", "metrics.mfu_convention"
        )


def batch_divides_over_gpus(scenario: Scenario) -> Iterator[Finding]:
    batch, gpus = scenario.training.global_batch, scenario.gpus
    if batch % gpus:
        low = batch // gpus * gpus
        near = f"{low} or {low + gpus}" if low else f"{gpus}"
        yield finding(f"{batch} must be a multiple of {gpus} GPUs; nearest: {near}", "training.global_batch")


def precision_is_plain(scenario: Scenario) -> Iterator[Finding]:
    precision = scenario.training.precision
    if precision not in PRECISIONS:
        yield finding(
            f"{precision} in a recommender is {NOT_YET}: one of {', '.join(PRECISIONS)}", "training.precision"
        )


def sequences_belong_to_encoders(scenario: Scenario) -> Iterator[Finding]:
    model, training = _model(scenario), scenario.training
    if model.encoder is not None:
        if training.lengths.variation == 0.0 and given(training.lengths, "balanced"):
            yield finding("has no effect: all sequences are equally long", "training.lengths.balanced")
        return
    for field in ("sequence_length", "lengths"):
        if given(training, field):
            yield finding(f"has no effect: {model.name} has no sequences: remove it", f"training.{field}")


def ids_are_described_once(scenario: Scenario) -> Iterator[Finding]:
    asked = scenario.training.embeddings
    if asked.distinct is not None and given(asked, "skew"):
        yield finding(
            "distinct is stated, skew derives it: keep one of the two",
            "training.embeddings.skew",
            "training.embeddings.distinct",
        )
    if asked.deduplicate and not any(table.sequence for table in _model(scenario).tables):
        yield finding(
            f"of pooled rows is {NOT_YET}: owners sum them before anything travels",
            "training.embeddings.deduplicate",
        )


def planner_is_asked_what_it_knows(scenario: Scenario) -> Iterator[Finding]:
    tables = scenario.parallelism.tables
    if given(tables, "pieces") and tables.sharding != "column":
        yield finding(
            f"has no effect with sharding: {tables.sharding}: remove it, or choose column",
            "parallelism.tables.pieces",
        )
    if tables.pieces is not None:
        for table in _model(scenario).tables:
            if table.dim % tables.pieces:
                yield finding(
                    f"{tables.pieces} must divide the width of table {table.name} ({table.dim})",
                    "parallelism.tables.pieces",
                )
                break
        if tables.pieces > scenario.gpus:
            yield finding(
                f"{tables.pieces} pieces of a table on {scenario.gpus} GPUs: a GPU holds one of each",
                "parallelism.tables.pieces",
            )
    if given(tables, "exchange_cost") and tables.sharding not in GREEDY:
        yield finding(
            f"has no effect with sharding: {tables.sharding}: remove it, or choose planned",
            "parallelism.tables.exchange_cost",
        )
    if tables.pipelined_ids is not None and scenario.gpus == 1:
        yield finding("has no effect: one GPU exchanges nothing", "parallelism.tables.pipelined_ids")


def two_levels_exist(scenario: Scenario) -> Iterator[Finding]:
    if scenario.parallelism.tables.sharding != "two-level":
        return
    gpus, domain = scenario.gpus, machine.domain_gpus(scenario)
    if gpus <= domain or gpus % domain:
        yield finding(
            f"two-level: {gpus} GPUs are not several whole scale-up domains of {domain}: planned",
            "parallelism.tables.sharding",
        )
    if any(table.sequence for table in _model(scenario).tables):
        yield finding(f"two-level for tables of sequences is {NOT_YET}", "parallelism.tables.sharding")


def host_tables_are_known(scenario: Scenario) -> Iterator[Finding]:
    asked, known = scenario.parallelism.tables, {table.name for table in _model(scenario).tables}
    for place, name in enumerate(asked.host_tables):
        if name not in known:
            yield finding(
                f"{name!r} is no table of {_model(scenario).name}; known: {', '.join(sorted(known))}",
                f"parallelism.tables.host_tables.{place}",
            )
    if (
        asked.host_tables
        and asked.host_bandwidth_Bps is None
        and not machine.node(scenario).gpu.host_link_Bps
    ):
        gpu = machine.catalog_node(scenario).gpu.name
        yield finding(
            f"the link of {gpu} to host memory is not in the catalog: give host_bandwidth",
            "parallelism.tables.host_tables",
        )
    if given(asked, "host_bandwidth_Bps") and not asked.host_tables:
        yield finding("has no effect without host_tables", "parallelism.tables.host_bandwidth")


def ranks_are_alike(scenario: Scenario) -> Iterator[Finding]:
    if scenario.variability is not None:
        yield finding(f"of recommenders is {NOT_YET}: the busiest rank stands for all", "variability")


def _model(scenario: Scenario) -> Recommender:
    model = machine.recommender(scenario)
    if model is None:
        raise TypeError("a rule of recommenders was asked about another model")
    return model


RECOMMENDER_RULES: tuple[Check, ...] = (
    stack_trains_recommenders,
    fields_mean_something,
    batch_divides_over_gpus,
    precision_is_plain,
    sequences_belong_to_encoders,
    ids_are_described_once,
    planner_is_asked_what_it_knows,
    two_levels_exist,
    host_tables_are_known,
    ranks_are_alike,
)
