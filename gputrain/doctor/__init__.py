"""Checks everything a job needs before one is made, and reports every fault at once, each with its fix.

Nothing here writes. What cannot be checked is unknown, with the reason, and no fault.
"""

from gputrain.doctor.report import (
    Check as Check,
    Checks as Checks,
    Finding as Finding,
    Probe as Probe,
    run_checks as run_checks,
)
