"""Experiments: one job per point of a grid, resumed by running the same script again."""

from gputrain.experiments.comparison import Comparison, compare
from gputrain.experiments.experiment import Experiment, PointOutcome
from gputrain.experiments.points import grid

__all__ = ["Comparison", "Experiment", "PointOutcome", "compare", "grid"]
