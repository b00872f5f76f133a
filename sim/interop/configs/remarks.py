"""``#: field = value`` in a script, the value in JSON: what Megatron's arguments have no words for.

The exporter writes them.
"""

from __future__ import annotations

import re

from sim.interop.configs.draft import Draft
from sim.interop.configs.literal import parse_literal
from sim.interop.configs.model_fields import same_widths
from sim.interop.configs.repeats import even
from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_document import plain

REMARK = "#: "
ALLOWED = (
    "name", "notes", "seed", "model", "cluster", "metrics", "training.input", "training.moe.balance_factor",
    "training.moe.static_buffer", "training.moe.group_limited", "training.cross_entropy", "parallelism.layout",
    "parallelism.overlap.pp",
)  # fmt: skip
"""Fields that a remark may give: the machine, words, and what no argument of Megatron's says."""

WORDS = ("name", "title", "source", "published_parameters", "max_positions")
"""Of a model that is not in the catalog: the widths are the arguments'."""

_LINE = re.compile(r"#:\s*([\w.]{1,100})\s*=\s*(.{1,20000})")


def put_remarks(text: str, source: str, draft: Draft) -> None:
    """Puts the remarks of a script into ``draft``, over what the arguments say."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.startswith(REMARK.rstrip()):
            continue
        position = Position(source, number, 1)
        match = _LINE.fullmatch(line.strip())
        if match is None or not is_allowed(match[1]):
            draft.refuse(f"one of {', '.join(ALLOWED)} = value is due after {REMARK.strip()}", "", position)
            continue
        try:
            _put(match[1], plain(parse_literal(match[2], source)), position, draft)
        except ScenarioError as error:
            draft.problems.append(Problem(position, match[1], error.problems[0].message))


def is_allowed(path: str) -> bool:
    return any(path == allowed or path.startswith(f"{allowed}.") for allowed in ALLOWED)


def _put(path: str, value: object, position: Position, draft: Draft) -> None:
    if path == "model":
        _put_model(value, position, draft)
    elif path == "parallelism.layout":
        _put_layout(value, position, draft)
    elif path == "cluster.stack" and not _is_name(value):
        draft.refuse("a name of the catalog: a script may not name a file", path, position)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _put(f"{path}.{key}", inner, position, draft)
    elif value is None:
        draft.fields.pop(path, None)
    else:
        draft.put(path, value, position)


def _put_model(value: object, position: Position, draft: Draft) -> None:
    """One name instead of another for the same widths, or the words of a model that is not in the catalog."""
    found = draft.fields.get("model")
    if isinstance(value, str) and found is not None and same_widths(str(found[0]), value):
        draft.put("model", value, position)
    elif isinstance(value, dict) and set(value) <= set(WORDS) and draft.model_fields:
        draft.fields = {
            path: held for path, held in draft.fields.items() if path.partition(".")[0] != "model"
        }
        for field, held in {**draft.model_fields, **value}.items():
            draft.put(f"model.{field}", held, position)
    else:
        draft.refuse(f"{shown(value)}: is not the model that the arguments describe", "model", position)


def _put_layout(value: object, position: Position, draft: Draft) -> None:
    """``auto`` for a layout that is as even as it goes."""
    layout = draft.fields.get("parallelism.layout", ([], position))[0]
    listed = tuple(layout) if isinstance(layout, list) else ()
    if value == "auto" and listed and listed == even(sum(listed), len(listed)):
        draft.fields.pop("parallelism.layout")
    else:
        draft.refuse(f"{shown(value)}: only auto, for a layout that is even", "parallelism.layout", position)


def _is_name(value: object) -> bool:
    from hwmodels.catalog import is_stack_file

    return isinstance(value, str) and not is_stack_file(value)
