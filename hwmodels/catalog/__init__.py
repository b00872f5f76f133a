"""Facts about hardware and software stacks: YAML files with unit, source and confidence per figure.

``gpu("mi300x")``, ``node("mi300x-8x400g")``, ``nic``, ``switch`` and ``stack`` build the entry of that
name or raise ``UnknownName``, which lists the known names nearest first. There is never a default.
``stack_from_file`` builds a profile of the user's own, such as ``sim calibrate`` writes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hwmodels.catalog.errors import CatalogError, UnknownName, nearest_first
from hwmodels.catalog.files import KINDS, names, protocols_record, raw, record
from hwmodels.catalog.gpu_entry import build_gpu
from hwmodels.catalog.nic_entry import build_nic
from hwmodels.catalog.node_entry import build_node
from hwmodels.catalog.protocol_entry import build_protocols
from hwmodels.catalog.stack_entry import build_stack
from hwmodels.catalog.stack_file import is_stack_file, stack_record
from hwmodels.catalog.switch_entry import build_switch

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmodels.gpu import Gpu
    from hwmodels.node import Nic, Node
    from hwmodels.protocol import Protocols
    from hwmodels.stack import StackProfile
    from hwmodels.switch import Switch

__all__ = [
    "KINDS",
    "CatalogError",
    "UnknownName",
    "entry",
    "gpu",
    "is_stack_file",
    "names",
    "newest_stack",
    "nic",
    "node",
    "protocols",
    "stack",
    "stack_from_file",
    "stack_named",
    "switch",
]


@cache
def gpu(name: str) -> Gpu:
    return build_gpu(record("gpu", name))


@cache
def nic(name: str) -> Nic:
    return build_nic(record("nic", name))


@cache
def switch(name: str) -> Switch:
    return build_switch(record("switch", name))


@cache
def protocols() -> Protocols:
    """Protocols of a collective library, inside a domain and across domains."""
    return build_protocols(protocols_record())


@cache
def node(name: str) -> Node:
    return build_node(record("node", name), gpu, nic)


@cache
def stack(name: str) -> StackProfile:
    return build_stack(record("stack", name, parent_key="inherits"))


def stack_from_file(path: str | Path) -> StackProfile:
    """The profile in a file of the catalog's stack format.

    It may inherit from a stack of the catalog or from another file, relative to itself. Raises
    ``CatalogError`` for a file that is missing or no valid profile.
    """
    return build_stack(stack_record(Path(path)))


def stack_named(name: str) -> StackProfile:
    """The stack called ``name``: an entry of the catalog, or the path of a file (``my/stack.yaml``)."""
    return stack_from_file(name) if is_stack_file(name) else stack(name)


@cache
def newest_stack(gpu_name: str, *, recommenders: bool = False) -> StackProfile:
    """The newest tuned profile that covers ``gpu_name``, an untuned one only if there is no other.

    Profiles with embedding figures are those of ``recommenders``, all others of transformers.

    Raises ``UnknownName`` (kind ``gpu`` or ``stack``) when there is no such GPU or no profile for it.
    """
    gpu(gpu_name)
    listed = [stack(name) for name in names("stack") if gpu_name in raw("stack", name).get("gpus", ())]
    covering = [profile for profile in listed if bool(profile.embedding) == recommenders]
    if not covering:
        fitting = [p for p in map(stack, names("stack")) if bool(p.embedding) == recommenders]
        covered = {gpu for profile in fitting for gpu in profile.gpus}
        what = "of recommenders " if recommenders else ""
        hint = f"no profile {what}covers GPU {gpu_name}; GPUs with one: {', '.join(sorted(covered))}"
        raise UnknownName("stack", gpu_name, nearest_first(gpu_name, names("stack")), hint)
    return max(covering, key=lambda profile: (profile.tuned, profile.date, profile.name))


def entry(kind: str, name: str) -> Gpu | Node | Nic | Switch | StackProfile:
    """The entry ``name`` of ``kind``, one of ``KINDS``."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    build: dict[str, Callable[[str], Gpu | Node | Nic | Switch | StackProfile]]
    build = {"gpu": gpu, "node": node, "nic": nic, "switch": switch, "stack": stack}
    return build[kind](name)
