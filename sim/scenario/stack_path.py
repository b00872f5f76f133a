"""``cluster.stack: path/to/stack.yaml`` is relative to the file that says so."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hwmodels.catalog import is_stack_file
from sim.scenario.errors import Problem, shown
from sim.scenario.yaml_document import Block, Scalar


def with_stack_path(root: Block, folder: Path | None, within: Path | None, problems: list[Problem]) -> Block:
    """``root`` with a path under ``cluster.stack`` made relative to the working directory.

    A text without a folder, and one confined to ``within``, may not reach for files of their own.
    """
    cluster = root.entries.get("cluster")
    if cluster is None or not isinstance(cluster.value, Block):
        return root
    stack = cluster.value.entries.get("stack")
    if stack is None or not isinstance(stack.value, Scalar) or not _is_path(stack.value.value):
        return root
    written = str(stack.value.value)
    entries = dict(cluster.value.entries)
    refused = _refused(written, folder, within)
    if folder is None or refused:
        problems.append(Problem(stack.value.position, "cluster.stack", refused))
        del entries["stack"]
    else:
        entries["stack"] = replace(stack, value=replace(stack.value, value=_joined(folder, written)))
    section = replace(cluster, value=Block(entries, cluster.value.position))
    return Block({**root.entries, "cluster": section}, root.position)


def _is_path(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and is_stack_file(value)


def _joined(folder: Path, written: str) -> str:
    """Still a path where it lies in the working directory and its name has another ending."""
    path = os.path.normpath(folder / written)
    return path if is_stack_file(path) else f"{os.curdir}{os.sep}{path}"


def _refused(written: str, folder: Path | None, within: Path | None) -> str:
    """Why this text may not name a file; empty when it may."""
    if folder is None:
        return f"{shown(written)}: a text without a folder cannot name a file; load it from a file"
    real = Path(os.path.realpath(folder / written))
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        return f"{shown(written)}: only a stack of the catalog may be named here"
    return ""
