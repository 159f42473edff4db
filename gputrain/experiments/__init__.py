"""Many jobs as one thing: a grid of points, one job each, taken up where it was left."""

from gputrain.experiments.comparison import Comparison, compare
from gputrain.experiments.experiment import Experiment
from gputrain.experiments.outcome import PointOutcome
from gputrain.experiments.points import grid

__all__ = ["Comparison", "Experiment", "PointOutcome", "compare", "grid"]
