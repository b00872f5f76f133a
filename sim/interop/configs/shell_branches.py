"""Which branches of a script's ``if`` are taken, where that can be told by comparing two known words."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-gt": operator.gt, "-ge": operator.ge, "-lt": operator.lt, "-le": operator.le,
}  # fmt: skip
_BRACKETS = {"[": "]", "[[": "]]"}


def comparison(words: list[str | None]) -> bool | None:
    """Truth of ``[ A -eq B ]``, ``[[ A == B ]]``, ``[ -n A ]`` or ``[ -z A ]``; None for anything else, or an unknown word."""
    if len(words) < 3 or _BRACKETS.get(str(words[0])) != words[-1] or None in words:
        return None
    inner = [str(word) for word in words[1:-1]]
    if len(inner) == 2 and inner[0] in ("-n", "-z"):
        return bool(inner[1]) is (inner[0] == "-n")
    if len(inner) != 3:
        return None
    left, relation, right = inner
    if relation in ("=", "==", "!="):
        return None if set("*?") & set(right) else (left == right) is (relation != "!=")
    if relation in _NUMBERS and all(word.isdecimal() and len(word) < 19 for word in (left, right)):
        return _NUMBERS[relation](int(left), int(right))
    return None


@dataclass
class _Fork:
    """One ``if`` (or ``case``, always unknown): the branch being read, and whether an earlier one was taken."""

    branch: bool | None = None
    earlier: bool | None = False
    waiting: bool | None = None  # the condition read last
    deciding: bool = False  # between ``if`` and ``then``


@dataclass
class Branches:
    """Follows the forks of a script. ``state``: True where commands run, False where not, None where nobody knows."""

    forks: list[_Fork] = field(default_factory=list)

    @property
    def state(self) -> bool | None:
        states = [fork.branch for fork in self.forks]
        return False if False in states else None if None in states else True

    def enter(self, truth: bool | None) -> None:
        """An ``if`` with its condition."""
        self.forks.append(_Fork(branch=True, waiting=truth, deciding=True))

    def other(self, truth: bool | None) -> None:
        """An ``elif`` with its condition."""
        if self.forks:
            self._leave_branch()
            fork = self.forks[-1]
            fork.waiting, fork.branch, fork.deciding = truth, True, True

    def then(self) -> None:
        if self.forks:
            fork = self.forks[-1]
            fork.branch, fork.deciding = self._unless_earlier(fork.waiting), False

    def join(self, mark: str) -> None:
        """The condition goes on with ``&&`` or ``||``: known only where what follows cannot change it."""
        fork = self.forks[-1] if self.forks else None
        if fork is not None and fork.deciding and fork.waiting is not (mark == "|"):
            fork.waiting = None

    def otherwise(self) -> None:
        """An ``else``."""
        if self.forks:
            self._leave_branch()
            self.forks[-1].branch = self._unless_earlier(True)

    def case(self) -> None:
        self.forks.append(_Fork(branch=None))

    def leave(self) -> None:
        """A ``fi`` or ``esac``."""
        if self.forks:
            self.forks.pop()

    def _leave_branch(self) -> None:
        fork = self.forks[-1]
        fork.earlier = True if fork.branch is True else None if fork.branch is None else fork.earlier

    def _unless_earlier(self, truth: bool | None) -> bool | None:
        earlier = self.forks[-1].earlier
        if earlier is True or truth is False:
            return False
        return None if earlier is None or truth is None else True
