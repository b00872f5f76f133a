"""An experiment file of Primus, with the presets that it names.

An experiment says ``modules.pre_trainer: {framework, config, model, overrides}``. ``config`` is a preset in
``modules/FRAMEWORK`` and ``model`` one in ``models/FRAMEWORK`` of the configuration tree, which the user names
(``--root``); each preset may ``extends`` others, relative to itself. ``${NAME:default}`` is replaced by what
the user gives for NAME, else by the default. Nothing outside the tree and the experiment's own folder is
read, links followed; the environment of the process is never looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sim.interop.configs.draft import Draft
from sim.interop.configs.keys import keys
from sim.interop.configs.megatron import draft_of
from sim.interop.configs.request import Request
from sim.interop.configs.settings import Settings, settings_of
from sim.interop.configs.text_file import MAX_FILES, lies_in, read_text, real, reworded
from sim.interop.configs.torchtitan import titan_draft
from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_document import MAX_VALUES, Block, Entry, Items, Node, Scalar, parse
from sim.scenario.yaml_scalars import NumberTooLong, resolve

_VARIABLE = re.compile(r"\$\{([^:{}]+)(?::([^}]*))?\}")
_TRAINERS = ("pre_trainer", "post_trainer", "sft_trainer")
_EXTENDS = ("extends", "bases")  # the second is the older name
_FRAMEWORKS = ("megatron", "torchtitan")
MAX_CHAIN = 16


def read_primus(request: Request) -> Draft:
    """The draft of an experiment's scenario. Raises ScenarioError for files that cannot be read or followed."""
    tree = _Tree(request)
    start = Position(os.fspath(request.path), 1, 1)
    experiment = tree.read(request.path, start, "", ())
    trainer = _trainer(experiment, start, request)
    framework = _framework(trainer, start)
    merged = Block({}, start)
    for what, folder in (("config", "modules"), ("model", "models")):
        entry = trainer.entries.get(what)
        if entry is not None:
            merged = merge_settings(merged, tree.preset(entry, f"{folder}/{framework}", what))
    own = trainer.entries.get("overrides")
    if own is not None and isinstance(own.value, Block):
        merged = merge_settings(merged, own.value)
    merged = Block(
        {key: entry for key, entry in merged.entries.items() if key not in _EXTENDS}, merged.position
    )
    draft = _draft(framework, merged, start, request, trainer)
    for problem in tree.problems:
        draft.problems.append(problem)
    name = experiment.entries.get("exp_name")
    if name is not None and isinstance(name.value, Scalar) and str(name.value.value).strip():
        draft.put("name", str(name.value.value)[:200], name.value.position)
    return draft


def _draft(framework: str, merged: Block, start: Position, request: Request, trainer: Block) -> Draft:
    if framework == "torchtitan":
        return titan_draft(settings_of(merged, start, separator="."), start, request)
    settings = Settings(settings_of(merged, start), start, keys("megatron").defaults)
    model = trainer.entries.get("model")
    hint = str(model.value.value) if model is not None and isinstance(model.value, Scalar) else ""
    return draft_of(settings, request, hint.removesuffix(".yaml"))


def _trainer(experiment: Block, start: Position, request: Request) -> Block:
    modules = experiment.entries.get("modules")
    if modules is None or not isinstance(modules.value, Block):
        raise _error(start, "modules", _no_experiment(request))
    for name in _TRAINERS:
        entry = modules.value.entries.get(name)
        if entry is not None and isinstance(entry.value, Block):
            return entry.value
    raise _error(modules.key_position, "modules", f"none of {', '.join(_TRAINERS)} is among them")


def _no_experiment(request: Request) -> str:
    words = "an experiment with modules.pre_trainer is due here"
    if request.path.parent.parent.name in ("models", "modules"):
        kind = "model" if request.path.parent.parent.name == "models" else "module"
        return f"{words}; this is a {kind} preset, which says nothing of batch and plan: name it in an experiment"
    return words


def _framework(trainer: Block, start: Position) -> str:
    entry = trainer.entries.get("framework")
    at = entry.value.position if entry is not None else start
    name = entry.value.value if entry is not None and isinstance(entry.value, Scalar) else None
    if name not in _FRAMEWORKS:
        raise _error(at, "framework", f"{shown(name)}: not modelled yet: {' or '.join(_FRAMEWORKS)}")
    return str(name)


def merge_settings(base: Block, over: Block) -> Block:
    """``over`` on top of ``base`` as Primus does it: an explicit null stays, and replaces what was there."""
    entries = dict(base.entries)
    for name, entry in over.entries.items():
        inherited = entries.get(name)
        before = None if inherited is None else inherited.value
        if isinstance(before, Block) and isinstance(entry.value, Block):
            entries[name] = replace(entry, value=merge_settings(before, entry.value))
        else:
            entries[name] = entry
    return Block(entries, over.position)


