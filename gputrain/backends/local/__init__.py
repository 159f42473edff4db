"""`Local`: jobs on this machine, with its GPUs or with CPU ranks.

`Local` loads when it is asked for, because the supervisor of a job runs on the standard library alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gputrain.backends.local.backend import Local as Local

__all__ = ["Local"]


def __getattr__(name: str) -> object:
    if name == "Local":
        from gputrain.backends.local.backend import Local

        return Local
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
