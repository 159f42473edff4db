"""`Job`: the handle of one job, in the process that submitted it or in any other."""

from gputrain.job.job import Job
from gputrain.job.result import Result
from gputrain.job.watcher import JobEvent

__all__ = ["Job", "JobEvent", "Result"]
