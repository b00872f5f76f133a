"""Both engines against scale: ``python benchmarks/engine_scale.py [--write]``.

Llama 3.1 405B on 8 to 131,072 MI300X. ``--write`` refreshes the table in docs/how-it-works.md. Each row is a process of
its own, so that its memory is its own. Every rank has a speed of its own (one in a hundred apart), so nothing folds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-it-works.md"
BEGIN, END = "<!-- engine-scale:begin -->", "<!-- engine-scale:end -->"
CASES = [  # GPUs, trials
    (128, 1),
    (1024, 1),
    (1024, 100),
    (16_384, 1),
    (16_384, 16),
    (131_072, 1),
]


def one(gpus: int, trials: int) -> dict[str, float]:
    """CPU seconds of the stages of one run, and the process's peak memory."""
    import numpy as np

    import sim
    from sim.engine import events, every_rank, maxplus
    from sim.program import COMPUTE, Task
    from sim.step import Step

    began = time.process_time()
    changes = (f"cluster.nodes={gpus // 8}", f"training.global_batch={gpus // 8}")
    step = Step(sim.load(ROOT / "scenarios" / "llama3.1-405b_16384xmi300x.yaml", overrides=changes))
    program, seconds = step.program, [price.seconds for price in step.prices]
    planned = time.process_time()
    folded = events.run(program, seconds)
    events_s = time.process_time()
    if maxplus.run(program, seconds) != folded:
        raise SystemExit("the engines disagree")
    maxplus_s = time.process_time()
    grid = every_rank.program_grid(program)
    draw = np.random.default_rng(0)
    speeds = [
        grid.spread(draw.normal(1.0, 0.01, (trials, program.ranks)).clip(0.9)) for _ in range(program.roles)
    ]
    known: dict[tuple[int, float], every_rank.Durations | object] = {}

    def duration(task: Task) -> object:
        if task.stream != COMPUTE:
            return seconds[task.id]
        key = (task.role, seconds[task.id])
        if key not in known:
            known[key] = seconds[task.id] * speeds[task.role]
        return known[key]

    every_rank.run(program, grid, duration)  # type: ignore[arg-type]
    done = time.process_time()
    return {
        "tasks": len(program.tasks),
        "plan": planned - began,
        "events": events_s - planned,
        "maxplus": maxplus_s - events_s,
        "every_rank": done - maxplus_s,
        "process": time.process_time(),
        "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def table() -> str:
    rows = [
        "| GPUs | trials | events, folded | max-plus, folded | every rank | whole process | peak memory |"
    ]
    rows.append("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for gpus, trials in CASES:
        call = [sys.executable, __file__, "--one", str(gpus), str(trials)]
        found = json.loads(subprocess.run(call, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
        rows.append(
            f"| {gpus:,} | {trials} | {found['events'] * 1e3:.0f} ms | {found['maxplus'] * 1e3:.0f} ms | "
            f"{found['every_rank'] * 1e3:.0f} ms | {found['process']:.1f} s | {found['peak_MiB']:.0f} MiB |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="refresh the table of the docs")
    parser.add_argument("--one", nargs=2, type=int, metavar=("GPUS", "TRIALS"))
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(*asked.one)))
        return
    text = table()
    print(text)
    if asked.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
