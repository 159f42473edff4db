"""The order of an attempt on this machine, and its start: its folder appears whole, with a supervisor."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from gputrain.backends.agent_reports import of_agents
from gputrain.backends.base import LAYOUT, Bundle
from gputrain.backends.local import folder
from gputrain.backends.local.offers import unmet
from gputrain.errors import PermissionDeniedError, ProviderError
from gputrain.fields import invalid
from gputrain.jobstore.folder import ELSEWHERE, make_private
from gputrain.planning import Candidate
from gputrain.runtime import contract, host, packages
from gputrain.spec import TrainingSpec

# Without site-packages and the caller's PYTHON variables an interpreter is up in half the time, and nothing
# of the user's folder can stand in the way of the standard library.
BARE = ("-I", "-S", "-X", "utf8", "-c")
MAIN = "import sys; sys.path.append(sys.argv.pop(1)); from {} import main; main()"
"""Our code that such an interpreter runs; its first word is `PACKAGES`."""
PACKAGES = str(Path(__file__).resolve().parents[3])

_AGENT = MAIN.format("gputrain.entrypoint")
_REQUIRED = MAIN.format("gputrain.runtime.packages")
_ENVIRONMENTS = ".packages"
_INTERFACE = "GLOO_SOCKET_IFNAME"

GPU_LOCKS = "/tmp/gputrain-gpus"  # noqa: S108  # of all users of the machine; files are opened with O_NOFOLLOW
LOOPBACK = "lo"
"""The interface of 127.0.0.1 on Linux; macOS calls it lo0."""


def order(
    job_id: str, attempt: str, spec: TrainingSpec, candidate: Candidate, bundle: Bundle, *,
    uuids: Sequence[str], locks: str, folder: str,
) -> Mapping[str, Any]:  # fmt: skip
    """What the supervisor starts on each node, and within which limits; it inherits this environment.

    Args:
        uuids: the GPUs of the candidate's kind, from which the supervisor takes what is free.
        locks: the folder of their lock files.
        folder: the job's own.
    """
    nodes = range(candidate.num_nodes)
    env = {
        # Gloo would bind to the address that this machine's name resolves to, and fail where that is nothing.
        _INTERFACE: LOOPBACK,
        **spec.env,
        contract.JOB_ID: job_id,
        contract.NUM_NODES: str(candidate.num_nodes),
        contract.NODE_NAMES: ",".join(f"node-{rank}" for rank in nodes),
        contract.NPROC_PER_NODE: str(candidate.nproc_per_node),
        **of_agents(spec),
    }
    folders = {field: getattr(spec, field) or os.path.join(folder, name) for field, name in LAYOUT.items()}
    gpus = {"uuids": list(uuids), "per_node": int(candidate.gpu_count), "locks": locks}
    return {
        "job_id": job_id,
        "attempt": attempt,
        "location": bundle.location,
        "nodes": [
            {"node_rank": rank, "argv": ["--", *bundle.argv], "env": {**env, **_own(job_id, rank)}}
            for rank in nodes
        ],
        "gpus": gpus if candidate.gpu else None,
        "requirements": list(spec.requirements),
        **{field: os.path.abspath(os.path.expanduser(path)) for field, path in folders.items()},
        "max_run_s": int(candidate.max_run_duration.total_seconds()),
        "max_wait_s": int(spec.longest_queue.total_seconds()),
        "max_restarts": spec.max_restarts,
    }


def _own(job_id: str, node_rank: int) -> dict[str, str]:
    return {contract.NODE_RANK: str(node_rank), contract.LOCAL_ADDR: address(job_id, node_rank)}


def address(job_id: str, node_rank: int) -> str:
    """A loopback address of the node's own, so that jobs and nodes of one machine share no port.

    All of 127/8 is this machine on Linux; 127.0 and 127.1 hold localhost, a resolver and host names already.
    """
    digest = hashlib.sha256(job_id.encode()).digest()
    return f"127.{64 + digest[0] % 128}.{digest[1]}.{node_rank + 1}"


def complete(root: Path, body: Mapping[str, Any]) -> dict[str, Any]:
    """The order with what depends on this machine and this moment; its folders are made."""
    where = {contract.CHECKPOINT_DIR: "checkpoint_dir", contract.OUTPUT_DIR: "output_dir"}
    own = str(root / body["job_id"]) + os.sep
    folders = {name: _make_dir(field, body[field], own) for name, field in where.items()}
    nodes = [_placed({**node, "env": {**node["env"], **folders}}) for node in body["nodes"]]
    start = [sys.executable, *_required(root, body), *BARE, _AGENT, PACKAGES]
    return {**body, "nodes": nodes, "start": start, "created_at": time.time()}


def _placed(node: dict[str, Any]) -> dict[str, Any]:
    """The node at an address and interface that this machine has: macOS has one of each, by another name."""
    env = dict(node["env"])
    with socket.socket() as probe:
        try:
            probe.bind((env[contract.LOCAL_ADDR], 0))
        except OSError:
            env[contract.LOCAL_ADDR] = "127.0.0.1"
    names = [name for _, name in socket.if_nameindex()]
    if env.get(_INTERFACE) == LOOPBACK not in names:
        env[_INTERFACE] = next((name for name in names if name.startswith(LOOPBACK)), LOOPBACK)
    return {**node, "env": env}


def _required(root: Path, body: Mapping[str, Any]) -> list[str]:
    """The command that first installs what this Python lacks, once for all jobs that want the same."""
    words = list(body["requirements"])
    if not unmet(tuple(words), body["location"]):
        return []
    if words[0] == "-r":
        words[1] = os.path.join(body["location"], words[1])
    where = root / _ENVIRONMENTS
    make_private(where)
    wanted = json.dumps({"requirements": words, "installed": packages.installed()}).encode()
    path = str(where / (hashlib.sha256(wanted).hexdigest()[:16] + ".json"))
    host.put(path, wanted, folder.FILE_MODE)  # as no command line: all users see these, and it has passwords
    return [*BARE, _REQUIRED, PACKAGES, path]


def _make_dir(field: str, path: str, own: str) -> str:
    """Make a folder that a spec names, or one of the job's own, which is for its owner alone."""
    try:
        os.makedirs(path, 0o700 if path.startswith(own) else 0o777, exist_ok=True)
    except OSError as error:
        what = f"{field}: {path} cannot be made: {error.strerror}"
        raise invalid(field, path, "a folder that can be made", "name another path", what=what) from error
    return path


