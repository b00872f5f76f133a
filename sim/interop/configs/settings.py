"""What another tool's configuration says: names, values, and where each was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sim.scenario.errors import Position, Problem, shown
from sim.scenario.yaml_document import Block, Node, plain

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})
_NOTHING = frozenset({"", "none", "null", "~"})


class Unevaluated(str):
    """Text that only a shell could turn into a value."""

    __slots__ = ()


@dataclass(frozen=True)
class Setting:
    """One value, a scalar, list or mapping. ``key`` is as written in the file."""

    value: object
    position: Position
    key: str


@dataclass
class Settings:
    """Values by name. ``defaults`` are the tool's own, for names that are absent.

    Values of a wrong kind go to ``problems`` and read as absent. ``read`` collects the names asked for.
    """

    given: dict[str, Setting]
    start: Position
    defaults: Mapping[str, object] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def __contains__(self, name: str) -> bool:
        self.read.add(name)
        return name in self.given and not is_nothing(self.given[name].value)

    def value(self, name: str) -> object:
        """The value, None for absent; text that means nothing (``None``, ``null``) is None."""
        self.read.add(name)
        found = self.given[name].value if name in self.given else self.defaults.get(name)
        if isinstance(found, Unevaluated):
            hint = f"--env {found[1:]}=VALUE" if found[1:].isidentifier() else "--env for its variables"
            self.refuse(
                name, f"{shown(str(found))} is not evaluated here: give {hint}, or the field with --set"
            )
            return None
        return None if is_nothing(found) else found

    def at(self, name: str) -> Position:
        return self.given[name].position if name in self.given else self.start

    def refuse(self, name: str, message: str) -> None:
        key = self.given[name].key if name in self.given else name
        self.problems.append(Problem(self.at(name), key, message))

    def flag(self, name: str) -> bool:
        value = self.value(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        word = str(value).strip().lower()
        if word not in TRUE | FALSE:
            self.refuse(name, f"{shown(value)}: true or false")
        return word in TRUE

    def whole(self, name: str, least: int = 0) -> int | None:
        value = self.value(name)
        number = as_number(value)
        if value is None:
            return None
        if number is None or number != int(number) or number < least or number > 1e15:
            self.refuse(name, f"{shown(value)}: a whole number of {least} or more")
            return None
        return int(number)

    def number(self, name: str) -> float | None:
        value = self.value(name)
        found = as_number(value)
        if value is not None and found is None:
            self.refuse(name, f"{shown(value)}: a number")
        return found

    def text(self, name: str) -> str | None:
        value = self.value(name)
        if value is not None and isinstance(value, (list, dict)):
            self.refuse(name, "a single word is due here")
            return None
        return None if value is None else str(value)

    def choice(self, name: str, words: Mapping[str, str | None]) -> str | None:
        """Our word for the value. Unknown ones are refused with the known ones; None is not translated."""
        found = self.text(name)
        if found is None:
            return None
        if found not in words:
            self.refuse(name, f"{shown(found)}: not modelled: known are {', '.join(words)}")
            return None
        return words[found]


def settings_of(block: Block, start: Position, *, separator: str = "") -> dict[str, Setting]:
    """The entries of ``block``; with a ``separator`` those of inner mappings too, names joined by it."""
    return dict(_walk(block, "", separator, start))


def _walk(block: Block, prefix: str, separator: str, start: Position) -> Iterator[tuple[str, Setting]]:
    for written, entry in block.entries.items():
        key = written if written.isprintable() and len(written) <= 100 else shown(written)
        inner = entry.value
        if separator and isinstance(inner, Block):
            yield from _walk(inner, f"{prefix}{key}{separator}", separator, start)
        else:
            yield f"{prefix}{key}", Setting(plain(inner), _position(inner, entry.key_position), prefix + key)


def _position(node: Node, key: Position) -> Position:
    return key if isinstance(node, Block) else node.position


def is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def as_number(value: object) -> float | None:
    """A finite number from a number or its text; None for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value) if not isinstance(value, str) or len(value) <= 40 else float("nan")
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e300 else None  # neither NaN nor infinite
