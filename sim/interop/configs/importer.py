"""A scenario from another tool's configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.interop.configs.draft import Draft
from sim.interop.configs.huggingface import read_huggingface
from sim.interop.configs.megatron import read_megatron, script_draft
from sim.interop.configs.primus import read_primus
from sim.interop.configs.request import Request
from sim.interop.configs.torchtitan import read_titan
from sim.scenario import Scenario, ScenarioError, load_node, to_yaml
from sim.scenario.errors import Position

KINDS: dict[str, tuple[str, Callable[[Request], Draft]]] = {
    "hf": ("a Hugging Face config.json", read_huggingface),
    "megatron": ("Megatron-LM arguments", read_megatron),
    "primus": ("a Primus experiment", read_primus),
    "torchtitan": ("a TorchTitan configuration", read_titan),
}
"""Kinds of configuration with their name in words and their reader."""

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]")
_VARIABLE = re.compile(r"[A-Za-z_]\w{0,200}")


@dataclass(frozen=True)
class ImportedScenario:
    """``scenario``, and in ``warnings`` what was assumed or left out; ``source`` says what it comes from."""

    scenario: Scenario
    warnings: tuple[str, ...]
    source: str

    @property
    def yaml(self) -> str:
        """The scenario file, with the warnings as comments."""
        comments = [f"From {self.source}."]
        if self.warnings:
            comments += ["Assumed, or not modelled:", *(f"- {warning}" for warning in self.warnings)]
        lines = "".join(f"# {_UNPRINTABLE.sub('?', comment)}\n" for comment in comments)
        return f"{lines}schema: 1\n{to_yaml(self.scenario)}"

    def to_dict(self) -> dict[str, Any]:
        return {"scenario": self.yaml, "source": self.source, "warnings": list(self.warnings)}


def import_scenario(
    kind: str,
    path: str | Path,
    *,
    node: str | None = None,
    nodes: int | None = None,
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    root: str | Path | None = None,
    ignore: Iterable[str] = (),
) -> ImportedScenario:
    """The scenario that the file ``path`` of ``kind`` (``hf``, ``megatron``, ``primus``, ``torchtitan``) describes.

    ``node`` and ``nodes`` are the machine, which no such file names; ``overrides`` are ``field=value`` on
    top. ``environment`` holds values of variables that the file refers to; the process's own are never
    looked at. ``root`` is the tree of Primus' presets. ``ignore`` names settings to predict without.

    Raises ScenarioError (or LogError, for an unreadable log) with every located error.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of configuration {kind!r}; known: {', '.join(KINDS)}")
    words, read = KINDS[kind]
    request = Request(
        Path(path),
        node,
        nodes,
        tuple(overrides),
        _checked(environment or {}),
        None if root is None else Path(root),
        frozenset(ignore),
    )
    return _imported(read(request), request, f"{words}, {Path(path).name}")


def import_script(text: str, name: str) -> ImportedScenario:
    """The scenario of a Megatron launch script that lies in memory. Raises ScenarioError."""
    request = Request(Path(name))
    return _imported(script_draft(text, name, request), request, name)


def _imported(draft: Draft, request: Request, words: str) -> ImportedScenario:
    _put_machine(draft, request)
    _put_global_batch(draft)
    if draft.problems:
        raise ScenarioError(draft.problems)
    scenario = load_node(draft.block(), request.overrides, source=os.fspath(request.path))
    return ImportedScenario(scenario, tuple(draft.warnings), words)


def _checked(environment: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in environment.items():
        if not _VARIABLE.fullmatch(name) or len(value) > 1000:
            raise ValueError(f"--env {name[:40]}: a variable is a name and a short value: NAME=VALUE")
    return environment


def _put_machine(draft: Draft, request: Request) -> None:
    """Options come before what a launch script says of its machine, and before what an exporter remarked."""
    if request.node is not None:
        draft.put("cluster.node", request.node, Position(f"--node {request.node}"))
    if request.nodes is not None:
        draft.put("cluster.nodes", request.nodes, Position(f"--nodes {request.nodes}"))
    if "cluster.node" not in draft.fields and draft.override("cluster.node") is None:
        draft.refuse(
            "does not say on which machine it runs: give --node NAME (sim catalog lists them)", "cluster.node"
        )
        return
    _put_gpus(draft)
    if "cluster.nodes" not in draft.fields and draft.override("cluster.nodes") is None:
        draft.refuse("does not say on how many nodes it runs: give --nodes N", "cluster.nodes")


def _put_gpus(draft: Draft) -> None:
    """Nodes, and GPUs of a part of one, from torchrun's figures or the world size."""
    per_node = _gpus_per_node(draft)
    if per_node is None:
        return
    nodes, used, world = (draft.machine.get(name) for name in ("nodes", "gpus_per_node", "gpus"))
    if nodes is None and world is not None:
        nodes = (-(-world[0] // per_node), world[1])
    if nodes is not None and "cluster.nodes" not in draft.fields:
        draft.put("cluster.nodes", *nodes)
    count = draft.fields.get("cluster.nodes", (None, None))[0]
    alone = world if world is not None and world[0] < per_node else used if world is None else None
    if alone is not None and count == 1 and alone[0] < per_node and "cluster.gpus" not in draft.fields:
        draft.put("cluster.gpus", *alone)


def _gpus_per_node(draft: Draft) -> int | None:
    """GPUs of the node; None for an unknown one, which the loader will name."""
    from hwmodels import catalog

    name = draft.override("cluster.node") or draft.fields.get("cluster.node", (None, None))[0]
    return catalog.node(name).gpus if isinstance(name, str) and name in catalog.names("node") else None


def _put_global_batch(draft: Draft) -> None:
    """Without accumulation where none is given: the batches of all replicas together."""
    if "training.global_batch" in draft.fields or draft.override("training.global_batch") is not None:
        return
    per_node = _gpus_per_node(draft)
    nodes = draft.override("cluster.nodes") or draft.fields.get("cluster.nodes", (None, None))[0]
    gpus = draft.override("cluster.gpus") or draft.fields.get("cluster.gpus", (None, None))[0]
    local, at = draft.local_batch or (draft.fields.get("training.micro_batch", (None, None))[0], draft.start)
    try:
        world = int(str(gpus)) if gpus is not None else int(str(nodes)) * (per_node or 0)
        batch = int(str(local))
        for degree in ("tp", "pp", "cp"):
            world //= int(
                str(
                    draft.override(f"parallelism.{degree}")
                    or draft.fields.get(f"parallelism.{degree}", (1,))[0]
                )
            )
    except (ValueError, ZeroDivisionError):
        return  # the loader says what is missing or wrong
    if world > 0:
        draft.put("training.global_batch", batch * world, at)
        draft.warn(f"global batch: not given: {batch} of each of {world} replicas, without accumulation")
