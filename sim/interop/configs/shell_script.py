"""Arguments of a training program as a shell script gives them: arrays, text variables, the command itself.

The script is read, never run. Variables that the script sets to plain text are put in, ``${NAME:-default}``
takes its default unless the user gives ``NAME``; what only a shell could evaluate is marked as such, and
refused where its value is needed. Of an ``if`` that compares known words only the branch that is taken
counts; of any other, all branches do, with a warning.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sim.interop.configs.settings import Setting, Unevaluated
from sim.interop.configs.shell_branches import Branches, comparison
from sim.interop.configs.shell_words import LITERAL_DOLLAR, Mark, Word, scan
from sim.scenario.errors import Position, Problem, ScenarioError

MOST_CHARACTERS = 10_000  # of one expanded value
MOST_EXPANSIONS = 20_000  # of one script
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_REFERENCE = re.compile(
    r"\$\{([A-Za-z_]\w*|\d)(\[[@*]\])?(?::?[-=]((?:[^{}]|\$\{[^{}]*\})*))?\}|\$([A-Za-z_]\w*|\d)"
)
_QUOTES = re.compile(r"^[\"']|[\"']$")
_LAUNCHERS = re.compile(r"(?:.*/)?(?:torchrun|python[\d.]*|accelerate|deepspeed)$")
_PREFIXES = frozenset({"export", "local", "readonly", "declare", "typeset"})
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")


@dataclass
class _Script:
    text: str
    source: str
    environment: Mapping[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    containers: list[tuple[list[Word], bool]] = field(default_factory=list)  # words, in a doubtful branch
    branches: Branches = field(default_factory=Branches)
    line_ends: list[int] = field(default_factory=list)
    expansions: int = 0

    def __post_init__(self) -> None:
        self.line_ends = [match.start() for match in re.finditer("\n", self.text)]

    def position(self, place: int) -> Position:
        line = bisect_left(self.line_ends, place)
        begin = self.line_ends[line - 1] + 1 if line else 0
        return Position(self.source, line + 1, place - begin + 1)

    def hold(self, words: list[Word]) -> None:
        """Keeps words that may be flags, unless they lie in a branch that is not taken."""
        if self.branches.state is not False:
            self.containers.append((words, self.branches.state is None))

    def set(self, name: str, value: str) -> None:
        """A variable; what it says of itself is what it was before."""
        if self.branches.state is False:
            return
        before = self.variables.get(name)
        if before is not None:
            value = _REFERENCE.sub(lambda m: before if (m[1] or m[4]) == name else m[0], value)
        if len(value) > MOST_CHARACTERS:
            message = f"a variable of more than {MOST_CHARACTERS:,} characters: {name[:40]}"
            raise ScenarioError([Problem(Position(self.source, 1, 1), "", message)])
        self.variables[name] = value


def script_arguments(
    text: str, source: str, environment: Mapping[str, str], warnings: list[str]
) -> dict[str, Setting]:
    """Arguments by flag, without dashes, ``-`` as ``_``. A flag alone is True, several words are a list.

    The last mention of a flag counts, as for the program. Raises ScenarioError for values that grow
    beyond ``MOST_CHARACTERS``.
    """
    script = _Script(text, source, environment)
    _read(script)
    found: dict[str, Setting] = {}
    for words, conditional in script.containers:
        for setting in _flags(words, script):
            if conditional:
                warnings.append(
                    f"{source}:{setting.position.line}: {setting.key}: inside a condition that is not known: taken as given"
                )
            found[setting.key.lstrip("-").replace("-", "_")] = setting
    return found


def _read(script: _Script) -> None:
    """Collects assignments and the word lists that may hold flags."""
    tokens = list(scan(script.text))
    command: list[Word] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if isinstance(token, Mark):
            if token.text not in "()":
                _finish(command, script)
                command = []
                if token.text in "&|":
                    script.branches.join(token.text)
            elif command and command[0].template in ("if", "elif"):
                command.append(Word(token.text, token.place))  # arithmetic, which is not known
            continue
        if not command and token.template in ("then", "else", "do"):
            _keyword(token.template, script)
            continue
        assignment = _ASSIGNMENT.match(token.template)
        if assignment is None or not all(word.template in _PREFIXES for word in command):
            command.append(token)
            continue
        following = tokens[place] if place < len(tokens) else None
        if token.template == assignment.group() and isinstance(following, Mark) and following.text == "(":
            words, place = _array(tokens, place + 1, script)
            script.hold(words)
            script.set(assignment[1], " ".join(word.template for word in words)[:MOST_CHARACTERS])
        else:
            _assign(token, assignment, script)
    _finish(command, script)


def _array(tokens: list[Word | Mark], place: int, script: _Script) -> tuple[list[Word], int]:
    """Elements up to the closing bracket; one that holds a flag with its value counts as both."""
    words: list[Word] = []
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if isinstance(token, Word):
            both = token.inside is not None and token.template.startswith("--") and " " in token.template
            inner = scan(script.text, *token.inside) if both and token.inside else (token,)
            words += [word for word in inner if isinstance(word, Word)]
        elif token.text == ")":
            break
    return words, place


def _assign(token: Word, assignment: re.Match[str], script: _Script) -> None:
    value = token.template[assignment.end() :]
    script.set(assignment[1], value)
    if token.inside is not None and "--" in value:
        script.hold([word for word in scan(script.text, *token.inside) if isinstance(word, Word)])


def _finish(command: list[Word], script: _Script) -> None:
    """Files the flags of a finished command, or follows the fork that it is."""
    if not command:
        return
    first = command[0].template
    if first in ("if", "elif"):
        truth = comparison([_known(word, script) for word in command[1:]])
        (script.branches.enter if first == "if" else script.branches.other)(truth)
    elif not _keyword(first, script):
        launchers = [i for i, word in enumerate(command) if _LAUNCHERS.match(word.template)]
        if launchers:
            script.hold(command[launchers[0] + 1 :])
        elif first.startswith("--"):
            script.hold(command)


def _keyword(word: str, script: _Script) -> bool:
    """Whether ``word`` leads through a fork, which is then followed."""
    branches = script.branches
    steps: dict[str, Callable[[], None]] = {
        "then": branches.then, "else": branches.otherwise, "fi": branches.leave, "case": branches.case,
        "esac": branches.leave, "do": lambda: None,
    }  # fmt: skip
    if word in steps:
        steps[word]()
    return word in steps


def _known(word: Word, script: _Script) -> str | None:
    value = _expanded(word.template, script, ())
    return None if isinstance(value, Unevaluated) else value


def _flags(words: list[Word], script: _Script) -> list[Setting]:
    found: list[Setting] = []
    flag: Word | None = None
    values: list[str] = []

    def close() -> None:
        if flag is not None:
            key, equals, value = flag.template.partition("=")
            given = [value, *values] if equals else values
            found.append(Setting(_value(given, script), script.position(flag.place), key))

    for word in words:
        if _FLAG.match(word.template):
            close()
            flag, values = word, []
        elif word.template.endswith(".py"):
            close()
            flag, values = None, []
        elif not _holds_flags(word, script):
            values.append(word.template)
    close()
    return found


def _holds_flags(word: Word, script: _Script) -> bool:
    """A reference to an array or text of arguments, which are read where they are set."""
    reference = _REFERENCE.fullmatch(word.template)
    if reference is None:
        return False
    name = reference[1] or reference[4]
    return bool(reference[2]) or "--" in script.variables.get(name, "")


def _value(templates: list[str], script: _Script) -> object:
    values = [_expanded(template, script, ()) for template in templates]
    if not values:
        return True
    unknown = next((value for value in values if isinstance(value, Unevaluated)), None)
    return unknown if unknown is not None else values[0] if len(values) == 1 else values


def _expanded(template: str, script: _Script, expanding: tuple[str, ...]) -> str:
    """``template`` with variables put in; an Unevaluated for what only a shell knows."""
    script.expansions += 1
    if script.expansions > MOST_EXPANSIONS:
        message = f"more than {MOST_EXPANSIONS:,} values of variables: not a launch script"
        raise ScenarioError([Problem(Position(script.source, 1, 1), "", message)])
    missing: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        name, default = match[1] or match[4], match[3]
        if name in script.environment:
            return script.environment[name]
        if name in script.variables and name not in expanding and len(expanding) < 16:
            value = _expanded(script.variables[name], script, (*expanding, name))
        elif default is not None:
            value = _expanded(_QUOTES.sub("", default), script, (*expanding, name))
        else:
            value = Unevaluated(name)
        if isinstance(value, Unevaluated):
            missing.append(f"${name}")
        return value

    text = _REFERENCE.sub(value_of, template)
    if len(text) > MOST_CHARACTERS:
        message = f"a value of more than {MOST_CHARACTERS:,} characters once its variables are put in"
        raise ScenarioError([Problem(Position(script.source, 1, 1), "", message)])
    if missing:
        return Unevaluated(missing[0])
    if "$" in text or "`" in text:
        return Unevaluated(text)
    return text.replace(LITERAL_DOLLAR, "$")
