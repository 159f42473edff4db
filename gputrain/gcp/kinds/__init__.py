"""The table of refusals: every way in which Google says no, how it is recognized, and what to do.

Rows stand in the order of precedence: where an answer bears the marks of several, what a person must mend
wins over what may pass. docs/reference/errors.md is written from the same rows.
Source of codes and texts: Google's protos, documentation and public threads, read 2026-11-20.
"""

from gputrain.gcp.kinds import account, passing, place, quota, request
from gputrain.gcp.kinds.kind import Evidence, Kind, Mark

KINDS: tuple[Kind, ...] = (*account.KINDS, *quota.KINDS, *request.KINDS, *place.KINDS, *passing.KINDS)

__all__ = ["KINDS", "Evidence", "Kind", "Mark"]
