"""CPU seconds and peak memory of whole commands: ``python benchmarks/whole_process.py``.

Prints the median of several runs and its share of the budget each command was given. Nothing is asserted:
shared machines are noisy.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5
COMMANDS = {  # command: CPU budget in seconds
    ("--help",): 0.5,
    ("run", "scenarios/llama3.1-8b_8xmi325x.yaml"): 3.0,
    ("run", "scenarios/gpt-175b_lumi_128gcd.yaml"): 3.0,
    ("run", "scenarios/llama3.1-405b_16384xmi300x.yaml"): 3.0,
    ("validate",): 60.0,
}


def measure(arguments: tuple[str, ...]) -> tuple[float, float]:
    """CPU seconds (user and system) and peak resident MiB of one run."""
    with subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise SystemExit(f"sim {' '.join(arguments)} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    print(f"{'command':55s} {'CPU s':>8s} {'of budget':>10s} {'peak MiB':>9s}")
    for arguments, budget in COMMANDS.items():
        runs = [measure(arguments) for _ in range(RUNS)]
        cpu = statistics.median(seconds for seconds, _ in runs)
        peak = max(mebibytes for _, mebibytes in runs)
        print(f"{'sim ' + ' '.join(arguments):55s} {cpu:8.2f} {cpu / budget:10.0%} {peak:9.0f}")


if __name__ == "__main__":
    main()
