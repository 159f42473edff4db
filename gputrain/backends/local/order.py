"""The order of a job on this machine, with what only this machine and this moment know."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gputrain.backends.local import render
from gputrain.backends.local.offers import unmet
from gputrain.entrypoint import contract
from gputrain.errors import Fault, SpecError
from gputrain.keeper import folder, packages
from gputrain.records.folder import make_private

# Without site-packages and the caller's PYTHON variables an interpreter is up in half the time, and nothing
# of the user's folder can stand in the way of the standard library.
BARE = ("-I", "-S", "-X", "utf8", "-c")
MAIN = "import sys; sys.path.append(sys.argv.pop(1)); from {} import main; main()"
"""What such an interpreter runs of ours; its first word is `PACKAGES`."""
PACKAGES = str(Path(__file__).resolve().parents[3])

_AGENT = MAIN.format("gputrain.entrypoint.__main__")
_REQUIRED = MAIN.format("gputrain.keeper.packages")
_ENVIRONMENTS = ".packages"
_INTERFACE = "GLOO_SOCKET_IFNAME"
_PROCESS = secrets.token_hex(8)


def complete(root: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The order with what only this machine and this moment know; its folders are made."""
    where = {contract.CHECKPOINT_DIR: "checkpoint_dir", contract.OUTPUT_DIR: "output_dir"}
    folders = {name: _make_dir(field, body[field]) for name, field in where.items() if body[field]}
    nodes = [_placed({**node, "env": {**node["env"], **folders}}) for node in body["nodes"]]
    start = [sys.executable, *_required(root, body), *BARE, _AGENT, PACKAGES]
    return {**body, "nodes": nodes, "start": start, "created_at": folder.now(), "creator": creator()}


def _placed(node: dict[str, Any]) -> dict[str, Any]:
    """The node at an address and interface that this machine has: macOS has one of each, by another name."""
    env, address = dict(node["env"]), node["address"]
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            env[contract.LOCAL_ADDR] = address = "127.0.0.1"
    names = [name for _, name in socket.if_nameindex()]
    if env.get(_INTERFACE) == render.LOOPBACK not in names:
        env[_INTERFACE] = next((name for name in names if name.startswith(render.LOOPBACK)), render.LOOPBACK)
    return {**node, "address": address, "env": env}


def _required(root: str, body: Mapping[str, Any]) -> list[str]:
    """The words that first install what this Python lacks, for all jobs that want the same."""
    words = list(body["requirements"])
    if not unmet(tuple(words), body["location"]):
        return []
    if words[0] == "-r":
        words[1] = os.path.join(body["location"], words[1])
    where = Path(root) / _ENVIRONMENTS
    make_private(where)
    told = json.dumps({"requirements": words, "installed": packages.installed()}).encode()
    path = where / (hashlib.sha256(told).hexdigest()[:16] + ".json")
    folder.write_whole(str(path), told)  # no words: everybody reads those, and addresses hold passwords
    return [*BARE, _REQUIRED, PACKAGES, str(path)]


def creator() -> str:
    """This process, by a word that no other has, nor a child that it forks."""
    return f"{_PROCESS}-{os.getpid()}"


def _make_dir(field: str, given: str) -> str:
    path = os.path.abspath(os.path.expanduser(given))
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        fault = Fault(
            field=field, value=repr(given), allowed="a folder that can be made", fix="name another path"
        )
        raise SpecError(f"{field}: {path} cannot be made: {error.strerror}", faults=(fault,)) from error
    return path
