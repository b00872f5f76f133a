"""A scenario as a launch script of Megatron-LM, which imports as the same scenario."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sim.interop.configs.importer import ImportedScenario, import_script
from sim.interop.configs.megatron_flags import Flag, model_flags, plan_flags, training_flags
from sim.interop.configs.remarks import REMARK, WORDS, is_allowed
from sim.scenario import Scenario, ScenarioError, to_yaml
from sim.scenario.errors import shown
from sim.scenario.machine import architecture, recommender
from sim.scenario.yaml_document import parse, plain
from sim.workload.architecture import Architecture

_HEAD = """\
#!/usr/bin/env bash
# Arguments of Megatron-LM's pretrain_gpt.py. Data, learning rate and checkpoints are yours to add: bash THIS --lr 1e-4 ...
# Lines that begin with #: say what no argument does; sim import megatron reads them back.
"""


class NotExportable(ValueError):
    """What Megatron-LM's arguments cannot say. ``errors`` are ``field: what``."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        self.errors = errors
        super().__init__("\n".join(errors))


@dataclass(frozen=True)
class MegatronScript:
    """``text`` is the script; ``remarks`` are the fields that no argument of it says."""

    text: str
    remarks: tuple[str, ...]


def export_megatron(scenario: Scenario) -> MegatronScript:
    """The script. Raises NotExportable for a scenario that Megatron-LM could not run as it stands.

    What it says is read back: a field that comes out otherwise is remarked upon where it is none of
    Megatron's business (the machine, words, routing that a run shows), and refused where it is.
    """
    if (other := recommender(scenario)) is not None:
        raise NotExportable((f"model: {other.name} is a recommender: Megatron-LM trains transformers",))
    model = architecture(scenario)
    if unsayable := tuple(_unsayable(model)):
        raise NotExportable(unsayable)
    flags = [
        *model_flags(model, scenario.training.sequence_length),
        *training_flags(scenario, model),
        *plan_flags(scenario, model),
    ]
    given = plain(parse(to_yaml(scenario), "scenario"))
    remarks = {key: given[key] for key in ("name", "notes", "seed", "metrics", "cluster") if key in given}
    if "input" in given["training"]:
        remarks["training.input"] = given["training"]["input"]
    remarks |= _model_remark(scenario.model if isinstance(scenario.model, str) else model)
    found = _read_back(_text(remarks, flags, scenario))
    wrong = dict(_differences(scenario, found.scenario))
    remarks |= {path: value for path, value in wrong.items() if is_allowed(path)}
    refused = tuple(
        f"{path}: {shown(value)}: Megatron-LM's arguments cannot say this here"
        for path, value in wrong.items()
        if not is_allowed(path)
    )
    if refused:
        raise NotExportable(refused)
    text = _text(remarks, flags, scenario)
    if list(_differences(scenario, _read_back(text).scenario)):
        raise NotExportable(("its own script reads back as another scenario",))
    return MegatronScript(text, tuple(remarks))


def _unsayable(model: Architecture) -> Iterator[str]:
    """What of a model pretrain_gpt.py has no arguments for."""
    if model.position == "alibi":
        yield "model.position: alibi: not in Megatron-LM"
    if not model.causal:
        yield "model.causal: false: pretrain_gpt.py trains decoders"
    if model.linear_bias and not model.qkv_bias:
        yield "model.linear_bias: without qkv_bias: Megatron-LM has biases on all linear layers or on those alone"
    if model.vocab < 2:
        yield f"model.vocab: {model.vocab}: Megatron-LM needs two words or more"


def _model_remark(model: str | Architecture) -> dict[str, Any]:
    """The name of a catalog model, which others may share the widths of, or the words of one's own."""
    if isinstance(model, str):
        return {"model": model}
    words = {word: getattr(model, word) for word in WORDS}
    return {"model": {word: value for word, value in words.items() if value is not None}}


def _read_back(text: str) -> ImportedScenario:
    try:
        return import_script(text, "script")
    except ScenarioError as error:
        found = tuple(f"{p.path}: {p.message}" if p.path else p.message for p in error.problems)
        raise NotExportable(found) from None


def _differences(scenario: Scenario, other: Scenario) -> Iterator[tuple[str, Any]]:
    """Fields of ``scenario`` that ``other`` has otherwise, with their values."""
    yield from _differ("", scenario.model_dump(by_alias=True), other.model_dump(by_alias=True))


def _differ(path: str, ours: Any, theirs: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict) and path != "model":
        for key, value in ours.items():
            yield from _differ(f"{path}.{key}" if path else key, value, theirs.get(key))
    elif ours != theirs:
        yield path, list(ours) if isinstance(ours, tuple) else ours


def _text(remarks: dict[str, Any], flags: list[Flag], scenario: Scenario) -> str:
    lines = [f"{REMARK}{path} = {json.dumps(value)}\n" for path, value in remarks.items()]
    arguments = [
        f"    {flag}" + ("" if value is True else f" {_word(value)}") + "\n" for flag, value in flags
    ]
    nodes = scenario.cluster.nodes
    launch = f"torchrun --nnodes {nodes} --nproc-per-node {scenario.gpus // nodes} pretrain_gpt.py"
    body = f"MEGATRON_ARGS=(\n{''.join(arguments)})\n"
    return f'{_HEAD}{"".join(lines)}{body}{launch} "${{MEGATRON_ARGS[@]}}" "$@"\n'


def _word(value: object) -> str:
    return shlex.quote(repr(value) if isinstance(value, float) else str(value))