_UP_WITHIN_S = 60.0
_SUPERVISOR = MAIN.format("gputrain.backends.local.supervisor")


def start(root: Path, path: Path, order: Mapping[str, Any]) -> None:
    """Start an attempt in the folder ``path``, unless there is one of that name.

    The folder is made under another name, and its supervisor renames it once it is up.
    """
    draft = tempfile.mkdtemp(prefix=folder.DRAFT, dir=root)
    try:
        host.put(os.path.join(draft, folder.ORDER), json.dumps(order), folder.FILE_MODE)
        host.put(os.path.join(draft, folder.RESERVE), b" " * folder.RESERVE_BYTES, folder.FILE_MODE)
        refuse_foreign(draft)  # not every file system keeps owners and modes
        start_supervisor(draft, str(path))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def start_supervisor(draft: str, path: str) -> None:
    """Start the supervisor of the attempt in ``draft``, which becomes ``path``.

    Raises:
        ProviderError: it did not start.
        OSError: the disk is full.
    """
    log = os.open(os.path.join(draft, folder.SUPERVISOR_LOG), os.O_RDWR | os.O_CREAT, folder.FILE_MODE)
    with open(log, "r+b", buffering=0) as out:
        words = [sys.executable, *BARE, _SUPERVISOR, PACKAGES, draft, path]
        try:
            code = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", start_new_session=True,
                timeout=_UP_WITHIN_S, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            _refuse_start(f"it was not up within {_UP_WITHIN_S:g} s")
        if code in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        # Where the caller ignores the ends of its children, Python knows no status, and says 0.
        if code or not os.path.lexists(path):
            out.seek(0)
            _refuse_start(out.read().decode(errors="replace").strip())


def _refuse_start(said: str) -> NoReturn:
    raise ProviderError(
        "the job's supervisor did not start",
        why=said.splitlines()[-1] if said else "it wrote no message",
        fix=f"try `{sys.executable} -I -S -c pass`; where that works, report this with its raw text",
        raw=said,
    )


def is_own(path: str) -> bool:
    """Whether a folder is this user's, and no other user may write into it: what lies in it is run."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def refuse_foreign(path: str) -> None:
    """Check whose folder it is, before anything in it is believed.

    Raises:
        PermissionDeniedError: it is another user's, or others may write into it.
    """
    if not is_own(path):
        raise PermissionDeniedError(
            f"{path} is not a folder of this user alone",
            why="a user who can write there could run any program as you",
            fix=f"look at what lies there and remove it, or {ELSEWHERE}",
            permission="own",
        )
