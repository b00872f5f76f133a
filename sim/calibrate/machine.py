"""Which machine the logs come from: the GPU, the node and the profile to start from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hwmodels import catalog
from hwmodels.gpu import Gpu
from hwmodels.node import Node
from hwmodels.stack import StackProfile
from sim.calibrate.errors import CalibrationError
from sim.calibrate.evidence import Evidence
from sim.ledger.score import read_scenario


@dataclass(frozen=True)
class Machine:
    """``node`` is None where no log needs one."""

    gpu: Gpu
    node: Node | None
    base: StackProfile


def machine_of(evidence: Evidence, node: str | None, base: str | None) -> Machine:
    """From what was asked, else from what the logs name; never guessed.

    Raises ``CalibrationError`` where that leaves a choice, or where logs name another GPU.
    """
    asked = None if node is None else catalog.node(node)
    profile = None if base is None else catalog.stack_named(base)
    gpu = _gpu(evidence, asked, profile)
    _refuse_other_gpus(evidence, gpu)
    profile = profile or _stack_of_runs(evidence) or catalog.newest_stack(gpu.name)
    if gpu.name not in profile.gpus:
        raise CalibrationError(
            [f"stack {profile.name!r} is for {', '.join(profile.gpus)}, not for {gpu.name}"]
        )
    if asked is None and (evidence.collectives or evidence.copies):
        asked = _node_of(gpu, evidence)
    return Machine(gpu, asked, profile)


def gpus_named(device: str) -> tuple[str, ...]:
    """Catalog GPUs that a device name such as ``AMD Instinct MI300X`` can mean: by its model word."""
    words = set(re.findall(r"[a-z0-9]+", device.lower()))
    return tuple(name for name in catalog.names("gpu") if name.partition("-")[0] in words)


def _gpu(evidence: Evidence, node: Node | None, profile: StackProfile | None) -> Gpu:
    if node is not None:
        return node.gpu
    named = {gpu for device in evidence.devices for gpu in gpus_named(device)}
    candidates = named or None
    if profile is not None:
        candidates = named & set(profile.gpus) or set(profile.gpus)
    if candidates is None and evidence.runs:
        candidates = {catalog.node(read_scenario(run).cluster.node).gpu.name for _, run in evidence.runs}
    if candidates is None:
        raise CalibrationError(
            ["no log names its GPU: say --node NODE or --base STACK (sim catalog lists both)"]
        )
    if len(candidates) > 1:
        raise CalibrationError(
            [f"one of the GPUs {', '.join(sorted(candidates))}: say which with --node NODE"]
        )
    return catalog.gpu(candidates.pop())


def _stack_of_runs(evidence: Evidence) -> StackProfile | None:
    """The profile that all training runs name; none where they name several or none."""
    named = {read_scenario(run).cluster.stack for _, run in evidence.runs}
    name = named.pop() if len(named) == 1 else None
    return None if name is None else catalog.stack_named(name)


def _refuse_other_gpus(evidence: Evidence, gpu: Gpu) -> None:
    """Logs of one machine name one GPU; a table of several GPUs is filtered where it is used."""
    problems = []
    for path, table in evidence.collectives:
        for device in table.launch.gpus:
            named = gpus_named(device)
            if named and gpu.name not in named:
                problems.append(f"{path}:{table.line}: measured on {device!r}, the profile is for {gpu.name}")
    if problems:
        raise CalibrationError(problems)


def _node_of(gpu: Gpu, evidence: Evidence) -> Node:
    """The catalog node with this GPU; several will do where they do not differ for these logs."""
    nodes = [catalog.node(name) for name in catalog.names("node")]
    fitting = [node for node in nodes if node.gpu.name == gpu.name]
    if not fitting:
        raise CalibrationError([f"no node of the catalog has {gpu.name}: its links are not known"])
    widest = max((table.ranks or 0 for _, table in evidence.collectives), default=0)
    across = widest > min(node.scale_up.domain_gpus for node in fitting)
    kinds = {repr((node.scale_up, node.gpus, (node.nic, node.nics) if across else None)) for node in fitting}
    if len(kinds) > 1:
        names = ", ".join(node.name for node in fitting)
        raise CalibrationError([f"nodes with {gpu.name} differ: say which with --node: {names}"])
    return fitting[0]
