"""`Trainer`: from a spec to a running job, on every backend."""

from gputrain.trainer.jobs import JobList, attach
from gputrain.trainer.plan import Plan
from gputrain.trainer.trainer import Trainer

__all__ = ["JobList", "Plan", "Trainer", "attach"]
