"""What `Local` is made with, and the folder in which its jobs lie."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from gputrain import fields
from gputrain.fields import Field, refused

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _folder(value: Any) -> Path:
    """A folder of this machine, by its whole path."""
    found = fields.path(value)
    if _SCHEME.match(found):  # it would lie in a folder that is called so, where nobody looks
        raise ValueError("it is an address, not a folder of this machine")
    try:
        return Path(found).expanduser().absolute()
    except RuntimeError:
        raise ValueError("whose home that is, this machine does not know") from None


ROWS = {
    "gpus": Field(fields.whole(0, 64), "a count of GPUs, or None", "Local(gpus=2)"),
    "root": Field(_folder, "a folder's path, or None", "Local(root='jobs')"),
}
"""How each argument is read."""


def usual_root() -> Path:
    """The folder of jobs where none is named. Raises SpecError where a variable names none."""
    if os.environ.get("GPUTRAIN_HOME"):
        return _named_by("GPUTRAIN_HOME") / "jobs"
    return _named_by("XDG_STATE_HOME", "~/.local/state") / "gputrain" / "jobs"


def _named_by(variable: str, usual: str = "") -> Path:
    value = os.environ.get(variable) or usual
    try:
        return _folder(value)
    except ValueError as error:
        fix = f"set {variable} to the path of a folder"
        raise refused(f"${variable}", value, f"a folder's path ({error})", fix) from error
