"""Rules of variability: devices that exist, links that somebody uses."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding
from sim.scenario.schema import Scenario


def slow_devices_exist(scenario: Scenario) -> Iterator[Finding]:
    if scenario.variability is None:
        return
    node, seen = machine.node(scenario), set()
    for number, slow in enumerate(scenario.variability.slow):
        field = f"variability.slow.{number}"
        if slow.node * node.gpus + (slow.gpu or 0) >= scenario.gpus:
            yield finding(
                f"node {slow.node} is not in use: {scenario.gpus:,} GPUs, {node.gpus} a node", field
            )
        if slow.gpu is not None and slow.gpu >= node.gpus:
            yield finding(f"GPU {slow.gpu} of a node with {node.gpus}: they count from 0", field)
        if slow.nic is not None and slow.nic >= node.nics:
            yield finding(f"NIC {slow.nic} of a node with {node.nics}: they count from 0", field)
        device = (slow.node, slow.gpu, slow.nic)
        if device in seen:
            yield finding("names a device twice", field)
        seen.add(device)


def something_differs(scenario: Scenario) -> Iterator[Finding]:
    asked = scenario.variability
    hashed = scenario.cluster.fabric.routing == "ecmp" and scenario.cluster.fabric.kind != "non-blocking"
    if asked is not None and not asked.random and not asked.slow and not hashed:
        yield finding(
            "says nothing that differs: give a spread, a noise, stalls or a slow device", "variability"
        )


def steps_end_together(scenario: Scenario) -> Iterator[Finding]:
    if scenario.variability is not None and not scenario.parallelism.optimizer_barrier:
        yield finding(
            "not modelled without parallelism.optimizer_barrier: stages that go on by themselves pass delays to the next step",
            "variability",
        )


VARIABILITY_RULES: tuple[Check, ...] = (slow_devices_exist, something_differs, steps_end_together)
