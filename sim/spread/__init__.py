"""How far steps that are alike on paper lie apart, and which rank decides them."""

from sim.spread.spread import step_spread

__all__ = ["step_spread"]
