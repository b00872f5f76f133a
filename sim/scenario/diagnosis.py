"""What the schema found wrong, as located problems: where, which field, which value, what would be right."""

from __future__ import annotations

import types
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from sim.scenario import later
from sim.scenario.aliases import ALIASES, RECOMPUTE_NAMES
from sim.scenario.errors import Problem, shown
from sim.scenario.inline_model import UNION_TAGS, InlineModel
from sim.scenario.schema import Scenario
from sim.scenario.yaml_document import Block, Path, locate, plain


def diagnose(error: ErrorDetails, root: Block) -> Problem:
    """One error of the schema, located in ``root``."""
    path: Path = tuple(step for step in error["loc"] if step not in UNION_TAGS)
    dotted = ".".join(str(step) for step in path)
    if error["type"] == "extra_forbidden":
        return _unknown_field(path, dotted, root)
    position, node = locate(root, path)
    if error["type"] == "missing" or node is None:
        return Problem(position, dotted, f"is missing: {_description(path)}")
    value = plain(node)
    return Problem(position, dotted, _message(error, dotted, value))


def field_names(path: Path) -> tuple[str, ...]:
    """Names a file may use in the mapping at ``path``, aliases included."""
    model = _model_at(path)
    names = [info.alias or name for name, info in model.model_fields.items()] if model else []
    section = str(path[0]) if len(path) == 1 else ""
    names += [alias.name for alias in ALIASES if alias.section == section]
    if section == "training":
        names += RECOMPUTE_NAMES
    return tuple(names) if path else ("extends", *names)


def _message(error: ErrorDetails, dotted: str, value: object) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "worded":
        return error["msg"]
    if kind == "literal_error":
        return _choice(dotted, value, str(context["expected"]))
    expected = {
        "bool_type": "true or false (yes, no, on and off are text in YAML 1.2)",
        "model_type": "a mapping of fields",
        "model_attributes_type": "a mapping of fields",
        "dict_type": "a mapping of fields",
        "tuple_type": "a list",
        "too_short": f"a list of at least {context.get('min_length')} entries",
        "too_long": f"a list of at most {context.get('max_length')} entries",
    }.get(kind, error["msg"])
    if value is None:
        expected += "; remove the line for the default"
    return f"{shown(value)}: {expected}"


def _choice(dotted: str, value: object, expected: str) -> str:
    known = ", ".join(word.strip().strip("'") for word in expected.replace(" or ", ", ").split(","))
    field = dotted.rstrip(".0123456789")
    if isinstance(value, str) and value in later.VALUES.get(field, ()):
        return f"{shown(value)} is {later.NOT_YET}: one of {known}"
    return f"{shown(value)}: one of {known}"


def _unknown_field(path: Path, dotted: str, root: Block) -> Problem:
    holder = locate(root, path[:-1])[1]
    name = str(path[-1])
    position = (
        holder.entries[name].key_position if isinstance(holder, Block) and name in holder.entries else None
    )
    at = position or locate(root, path)[0]
    known_later = later.FIELDS.get(dotted) or later.FIELDS.get(name if name == "<<" else "")
    if known_later:
        return Problem(at, dotted, known_later)
    elsewhere = list(_elsewhere(name, path[:-1]))
    if elsewhere:
        return Problem(at, dotted, f"unknown field here; {name} belongs in {' or '.join(elsewhere)}")
    names = field_names(path[:-1])
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(sorted(names))}"
    return Problem(at, _cut(dotted), f"unknown field {shown(name)}; {hint}")


def _cut(dotted: str) -> str:
    return dotted if len(dotted) <= 100 and dotted.isprintable() else shown(dotted)


def _elsewhere(name: str, here: Path) -> Iterator[str]:
    for section in ("", "model", "cluster", "training", "parallelism", "metrics"):
        path: Path = (section,) if section else ()
        if path != here and name in field_names(path):
            yield section or "the top level"


def _description(path: Path) -> str:
    model = _model_at(path[:-1])
    for name, info in model.model_fields.items() if model else ():
        if path[-1] in (name, info.alias):
            return info.description or "required"
    return "required"


def _model_at(path: Path) -> type[BaseModel] | None:
    """The pydantic model that describes the mapping at ``path``."""
    model: type[BaseModel] | None = Scenario
    for step in path:
        if model is None:
            return None
        if model is Scenario and step == "model":
            model = InlineModel
            continue
        found = [info.annotation for name, info in model.model_fields.items() if step in (name, info.alias)]
        model = _inner_model(found[0]) if found else None
    return model


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return next((m for m in map(_inner_model, get_args(annotation)) if m is not None), None)
    return None
