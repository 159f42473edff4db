"""What runs before a job's code has come, as texts: a container's command, a VM's startup script."""

from __future__ import annotations

import os
import re

from gputrain.entrypoint.contract import ASIDE

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def startup() -> str:
    """A VM's startup script, the same for every job: nothing is written into it."""
    return _read("keeper/startup.sh")


def loader() -> str:
    """The program of a container's ``python3 -c``: the client to Google and the loader in one text.

    It stands in the image's own folder, which may hold anything.

    >>> compile(loader(), "loader", "exec") is not None
    True
    """
    text = _read("entrypoint/cloud.py") + _read("keeper/loader.py")
    text = re.sub(r"^(?:from __future__ |from gputrain).*\n", "", text, flags=re.MULTILINE)
    return f"from __future__ import annotations\n{ASIDE.rstrip()}\n{text}"


def _read(path: str) -> str:
    with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
        return file.read()
