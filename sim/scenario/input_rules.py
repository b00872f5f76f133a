"""Rules of the input pipeline: figures that belong together."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.schema import Scenario


def host_path_has_bytes(scenario: Scenario) -> Iterator[Finding]:
    asked = scenario.training.input
    if asked is None:
        return
    if asked.host_bandwidth_Bps is not None and asked.sample_bytes is None:
        yield finding("needs training.input.bytes_per_sample beside it", "training.input.host_bandwidth")
    if asked.sample_bytes is not None and asked.host_bandwidth_Bps is None:
        yield finding(
            "has no effect without training.input.host_bandwidth: give what one node's host path carries",
            "training.input.bytes_per_sample",
        )


def loading_takes_time(scenario: Scenario) -> Iterator[Finding]:
    asked = scenario.training.input
    if asked is None:
        return
    if asked.samples_per_s is None and asked.sample_bytes is None and asked.host_bandwidth_Bps is None:
        yield finding(
            "says nothing that takes time: give samples_per_s, or bytes_per_sample and host_bandwidth",
            "training.input",
        )
    elif asked.samples_per_s is None and given(asked, "workers") and asked.workers > 0:
        yield finding("has no effect without samples_per_s, the rate of one worker", "training.input.workers")


INPUT_RULES: tuple[Check, ...] = (host_path_has_bytes, loading_takes_time)
