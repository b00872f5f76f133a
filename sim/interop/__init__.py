"""Formats of others: logs of benchmarks in. ``read_log`` recognises which one it is."""

from __future__ import annotations

from sim.interop.amd_smi import SmiLog
from sim.interop.babelstream import BabelStreamLog
from sim.interop.hipblaslt_bench import HipblasltLog
from sim.interop.lines import LogError
from sim.interop.mamf import MamfLog
from sim.interop.mori_io import MoriIoLog
from sim.interop.rccl_tests import RcclLog, RcclTable
from sim.interop.reader import FORMATS, Log, read_log, read_training_log
from sim.interop.rvs import RvsLog
from sim.interop.training_log import TrainingLog
from sim.interop.transfer_bench import TransferBenchLog

__all__ = [
    "FORMATS",
    "BabelStreamLog",
    "HipblasltLog",
    "Log",
    "LogError",
    "MamfLog",
    "MoriIoLog",
    "RcclLog",
    "RcclTable",
    "RvsLog",
    "SmiLog",
    "TrainingLog",
    "TransferBenchLog",
    "read_log",
    "read_training_log",
]
