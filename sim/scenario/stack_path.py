"""``cluster.stack: path/to/stack.yaml`` is relative to the file that says so."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hwmodels.catalog import is_stack_file
from sim.scenario.errors import Problem, shown
from sim.scenario.yaml_document import Block, Entry, Scalar


def with_stack_path(
    root: Block, folder: Path | None, within: Path | None, problems: list[Problem]
) -> Block:
    """``root`` with a path under ``cluster.stack`` made relative to the working directory.

    A text without a folder, and one confined to ``within``, may not reach for files of their own.
    """
    cluster = root.entries.get("cluster")
    entry = cluster.value.entries.get("stack") if cluster and isinstance(cluster.value, Block) else None
    if cluster is None or entry is None or not isinstance(entry.value, Scalar):
        return root
    written = entry.value.value
    if not isinstance(written, str) or not is_stack_file(written):
        return root
    problem = _refused(written, folder, within)
    if problem:
        problems.append(Problem(entry.value.position, "cluster.stack", problem))
        return _with_stack(root, cluster, None)
    assert folder is not None  # a text without one is refused above
    path = os.path.normpath(folder / written)
    if not is_stack_file(path):  # the file lies in the working directory and has another ending
        path = os.path.join(os.curdir, path)
    return _with_stack(root, cluster, replace(entry, value=replace(entry.value, value=path)))


def _refused(written: str, folder: Path | None, within: Path | None) -> str:
    if folder is None:
        return f"{shown(written)}: a text without a folder cannot name a file; load it from a file"
    if within is not None and not Path(os.path.realpath(folder / written)).is_relative_to(os.path.realpath(within)):
        return f"{shown(written)}: only a stack of the catalog may be named here"
    return ""


def _with_stack(root: Block, cluster: Entry, stack: Entry | None) -> Block:
    assert isinstance(cluster.value, Block)
    entries = {key: entry for key, entry in cluster.value.entries.items() if key != "stack"}
    if stack is not None:
        entries["stack"] = stack
    section = replace(cluster, value=Block(entries, cluster.value.position))
    return Block({**root.entries, "cluster": section}, root.position)
