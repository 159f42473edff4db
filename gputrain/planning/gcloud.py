"""A job in the words of gcloud."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class GcloudJob:
    """A file and a command that together make the job that ``plan.submit()`` would make."""

    config: str
    """Content of the file ``config.yaml``."""
    command: tuple[str, ...]
    """The words of the command, run beside that file; ``shlex.join`` makes a line of them."""
