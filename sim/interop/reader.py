"""One door for all logs: recognise the format, then let its reader read the file from the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sim.interop import (
    amd_smi,
    babelstream,
    hipblaslt_bench,
    mamf,
    mori_io,
    rccl_tests,
    rvs,
    transfer_bench,
)
from sim.interop.lines import Line, LogError, read_lines

Log = (
    rccl_tests.RcclLog
    | hipblaslt_bench.HipblasltLog
    | transfer_bench.TransferBenchLog
    | babelstream.BabelStreamLog
    | rvs.RvsLog
    | mori_io.MoriIoLog
    | amd_smi.SmiLog
    | mamf.MamfLog
)


@dataclass(frozen=True)
class _Format:
    name: str
    recognises: Callable[[str], bool]
    read: Callable[[str, Iterable[Line]], Log]


_READERS = tuple(
    _Format(module.FORMAT, module.recognises, module.read)
    for module in (
        rccl_tests,
        hipblaslt_bench,
        transfer_bench,
        babelstream,
        rvs,
        mori_io,
        amd_smi,
        mamf,
    )
)

FORMATS = tuple(reader.name for reader in _READERS)


def read_log(path: str | Path) -> Log:
    """The log in ``path``, figures in SI units.

    Raises ``LogError`` (``file:line: what is wrong: what would be right``) for a file that is missing,
    empty, binary or too long, for an unknown format, and for a log that breaks off.
    """
    return _recognised(path).read(str(path), read_lines(path))


def _recognised(path: str | Path) -> _Format:
    for line in read_lines(path):
        for reader in _READERS:
            if reader.recognises(line.text):
                return reader
    raise LogError(f"{path}:1: no line of a known log: output of {', '.join(FORMATS)} is due here")
