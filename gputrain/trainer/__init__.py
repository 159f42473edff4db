"""`Trainer`: from what a user asks for to a running job, on every backend."""

from gputrain.trainer.attach import attach
from gputrain.trainer.jobs import JobList
from gputrain.trainer.planned import PlannedJob
from gputrain.trainer.trainer import Trainer

__all__ = ["JobList", "PlannedJob", "Trainer", "attach"]
