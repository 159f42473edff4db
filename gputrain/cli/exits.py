"""What an exit status means."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """One status for each remedy, as errors are grouped by remedy."""

    OK = 0
    JOB = 1
    """The job failed, was cancelled, expired or is lost: look into the job."""
    REQUEST = 2
    """The command line or the spec is wrong, or nothing on offer fits it: mend the request."""
    ACCESS = 3
    """Credentials, permissions, APIs, policies, quota, or what ``doctor`` found: mend the account."""
    CAPACITY = 4
    """No place had room: try elsewhere, or later."""
    AGAIN = 5
    """A passing failure, a job that goes on after the wait for it, a look that saw little: try again."""
    UNKNOWN = 6
    """Google gave an answer that nobody foresaw: report it."""
    INTERRUPTED = 130
    """Ctrl-C; a job that was submitted goes on."""

    @classmethod
    def of(cls, error: Exception) -> Exit:
        """The status for an error of ours."""
        from gputrain import errors

        remedies = (
            ((errors.JobTimeoutError, errors.StoppedError), cls.AGAIN),
            (errors.JobError, cls.JOB),
            (errors.RequestError, cls.REQUEST),
            (errors.AccessError, cls.ACCESS),
            ((errors.CapacityError, errors.NoPlacementError), cls.CAPACITY),
            (errors.TransientError, cls.AGAIN),
        )
        return next((status for kinds, status in remedies if isinstance(error, kinds)), cls.UNKNOWN)
