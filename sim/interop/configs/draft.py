"""A scenario in the making: fields with the place of the foreign setting that each came from."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.scenario.errors import Position, Problem
from sim.scenario.yaml_document import Block, Entry, Items, Node, Scalar


@dataclass
class Draft:
    """Fields by dotted path. ``warnings`` say what was assumed and what is not modelled.

    ``overrides`` are the user's own ``field=value``, which come on top of the draft.
    """

    start: Position
    overrides: tuple[str, ...] = ()
    fields: dict[str, tuple[object, Position]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    machine: dict[str, tuple[int, Position]] = field(default_factory=dict)  # nodes, gpus_per_node, gpus
    model_fields: dict[str, object] = field(default_factory=dict)  # the widths that the file gives
    local_batch: tuple[int, Position] | None = (
        None  # sequences of one replica, where no global batch is given
    )

    def put(self, path: str, value: object, position: Position | None = None) -> None:
        if value is not None:
            self.fields[path] = (value, position or self.start)

    def warn(self, message: str, position: Position | None = None) -> None:
        at = f"{position.source}:{position.line}: " if position is not None and position.line else ""
        if at + message not in self.warnings:
            self.warnings.append(at + message)

    def refuse(self, message: str, path: str = "", position: Position | None = None) -> None:
        self.problems.append(Problem(position or self.start, path, message))

    def override(self, path: str) -> str | None:
        """The text that the user gives for ``path``, the last one; None where they give none."""
        return next((o[len(path) + 1 :] for o in reversed(self.overrides) if o.startswith(f"{path}=")), None)

    def overrides_within(self, path: str) -> bool:
        return any(override.startswith(f"{path}.") for override in self.overrides)

    def block(self) -> Block:
        """The tree that the scenario loader takes, every value located where it came from."""
        root: dict[str, Entry] = {}
        for path, (value, position) in self.fields.items():
            *outer, last = path.split(".")
            entries = root
            for step in outer:
                holder = entries.setdefault(step, Entry(step, position, Block({}, position)))
                if not isinstance(holder.value, Block):
                    holder = entries[step] = Entry(step, position, Block({}, position))
                entries = holder.value.entries  # type: ignore[union-attr]  # a block by now
            entries[last] = Entry(last, position, node(value, position))
        return Block(root, self.start)


def node(value: object, position: Position) -> Node:
    """Plain data as a tree, all of it at ``position``."""
    if isinstance(value, dict):
        entries = {str(key): Entry(str(key), position, node(inner, position)) for key, inner in value.items()}
        return Block(entries, position)
    if isinstance(value, (list, tuple)):
        return Items(tuple(node(inner, position) for inner in value), position)
    if value is None or isinstance(value, (str, int, float, bool)):
        return Scalar(value, position)
    raise TypeError(f"{type(value).__name__} is no value of a scenario")
