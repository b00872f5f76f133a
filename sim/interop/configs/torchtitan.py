"""TorchTitan's configuration: a TOML file, or the dump of it that a training log begins with."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sim.interop.configs.draft import Draft
from sim.interop.configs.keys import check_settings, keys
from sim.interop.configs.literal import parse_literal
from sim.interop.configs.model_fields import put_model
from sim.interop.configs.request import Request
from sim.interop.configs.settings import Setting, Settings, settings_of
from sim.interop.configs.text_file import read_text
from sim.interop.configs.titan_plan import put_titan_plan
from sim.interop.configs.titan_training import put_titan_training
from sim.interop.configs.toml_document import parse_toml
from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_document import Block
from sim.workload.catalog import architecture, architecture_from_mapping
from sim.workload.catalog.errors import nearest_first

_FLAVORS = Path(__file__).with_name("torchtitan_models.yaml")
_RANK = re.compile(r"^\[[\w.-]*(?:rank|default)\d+\]:?", re.MULTILINE)  # what torchrun puts before a line
_DUMP = re.compile(r"(?:Running with (?:configs?|args):\s*|^\s*)(?=[{]|[A-Z]\w*\()", re.MULTILINE)


def read_titan(request: Request) -> Draft:
    """The draft of a file's scenario. Raises ScenarioError for an unreadable one."""
    name = os.fspath(request.path)
    is_toml, start = request.path.suffix == ".toml", Position(name, 1, 1)
    text = read_text(request.path, head=not is_toml)
    if not is_toml:
        text = _RANK.sub(lambda match: " " * len(match[0]), text)
    found = None if is_toml else _DUMP.search(text)
    if found is None:
        tree = _toml(text, name, is_toml)
    else:
        dumped = parse_literal(text, name, start=found.end(), whole=False)
        if not isinstance(dumped, Block):
            raise ScenarioError([Problem(start, "", "a mapping of TorchTitan's settings is due here")])
        tree = dumped
    draft = titan_draft(settings_of(tree, start, separator="."), start, request)
    job = tree.entries.get("job")
    if job is not None and isinstance(job.value, Block) and "description" in job.value.entries:
        title = settings_of(job.value, start)["description"]
        if isinstance(title.value, str) and title.value.strip():
            draft.put("name", title.value[:200], title.position)
    return draft


def _toml(text: str, name: str, is_toml: bool) -> Block:
    try:
        return parse_toml(text, name)
    except ScenarioError as error:
        if is_toml:
            raise
        problem = error.problems[0]
        message = f"{problem.message}; nor is there a line of a log with 'Running with configs: {{'"
        raise ScenarioError([replace(problem, message=message)]) from None


def titan_draft(given: dict[str, Setting], start: Position, request: Request) -> Draft:
    """The draft that settings describe, from whatever file they come. Names are joined by dots."""
    known = keys("torchtitan")
    given = {str(known.flags.get(name, (name,))[0]): setting for name, setting in given.items()}
    settings = Settings(given, start, known.defaults)
    draft = Draft(start, request.overrides, problems=settings.problems)
    check_settings(settings, known, draft, request)
    layers, routed = None, False
    if not request.own_model:
        layers, routed = _put_model(settings, draft)
    put_titan_training(settings, draft, layers, routed=routed)
    put_titan_plan(settings, draft, layers)
    return draft


@cache
def _flavors() -> dict[str, dict[str, dict[str, Any]]]:
    content: dict[str, dict[str, dict[str, Any]]] = yaml.load(
        _FLAVORS.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
    )
    return {
        model: {str(name): entry for name, entry in flavors.items()} for model, flavors in content.items()
    }


def _put_model(s: Settings, draft: Draft) -> tuple[int | None, bool]:
    """Puts the model; its layers, and whether it has experts."""
    prefix = "model" if "model.name" in s else "model_spec"
    name, flavor = s.text(f"{prefix}.name"), s.text(f"{prefix}.flavor")
    if name is None or flavor is None:
        s.refuse(
            "model.name",
            "name and flavor of the model are missing: give them, or a model with --set model=NAME",
        )
        return None, False
    flavors = _flavors().get(name)
    if flavors is None:
        s.refuse(
            f"{prefix}.name", f"{shown(name)}: not modelled yet: {', '.join(_flavors())}; or --set model=NAME"
        )
        return None, False
    entry = flavors.get(flavor)
    if entry is None:
        near = ", ".join(nearest_first(flavor, flavors))
        s.refuse(f"{prefix}.flavor", f"{shown(flavor)}: known of {name} are {near}; or give --set model=NAME")
        return None, False
    base = entry["model"]
    fields = dict(base) if isinstance(base, dict) else {"base": base}
    layers = s.whole("model.n_layers", 1)
    if layers is not None and layers != architecture(fields["base"]).layers:
        fields["layers"] = layers
    at = s.at(f"{prefix}.flavor")
    if fields == {"base": base}:
        draft.put("model", base, at)
        if draft.overrides_within("model"):
            draft.fields.pop("model")
            draft.put("model.base", base, at)
        model = architecture(base)
    else:
        put_model(
            draft,
            fields,
            {"layers": s.at("model.n_layers")},
            at,
            (f"{name}-{flavor}",),
            f"flavor in {s.start.source}",
        )
        model = architecture_from_mapping(fields)
    return model.layers, model.experts is not None
