"""`Job`: the handle of one job, in the process that submitted it or in any other."""

from gputrain.job.events import JobEvent
from gputrain.job.job import Job
from gputrain.job.result import Result

__all__ = ["Job", "JobEvent", "Result"]
