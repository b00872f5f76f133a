"""The ``variability`` section: what differs between GPUs, links and steps that are alike on paper."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from sim.scenario.fields import Number, Quantity, Whole, worded
from sim.scenario.section import Section

_Share = Annotated[float, Number(0, 1, below=True)]


class SlowSpec(Section):
    """One device below its rating: a GPU, or one NIC (rail) of a node."""

    node: Annotated[int, Whole(0, 999_999)] = Field(description="Node, counted from 0 in rank order")
    gpu: Annotated[int, Whole(0, 65_535)] | None = Field(
        default=None, description="GPU of the node, counted from 0; or give nic"
    )
    nic: Annotated[int, Whole(0, 1023)] | None = Field(
        default=None, description="NIC of the node, counted from 0; or give gpu"
    )
    speed: Annotated[float, Number(0.01, 1)] = Field(
        description="Part of its speed that is left: 0.95 is five per cent slow"
    )

    @model_validator(mode="after")
    def _one_device(self) -> SlowSpec:
        if (self.gpu is None) == (self.nic is None):
            raise worded("names one device: give either gpu or nic")
        return self


class VariabilitySpec(Section):
    """Differences between ranks and between steps; each trial draws them anew. Shares of the time they act on."""

    gpu_sigma: _Share = Field(
        default=0.0, description="Spread of GPU speeds (silicon, temperature): normal, one draw per GPU"
    )
    kernel_jitter: _Share = Field(
        default=0.0, description="Noise of a compute task: normal, one draw per task and rank"
    )
    collective_jitter: Annotated[float, Number(0, 100)] = Field(
        default=0.0,
        description="Delay of a collective or message: exponential with this mean, one draw per task and rank",
    )
    work_sigma: _Share = Field(
        default=0.0,
        description="Spread of a micro-batch's work (sequence lengths, routing): normal, one draw per micro-batch and replica",
    )
    step_noise: _Share = Field(
        default=0.0,
        description="Noise that all ranks share (clocks, power, network epochs): normal, one draw per step",
    )
    stalls_per_hour: Annotated[float, Number(0, 3600)] = Field(
        default=0.0, description="Stalls of the whole job in an hour of training; due with stall"
    )
    stall_s: Annotated[float, Quantity("time", "1 us", "1000 s")] | None = Field(
        default=None,
        alias="stall",
        description="Mean length of a stall: exponential; due with stalls_per_hour",
        json_schema_extra={"unit": "s"},
    )
    slow: tuple[SlowSpec, ...] = Field(default=(), description="Devices known to be slow", max_length=1000)
    trials: Annotated[int, Whole(1, 100_000)] = Field(
        default=200, description="Steps drawn; figures carry the standard error of as many"
    )

    @model_validator(mode="after")
    def _whole_stalls(self) -> VariabilitySpec:
        if (self.stalls_per_hour > 0.0) != (self.stall_s is not None):
            raise worded("a stall needs both stalls_per_hour and stall (its mean length)")
        return self

    @property
    def random(self) -> bool:
        """Whether trials differ from each other."""
        shares = (
            self.gpu_sigma,
            self.kernel_jitter,
            self.collective_jitter,
            self.work_sigma,
            self.step_noise,
        )
        return any(share > 0.0 for share in (*shares, self.stalls_per_hour))
