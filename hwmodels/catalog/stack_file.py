"""Stack profiles outside the catalog: files of users, in the catalog's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hwmodels.catalog.errors import CatalogError, UnknownName
from hwmodels.catalog.files import citations, merged, names, overlaid_stack, shared_sources
from hwmodels.catalog.record import Record, read_yaml

MAX_BYTES = 2**20
_ENDINGS = (".yaml", ".yml")
_MOST_FILES = 16


def is_stack_file(name: str) -> bool:
    """Whether ``name`` is the path of a file, not the name of an entry."""
    return "/" in name or "\\" in name or name.lower().endswith(_ENDINGS)


def stack_record(path: Path) -> Record:
    """The file completed by what it inherits. Raises ``CatalogError``."""
    content = _content(path, ())
    name = content.get("name")
    if isinstance(name, str) and name in names("stack"):
        raise CatalogError(f"{path}: name: {name!r} is a stack of the catalog: give this one another name")
    cited = {**shared_sources(), **citations(content.pop("sources", {}), str(path))}
    return Record(content, str(path), cited)


def _content(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    real = path.resolve()
    if real in below:
        raise CatalogError(f"{path}: inherits: a circle of files")
    if len(below) >= _MOST_FILES:
        raise CatalogError(f"{path}: inherits: a chain of more than {_MOST_FILES} files")
    own = _read(path)
    parent = own.get("inherits")
    if parent is None:
        return own
    try:
        if is_stack_file(str(parent)):
            inherited = _content(path.parent / str(parent), (*below, real))
        else:
            inherited = merged("stack", str(parent), "inherits", ())
    except UnknownName as error:
        raise CatalogError(f"{path}: inherits: {error}") from error
    return overlaid_stack(inherited, own)


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise CatalogError(f"{path}: larger than {MAX_BYTES // 2**20} MiB: no stack profile")
        return read_yaml(path)
    except UnicodeDecodeError:
        raise CatalogError(f"{path}: not UTF-8 text: the YAML file of a stack profile is due here") from None
    except (OSError, ValueError) as error:
        if isinstance(error, CatalogError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise CatalogError(f"{path}: {reason}: the path of a stack profile (YAML) is due here") from None
