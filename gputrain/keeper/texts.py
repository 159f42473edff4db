"""The keeper as texts, for a container's command and a VM's metadata; this module stays here."""

from __future__ import annotations

import json
import os
import re

from gputrain.entrypoint.contract import ASIDE

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_VM = (
    "__init__.py",
    "entrypoint/__init__.py",
    "entrypoint/contract.py",
    "entrypoint/host.py",
    "entrypoint/processes.py",
    "keeper/__init__.py",
    "keeper/alike.py",
    "keeper/bucket.py",
    "keeper/cloud.py",
    "keeper/container.py",
    "keeper/disks.py",
    "keeper/errand.py",
    "keeper/fabric.py",
    "keeper/gpus.py",
    "keeper/install.py",
    "keeper/journal.py",
    "keeper/keeper.py",
    "keeper/loader.py",
    "keeper/mirror.py",
    "keeper/mirrors.py",
    "keeper/removals.py",
    "keeper/rules.py",
    "keeper/startup.py",
    "keeper/status.py",
    "keeper/store.py",
    "keeper/tree.py",
    "keeper/unsent.py",
    "keeper/vm.py",
    "keeper/whole.py",
)
"""What a VM needs before the code of its job has come."""


def startup() -> str:
    """A VM's startup script, the same for every job: nothing is written into it.

    >>> compile(startup(), "startup", "exec") is not None
    True
    """
    return "#!/usr/bin/env python3\n" + _with_client("startup")


def vm() -> str:
    """What the startup script brings from the metadata: each file's text by its path, as JSON."""
    return json.dumps({f"gputrain/{path}": _read(path) for path in _VM})


def loader() -> str:
    """The program of a container's ``python3 -c``: the client and the loader in one text.

    It stands in the image's own folder, which may hold anything.

    >>> compile(loader(), "loader", "exec") is not None
    True
    """
    return _with_client("loader", ASIDE.rstrip() + "\n")


def _with_client(name: str, head: str = "") -> str:
    """A program in one text: the client to Google, and what needs it."""
    text = _read("keeper/cloud.py") + _read(f"keeper/{name}.py")
    text = re.sub(r"^(?:#!|from __future__ |from \.cloud ).*\n", "", text, flags=re.MULTILINE)
    return f"from __future__ import annotations\n{head}{text}"


def _read(path: str) -> str:
    with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
        return file.read()
