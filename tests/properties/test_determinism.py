"""Equal scenarios give equal bytes: twice in one process, and in processes that hash strings differently."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.scenarios import SMALL, changes, small

import sim
from sim.results import StepResult

ROOT = Path(sim.__file__).parents[1]

PLANS = (
    "",
    "tp=2 pp=4 cluster.nodes=2",
    "data_sharding=fsdp",
    "tp=4 overlap.tp=true training.recompute=full",
)

PROGRAM = """
import hashlib, json, sys, sim
text, *overrides = sys.argv[1:]
result = sim.simulate(sim.loads(text, overrides=overrides))
print(hashlib.sha256(json.dumps([result.to_dict(), list(result.records)]).encode()).hexdigest())
"""


def written(result: StepResult) -> bytes:
    return json.dumps([result.to_dict(), list(result.records)]).encode()


@pytest.mark.parametrize("plan", PLANS)
def test_two_runs_give_the_same_bytes(plan: str) -> None:
    scenario = small(*changes(plan))
    assert written(sim.simulate(scenario)) == written(sim.simulate(scenario))
    assert written(sim.simulate(small(*changes(plan)))) == written(sim.simulate(scenario))


def test_every_process_gives_the_same_bytes() -> None:
    overrides = changes(PLANS[1])
    expected = hashlib.sha256(written(sim.simulate(small(*overrides)))).hexdigest()
    digests = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, SMALL, *overrides],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("0", "4242")
    ]
    assert digests == [expected, expected]
