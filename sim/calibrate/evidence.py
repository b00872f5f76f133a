"""The logs of a calibration, sorted by what they measure. Logs that contradict themselves are refused here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sim.calibrate.errors import CalibrationError
from sim.interop import (
    BabelStreamLog,
    HipblasltLog,
    Log,
    LogError,
    MamfLog,
    RcclLog,
    RcclTable,
    TransferBenchLog,
    read_log,
)
from sim.ledger import LedgerError, load_file
from sim.ledger.run import MeasuredRun

READ = "rccl-tests, hipblaslt-bench, mamf-finder, BabelStream, TransferBench, or a ledger file (YAML) of training runs"
_LEDGER_ENDINGS = (".yaml", ".yml")


@dataclass
class Evidence:
    """What the logs hold, and what to tell about them."""

    gemms: list[HipblasltLog | MamfLog] = field(default_factory=list)
    streams: list[BabelStreamLog] = field(default_factory=list)
    copies: list[TransferBenchLog] = field(default_factory=list)
    collectives: list[tuple[str, RcclTable]] = field(default_factory=list)
    runs: list[tuple[str, MeasuredRun]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of GPUs that the logs mention."""
        names = [name for _, table in self.collectives for name in table.launch.gpus]
        names += [row.gpu for log in self.gemms for row in log.rows if row.gpu]
        return tuple(dict.fromkeys(names))


def gather(logs: Sequence[str | Path]) -> Evidence:
    """Reads all ``logs``. Raises ``CalibrationError`` with everything that is wrong in any of them."""
    evidence, problems = Evidence(), []
    for path in dict.fromkeys(str(log) for log in logs):
        try:
            if path.lower().endswith(_LEDGER_ENDINGS):
                evidence.runs += [(path, run) for run in load_file(Path(path)).runs]
            else:
                problems += _sort(read_log(path), evidence)
        except LedgerError as error:
            problems += error.errors
        except LogError as error:
            problems += error.errors
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}: the path of a log is due here")
    if problems:
        raise CalibrationError(problems)
    return evidence


def _sort(log: Log, evidence: Evidence) -> list[str]:
    """Puts ``log`` where it belongs; what is wrong with it comes back."""
    evidence.notes += log.warnings
    match log:
        case RcclLog():
            return _sort_tables(log, evidence)
        case HipblasltLog() | MamfLog():
            evidence.gemms.append(log)
        case BabelStreamLog():
            evidence.streams.append(log)
        case TransferBenchLog():
            evidence.copies.append(log)
        case _:
            return [
                f"{log.path}:1: is output of {log.format}: no figure of a stack follows from it; {READ} are due"
            ]
    return list(log.contradictions)


def _sort_tables(log: RcclLog, evidence: Evidence) -> list[str]:
    problems: list[str] = []
    for table in log.tables:
        at = f"{log.path}:{table.line}"
        problems += table.contradictions
        problems += [
            f"{log.path}:{row.line}: a row with wrong results (#wrong): rerun the test"
            for row in table.dropped
        ]
        if table.collective is None:
            problems.append(
                f"{at}: which collective this is cannot be told: keep the command line (…_perf) in the log"
            )
        elif table.ranks is None:
            problems.append(
                f"{at}: how many ranks took part cannot be told: keep the device list or the command line"
            )
        else:
            evidence.collectives.append((log.path, table))
    return problems