@dataclass
class _Tree:
    """The files that may be read: the experiment's folder and the tree that the user names."""

    request: Request
    problems: list[Problem] = field(default_factory=list)
    files: int = 0
    values: int = 0

    @property
    def root(self) -> Path | None:
        """``primus/configs`` of what the user names: the checkout, ``primus`` or the folder itself."""
        given = self.request.root
        if given is None:
            return None
        inner = (given / "primus" / "configs", given / "configs", given)
        return next((folder for folder in inner if (folder / "models").is_dir()), given)

    def preset(self, entry: Entry, folder: str, field: str) -> Block:
        name = entry.value.value if isinstance(entry.value, Scalar) else None
        at = entry.value.position
        if not isinstance(name, str) or not name:
            raise _error(at, field, "the name of a preset file is due here")
        if self.root is None:
            hint = _nearby(self.request.path)
            raise _error(at, field, f"{shown(name)}: give --root FOLDER, Primus' configuration tree{hint}")
        path = self.root / folder / (name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
        return self.read(path, at, field, ())

    def read(self, path: Path, at: Position, field: str, chain: tuple[Path, ...]) -> Block:
        """The file with everything it extends. ``at`` and ``field`` are where its path was written."""
        allowed = [self.request.path.parent, *([] if self.root is None else [self.root])]
        if "\0" in os.fspath(path) or not lies_in(path, allowed):
            where = (
                "--root and the experiment's folder" if self.root else "the experiment's folder: give --root"
            )
            raise _error(at, field, f"{shown(path.name)}: lies outside {where}")
        resolved = real(path)
        if resolved in chain:
            loop = " -> ".join(p.name for p in (*chain[chain.index(resolved) :], resolved))
            raise _error(at, field, f"a loop: {loop}")
        self.files += 1
        if len(chain) >= MAX_CHAIN or self.files > MAX_FILES:
            raise _error(at, field, f"more than {MAX_CHAIN} files in a chain, or {MAX_FILES} in all")
        name = os.path.normpath(os.fspath(path))
        text = read_text(path, at, field)
        try:
            tree = parse(text, name, self.problems)
        except ScenarioError as error:
            raise reworded(error) from None
        if not isinstance(tree, Block):
            raise _error(tree.position, "", "a mapping is due here")
        own = self._mapping(tree)
        merged = Block({}, own.position)
        for key in _EXTENDS:
            for base in self._bases(own.entries.get(key)):
                merged = merge_settings(
                    merged, self.read(path.parent / str(base.value), base.position, key, (*chain, resolved))
                )
        return merge_settings(merged, own)

    def _bases(self, entry: Entry | None) -> tuple[Scalar, ...]:
        if entry is None:
            return ()
        listed = entry.value.values if isinstance(entry.value, Items) else (entry.value,)
        for base in listed:
            if not isinstance(base, Scalar) or not isinstance(base.value, str) or not base.value:
                raise _error(
                    entry.value.position, entry.key, "the path of a preset, or a list of them, is due here"
                )
        return tuple(base for base in listed if isinstance(base, Scalar))

    def _mapping(self, block: Block) -> Block:
        entries = {k: replace(e, value=self._substituted(e.value)) for k, e in block.entries.items()}
        return Block(entries, block.position)

    def _substituted(self, node: Node) -> Node:
        self.values += 1
        if self.values > 4 * MAX_VALUES:
            raise _error(node.position, "", f"more than {4 * MAX_VALUES:,} values in all files together")
        if isinstance(node, Block):
            return self._mapping(node)
        if isinstance(node, Items):
            return Items(tuple(self._substituted(value) for value in node.values), node.position)
        if isinstance(node.value, str) and "${" in node.value:
            return Scalar(self._text(node.value, node.position, self.request.environment), node.position)
        return node

    def _text(
        self, text: str, at: Position, environment: Mapping[str, str]
    ) -> str | int | float | bool | None:
        """``text`` with its variables put in: the user's values, else the defaults."""

        def value_of(match: re.Match[str]) -> str:
            name, default = match[1].strip(), match[2]
            if name in environment:
                return environment[name]
            if default is None:
                self.problems.append(Problem(at, "", f"${{{name}}} has no default: give --env {name}=VALUE"))
                return ""
            return str(default)

        replaced = _VARIABLE.sub(value_of, text)
        try:
            return resolve(replaced) if replaced != text else text
        except NumberTooLong:
            return replaced


def _nearby(path: Path) -> str:
    """Says where a tree lies above the experiment, if one does."""
    for folder in list(real(path).parents)[:8]:
        if (folder / "primus" / "configs" / "models").is_dir():
            return f"; there is one at {folder / 'primus' / 'configs'}"
    return ""


def _error(at: Position, field: str, message: str) -> ScenarioError:
    return ScenarioError([Problem(at, field, message)])
