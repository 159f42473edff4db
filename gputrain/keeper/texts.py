"""The keeper as texts, for a container's command and a VM's metadata; this module stays here."""

from __future__ import annotations

import json
import os

from gputrain.entrypoint.contract import ASIDE

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_BESIDE = "\nfrom .cloud import Bucket, CallFailed, order\n"

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
    """A VM's startup script, the same for every job: nothing is written into it."""
    return _read("keeper/startup.py")


def vm() -> str:
    """What the startup script brings from the metadata: each file's text by its path, as JSON."""
    return json.dumps({f"gputrain/{path}": _read(path) for path in _VM})


def loader() -> str:
    """The program of a container's ``python3 -c``: the client and the loader in one text.

    It stands in the image's own folder, which may hold anything.


    >>> compile(loader(), "loader", "exec") is not None
    True
    """
    future = "from __future__ import annotations\n"
    client, head_and_rest = (
        _read(f"keeper/{name}.py").replace(future, "", 1) for name in ("cloud", "loader")
    )
    return future + ASIDE.rstrip() + "\n" + client + head_and_rest.replace(_BESIDE, "\n", 1)


def _read(path: str) -> str:
    with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
        return file.read()
