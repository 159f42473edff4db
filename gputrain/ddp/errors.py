"""What `gputrain.ddp` raises: what happened, why, and what to do now.

This half of gputrain travels alone into the user's image, so it does not lean on the package's error tree.
"""

from __future__ import annotations

import functools


class DdpError(RuntimeError):
    """Root of the errors of this helper."""

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        why, fix = self.why and "\n  why: " + self.why, self.fix and "\n  fix: " + self.fix
        return self.what + why + fix

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(type(self), self.what, why=self.why, fix=self.fix), ()


class SessionError(DdpError):
    """The session cannot begin, or is asked for something it cannot do."""


class CheckpointError(DdpError):
    """State could not be saved, or what was saved cannot be used."""
