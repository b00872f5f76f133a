"""Megatron-LM's arguments: a launch script with ``--flag value``, or the dump at the head of a training log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from sim.interop.configs.draft import Draft
from sim.interop.configs.keys import Keys, check_settings, keys
from sim.interop.configs.literal import parse_literal
from sim.interop.configs.megatron_model import put_megatron_model
from sim.interop.configs.megatron_parallelism import put_megatron_parallelism
from sim.interop.configs.megatron_training import put_megatron_routing, put_megatron_training
from sim.interop.configs.remarks import put_remarks
from sim.interop.configs.request import Request
from sim.interop.configs.settings import Setting, Settings, Unevaluated
from sim.interop.configs.shell_script import script_arguments
from sim.interop.configs.text_file import read_text
from sim.interop.lines import Line, read_lines
from sim.scenario.errors import Position, Problem, ScenarioError
from sim.scenario.yaml_document import MAX_BYTES, plain

_HEAD = re.compile(r"-{3,}\s+arguments\s+-{3,}")
_TAIL = re.compile(r"-{3,}\s+end of arguments\s+-{3,}")
_ARGUMENT = re.compile(r"(?:\[[^\]]*\]:?\s*)?\s*([A-Za-z]\w{0,120})\s+\.*\s*(.*?)\s*$")
_MOST_ARGUMENTS = 5_000


def read_megatron(request: Request) -> Draft:
    """The draft of a script's or log's scenario. Raises ScenarioError or LogError for an unreadable file."""
    name = os.fspath(request.path)
    text = "" if _is_large(request.path) else read_text(request.path)
    if text and not _HEAD.search(text):
        return script_draft(text, name, request)
    lines = _numbered(text, name) if text else read_lines(request.path)
    settings = Settings(_dumped(lines, name), Position(name, 1, 1), keys("megatron").defaults)
    return draft_of(settings, request, "")


def script_draft(text: str, name: str, request: Request) -> Draft:
    """The draft of a launch script. Raises ScenarioError for one without arguments."""
    start = Position(name, 1, 1)
    warnings: list[str] = []
    given = script_arguments(text, name, request.environment, warnings)
    given = dict(_named(given, keys("megatron")))
    if not given:
        message = "no --flag of a training program and no dump of its arguments"
        raise ScenarioError([Problem(start, "", message)])
    draft = draft_of(Settings(given, start, keys("megatron").defaults), request, "")
    for warning in warnings:
        draft.warn(warning)
    put_remarks(text, name, draft)
    return draft


def draft_of(settings: Settings, request: Request, hint: str) -> Draft:
    """The draft that Megatron settings describe, from whatever file they come."""
    draft = Draft(settings.start, request.overrides, problems=settings.problems)
    check_settings(settings, keys("megatron"), draft, request)
    if not request.own_model:
        put_megatron_model(settings, draft, hint)
    put_megatron_training(settings, draft)
    put_megatron_routing(settings, draft)
    put_megatron_parallelism(settings, draft)
    _machine(settings, draft)
    return draft


def _machine(s: Settings, draft: Draft) -> None:
    """What torchrun or the world size say of the number of GPUs."""
    for name, field in (("nnodes", "nodes"), ("nproc_per_node", "gpus_per_node"), ("world_size", "gpus")):
        told = name in s.given and not isinstance(s.given[name].value, Unevaluated)
        found = s.whole(name, 1) if told else None
        if found is not None:
            draft.machine[field] = (found, s.at(name))
    if (padding := s.whole("make_vocab_size_divisible_by", 1)) not in (None, 128):
        draft.warn(
            f"make_vocab_size_divisible_by {padding}: the software profile says what is padded to", s.start
        )


def _named(given: dict[str, Setting], known: Keys) -> Iterator[tuple[str, Setting]]:
    """Flags under the names of the settings that they set."""
    for flag, setting in given.items():
        target = known.flags.get(flag)
        if target is not None:
            value = target[1] if len(target) > 1 and setting.value is True else setting.value
            yield str(target[0]), Setting(value, setting.position, setting.key)
        elif flag.startswith("no_") and not known.knows(flag) and known.knows(flag[3:]):
            yield flag[3:], Setting(False, setting.position, setting.key)
        else:
            yield flag, setting


def _dumped(lines: Iterable[Line], name: str) -> dict[str, Setting]:
    """``name ..... value`` between the two rules; the first dump of a file counts."""
    found: dict[str, Setting] = {}
    inside, last = False, 1
    for line in lines:
        last = line.number
        if not inside:
            inside = bool(_HEAD.search(line.text))
            continue
        if _TAIL.search(line.text) or len(found) > _MOST_ARGUMENTS:
            return found
        match = _ARGUMENT.fullmatch(line.text)
        if match:
            position = Position(name, line.number, 1)
            found.setdefault(match[1], Setting(_printed(match[2], name), position, match[1]))
    message = (
        "the list of arguments breaks off" if inside else "no list of arguments: was the log's head cut off?"
    )
    raise ScenarioError([Problem(Position(name, last, 1), "", message)])


def _printed(text: str, name: str) -> object:
    """A value as Python prints it; text that is none stays as it is."""
    if text[:1] in ("[", "{", "("):
        try:
            return plain(parse_literal(text, name))
        except ScenarioError:
            return text
    return {"True": True, "False": False, "None": None}.get(text, text)


def _numbered(text: str, name: str) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), start=1):
        yield Line(name, number, line.strip())


def _is_large(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > MAX_BYTES
    except (OSError, ValueError):
        return False  # read_text says what is wrong
