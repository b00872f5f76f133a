"""What is done with each setting of another tool: modelled, a matter of kernels, harmless, or not modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sim.interop.configs.draft import Draft
from sim.interop.configs.request import Request
from sim.interop.configs.settings import FALSE, TRUE, Setting, Settings, Unevaluated, is_nothing
from sim.scenario.errors import shown

_FOLDER = Path(__file__).parent
_REFUSALS = {False: "no", True: "yes", "always": "always"}
MOST_LISTED = 30  # unknown settings that are named


@dataclass(frozen=True)
class Effect:
    """A setting whose effect is not modelled, unless its value is one of ``neutral``.

    ``refuse``: ``no`` (a warning), ``yes`` or ``always`` (it describes another model).
    """

    effect: str
    neutral: tuple[object, ...] = ()
    refuse: str = "no"


@dataclass(frozen=True)
class Keys:
    """One tool's settings. ``flags`` maps a command-line flag to a setting (and a value)."""

    modelled: frozenset[str]
    kernels: tuple[str, ...]
    harmless: tuple[str, ...]
    not_modelled: Mapping[str, Effect]
    flags: Mapping[str, tuple[object, ...]]
    defaults: Mapping[str, object]

    def knows(self, name: str) -> bool:
        return name in self.modelled or name in self.not_modelled or self._matches(name) != ""

    def _matches(self, name: str) -> str:
        for kind, patterns in (("kernels", self.kernels), ("harmless", self.harmless)):
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                return kind
        return ""

    def kind(self, name: str) -> str:
        """``modelled``, ``not modelled``, ``kernels``, ``harmless`` or ``unknown``."""
        if name in self.modelled:
            return "modelled"
        return "not modelled" if name in self.not_modelled else self._matches(name) or "unknown"


@cache
def keys(tool: str) -> Keys:
    """The table of ``tool``: ``megatron``, ``torchtitan`` or ``huggingface``."""
    content: dict[str, Any] = yaml.load(
        (_FOLDER / f"{tool}_keys.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
    )
    effects = {
        name: Effect(entry["effect"], tuple(entry.get("neutral", ())), _REFUSALS[entry.get("refuse", False)])
        for name, entry in content["not_modelled"].items()
    }
    return Keys(
        frozenset(content["modelled"]),
        tuple(content.get("kernels", ())),
        tuple(content["harmless"]),
        effects,
        {name: tuple(target) for name, target in content.get("flags", {}).items()},
        content.get("defaults", {}),
    )


def check_settings(settings: Settings, known: Keys, draft: Draft, request: Request) -> None:
    """Refuses or warns of every setting with an effect that is not modelled, and lists the unknown ones."""
    kernels, unknown = [], []
    for name, setting in settings.given.items():
        kind = known.kind(name)
        if kind == "not modelled":
            _check_effect(name, setting, known.not_modelled[name], draft, request)
        elif kind == "kernels" and not _is_off(setting.value, ("default", "native")):
            kernels.append(name)
        elif kind == "unknown" and not _is_off(setting.value, ()):
            unknown.append(f"{name} ({setting.position.source}:{setting.position.line})")
    if kernels:
        draft.warn(
            "how fast kernels are stands in the software profile, whatever these say: " + ", ".join(kernels)
        )
    if unknown:
        more = f" and {len(unknown) - MOST_LISTED} more" if len(unknown) > MOST_LISTED else ""
        draft.warn("not known, taken to have no effect: " + ", ".join(unknown[:MOST_LISTED]) + more)


def _check_effect(name: str, setting: Setting, effect: Effect, draft: Draft, request: Request) -> None:
    if _is_off(setting.value, effect.neutral) or (effect.refuse == "always" and request.own_model):
        return
    message = f"{shown(setting.value)}: not modelled yet: {effect.effect}"
    if effect.refuse == "always":
        draft.refuse(message, setting.key, setting.position)
    elif effect.refuse == "yes" and name not in request.ignored:
        draft.refuse(f"{message}; --ignore {name} predicts without it", setting.key, setting.position)
    else:
        draft.warn(f"{name}: {message}", setting.position)


def _is_off(value: object, neutral: tuple[object, ...]) -> bool:
    if isinstance(value, Unevaluated):
        return False
    if is_nothing(value) or _same(value, False) or value in ([], {}):
        return True
    return any(_same(value, other) for other in neutral)


def _same(value: object, other: object) -> bool:
    """Equal, also where one of them is the other's text (command lines know text only)."""
    if isinstance(value, (dict, list)) or isinstance(other, (dict, list)):
        return value == other
    if isinstance(other, bool):
        return value is other or str(value).strip().lower() in (TRUE if other else FALSE)
    if isinstance(other, (int, float)):
        try:
            return not isinstance(value, bool) and float(str(value)) == other
        except ValueError:
            return False
    return str(value) == other
