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
    megatron_log,
    mori_io,
    rccl_tests,
    rvs,
    torchtitan_log,
    transfer_bench,
)
from sim.interop.lines import Line, LogError, read_lines
from sim.interop.training_log import TrainingLog

Log = (
    rccl_tests.RcclLog
    | hipblaslt_bench.HipblasltLog
    | transfer_bench.TransferBenchLog
    | babelstream.BabelStreamLog
    | rvs.RvsLog
    | mori_io.MoriIoLog
    | amd_smi.SmiLog
    | mamf.MamfLog
    | TrainingLog
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
        megatron_log,
        torchtitan_log,
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


def read_training_log(*paths: str | Path) -> TrainingLog:
    """The training run in ``paths``: one log, or the pieces of a rotated one in the order of time.

    Raises ``LogError`` as ``read_log`` does, also for the log of a benchmark.
    """
    if not paths:
        raise LogError("no log given: the path of a training log is due here")
    lines = [line for path in paths for line in read_lines(path)]
    for line in lines:
        if megatron_log.recognises(line.text):
            return megatron_log.read(str(paths[0]), lines)
        if torchtitan_log.recognises(line.text):
            return torchtitan_log.read(str(paths[0]), lines)
    raise LogError(
        f"{paths[0]}:1: no training steps found: a log of Megatron-LM, Primus or TorchTitan is due here"
    )
